"""The expressions of templates: the grammar of Jinja2, over JSON values (docs/reference/playbooks.md#templates).

Jinja2 parses; what it parsed is compiled to functions of this package. No Python code is generated, no attribute of a
Python object can be reached, and only what is listed here can be called: there is nothing that a template could escape
to. And each operation counts what it costs before it does it, so an evaluation ends at a fixed number of steps.
"""
