"""Answers of the entity API: counts, groups, the audit trail (docs/reference/entities.md#counts). Their objects are
closed: existing clients reject members that they do not know.
"""

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from statewright.operations.records import Instant, Int32, Int64, Members, Record, Uuid, Value

Number: TypeAlias = Annotated[Value, Meta(extra_json_schema={"type": ["number", "null"]})]


class ClosedRecord(Record, frozen=True, kw_only=True):
    """A record whose members are all that there will be."""


class ModelTally(ClosedRecord, frozen=True, kw_only=True):
    """How many entities a model has."""

    model_name: str
    model_version: Int32
    count: Int64


class StateTally(ModelTally, frozen=True, kw_only=True):
    """How many entities of a model are in a state."""

    state: str


class GroupKeyPart(ClosedRecord, frozen=True, kw_only=True):
    """The value of one of the paths by which entities are grouped, None where there is none."""

    path: str
    value: str | None


class GroupTally(ClosedRecord, frozen=True, kw_only=True):
    """How many entities a group has, and its aggregations by alias; None where there was no number."""

    group_key: tuple[GroupKeyPart, ...]
    count: Int64
    aggregations: dict[str, Number] | None = None


Object: TypeAlias = Annotated[Members, Meta(extra_json_schema={"type": "object", "additionalProperties": True})]
ObjectOrNull: TypeAlias = Annotated[
    Value, Meta(extra_json_schema={"type": ["object", "null"], "additionalProperties": True})
]


class TrailRecord(ClosedRecord, frozen=True, kw_only=True):
    """An entry of the audit trail of an entity: an event of a run, or a version."""

    audit_event_type: str
    event_type: str | None = None
    change_type: str | None = None
    severity: str
    utc_time: Instant
    micros_time: Int64
    system: bool | None = None
    entity_id: Uuid
    transaction_id: Uuid | None = None
    actor: Object | None = None
    state: str | None = None
    details: str | None = None
    data: ObjectOrNull | UnsetType = UNSET


class Pagination(ClosedRecord, frozen=True, kw_only=True):
    """Whether there is more, and with what it is asked for."""

    has_next: bool
    next_cursor: str | None = None


class TrailPage(ClosedRecord, frozen=True, kw_only=True):
    """A part of the audit trail."""

    items: tuple[TrailRecord, ...]
    pagination: Pagination
