"""Waiting until something has happened, by held requests (docs/reference/operations.md#wait)."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from statewright.sdk.operations.calls import Operation, Script, ask, build_query, quote_segment
from statewright.sdk.operations.ops.answers import build_call, build_reader, repeat_parameter, write_duration

LONGEST_S: Final = 50.0
"""Seconds that the service holds one request."""


class EntityWait(Struct, frozen=True, rename="camel", kw_only=True):
    """How a wait for an entity ended: ``reached`` is False when the time was over, or the entity is gone."""

    reached: bool
    deleted: bool
    waited_ms: int
    state: str = ""
    transaction_id: str | None = None
    at: str = ""


class InstanceWait(Struct, frozen=True, rename="camel", kw_only=True):
    """How a wait for an instance ended."""

    reached: bool
    deleted: bool
    waited_ms: int
    status: str = ""
    failure_reason: str | None = None
    transaction_id: str | None = None
    at: str = ""


def wait(
    entity_id: str, *, states: Sequence[str] = (), after: str | None = None, timeout_s: float = 30.0
) -> Script[EntityWait]:
    """Wait until an entity is in one of the states; without states, until it has a version newer than the transaction
    ``after``; without either, until no transition leads out of its state. ``timeout_s`` may be any number of seconds.

    That the time is over is no failure: see ``reached``.
    """
    left_s, behind = timeout_s, after
    while True:
        query = (
            *repeat_parameter("state", states),
            *build_query(after=behind, timeout=write_duration(min(max(left_s, 0.0), LONGEST_S))),
        )
        path = f"/entities/{quote_segment(entity_id)}/wait"
        found = yield from ask(Operation(build_call("wait", "GET", path, target=(entity_id,), query=query), _read_wait))
        left_s -= max(found.waited_ms / 1000, SHORTEST_S)
        if found.reached or found.deleted or left_s <= 0:
            return found
        if states:  # what is entered and left between two requests counts, too
            behind = found.transaction_id or behind


def wait_for_instance(
    instance_id: str, *, until: Literal["FINISHED", "WAITING"] = "FINISHED", timeout_s: float = 30.0
) -> Script[InstanceWait]:
    """Wait until an instance of a process has ended, or, with ``WAITING``, waits for a person or a signal, or has
    ended. ``timeout_s`` may be any number of seconds.
    """
    left_s = timeout_s
    while True:
        query = build_query(until=until, timeout=write_duration(min(max(left_s, 0.0), LONGEST_S)))
        path = f"/instances/{quote_segment(instance_id)}/wait"
        call = build_call("wait_for_instance", "GET", path, target=(instance_id,), query=query)
        found = yield from ask(Operation(call, _read_instance_wait))
        left_s -= max(found.waited_ms / 1000, SHORTEST_S)
        if found.reached or found.deleted or left_s <= 0:
            return found


SHORTEST_S: Final = 0.1
"""Seconds that a wait counts for at least: a node that is about to end answers at once, and is not asked for ever."""

_read_wait = build_reader(EntityWait)
_read_instance_wait = build_reader(InstanceWait)
