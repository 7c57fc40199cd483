"""What other systems are told of: a fact for each committed version of a tenant that records
(docs/reference/operations.md#events-out). Kinds, types, positions and filters; what clients read of them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from statewright.entity import LOOPBACK, Actor, ModelKey
from statewright.ids import EntityId, ModelId, TransactionId
from statewright.operations.records import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    OPERATOR,
    ApiOperation,
    ClosedRecord,
    Command,
    Instant,
    Int32,
    Members,
    QueryParameter,
    Record,
    RequestBody,
    Uuid,
)

Kind: TypeAlias = Literal["CREATED", "UPDATED", "TRANSITIONED", "DELETED", "INSTANCE", "TASK"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
IncludeBody: TypeAlias = Literal["NONE", "AFTER", "BEFORE_AND_AFTER"]
INCLUDE_BODY: Final[tuple[IncludeBody, ...]] = get_args(IncludeBody)
Subject: TypeAlias = Literal["entity", "instance", "task"]
"""What the entity of a version stands for."""
Change: TypeAlias = Literal["create", "update", "delete"]

TYPE_PREFIX: Final = "statewright."

INSTANCE_TYPES: Final[Mapping[str, str]] = {
    "advance": "advanced",
    "park": "waiting",
    "wait": "waiting",
    "resume": "resumed",
    "retry": "resumed",
    "restart": "resumed",
    "complete": "completed",
    "fail": "failed",
    "cancel": "cancelled",
    "terminate": "advanced",
    "stop": "terminated",
}
"""By the transition that wrote the version of an instance; ``started`` without one."""

TASK_TYPES: Final[Mapping[str, str]] = {"complete": "completed", "cancel": "cancelled"}
"""The same of a user task; ``opened`` without one."""

_POSITION: Final = re.compile(
    r"([0-9a-f]{16})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class EventPosition(NamedTuple):
    """The place of an event in the order in which a tenant's are read; ``at`` in epoch microseconds."""

    at: int
    transaction: str
    entity: str

    def write(self) -> str:
        """As a text that sorts like the position."""
        return f"{self.at:016x}-{self.transaction}-{self.entity}"


def parse_position(text: str) -> EventPosition | None:
    """The position that a text stands for; None for any other text."""
    found = _POSITION.fullmatch(text)
    if found is None:
        return None
    at = int(found[1], 16)
    return None if at >= 2**63 else EventPosition(at, found[2], found[3])


def place_behind(instant: int) -> EventPosition:
    """The position behind everything up to an instant."""
    return EventPosition(instant, _LAST_ID, _LAST_ID)


class EventRow(Struct, frozen=True, kw_only=True):
    """What is stored of a version, by its columns. ``model`` is None when the model was deleted since."""

    at: int
    transaction_id: TransactionId
    entity: EntityId
    model_id: ModelId
    model: ModelKey | None
    change: Change
    from_state: str | None
    state: str
    transition: str | None
    attributed: Actor
    executor: Actor

    @property
    def position(self) -> EventPosition:
        """Its place among those of the tenant."""
        return EventPosition(self.at, self.transaction_id, self.entity)


