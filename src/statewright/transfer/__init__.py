"""Entities to a file and back, over the REST API of a running service (docs/export-and-import.md)."""
