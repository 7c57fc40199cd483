"""Records of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests): what is stored of
them, the part of the commit statement that writes them with their effect, and the statements for all else.
"""
