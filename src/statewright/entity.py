"""The values that storage, engine and services hand to each other: entities, principals, audit events."""

from typing import Literal

from msgspec import Struct

from statewright.identity import EntityId, ModelId, TenantId, TransactionId

PrincipalKind = Literal["user", "service", "system"]
ChangeType = Literal["CREATE", "UPDATE", "DELETE"]

LOOPBACK = "loopback"
"""What ``transitionForLatestSave`` says after a create or a save without a named transition (spec/entities.md §3)."""


class Principal(Struct, frozen=True, kw_only=True):
    """Who a request acts for (spec/auth-and-operations.md §4)."""

    id: str
    name: str
    kind: PrincipalKind
    tenant: TenantId
    tenant_name: str = ""
    """For display; empty when the credentials know no name but the id."""
    roles: tuple[str, ...] = ()


class Actor(Struct, frozen=True):
    """The part of a principal that is recorded with what it wrote."""

    id: str
    kind: PrincipalKind


class ModelKey(Struct, frozen=True):
    """Name and version of a model, unique in a tenant."""

    name: str
    version: int


class EntityView(Struct, frozen=True, kw_only=True, gc=False):
    """What clients see of one version of an entity; of thousands that are found, nobody needs more.

    ``document`` is JSON text; who needs the values decodes it once. Times are microseconds since the epoch.
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

    ``entry_transaction_id`` is the id its client was told, when a run of several segments wrote this version.
    """

    tenant: TenantId
    model: ModelId
    entry_transaction_id: TransactionId
    workflow: str
    workflow_revision: int = 0
    attributed: Actor
    executor: Actor


class EntityMeta(Struct, frozen=True, kw_only=True):
    """What lifecycle conditions see of an entity (spec/search.md §6). Times in epoch milliseconds, floored."""

    id: str
    state: str
    creation_date: int
    last_update_time: int
    transition: str
    transaction_id: str


class AuditEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a run (spec/workflows.md §14.1). ``at`` is in epoch microseconds, strictly rising within a run."""

    type: str
    at: int
    details: str
    state: str | None = None
    data: dict[str, str | int | bool] | None = None
