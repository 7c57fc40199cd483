"""The API itself: who asks, settings, what operators have done, keys of requests (docs/reference/operations.md).

What operators do through the operations API, as its audit trail has it (docs/reference/operations.md#audit).
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias
from uuid import UUID

from msgspec import Meta, Struct, field

from statewright.entity import Actor
from statewright.operations.records import Instant, Members, Record, Uuid, name_words
from statewright.telemetry.tracing import get_trace_id

KeyStatus: TypeAlias = Literal["DONE", "IN_PROGRESS", "INTERRUPTED"]


class Asker(Record, frozen=True, kw_only=True):
    """Who asks."""

    id: str
    kind: str
    roles: tuple[str, ...]


class ApiDescription(Record, frozen=True, kw_only=True):
    """What the service offers, and who asks."""

    SCHEMA: ClassVar[str] = "OpsDescription"

    version: str
    features: tuple[str, ...]
    principal: Asker
    tenant: str


class Setting(Record, frozen=True, kw_only=True):
    """A setting as it is in force: ``value`` as it would be written, a mask for a secret, None where there is none.
    ``variable`` is the one that it came from, None: it has its default.
    """

    name: str
    section: str
    value: str | None
    variable: str | None
    meaning: str


class SettingList(Record, frozen=True, kw_only=True):
    """The settings of the node that answers."""

    SCHEMA: ClassVar[str] = "OpsSettings"

    items: tuple[Setting, ...]


class ActTarget(Record, frozen=True, kw_only=True):
    """What something was done to."""

    kind: str
    id: str


class OperatorAct(Record, frozen=True, kw_only=True):
    """What an operator has done."""

    SCHEMA: ClassVar[str] = "OpsAct"

    id: Uuid
    at: Instant
    actor: Actor
    action: Annotated[str, Meta(examples=["entity.restore"])]
    target: ActTarget
    reason: str | None = None
    details: Members
    trace_id: str | None = None


class IdempotencyRecord(Record, frozen=True, kw_only=True):
    """What became of a request with an idempotency key: DONE, IN_PROGRESS or INTERRUPTED."""

    status: Annotated[str, name_words(KeyStatus)]
    transaction_id: Uuid | None = None
    entity_ids: tuple[Uuid, ...]
    answer_status: int | None = None
    created_at: Instant
    expires_at: Instant


class Act(Struct, frozen=True, kw_only=True):
    """What an operator does. ``details`` hold neither secrets nor documents."""

    action: str
    target_kind: str
    target_id: str
    reason: str | None = None
    details: Mapping[str, object] = {}
    trace_id: str | None = field(default_factory=get_trace_id)
    """The trace in which it is done; None outside all traces."""


class ActFilter(Struct, frozen=True, kw_only=True):
    """Which acts are wanted: of several values of one member any, of several members all. None: whatever it is.
    ``since`` is inclusive, ``before`` exclusive, both in epoch microseconds.
    """

    actions: tuple[str, ...] | None = None
    actors: tuple[str, ...] | None = None
    target_kinds: tuple[str, ...] | None = None
    target_ids: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None


class ActKey(Struct, frozen=True, array_like=True):
    """Instant and id of an act, by which lists are ordered."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    id: UUID