def classify(row: EventRow, subject: Subject) -> tuple[Kind, str]:
    """The kind of an event, and its type behind the prefix."""
    taken = row.transition if row.transition != LOOPBACK else None
    if row.change == "delete":
        return "DELETED", "entity.deleted"
    if subject == "instance":
        return "INSTANCE", f"instance.{INSTANCE_TYPES.get(taken, 'advanced') if taken else 'started'}"
    if subject == "task":
        return "TASK", f"task.{TASK_TYPES.get(taken, 'opened') if taken else 'opened'}"
    if row.change == "create":
        return "CREATED", "entity.created"
    if taken is not None or row.state != row.from_state:
        return "TRANSITIONED", "entity.transitioned"
    return "UPDATED", "entity.updated"


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events are wanted; what is None or empty matches all."""

    kinds: tuple[str, ...] = ()
    model_name: str | None = None
    model_version: int | None = None
    entity_id: EntityId | None = None
    from_state: str | None = None
    to_state: str | None = None
    transition: str | None = None

    def matches(self, row: EventRow, kind: Kind) -> bool:
        """Whether an event is wanted."""
        model = row.model
        return (
            (not self.kinds or kind in self.kinds)
            and (self.model_name is None or (model is not None and model.name == self.model_name))
            and (self.model_version is None or (model is not None and model.version == self.model_version))
            and (self.entity_id is None or row.entity == self.entity_id)
            and (self.from_state is None or row.from_state == self.from_state)
            and (self.to_state is None or row.state == self.to_state)
            and (self.transition is None or row.transition == self.transition)
        )


class RecordingSwitch(RequestBody, frozen=True, kw_only=True):
    """Whether a tenant records events."""

    SCHEMA: ClassVar[str] = "OpsRecordingSwitch"

    enabled: bool


class EventRecording(Record, frozen=True, kw_only=True):
    """Whether a tenant records events. Since ``since`` nothing is missing; ``rows`` are kept, of which 10,000 are
    counted. It is ``effective`` when all nodes act by it. A tenant that is ``subscribed`` records also while it is not
    ``enabled``.
    """

    enabled: bool
    subscribed: bool
    effective: bool
    pending_nodes: tuple[str, ...]
    since: Instant | None
    kept_from: Instant | None
    retention_seconds: Int32
    rows: Int32
    rows_is_lower_bound: bool = False
    lag_seconds: float


class EventData(ClosedRecord, frozen=True, kw_only=True):
    """What an event is about. Documents only where they are asked for."""

    entity_id: Uuid
    model: ModelKey | None
    state: str
    from_state: str | None
    transition: str | None
    transaction_id: Uuid
    attributed_to: Actor
    executed_by: Actor
    document: Members | None = None
    before: Members | None = None
    document_pruned: bool = False
    document_omitted: bool = False


class OutgoingEvent(Record, frozen=True, kw_only=True):
    """A CloudEvent 1.0. ``sequence`` is its position, as a text that sorts."""

    SCHEMA: ClassVar[str] = "OpsOutgoingEvent"

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: Instant
    datacontenttype: str
    partitionkey: str
    sequence: str
    data: EventData


class EventPage(Record, frozen=True, kw_only=True):
    """Some events, the oldest first, and the position to go on behind, also when there is nothing more yet."""

    items: Sequence[OutgoingEvent]
    next_cursor: str


GET_EVENT_RECORDING: Final = ApiOperation(
    id="getEventRecording",
    path="/ops/v1/events/recording",
    summary="Whether events are recorded, and since when",
    role=OPERATOR,
    answer=EventRecording,
    problems=("BAD_REQUEST", "FORBIDDEN"),
    command=Command("events recording", "Show whether events are recorded, and since when."),
)

SET_EVENT_RECORDING: Final = ApiOperation(
    id="setEventRecording",
    method="PUT",
    path="/ops/v1/events/recording",
    summary="Record events, or stop it",
    role=OPERATOR,
    recording="commit",
    body=RecordingSwitch,
    answer=EventRecording,
    problems=("BAD_REQUEST", "FORBIDDEN"),
)

READ_EVENTS: Final = ApiOperation(
    id="readEvents",
    path="/ops/v1/events",
    summary="What was committed, the oldest first: a page, or a stream by `Accept: text/event-stream`",
    query=(
        QueryParameter("kinds", "string", ", ".join(KINDS), repeatable=True),
        QueryParameter("modelName", "string", "name of the model"),
        QueryParameter("modelVersion", "integer", "version of the model", "int32"),
        QueryParameter("entityId", "string", "id of the entity or instance", "uuid"),
        QueryParameter("toState", "string", "state of the version"),
        QueryParameter("includeBody", "string", ", ".join(INCLUDE_BODY)),
        QueryParameter("after", "string", "position of the last event that was read"),
        QueryParameter("since", "string", "begin at this instant", "date-time"),
        QueryParameter("limit", "integer", f"of a page: 1 to {MAX_LIMIT}, {DEFAULT_LIMIT} when absent", "int32"),
    ),
    answer=EventPage,
    problems=("BAD_REQUEST", "EVENTS_NOT_RECORDED", "EVENTS_GONE", "TOO_MANY_REQUESTS"),
)
