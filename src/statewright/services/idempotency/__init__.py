"""Requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests).

The interfaces make a :class:`~statewright.services.idempotency.keyed.KeyedRequest` of such a request, and have
``requests.py`` carry it out. The use cases find it in their ``Caller``, and commit by it, so that the record of the
request and its effect become durable together.
"""
