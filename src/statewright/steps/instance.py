"""An instance of a definition: its state as one value, as the document that is stored, and as the record clients read.

The stored document is the record and, beside it, what the kernel knows
(docs/reference/steps.md#starting-and-reading-instances, docs/reference/steps.md#as-entities).

The built-in models of the step language: instances, definitions, user tasks (docs/reference/steps.md).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from statewright.entity import ModelKey
from statewright.instants import parse_instant, to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Marking, Phase, is_waiting, marking_from_document, marking_to_document
from statewright.net.effects import ChangePhase, Effect
from statewright.operations.records import ClosedRecord, Instant, Int32, Members, Ulid, name_words
from statewright.processes.changes import ENDED, NodeExecution
from statewright.processes.language import BuiltinModel, ProcessInstance, build_states, read_stored
from statewright.processes.user_tasks import USER_TASK
from statewright.steps.language import Process

Status: TypeAlias = Literal["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]


class Instance(ProcessInstance, frozen=True, kw_only=True):
    """One run of one version of a definition. Its parent is the instance whose end started it; nobody waits for it."""

    status: Status  # pyright: ignore[reportIncompatibleMethodOverride]: frozen, as a property is

    @property
    def is_terminal(self) -> bool:
        """Whether nothing but a manual retry of a failed instance can happen any more."""
        return self.marking.phase in ENDED

    @property
    def variables(self) -> JsonObject:
        """Never changed in place."""
        return self.marking.data

    @property
    def current_step_ids(self) -> tuple[str, ...]:
        """The steps that hold a token, in the order in which it came there."""
        return self.marking.current_nodes

    @property
    def failure_reason(self) -> str | None:
        """Why it failed, or was cancelled (then maybe empty)."""
        return self.marking.reason


def derive_status(process: Process, marking: Marking) -> Status:
    """The status a marking has: WAITING while it is at a USER_TASK or WAIT, whatever else goes on
    (docs/reference/steps.md#states).
    """
    if marking.phase == "RUNNING":
        return "WAITING" if is_waiting(process.net, marking) else "ACTIVE"
    return _STOPPED[marking.phase]


class InstanceRecord(ClosedRecord, frozen=True, kw_only=True):
    """An instance as clients read it (:func:`render_instance`)."""

    id: Ulid
    definition_id: str
    definition_version: Int32
    status: Annotated[Status, name_words(Status)]
    current_step_ids: Sequence[str]
    variables: Members
    started_at: Instant
    completed_at: Instant | None = None
    failure_reason: str | None = None
    business_key: str | None = None


def render_instance(instance: Instance) -> JsonObject:
    """The record clients read (docs/reference/steps.md#starting-and-reading-instances); members that are not set are
    left out.
    """
    optional: JsonObject = {
        "completedAt": None if instance.completed_at is None else to_rfc3339(instance.completed_at),
        "failureReason": instance.failure_reason,
        "businessKey": instance.business_key,
    }
    return {
        "id": instance.id,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": instance.status,
        "currentStepIds": list(instance.current_step_ids),
        "variables": instance.variables,
        "startedAt": to_rfc3339(instance.started_at),
        **{name: value for name, value in optional.items() if value is not None},
    }


def render_history_item(execution: NodeExecution, process: Process) -> JsonObject:
    """The line as clients read it: every member in camel case, and its capitalised twin (decisions J7, J12)."""
    ended_at = None if execution.ended_at is None else to_rfc3339(execution.ended_at)
    started_at = to_rfc3339(execution.started_at)
    members: list[tuple[str, str, JsonValue]] = [
        ("id", "ID", execution.id),
        ("instanceId", "InstanceID", execution.instance_id),
        ("stepId", "StepID", execution.node_id),
        ("stepName", "StepName", process.steps[execution.node_id].name),
        ("stepType", "StepType", execution.node_type),
        ("attemptNumber", "AttemptNumber", execution.attempt_number),
        ("status", "Status", execution.status),
        ("startedAt", "StartedAt", started_at),
        ("endedAt", "EndedAt", ended_at),
        ("inputSnapshot", "InputSnapshot", execution.input_snapshot),
        ("outputSnapshot", "OutputSnapshot", execution.output_snapshot),
        ("failureReason", "FailureReason", execution.failure_reason),
        ("definitionId", "DefinitionID", process.definition.id),
        ("definitionName", "DefinitionName", process.definition.name),
    ]
    return {camel: value for camel, _, value in members} | {capital: value for _, capital, value in members}


def instance_to_document(instance: Instance) -> JsonObject:
    """The document to store. :func:`instance_from_document` reads it back unchanged."""
    inner = marking_to_document(instance.marking)
    for known_otherwise in ("phase", "reason"):
        inner.pop(known_otherwise, None)
    document = render_instance(instance)
    if instance.parent_instance_id is not None:
        document["parentInstanceId"] = instance.parent_instance_id
    return {**document, **{_INNER[name]: value for name, value in inner.items()}}


def instance_from_document(document: JsonObject) -> Instance:
    """The instance that :func:`instance_to_document` wrote. Raises ValueError for anything else."""
    stored = read_stored(document, _StoredDocument)
    inner: JsonObject = {name: document[written] for name, written in _INNER.items() if written in document}
    inner |= {"phase": _PHASES[stored.status], "reason": stored.failure_reason}
    return Instance(
        id=stored.id,
        definition_id=stored.definition_id,
        definition_version=stored.definition_version,
        status=stored.status,
        marking=marking_from_document(inner, stored.variables),
        started_at=parse_instant(stored.started_at),
        completed_at=None if stored.completed_at is None else parse_instant(stored.completed_at),
        business_key=stored.business_key,
        parent_instance_id=stored.parent_instance_id,
    )


_INNER: Final = {
    "tokens": "tokens",
    "activations": "joins",
    "attempts": "attempts",
    "pending": "pending",
    "answers": "answers",
}
"""What the members of a marking are called in the document."""
_STOPPED: Final[dict[Phase, Status]] = {"COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELLED": "CANCELLED"}
"""Instances of this language are not terminated."""
_PHASES: Final[dict[Status, Phase]] = {
    "ACTIVE": "RUNNING",
    "WAITING": "RUNNING",
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
}


class _StoredDocument(InstanceRecord, frozen=True, kw_only=True):
    """The members of a stored document. It can only be damaged by a defect of ours."""

    parent_instance_id: str | None = None


# The states of an instance as a workflow of its entity (docs/reference/steps.md#states).
#
# The table is what an entity's history shows, and what diagrams are drawn from; an instance moves by the kernel.

Transition: TypeAlias = Literal["advance", "park", "resume", "complete", "fail", "cancel", "retry"]

INITIAL: Final[Status] = "ACTIVE"

TRANSITIONS: Final[Mapping[tuple[Status, Status], Transition]] = {
    ("ACTIVE", "ACTIVE"): "advance",
    ("WAITING", "WAITING"): "advance",
    ("FAILED", "FAILED"): "advance",
    ("ACTIVE", "WAITING"): "park",
    ("WAITING", "ACTIVE"): "resume",
    ("ACTIVE", "COMPLETED"): "complete",
    ("WAITING", "COMPLETED"): "complete",
    ("ACTIVE", "FAILED"): "fail",
    ("WAITING", "FAILED"): "fail",
    ("ACTIVE", "CANCELLED"): "cancel",
    ("WAITING", "CANCELLED"): "cancel",
    ("FAILED", "ACTIVE"): "retry",
}
"""All moves. A failed instance advances when a job of another branch is reported; that is kept for a retry."""


def list_transitions(before: Status | None, after: Status, effects: tuple[Effect, ...]) -> tuple[Transition, ...]:
    """The moves that one step of the kernel amounts to; ``before`` ``None``: the instance is new.

    Creation itself is no transition. A retry first makes the instance ACTIVE, whatever it comes to then.
    """
    if not effects:
        return ()
    if before is None:
        return () if after == INITIAL else (TRANSITIONS[INITIAL, after],)
    if any(isinstance(effect, ChangePhase) and effect.phase == "RUNNING" for effect in effects):
        return ("retry",) if after == "ACTIVE" else ("retry", TRANSITIONS["ACTIVE", after])
    return (TRANSITIONS[before, after],)


OWNER: Final = "the step engine"


INSTANCE: Final = BuiltinModel(
    key=ModelKey("StepWorkflowInstance", 1),
    owner=OWNER,
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "HR::onboarding",
        "definitionVersion": 1,
        "status": "ACTIVE",
        "currentStepIds": ["step"],
        "variables": {},
        "startedAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "businessKey": "a key",
        "parentInstanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "tokens": [],
        "joins": [],
        "attempts": {},
        "pending": [],
        "answers": [],
    },
    states=build_states(get_args(Status), TRANSITIONS),
    client_transitions=frozenset({"cancel", "retry"}),
    open_paths=("$.variables", "$.tokens", "$.joins", "$.attempts", "$.pending", "$.answers"),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("StepWorkflowDefinition", 1),
    owner=OWNER,
    sample={
        "id": "HR::onboarding",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "autoStartNextWorkflow": True,
        "nextWorkflowId": "HR::other",
        "steps": [],
        "metadata": {},
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    states={"PUBLISHED": {}},
    open_paths=("$.metadata", "$.steps"),
)

MODELS: Final = (INSTANCE, DEFINITION, USER_TASK)
