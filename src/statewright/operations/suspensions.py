"""Stopping movement at a chosen place, and letting it go on (docs/reference/operations.md#suspensions)."""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import Meta

from statewright.entity import Actor, ModelKey
from statewright.operations.records import Instant, Int32, Record, RequestBody, Uuid, name_words

Scope: TypeAlias = Literal[
    "ENTITY", "INSTANCE", "MODEL", "WORKFLOW", "TRANSITION", "DEFINITION", "JOB_TYPE", "TAG", "TENANT"
]
TimerPolicy: TypeAlias = Literal["FIRE", "SHIFT"]
"""What becomes of timers when a suspension ends: those that came due fire, or all move by its length."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

Reason: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]


class NamedModel(RequestBody, frozen=True, kw_only=True):
    """A model by name and version."""

    name: Name
    version: Annotated[int, Meta(ge=1, le=2**31 - 1, extra_json_schema={"format": "int32"})]


class SuspensionOrder(RequestBody, frozen=True, kw_only=True):
    """What is to be suspended; which members there are depends on the scope."""

    SCHEMA: ClassVar[str] = "OpsNewSuspension"

    scope: Scope
    reason: Reason
    id: str | None = None
    model: NamedModel | None = None
    workflow: Name | None = None
    transition: Name | None = None
    definition_id: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    name: Name | None = None
    until: Instant | None = None


class Resumption(RequestBody, frozen=True, kw_only=True):
    """How things are to go on."""

    timers: TimerPolicy = "FIRE"
    reason: Reason | None = None


class SuspensionView(Record, frozen=True, kw_only=True):
    """A suspension. It is ``effective`` when all nodes act by it; ``under_way`` counts what began before, and comes to
    its end.
    """

    SCHEMA: ClassVar[str] = "OpsSuspension"

    id: Uuid
    scope: Annotated[str, name_words(Scope)]
    reason: str
    since: Instant
    by: Actor
    until: Instant | None
    active: bool
    effective: bool
    pending_nodes: tuple[str, ...]
    under_way: Int32
    effective_at: Instant | None = None
    entity_id: Uuid | None = None
    instance_id: str | None = None
    definition_id: str | None = None
    model: ModelKey | None = None
    workflow: str | None = None
    transition: str | None = None
    name: str | None = None
    ended_at: Instant | None = None
    ended_by: Actor | None = None
    end_reason: str | None = None
    timers: Annotated[str, name_words(TimerPolicy)] | None = None
