"""The use cases of playbooks, on the host of processes: one function per operation, called by REST and the entity API
alike. Jobs of playbooks are claimed and reported as those of other languages are (``services.processes.jobs``).

Every function takes the running service and the caller first. What cannot be done raises ``ProcessBadRequest``,
``ProcessNotFound``, ``ProcessConflict`` or ``BusinessKeyInUse``; the property ``findings`` of the first says what is
wrong with a document. Beside these any of them may raise ``StorageUnavailable`` and, when too many others change the
same execution at once, ``Conflict``.
"""

from typing import TypeAlias

from statewright.playbooks.execution import Execution
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.playbooks.source import PlaybookProcess
from statewright.services.processes.hosting import Processes, ProcessHost, find_host

PlaybookHost: TypeAlias = ProcessHost[PlaybookProcess, Execution]


def find_playbooks(processes: Processes) -> PlaybookHost:
    """The host that runs the executions of playbooks."""
    return find_host(processes, PLAYBOOKS)
