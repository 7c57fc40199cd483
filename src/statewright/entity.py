"""The values that the layers hand to each other: entities and what is told of them, principals, audit events, tasks."""

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Annotated, Final, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

from statewright.ids import EntityId, ModelId, TenantId, TransactionId

PrincipalKind = Literal["user", "service", "system"]
ChangeType = Literal["CREATE", "UPDATE", "DELETE"]

LOOPBACK: Final = "loopback"
"""The value of ``transitionForLatestSave`` after a create or a save without a named transition
(docs/reference/entities.md#the-envelope).
"""


READ_ONLY_ROLE: Final = "ROLE_READ_ONLY"
"""Takes away: who has it changes nothing (docs/reference/authentication.md#roles)."""


class Principal(Struct, frozen=True, kw_only=True):
    """For whom a request acts (docs/reference/authentication.md#principals)."""

    id: str
    name: str
    kind: PrincipalKind
    tenant: TenantId
    tenant_name: str = ""
    """For display; empty when the credentials have no name but the id."""
    roles: tuple[str, ...] = ()

    @property
    def is_read_only(self) -> bool:
        """Whether every change is refused, whatever its other roles allow."""
        return READ_ONLY_ROLE in self.roles

    @property
    def actor(self) -> "Actor":
        """What is recorded of it."""
        return Actor(self.id, self.kind)


def system_principal(tenant: TenantId) -> Principal:
    """Who executes what no client asked for."""
    return Principal(id="system", name="system", kind="system", tenant=tenant)


class Actor(Struct, frozen=True):
    """The part of a principal that is recorded with what it wrote."""

    id: str
    kind: PrincipalKind


class ModelKey(Struct, frozen=True):
    """Name and version of a model, unique in a tenant."""

    name: str
    version: Annotated[int, Meta(extra_json_schema={"format": "int32"})]


class EntityView(Struct, frozen=True, kw_only=True, gc=False):
    """What clients see of one version of an entity: as much as a search needs of each of thousands.

    ``document`` is JSON text, decoded only where its values are needed. Times are microseconds since the epoch.
    """

    id: EntityId
    state: str
    transaction_id: TransactionId
    created_at: int
    updated_at: int
    transition: str
    document: str


class Entity(EntityView, frozen=True, kw_only=True):
    """One version of an entity.

    ``entry_transaction_id`` is the id that its client got, when a run of several segments wrote this version.
    """

    tenant: TenantId
    model: ModelId
    entry_transaction_id: TransactionId
    workflow: str
    workflow_revision: int = 0
    attributed: Actor
    executor: Actor


class EntityMeta(Struct, frozen=True, kw_only=True):
    """The metadata of an entity that lifecycle conditions compare (docs/reference/conditions.md#lifecycle-fields).
    Times in epoch milliseconds, floored.
    """

    id: str
    state: str
    creation_date: int
    last_update_time: int
    transition: str
    transaction_id: str


VERSION: Final = "versionTransactionId"
"""In the data of an audit event: the id of the version that was committed with it, where the run has another id."""


EventData: TypeAlias = dict[str, str | int | bool | list[str]]


class Event(Struct, frozen=True):
    """What a run writes into the audit trail, before it has its instant."""

    type: str
    details: str
    state: str | None = None
    data: EventData | None = None

    def stamp(self, at: int) -> "AuditEvent":
        """The event at its instant."""
        return AuditEvent(type=self.type, at=at, details=self.details, state=self.state, data=self.data)


class AuditEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a run (docs/reference/workflows.md#events). ``at`` is in epoch microseconds, strictly rising within
    a run.
    """

    type: str
    at: int
    details: str
    state: str | None = None
    data: EventData | None = None


class EntityChange(Struct, frozen=True, kw_only=True):
    """One entry of an entity's history (docs/reference/entities.md#change-history)."""

    type: ChangeType
    at: int
    attributed: Actor
    executor: Actor
    transaction_id: TransactionId


class OffsetPage(Struct, frozen=True, kw_only=True):
    """A part of a list by ascending id: page ``number`` of those whose id comes ``after`` one."""

    size: int
    number: int = 0
    after: EntityId = EntityId("00000000-0000-0000-0000-000000000000")

    @property
    def offset(self) -> int:
        return self.size * self.number


class FoundEntities(Protocol):
    """Entities in order, of which not all need be in memory."""

    def __len__(self) -> int: ...

    def take_portions(self) -> AsyncGenerator[list[EntityView]]:
        """The entities, portion by portion, each of which is forgotten when it was given."""
        ...


class EntityCount(Struct, frozen=True, kw_only=True):
    """How many entities a model has; ``state`` is None when all of them are counted."""

    model: ModelKey
    state: str | None = None
    count: int


class EntityGroup(Struct, frozen=True, kw_only=True):
    """Entities with the same keys; ``values`` are in the order of the measures, None where there was no number."""

    keys: tuple[str | None, ...]
    count: int
    values: tuple[float | Decimal | None, ...]


class TaskKey(Struct, frozen=True):
    """Names a task of one entity."""

    state: str
    transition: str


class Arming(Struct, frozen=True, kw_only=True):
    """When a scheduled transition fires, and for whom.

    Times in epoch milliseconds. ``timeout_ms`` is the tolerated lateness, None = any. ``trace`` is the place in a trace
    at which it was armed, as a ``traceparent``; None outside all traces.
    """

    model: ModelId
    fire_at: int
    timeout_ms: int | None
    armed_at: int
    principal: Actor
    trace: str | None = None


class ScheduledTask(Struct, frozen=True, kw_only=True):
    """A task as it is stored. ``attempts``: how often it was taken since it was armed."""

    tenant: TenantId
    entity: EntityId
    key: TaskKey
    arming: Arming
    armed_in: TransactionId
    attempts: int
