"""The use cases of the flow language, on the host of processes: one function per operation, called by REST and the
entity API alike. Jobs of flows are claimed and reported as those of steps are (``services.processes.jobs``).

Every function takes the running service and the caller first. What cannot be done raises ``ProcessBadRequest``,
``ProcessNotFound``, ``ProcessConflict`` or ``BusinessKeyInUse``; the properties of the first say where the text of a
flow has a defect. Beside these any of them may raise ``StorageUnavailable`` and, when too many others change the same
instance at once, ``Conflict``.
"""
