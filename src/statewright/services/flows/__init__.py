"""The use cases of the flow language, on the host of processes: one function per operation, called by REST and the
entity API alike. Jobs of flows are claimed and reported as those of steps are (``services.processes.jobs``).

Every function takes the running service and the caller first. What cannot be done raises ``ProcessBadRequest``,
``ProcessNotFound``, ``ProcessConflict`` or ``BusinessKeyInUse``; the properties of the first say where the text of a
flow has a defect. Beside these any of them may raise ``StorageUnavailable`` and, when too many others change the same
instance at once, ``Conflict``.
"""

from typing import TypeAlias

from statewright.flows.definition import FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.process_language import FLOWS
from statewright.services.processes.hosting import Processes, ProcessHost, find_host

FlowHost: TypeAlias = ProcessHost[FlowProcess, FlowInstance]


def find_flows(processes: Processes) -> FlowHost:
    """The host that runs the instances of flows."""
    return find_host(processes, FLOWS)
