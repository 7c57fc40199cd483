"""Logs of instances, of languages that keep one: read a page, or follow it as it grows.

Who follows is woken by advances of this process, and looks once a second for those of others.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from msgspec import Struct

from statewright.failures import ProcessNotFound
from statewright.ids import EntityId
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.loop.background import wait_at_most
from statewright.processes.language import I, P
from statewright.services.core import Caller
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.documents import fetch_value, read_object, read_texts
from statewright.services.processes.hosting import ProcessHost
from statewright.services.processes.instances import build_not_found
from statewright.storage.processes import instances

MAX_PAGE: Final = 1_000
POLL_INTERVAL_S: Final = 1.0
MAX_SILENCE_S: Final = 15.0
"""After so long without an event a follower gets an empty page, to see whether the other side is there."""


class LoggedEvent(Struct, frozen=True):
    """An event of a log, by its number; its instant in epoch microseconds."""

    number: int
    at: int
    event: JsonObject


class LogPage(Struct, frozen=True, kw_only=True):
    """A part of a log. ``has_ended``: the instance had ended before it was read, so behind an empty one comes nothing
    until a restart.
    """

    events: Sequence[LoggedEvent]
    has_ended: bool


async def list_events(
    host: ProcessHost[P, I], caller: Caller, instance_id: str, *, after: int = 0, limit: int = MAX_PAGE
) -> LogPage:
    """Up to ``limit`` events behind a number, fewer when they are large. Raises ``ProcessNotFound``."""
    entity = parse_instance_id(instance_id, build_not_found(host, instance_id))
    has_ended = await _look(host, caller, entity, instance_id)  # before the events: else the last could be missed
    found = await _fetch(host, caller, entity, after=after, limit=min(limit, MAX_PAGE))
    return LogPage(events=found, has_ended=has_ended)


async def read_value(host: ProcessHost[P, I], caller: Caller, instance_id: str, digest: str) -> JsonValue:
    """A value that an event names rather than has (``log_values``). Raises ``ProcessNotFound``."""
    entity = parse_instance_id(instance_id, build_not_found(host, instance_id))
    await _look(host, caller, entity, instance_id)
    found = await fetch_value(host.core.pool, caller.tenant, entity, digest)
    if found is None:
        raise ProcessNotFound(f"value {quote(digest)} not found")
    return found.value


async def follow_events(
    host: ProcessHost[P, I], caller: Caller, instance_id: str, *, after: int = 0
) -> AsyncGenerator[Sequence[LoggedEvent]]:
    """The events behind a number, and those to come, until the instance has ended; an empty page now and then.

    Raises ``ProcessNotFound``, and ``TooManyRequests`` when too many follow already.
    """
    entity = parse_instance_id(instance_id, build_not_found(host, instance_id))
    clock = asyncio.get_running_loop().time
    with host.shared.log_followers.follow(caller.tenant, entity) as woken:
        silent_since = -MAX_SILENCE_S  # who follows hears at once that it does
        while True:
            woken.clear()
            has_ended = await _look(host, caller, entity, instance_id)
            found = await _fetch(host, caller, entity, after=after, limit=MAX_PAGE)
            if found or clock() - silent_since >= MAX_SILENCE_S:
                silent_since = clock()
                yield found
            if found:
                after = found[-1].number
            elif has_ended:
                return
            else:
                await wait_at_most(woken.wait(), POLL_INTERVAL_S)


async def _look(host: ProcessHost[P, I], caller: Caller, entity: EntityId, name: str) -> bool:
    """Whether the instance has ended. Raises ``ProcessNotFound``."""
    has_ended = await instances.has_ended(host.core.pool, caller.tenant, host.language.name, entity)
    if has_ended is None:
        raise build_not_found(host, name)
    return has_ended


async def _fetch(
    host: ProcessHost[P, I], caller: Caller, entity: EntityId, *, after: int, limit: int
) -> Sequence[LoggedEvent]:
    found = await instances.fetch_events(host.core.pool, caller.tenant, entity, after=after, limit=limit)

    def read() -> list[LoggedEvent]:
        return [LoggedEvent(one.number, one.at, read_object(one.event)) for one in found]

    return await read_texts([one.event for one in found], read)
