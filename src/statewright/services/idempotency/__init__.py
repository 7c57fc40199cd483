"""Requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests).

The interfaces make a :class:`~statewright.services.idempotency.keyed.KeyedRequest` of such a request, and have
``requests.py`` carry it out. It is a ``CommitGuard`` around the commits of its ``Caller``, so that the record of the
request and its effect become durable together; use cases know of no keys.
"""
