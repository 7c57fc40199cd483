"""An execution of a playbook: its state as one value, as the document that is stored, and as the record clients read
(docs/reference/executions.md#rest).

The stored document is the record and, beside it, what the kernel knows.

The built-in models of playbooks: executions and definitions (docs/reference/executions.md#as-entities).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, field

from statewright.entity import ModelKey
from statewright.instants import parse_instant, to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.net import ExecutionId, Phase, marking_from_document, marking_to_document
from statewright.net.effects import Effect
from statewright.operations.process_nouns import PLAYBOOK_NOUNS
from statewright.operations.records import ClosedRecord, Instant, Int32, Members, Ulid, Value, name_words
from statewright.playbooks.context import CTX, RESULTS, WORKLOAD, get_member
from statewright.playbooks.dispatch import PausedRun, pause_from_document, pause_to_document
from statewright.playbooks.events import find_execution_status
from statewright.playbooks.graph import Status
from statewright.playbooks.run_record import Progress, progress_from_document, progress_to_document
from statewright.playbooks.source import MAX_PATH_CHARS
from statewright.processes.changes import list_moves
from statewright.processes.language import BuiltinModel, ProcessInstance, build_states, read_stored
from statewright.processes.loop_results import (
    SavedLoop,
    SavedLoops,
    leave_out_results,
    list_result_parts,
)

PROGRESS: Final = "progress"
PAUSES: Final = "pauses"
"""The members of the stored ``data`` that are none of the marking's."""
SHARED: Final = (WORKLOAD, CTX, RESULTS)
"""The members of the shared data that clients see as members of the record."""


class Execution(ProcessInstance, frozen=True, kw_only=True):
    """One run of one version of a playbook, whose path is the id of its definition. What playbooks call status is
    ``outcome``.
    """

    progress: Mapping[str, Progress] = {}
    """What runs have reported that go on, by job."""
    pauses: Mapping[str, PausedRun] = {}
    """Where runs and elements that have paused go on, by their tokens."""

    @property
    def outcome(self) -> Status:
        """The status in the words of playbooks."""
        return find_execution_status(self.marking)

    @property
    def active_steps(self) -> tuple[str, ...]:
        """The steps of which a run is under way."""
        working = (str(token.node) for token in self.marking.tokens if token.stage == "WORKING")
        return tuple(dict.fromkeys(working))

    @property
    def pending_steps(self) -> tuple[str, ...]:
        """The steps for which tokens wait that are not admitted."""
        pending = (str(token.node) for token in self.marking.tokens if token.stage == "PENDING")
        return tuple(dict.fromkeys(pending))


_STATE: Final = Meta(description="of the entity", extra_json_schema={"enum": list(PLAYBOOK_NOUNS.statuses)})
_RESULT: Final = Meta(
    description="status, counts, failures and the last result of one that has ended",
    extra_json_schema={"type": "object", "additionalProperties": True},
)


class Branches(ClosedRecord, frozen=True, kw_only=True):
    """How many branches of an execution came to an end."""

    succeeded: Int32
    failed: Int32


class ExecutionRecord(ClosedRecord, frozen=True, kw_only=True):
    """An execution as clients read it (:func:`render_execution`)."""

    id: Ulid
    path: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_PATH_CHARS})]
    version: Int32
    status: Annotated[Status, name_words(Status)]
    state: Annotated[Phase, _STATE]
    workload: Members
    ctx: Members
    results: Annotated[Members, Meta(description="the latest result of each step")]
    active_steps: Annotated[Sequence[str], Meta(description="of which a run is under way")]
    pending_steps: Annotated[Sequence[str], Meta(description="for which tokens wait that are not admitted")]
    branches: Branches
    result: Annotated[Value, _RESULT] = None
    started_at: Instant
    completed_at: Instant | None = None
    failure_reason: str | None = None
    business_key: str | None = None
    parent_execution_id: Ulid | None = None


def render_execution(execution: Execution) -> JsonObject:
    """The record clients read; members that do not apply are left out."""
    marking = execution.marking
    tally = marking.tally
    optional: JsonObject = {
        "failureReason": marking.reason,
        "completedAt": None if execution.completed_at is None else to_rfc3339(execution.completed_at),
        "businessKey": execution.business_key,
        "parentExecutionId": execution.parent_instance_id,
    }
    ended: JsonObject = {"result": marking.result} if execution.is_terminal and marking.result is not None else {}
    return {
        "id": execution.id,
        "path": execution.definition_id,
        "version": execution.definition_version,
        "status": execution.outcome,
        "state": execution.status,
        **{name: get_member(marking.data, name) for name in SHARED},
        "activeSteps": list(execution.active_steps),
        "pendingSteps": list(execution.pending_steps),
        "branches": {"succeeded": tally.succeeded, "failed": tally.failed},
        "startedAt": to_rfc3339(execution.started_at),
        **{name: value for name, value in optional.items() if value is not None},
        **ended,
    }


