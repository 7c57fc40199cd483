"""What was committed, for other systems (docs/reference/operations.md#events-out).

*Recording* is a switch: it holds when every node that is alive says that it acts by it.

*Reading* goes up to an instant that is settled, so no earlier event can appear later, and a position is all that a
reader has to keep. Who follows takes events from one look for all of this process, at most every ``LOOK_INTERVAL_S``;
who is behind that reads pages of its own until it has caught up. Nothing is kept for readers: one that is slow is
further behind, and costs no memory. What they are sent is made once for all of them (``services/ops/event_texts.py``).
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import EventsGone, EventsNotRecorded, TooManyRequests
from statewright.ids import ModelId, TenantId, model_id
from statewright.instants import to_rfc3339, to_us
from statewright.loop.background import (
    OneByOne,
    Removal,
    TimeSlices,
    log_failures,
    repeat,
    wait_at_most,
)
from statewright.operations.events import (
    EventFilter,
    EventPosition,
    EventRecording,
    EventRow,
    IncludeBody,
    Subject,
    classify,
    place_behind,
)
from statewright.processes.user_tasks import USER_TASK
from statewright.services.core import Caller, Core
from statewright.services.ops.event_texts import EventText, EventTexts, Fact
from statewright.services.ops.waiting import wait_for_nodes
from statewright.storage.commit.outbox import RecordedTenants
from statewright.storage.entities import SettledInstant
from statewright.storage.ops import events as stored
from statewright.storage.ops.events import RecordingState
from statewright.storage.ops.service import MAX_BATCH, remove_rows
from statewright.storage.pool import Pool
from statewright.telemetry import logs

LOOK_INTERVAL_S: Final = 0.1

MAX_PORTION: Final = 1_000
"""Rows that are read at once."""

MAX_SCANNED: Final = 10_000
"""Rows that are looked through for one page."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Of events, after which a page ends."""

EVENTS_AT_ONCE: Final = 50
BODIES_AT_ONCE: Final = 16
"""Events that are made at once, without documents and with them: others on the loop have their turn between."""

MAX_STREAMS: Final = 100
"""Of a tenant, on one node."""

MAX_STREAM_S: Final = 900.0
"""After which a stream ends and its client connects again, with a token that is still good."""

MAX_SILENCE_S: Final = 15.0
MAX_UNREAD_S: Final = 15.0
"""For which a reader of a stream may take nothing while something waits for it."""

SWEEP_INTERVAL: Final = timedelta(minutes=1)
"""Rows are removed one by one. Partitions by day would go at once, and want somebody who makes tomorrow's in time: a
commit that finds none fails, which is worse than rows that stay for a day longer. What a sweep removes in a minute is
what a minute has written seven days before, in batches by the primary key; autovacuum reuses their place.
"""

_TASK_MODEL: Final = model_id(USER_TASK.key.name, USER_TASK.key.version)

log = logs.logger(__name__)


class SwitchFollower(Protocol):
    """What keeps the switches of a node up to date."""

    async def refresh(self) -> None:
        """Load them, and tell the others that this node acts by them. Raises ``StorageUnavailable``."""
        ...


async def switch_recording(
    core: Core, follower: SwitchFollower, events: "EventLog", caller: Caller, *, enabled: bool
) -> EventRecording:
    """Have a tenant record events, or stop it; waits until all nodes know."""
    by = caller.principal.actor

    async def switch(pool: Pool) -> RecordingState:
        return await stored.switch_recording(pool, caller.tenant, by, enabled=enabled)

    begun = await caller.carry_out(core.pool, switch, events.describe_switch)
    await follower.refresh()
    pending = await wait_for_nodes(lambda: stored.list_pending_nodes(core.pool, begun.revision))
    if not pending:
        await stored.mark_since(core.pool)
    recording = await stored.find_recording(core.pool, caller.tenant)
    found = await events.describe_recording(caller.tenant, recording, pending)
    await caller.amend_answer(found)
    return found


async def get_recording(core: Core, events: "EventLog", caller: Caller) -> EventRecording:
    """Whether the tenant records events."""
    recording = await stored.find_recording(core.pool, caller.tenant)
    pending = await stored.list_pending_nodes(core.pool, recording.revision)
    return await events.describe_recording(caller.tenant, recording, pending)


class Portion(Struct, frozen=True):
    """The rows of a tenant behind ``since``, up to ``until`` and no further; ``is_full``: there may be more."""

    since: EventPosition
    until: EventPosition
    rows: Sequence[EventRow]
    is_full: bool = False


def build_portion(since: EventPosition, rows: Sequence[EventRow], settled: int) -> Portion:
    """The portion from rows that were read up to an instant."""
    is_full = len(rows) >= MAX_PORTION
    return Portion(since, rows[-1].position if is_full else max(since, place_behind(settled)), rows, is_full)


