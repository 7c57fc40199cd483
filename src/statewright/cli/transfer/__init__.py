"""Entities to a file and back, over the REST API of a running service (docs/export-and-import.md)."""

MAX_ITEMS = 999
"""Entities of a transaction of an import: with its marker they fill the largest there is."""