def execution_to_document(execution: Execution) -> JsonObject:
    """The document to store. :func:`execution_from_document` reads it back unchanged."""
    marking, saved = execution.marking, execution.saved
    inner = marking_to_document(leave_out_results(marking, saved) if saved else marking)
    for known_otherwise in ("phase", "reason", "result"):
        inner.pop(known_otherwise, None)
    data = {name: value for name, value in execution.marking.data.items() if name not in SHARED}
    if execution.progress:
        data[PROGRESS] = progress_to_document(execution.progress)
    if execution.pauses:
        data[PAUSES] = {token: pause_to_document(pause) for token, pause in execution.pauses.items()}
    optional: JsonObject = {"awaitedBy": execution.awaited_by, "conclusion": execution.marking.result}
    kept = {name: value for name, value in optional.items() if value is not None}
    if execution.saved:
        kept["saved"] = cast("JsonObject", msgspec.to_builtins(execution.saved))
        kept["parts"] = list_result_parts(execution.marking, execution.saved)
    return {**render_execution(execution), **kept, "data": data, "marking": inner}


class _StoredDocument(ExecutionRecord, frozen=True, kw_only=True):
    """The members of a stored document. It can only be damaged by a defect of ours."""

    data: Members
    marking: Members
    """Checked where it becomes a marking."""
    conclusion: Value = None
    awaited_by: str | None = None
    saved: SavedLoops = field(default_factory=dict[ExecutionId, SavedLoop])


def execution_from_document(document: JsonObject) -> Execution:
    """The execution that :func:`execution_to_document` wrote. Raises ValueError for anything else."""
    stored = read_stored(document, _StoredDocument, noun="execution")
    outer: JsonObject = {"phase": stored.state, "reason": stored.failure_reason, "result": stored.conclusion}
    inner = {name: value for name, value in stored.data.items() if name not in (PROGRESS, PAUSES)}
    data = {WORKLOAD: stored.workload, CTX: stored.ctx, RESULTS: stored.results, **inner}
    return Execution(
        id=stored.id,
        definition_id=stored.path,
        definition_version=stored.version,
        marking=marking_from_document({**stored.marking, **outer}, data),
        started_at=parse_instant(stored.started_at),
        completed_at=None if stored.completed_at is None else parse_instant(stored.completed_at),
        business_key=stored.business_key,
        parent_instance_id=stored.parent_execution_id,
        awaited_by=stored.awaited_by,
        progress=progress_from_document(stored.data.get(PROGRESS, {})),
        pauses={
            token: pause_from_document(pause)
            for token, pause in get_member(stored.data, PAUSES).items()
            if isinstance(pause, dict)
        },
        saved=stored.saved,
    )


# The states of an execution as a workflow of its entity. It moves by the kernel; the table is what the history shows.

Transition: TypeAlias = Literal["advance", "wait", "resume", "complete", "fail", "cancel", "restart"]

INITIAL: Final[Phase] = "RUNNING"

TRANSITIONS: Final[Mapping[tuple[Phase, Phase], Transition]] = {
    ("RUNNING", "RUNNING"): "advance",
    ("RUNNING", "WAITING"): "wait",
    ("RUNNING", "COMPLETED"): "complete",
    ("RUNNING", "FAILED"): "fail",
    ("RUNNING", "CANCELLED"): "cancel",
    ("WAITING", "WAITING"): "advance",
    ("WAITING", "RUNNING"): "resume",
    ("WAITING", "COMPLETED"): "complete",
    ("WAITING", "FAILED"): "fail",
    ("WAITING", "CANCELLED"): "cancel",
    ("FAILED", "FAILED"): "advance",
    ("FAILED", "RUNNING"): "restart",
    ("FAILED", "CANCELLED"): "cancel",
}
"""All moves."""


def list_transitions(before: Phase | None, effects: tuple[Effect, ...]) -> tuple[Transition, ...]:
    """The moves that one step of the kernel amounts to; ``before`` ``None``: the execution is new."""
    return list_moves(TRANSITIONS, before, effects, initial=INITIAL)


OWNER: Final = "the playbook engine"


EXECUTION: Final = BuiltinModel(
    key=ModelKey("PlaybookExecution", 1),
    owner=OWNER,
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "path": "examples/orders",
        "version": 1,
        "status": "running",
        "state": "RUNNING",
        "workload": {},
        "ctx": {},
        "results": {},
        "result": {},
        "conclusion": {},
        "activeSteps": ["a step"],
        "pendingSteps": ["a step"],
        "branches": {"succeeded": 1, "failed": 1},
        "startedAt": "2026-06-01T09:31:00.5Z",
        "saved": {},
        "parts": [{}],
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "businessKey": "a key",
        "parentExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "awaitedBy": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "data": {},
        "marking": {},
    },
    states=build_states((INITIAL,), TRANSITIONS),
    client_transitions=frozenset({"cancel", "restart"}),
    open_paths=(
        "$.workload",
        "$.ctx",
        "$.results",
        "$.result",
        "$.conclusion",
        "$.data",
        "$.marking",
        "$.saved",
        "$.parts",
    ),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("PlaybookDefinition", 1),
    owner=OWNER,
    sample={
        "path": "examples/orders",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "playbookVersion": "1.0",
        "tags": ["a tag"],
        "source": "a document",
        "steps": ["a step"],
        "kinds": ["noop"],
        "warnings": [{"path": "/workflow/0", "message": "a text", "severity": "warning"}],
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    states={"PUBLISHED": {}},
)
