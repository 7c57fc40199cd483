"""The use cases of playbooks, on the host of processes: one function per operation, called by REST and the entity API
alike. Jobs of playbooks are claimed and reported as those of other languages are (``services.processes.jobs``).

Every function takes the running service and the caller first. What cannot be done raises ``ProcessBadRequest``,
``ProcessNotFound``, ``ProcessConflict`` or ``BusinessKeyInUse``; the property ``findings`` of the first says what is
wrong with a document. Beside these any of them may raise ``StorageUnavailable`` and, when too many others change the
same execution at once, ``Conflict``.
"""
