"""The use cases of the JSON step language, on the host of processes: one function per operation, called by REST, gRPC
and the entity API alike.

Every function takes the running service and the caller first; the tenant is part of every key and query. Ids of
instances, executions, jobs and user tasks are ULIDs, in and out; the entity behind an instance or a user task has the
UUID of the same 128 bits. What cannot be done raises one of the failures of processes (``statewright.failures``). Its
message is the ``reason`` of the public engine, word for word (docs/reference/steps.md#rest), its ``kind`` is the
``error``:

==================  ====  ===============================  =======================
failure             HTTP  ``kind``                         gRPC (docs/reference/steps.md#statuses)
==================  ====  ===============================  =======================
ProcessBadRequest   400   bad-request                      INVALID_ARGUMENT
ProcessNotFound     404   not-found                        NOT_FOUND
ProcessConflict     409   conflict                         FAILED_PRECONDITION
BusinessKeyInUse    409   conflict (a ProcessConflict)     ALREADY_EXISTS
==================  ====  ===============================  =======================

Beside these any of them may raise ``StorageUnavailable`` (503, retryable) and, when too many others change the same
instance at once, ``Conflict`` (409, retryable).
"""
