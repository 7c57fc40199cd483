"""Pictures of definitions: from JSON documents to DOT text and the marks that are put on it.

Pure: no input, no output, no clock. The layout is made in the browser. A picture never says more than the table beside
it.
"""
