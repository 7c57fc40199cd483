"""Records of the operations API (docs/reference/operations.md), one module per subject.

A record is defined here and nowhere else: storage makes it from rows, services hand it on, the API encodes it as it is,
the OpenAPI document has its schema from the fields, and clients decode answers into it.
"""
