"""The flow language: workflows as a few lines of text, in which arrows connect named tasks.

Text becomes tokens (``lexer``), a tree (``parser``, of the nodes in ``syntax``), and a graph (``compiling``, of the
nodes in ``graph``), which has a JSON form (``documents``) and a diagram (``mermaid``). Guards are queries of their own
language (``guards``). ``values`` says how inputs are formed of outputs. See docs/reference/flows.md.

Nothing here does input or output.
"""
