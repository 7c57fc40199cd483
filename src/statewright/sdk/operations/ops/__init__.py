"""The operations API (docs/reference/operations.md) as clients ask for it. One module per subject; answers are structs
that leave out what they do not know, for newer services may tell more.
"""
