"""An instance of a flow: its state as one value, as the document that is stored, and as the record clients read
(docs/reference/flows.md#instances).

The stored document is the record and, beside it, what the kernel knows.

The built-in models of flows: instances and definitions (docs/reference/flows.md#as-entities).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, field

from statewright.entity import ModelKey
from statewright.flows.advancing import FlowEvent
from statewright.flows.definition import MAX_ID_CHARS
from statewright.flows.language import INPUT
from statewright.flows.parts import leave_out, list_carriers, list_parts, restore_input
from statewright.instants import parse_instant, to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, Phase, marking_from_document, marking_to_document
from statewright.net.effects import Effect
from statewright.operations.process_nouns import FLOW_NOUNS
from statewright.operations.records import ClosedRecord, Instant, Int32, Members, Ulid, Value
from statewright.processes.changes import list_moves
from statewright.processes.language import BuiltinModel, ProcessInstance, build_states, read_stored
from statewright.processes.loop_results import SavedLoop, SavedLoops


class NodePlace(ClosedRecord, frozen=True, kw_only=True):
    """A node that an instance waits or failed at."""

    node: Annotated[Int32, Meta(description="the number of the node")]
    name: str
    element: Annotated[Int32, Meta(description="of an iteration")] | None = None
    """``None``: the node as a whole."""
    reason: str | None = None
    """Why it failed."""


_OBJECT_OR_ARRAY: Final[JsonObject] = {
    "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "array", "items": {}}]
}


class FlowInstanceRecord(ClosedRecord, frozen=True, kw_only=True):
    """An instance as clients read it (:func:`render_instance`)."""

    id: Ulid
    definition_id: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_ID_CHARS})]
    definition_version: Int32
    status: Annotated[Phase, Meta(extra_json_schema={"enum": list(FLOW_NOUNS.statuses)})]
    input: Annotated[Value, Meta(extra_json_schema=_OBJECT_OR_ARRAY)]
    result: Annotated[Value, Meta(description="of a completed instance", extra_json_schema=_OBJECT_OR_ARRAY)] = None
    active_nodes: Annotated[Sequence[Int32], Meta(description="the numbers of the nodes at which something is done")]
    failed_nodes: Annotated[tuple[NodePlace, ...], Meta(description="that a restart begins again")] = ()
    waiting_nodes: Annotated[tuple[NodePlace, ...], Meta(description="where values wait for others")] = ()
    failure_reason: str | None = None
    warning: str | None = None
    started_at: Instant
    completed_at: Instant | None = None
    business_key: str | None = None


class FlowInstance(ProcessInstance, frozen=True, kw_only=True):
    """One run of one version of a flow. Nobody waits for it, and no other instance starts it."""

    failed_nodes: tuple[NodePlace, ...] = ()
    waiting_nodes: tuple[NodePlace, ...] = ()
    """Where values wait for others, of an instance that does not go on."""
    held: Mapping[str, int] = {}
    """By counter, how much it is up by this instance."""
    events: tuple[FlowEvent, ...] = ()
    """Addressed to it before any of its tasks waited for them, the oldest first."""

    @property
    def input(self) -> JsonValue:
        """What it was started with."""
        return self.marking.data.get(INPUT, {})

    @property
    def active_nodes(self) -> tuple[int, ...]:
        """The nodes at which something is done now, or was when the instance was interrupted."""
        working = (token for token in self.marking.tokens if token.stage in ("WORKING", "INTERRUPTED"))
        return tuple(dict.fromkeys(int(token.node) for token in working))


def render_instance(instance: FlowInstance) -> JsonObject:
    """The record clients read; members that do not apply are left out."""
    marking = instance.marking
    optional: JsonObject = {
        "failureReason": marking.reason,
        "failedNodes": _to_builtins(instance.failed_nodes),
        "waitingNodes": _to_builtins(instance.waiting_nodes),
        "warning": marking.warning,
        "completedAt": None if instance.completed_at is None else to_rfc3339(instance.completed_at),
        "businessKey": instance.business_key,
    }
    record: JsonObject = {
        "id": instance.id,
        "definitionId": instance.definition_id,
        "definitionVersion": instance.definition_version,
        "status": instance.status,
        "input": instance.input,
        "activeNodes": list(instance.active_nodes),
        "startedAt": to_rfc3339(instance.started_at),
        **{name: value for name, value in optional.items() if value not in (None, [])},
    }
    return {**record, "result": marking.result} if instance.status == "COMPLETED" else record


def instance_to_document(instance: FlowInstance) -> JsonObject:
    """The document to store. :func:`instance_from_document` reads it back unchanged."""
    saved = instance.saved
    inner = marking_to_document(leave_out(instance.marking, saved))
    for known_otherwise in ("phase", "reason", "result", "warning"):
        inner.pop(known_otherwise, None)
    document: JsonObject = {**render_instance(instance), "marking": inner}
    if carriers := list_carriers(instance.marking):
        document["inputAt"] = carriers
    if instance.events:
        document["events"] = [
            {"kind": event.kind, "fields": event.fields, "output": event.output} for event in instance.events
        ]
    if instance.held:
        document["held"] = {**instance.held}
    if saved:
        document["saved"] = cast("JsonObject", msgspec.to_builtins(saved))
        document["parts"] = list_parts(instance.marking, saved)
    return document


class _StoredEvent(ClosedRecord, frozen=True, kw_only=True):
    kind: str
    fields: Members
    output: Value = None


class _StoredDocument(FlowInstanceRecord, frozen=True, kw_only=True):
    """The members of a stored document. It can only be damaged by a defect of ours."""

    marking: Members
    """Checked where it becomes a marking."""
    saved: SavedLoops = field(default_factory=dict[ExecutionId, SavedLoop])
    input_at: tuple[int, ...] = ()
    """The tokens that carry the input, by their places."""
    held: Mapping[str, int] = {}
    events: tuple[_StoredEvent, ...] = ()


def instance_from_document(document: JsonObject) -> FlowInstance:
    """The instance that :func:`instance_to_document` wrote. Raises ValueError for anything else."""
    stored = read_stored(document, _StoredDocument)
    outer: JsonObject = {
        "phase": stored.status,
        "reason": stored.failure_reason,
        "result": stored.result,
        "warning": stored.warning,
    }
    return FlowInstance(
        id=stored.id,
        definition_id=stored.definition_id,
        definition_version=stored.definition_version,
        marking=restore_input(
            marking_from_document({**stored.marking, **outer}, {INPUT: stored.input}), stored.input_at
        ),
        started_at=parse_instant(stored.started_at),
        failed_nodes=stored.failed_nodes,
        waiting_nodes=stored.waiting_nodes,
        completed_at=None if stored.completed_at is None else parse_instant(stored.completed_at),
        business_key=stored.business_key,
        saved=stored.saved,
        held=stored.held,
        events=tuple(FlowEvent(kind=event.kind, fields=event.fields, output=event.output) for event in stored.events),
    )


def _to_builtins(places: tuple[NodePlace, ...]) -> list[JsonValue]:
    return cast("list[JsonValue]", msgspec.to_builtins(list(places)))


# The states of an instance as a workflow of its entity. An instance moves by the kernel; the table is what the history
# shows, and what diagrams are drawn from.

Transition: TypeAlias = Literal["advance", "complete", "fail", "cancel", "terminate", "stop", "restart"]

INITIAL: Final[Phase] = "RUNNING"

TRANSITIONS: Final[Mapping[tuple[Phase, Phase], Transition]] = {
    ("RUNNING", "RUNNING"): "advance",
    ("RUNNING", "COMPLETED"): "complete",
    ("RUNNING", "FAILED"): "fail",
    ("RUNNING", "TERMINATING"): "terminate",
    ("RUNNING", "CANCELLED"): "cancel",
    ("FAILED", "FAILED"): "advance",
    ("FAILED", "RUNNING"): "restart",
    ("FAILED", "CANCELLED"): "cancel",
    ("TERMINATING", "TERMINATING"): "advance",
    ("TERMINATING", "TERMINATED"): "stop",
    ("TERMINATING", "CANCELLED"): "cancel",
    ("TERMINATED", "TERMINATED"): "advance",
    ("TERMINATED", "RUNNING"): "restart",
    ("TERMINATED", "CANCELLED"): "cancel",
}
"""All moves. An instance that has failed advances when a task ends that was left to end."""


def list_transitions(before: Phase | None, effects: tuple[Effect, ...]) -> tuple[Transition, ...]:
    """The moves that one step of the kernel amounts to; ``before`` ``None``: the instance is new."""
    return list_moves(TRANSITIONS, before, effects, initial=INITIAL)


OWNER: Final = "the flow engine"


def _build_instance_states() -> dict[str, dict[str, str]]:
    states = build_states((INITIAL,), TRANSITIONS)
    for stopped in ("FAILED", "TERMINATED"):
        states[stopped]["change"] = stopped
    states["TERMINATING"]["terminate"] = "TERMINATED"  # once more: at once
    return states


_PLACE: Final[JsonObject] = {"node": 1, "name": "a name", "element": 1, "reason": "a reason"}

INSTANCE: Final = BuiltinModel(
    key=ModelKey("FlowInstance", 1),
    owner=OWNER,
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "orders",
        "definitionVersion": 1,
        "status": "RUNNING",
        "input": {},
        "result": {},
        "activeNodes": [1],
        "failedNodes": [{**_PLACE}],
        "waitingNodes": [{**_PLACE}],
        "startedAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "warning": "a text",
        "businessKey": "a key",
        "marking": {},
        "saved": {},
        "parts": [{}],
        "inputAt": [1],
        "held": {},
        "events": [{"kind": "a kind", "fields": {}, "output": {}}],
    },
    states=_build_instance_states(),
    client_transitions=frozenset({"cancel", "terminate", "restart", "change"}),
    open_paths=("$.input", "$.result", "$.marking", "$.saved", "$.parts", "$.held", "$.events"),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("FlowDefinition", 1),
    owner=OWNER,
    sample={
        "id": "orders",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "source": "A → B",
        "settings": {"maxVisits": 1, "concurrency": 1, "retries": 1, "tasks": {}, "baseUri": "a URL", "baseUris": {}},
        "nodes": 1,
        "tasks": ["A"],
        "warnings": ["a warning"],
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    states={"PUBLISHED": {}},
    open_paths=("$.settings.baseUris", "$.settings.tasks"),
)

MODELS: Final = (INSTANCE, DEFINITION)
