"""Entities to a file and back, over the REST API of a running service (docs/export-and-import.md)."""

from typing import Final

MAX_ITEMS: Final = 999
"""Entities of a transaction of an import: with its marker they fill the largest there is."""