class ReadEvents(Struct, frozen=True):
    """Events as they are sent, and the position behind them."""

    events: Sequence["EventText"]
    position: EventPosition


class FollowedEvents(Struct, frozen=True):
    """Events of a stream, none when there was nothing for a while. ``is_live``: its reader had all there was before."""

    events: Sequence["EventText"]
    is_live: bool


class EventLog:
    """What was committed, as one node reads it."""

    def __init__(
        self,
        pool: Pool,
        recorded: RecordedTenants,
        instance_models: Collection[ModelId],
        *,
        source: str,
        retention: timedelta,
    ) -> None:
        self._pool = pool
        self._recorded = recorded
        self._instance_models = instance_models
        self.texts = EventTexts(pool, source=source)
        self._retention = retention
        self.removal = Removal(partial(remove_rows, pool, stored.REMOVE, retention), MAX_BATCH)
        """Of rows."""
        self._settled = SettledInstant(pool)
        self._portions: dict[TenantId, Portion] = {}
        self._followed = asyncio.Event()
        self._looked = asyncio.Event()
        self._woken = OneByOne()
        self.unread_timeout_s = MAX_UNREAD_S
        self.streams: Counter[TenantId] = Counter()
        """That are open, by tenant."""
        self._readers: Counter[TenantId] = Counter()
        self.rows = 0
        """Of all tenants, as the database estimated it last."""

    # What a tenant records.

    def describe_switch(self, recording: RecordingState) -> EventRecording:
        """The switch of a tenant, before it is known what there is and which nodes act by it."""
        return EventRecording(
            enabled=recording.enabled,
            subscribed=recording.subscribed,
            effective=False,
            pending_nodes=(),
            since=None if recording.since is None else to_rfc3339(recording.since),
            kept_from=None,
            retention_seconds=int(self._retention.total_seconds()),
            rows=0,
            lag_seconds=0.0,
        )

    async def describe_recording(
        self, tenant: TenantId, recording: RecordingState, pending: tuple[str, ...]
    ) -> EventRecording:
        """The switch of a tenant, and what there is."""
        state, is_on = await stored.count_rows(self._pool, tenant), recording.enabled or recording.subscribed
        settled = await self._settled.advance() if is_on else state.now
        kept_from = self._find_kept_from(recording, state.now)
        return replace(
            self.describe_switch(recording),
            effective=not pending and (recording.since is not None or not is_on),
            pending_nodes=pending,
            kept_from=None if kept_from is None else to_rfc3339(kept_from),
            rows=min(state.rows, stored.MAX_COUNT),
            rows_is_lower_bound=state.rows > stored.MAX_COUNT,
            lag_seconds=max(state.now - settled, 0) / 1_000_000,
        )

    def _find_kept_from(self, recording: RecordingState, now: int) -> int | None:
        if recording.since is None:
            return None
        return max(recording.since, now - to_us(self._retention))

    async def begin(self, tenant: TenantId, after: EventPosition | None) -> EventPosition:
        """Where a reader begins: behind ``after``, or now. Raises ``EventsNotRecorded``, ``EventsGone``."""
        recording = await stored.find_recording(self._pool, tenant)
        settled = await self._settled.advance()
        kept_from = self._find_kept_from(recording, settled)
        if kept_from is None:
            raise EventsNotRecorded
        if after is None:
            return place_behind(settled)
        if after.at < kept_from:
            raise EventsGone(to_rfc3339(kept_from))
        return after

    # Pages.

    async def read_page(
        self, tenant: TenantId, after: EventPosition, wanted: EventFilter, *, include: IncludeBody, limit: int
    ) -> ReadEvents:
        """Up to ``limit`` events behind a position; fewer when they are large, or few of many are wanted."""
        found: list[EventText] = []
        slices = TimeSlices()
        scanned = size = 0
        position = after
        while scanned < MAX_SCANNED:
            portion = await self._read_portion(tenant, position)
            scanned += len(portion.rows)
            chosen = self.choose(portion.rows, (wanted,))
            for facts in _split(chosen[: limit - len(found)], include):
                events = await self.texts.encode(tenant, facts, include)
                found += events
                await slices.yield_if_due()
                size += sum([len(event.text) for event in events])
                if len(found) == limit or size >= MAX_PAGE_BYTES:
                    return ReadEvents(found, found[-1].position)
            position = portion.until
            if not portion.is_full:
                break
        return ReadEvents(found, position)

    async def _read_portion(self, tenant: TenantId, since: EventPosition) -> Portion:
        settled = self._settled.at
        if since.at >= settled:
            return Portion(since, since, ())
        found = await stored.read_rows(self._pool, [(tenant, since)], until=settled, limit=MAX_PORTION)
        return build_portion(since, found[tenant], settled)

    def choose(self, rows: Iterable[EventRow], wanted: Sequence[EventFilter]) -> list[Fact]:
        """The events that one of the filters matches."""
        chosen: list[Fact] = []
        for row in rows:
            kind, type_ = classify(row, self._find_subject(row.model_id))
            if any(one.matches(row, kind) for one in wanted):
                chosen.append((row, type_))
        return chosen

    def _find_subject(self, model: ModelId) -> Subject:
        if model in self._instance_models:
            return "instance"
        return "task" if model == _TASK_MODEL else "entity"

    # Streams.

    async def follow(
        self,
        tenant: TenantId,
        after: EventPosition,
        wanted: EventFilter,
        *,
        include: IncludeBody,
        is_permitted: Callable[[], bool],
    ) -> AsyncGenerator[FollowedEvents]:
        """The events behind a position, and those to come; none of them now and then. It ends after a while, when the
        tenant stops recording, and when it is not permitted any more. Raises ``TooManyRequests``.
        """
        position, ends_at = after, time.monotonic() + MAX_STREAM_S
        told_at, is_live, slices = 0.0, False, TimeSlices()
        with self._count_stream(tenant):
            while tenant in self._recorded and time.monotonic() < ends_at and is_permitted():
                portion = await self.read_next(tenant, position)
                async with self._woken:  # all were at once, by the same look
                    chosen = self.choose(portion.rows, (wanted,))
                for facts in _split(chosen, include):
                    yield FollowedEvents(await self.texts.encode(tenant, facts, include), is_live)
                    told_at = time.monotonic()
                    await slices.yield_if_due()
                if time.monotonic() - told_at >= MAX_SILENCE_S:
                    told_at = time.monotonic()
                    yield FollowedEvents((), is_live)
                position = portion.until
                if not portion.is_full:
                    is_live = True
                    await self.wait_for_look(MAX_SILENCE_S)

    @contextmanager
    def _count_stream(self, tenant: TenantId) -> Iterator[None]:
        if self.streams[tenant] >= MAX_STREAMS:
            raise TooManyRequests(f"the tenant has {MAX_STREAMS} streams of events on this node already")
        self.streams[tenant] += 1
        try:
            with self.attend(tenant):
                yield
        finally:
            self.streams -= Counter({tenant: 1})

    @contextmanager
    def attend(self, tenant: TenantId) -> Iterator[None]:
        """The time during which events of a tenant are looked for."""
        self._readers[tenant] += 1
        self._followed.set()
        try:
            yield
        finally:
            self._readers -= Counter({tenant: 1})
            if not self._readers:
                self._followed.clear()
                self._portions.clear()
                self.texts.forget()

    async def read_next(self, tenant: TenantId, position: EventPosition) -> Portion:
        """What is known behind a position, by what was looked for last, or by a look of its own."""
        portion = self._portions.get(tenant)
        if portion is None or not portion.since <= position < portion.until:
            return await self._read_portion(tenant, position)
        return replace(portion, rows=[row for row in portion.rows if row.position > position])

    async def wait_for_look(self, seconds: float) -> None:
        """Wait until what is new has been looked for, but not for longer."""
        await wait_at_most(self._looked.wait(), seconds)

    async def run(self) -> None:
        """Look for those who follow, until cancelled."""
        while True:
            await self._followed.wait()
            with log_failures(log, "events_not_read"):
                await self._look()
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _look(self) -> None:
        before = self._settled.at
        settled = await self._settled.advance()
        known = self._portions
        behind = [
            (tenant, known[tenant].until if tenant in known else place_behind(before)) for tenant in self._readers
        ]
        rows = await stored.read_rows(self._pool, behind, until=settled, limit=MAX_PORTION)
        self._portions = {tenant: build_portion(since, rows[tenant], settled) for tenant, since in behind}
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    # Removal.

    async def sweep(self) -> None:
        """Remove what is older than the retention, until cancelled."""
        await repeat(self.sweep_once, SWEEP_INTERVAL, log=log, failure="event_sweep_failed", waits_first=True)

    async def sweep_once(self) -> None:
        """Remove what is too old now."""
        self.rows = await stored.estimate_rows(self._pool)
        await self.removal.run()


def _split(facts: Sequence[Fact], include: IncludeBody) -> Iterator[Sequence[Fact]]:
    """In portions whose documents are read together."""
    size = EVENTS_AT_ONCE if include == "NONE" else BODIES_AT_ONCE
    return (facts[start : start + size] for start in range(0, len(facts), size))
