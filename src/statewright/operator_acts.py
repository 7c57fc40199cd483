"""What operators do through the operations API, as its audit trail has it (docs/reference/operations.md#audit)."""

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct, field

from statewright.entity import Actor
from statewright.tracing import get_trace_id


class Act(Struct, frozen=True, kw_only=True):
    """What an operator does. ``details`` hold neither secrets nor documents."""

    action: str
    target_kind: str
    target_id: str
    reason: str | None = None
    details: Mapping[str, object] = {}
    trace_id: str | None = field(default_factory=get_trace_id)
    """The trace in which it is done; None outside all traces."""


class RecordedAct(Act, frozen=True, kw_only=True):
    """An act with who did it, and when (epoch microseconds)."""

    id: str
    at: int
    actor: Actor


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
