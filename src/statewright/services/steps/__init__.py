"""The JSON step engine's use cases: one function per operation, called by REST, gRPC and the entity API alike.

Every function takes the running service and the caller first; the tenant is part of every key and query. Ids of
instances, executions, jobs and user tasks are ULIDs, in and out; the entity behind an instance or a user task has the
UUID of the same 128 bits. What cannot be done raises one of the step failures (``statewright.failures``), whose message
is the ``reason`` of the public engine, word for word (spec/step-engine.md §11); their ``kind`` is its ``error``:

==================  ====  ============================  =======================
failure             HTTP  ``kind``                      gRPC (§12.4)
==================  ====  ============================  =======================
StepBadRequest      400   bad-request                   INVALID_ARGUMENT
StepNotFound        404   not-found                     NOT_FOUND
StepConflict        409   conflict                      FAILED_PRECONDITION
BusinessKeyInUse    409   conflict (a StepConflict)     ALREADY_EXISTS
==================  ====  ============================  =======================

Beside these any of them may raise ``StorageUnavailable`` (503, retryable) and, when too many others change the same
instance at once, ``Conflict`` (409, retryable).
"""
