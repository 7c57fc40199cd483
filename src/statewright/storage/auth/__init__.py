"""Rows of authentication: machine clients, signing keys, trusted keys (docs/reference/authentication.md)."""
