"""Use cases of the administration of clients and keys (docs/reference/authentication.md)."""
