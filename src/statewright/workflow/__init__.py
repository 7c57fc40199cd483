"""Workflow definitions: read under two import contracts, checked, merged, exported, stored and chosen for an entity.

Everything here is a function over values, without I/O, clock or waiting; the engine runs what this package describes.
:mod:`statewright.workflow.import_request` tells in which order an import goes through it.
"""

from statewright.workflow.behaviour import check_merged
from statewright.workflow.contracts import CURRENT_VERSION, Contract, version_discovery
from statewright.workflow.criterion import Criterion
from statewright.workflow.default import DEFAULT_WORKFLOW
from statewright.workflow.definition import (
    ExecutionMode,
    Processor,
    ProcessorConfig,
    RetryPolicy,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
)
from statewright.workflow.exporting import export
from statewright.workflow.import_modes import IMPORT_MODES
from statewright.workflow.import_request import MAX_IMPORT_BYTES, ImportRequest, decode_import
from statewright.workflow.import_summary import import_summary
from statewright.workflow.incoming import check_incoming
from statewright.workflow.locations import quoted
from statewright.workflow.selection import (
    SUBSTITUTION_WARNINGS,
    Selection,
    candidates,
    governing,
    select,
    substituted,
)
from statewright.workflow.stored import from_stored, to_stored

__all__ = [
    "CURRENT_VERSION",
    "DEFAULT_WORKFLOW",
    "IMPORT_MODES",
    "MAX_IMPORT_BYTES",
    "SUBSTITUTION_WARNINGS",
    "Contract",
    "Criterion",
    "ExecutionMode",
    "ImportRequest",
    "Processor",
    "ProcessorConfig",
    "RetryPolicy",
    "Schedule",
    "ScheduleFunction",
    "Selection",
    "State",
    "Transition",
    "Workflow",
    "candidates",
    "check_incoming",
    "check_merged",
    "decode_import",
    "export",
    "from_stored",
    "governing",
    "import_summary",
    "quoted",
    "select",
    "substituted",
    "to_stored",
    "version_discovery",
]
