"""The operations API at ``/ops/v1``: what operators and automation need beyond moving entities
(docs/reference/operations.md).
"""
