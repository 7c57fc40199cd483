"""Workflow definitions: read under two import contracts, checked, merged, exported, stored and chosen for an entity.

Everything here is a function over values, without I/O, clock or waiting; the engine runs what this package describes.
:mod:`statewright.workflow.import_request` says in which order an import goes through it.
"""

from statewright.workflow.definition import (
    Contract,
    Criterion,
    Processor,
    ProcessorConfig,
    Schedule,
    ScheduleFunction,
    State,
    Transition,
    Workflow,
    describe_versions,
)
from statewright.workflow.exporting import export
from statewright.workflow.import_checks import (
    CriterionFinding,
    check_incoming,
    check_merged,
    count_pattern_steps,
    find_violations,
)
from statewright.workflow.import_request import (
    IMPORT_MODES,
    MAX_IMPORT_BYTES,
    ImportRequest,
    decode_import,
    decode_json,
    read_import,
    summarise_import,
)
from statewright.workflow.reading import workflows_from_stored, workflows_to_stored
from statewright.workflow.selection import (
    DEFAULT_WORKFLOW,
    SUBSTITUTION_WARNINGS,
    Selection,
    find_governing,
    list_candidates,
    select,
    substitute_default,
)
from statewright.workflow.structure import MAX_NAME_BYTES

__all__ = [
    "DEFAULT_WORKFLOW",
    "IMPORT_MODES",
    "MAX_IMPORT_BYTES",
    "MAX_NAME_BYTES",
    "SUBSTITUTION_WARNINGS",
    "Contract",
    "Criterion",
    "CriterionFinding",
    "ImportRequest",
    "Processor",
    "ProcessorConfig",
    "Schedule",
    "ScheduleFunction",
    "Selection",
    "State",
    "Transition",
    "Workflow",
    "check_incoming",
    "check_merged",
    "count_pattern_steps",
    "decode_import",
    "decode_json",
    "describe_versions",
    "export",
    "find_governing",
    "find_violations",
    "list_candidates",
    "read_import",
    "select",
    "substitute_default",
    "summarise_import",
    "workflows_from_stored",
    "workflows_to_stored",
]
