"""Use cases of operators (docs/reference/operations.md). Nothing here is called by the other use cases."""
