"""Hints that something has changed, as an event stream: parts of a page then ask for themselves again.

A topic is ``entity-<id>``, or ``entity-<id>@<transaction>`` when the page shows what that transaction left; a hint
carries nothing but the name of the topic. Whoever opens a stream asks for the entity with his own token first, so that
nobody hears of what he may not read. After that all streams of a process that are about the same entity of a tenant
share one wait for it (``GET /ops/v1/entities/{id}/wait``). The id of an event tells how far each topic has got: a
client that connects again brings the last one, and misses nothing.

Counts by state, which cost a look at every entity of a model: kept for a while and made one at a time.

An answer is kept for twenty times the time that it took, so that counting takes at most a twentieth of one connection
for each model and process, and nothing when nobody looks (docs/console.md#counts).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from http import HTTPStatus
from time import monotonic
from typing import Final, Self

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_entity_call, build_ops_call
from statewright.console.client import ApiClient
from statewright.console.session import SessionsUnavailable
from statewright.operations.history import EntityWait
from statewright.telemetry import logs

MAX_TOPICS: Final = 4
MAX_STREAMS: Final = 1_000
STREAM_S: Final = 600.0
"""After so long the server ends a stream; the client opens another one."""
PING_S: Final = 15.0
LOOK_S: Final = 1.0
"""Pause between looks for logins that have ended."""
HINT_PAUSE_S: Final = 1.0
"""At most one hint for a topic in this time."""
WAIT_S: Final = 45
RETRY_S: Final = 5.0

_TOPIC: Final = re.compile(r"(?P<name>entity-(?P<id>[0-9a-fA-F-]{36}))(?:@(?P<seen>[0-9a-fA-F-]{36}))?")

FindEnded = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Those of some logins that hold no more."""

log = logs.logger(__name__)


async def _find_none(_ids: Collection[str]) -> frozenset[str]:
    return frozenset()


class Topic(Struct, frozen=True):
    """What a page wants to hear of. ``seen`` is the transaction that it shows."""

    name: str
    entity_id: str
    seen: str


def parse_topics(texts: Sequence[str], last_event_id: str = "") -> tuple[Topic, ...] | None:
    """The topics of a stream; None unless there are one to four well-formed ones. What the last event says has been
    seen counts more than what the page says.
    """
    topics: list[Topic] = []
    later = {name: seen for name, _, seen in (part.partition("@") for part in last_event_id.split(","))}
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None:
            return None
        name, id_, seen = match.groups()
        topics.append(Topic(name, id_.lower(), later.get(name) or seen or ""))
    return tuple(topics) if 1 <= len(topics) <= MAX_TOPICS else None


class _Watch:
    """One wait for an entity, and the streams that it wakes."""

    def __init__(self, at: str) -> None:
        self.at = at
        """The transaction of the newest version that is known."""
        self.streams: set[LiveStream] = set()
        self.task: asyncio.Task[None] | None = None


class LiveHints:
    """The streams of one process."""

    def __init__(self, find_ended: FindEnded = _find_none) -> None:
        self._find_ended = find_ended
        self._looking: asyncio.Task[None] | None = None
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._streams: set[LiveStream] = set()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether no further stream is opened."""
        return self._is_closed or len(self._streams) >= MAX_STREAMS

    @property
    def open_streams(self) -> int:
        """How many there are."""
        return len(self._streams)

    async def open(
        self, client: ApiClient, tenant: str, topics: Sequence[Topic], *, login: str = ""
    ) -> "LiveStream | Reply":
        """A stream of hints, or the answer that refused one of the topics. It ends with the ``login`` of its viewer;
        empty: nobody logs in.
        """
        calls = [_build_wait(topic.entity_id, None, "PT0S") for topic in topics]
        replies = await client.call_all(calls)
        refused = next((reply for reply in replies if not reply.is_ok), None)
        if refused is not None:
            return refused
        stream = LiveStream(self, tenant, topics, login)
        for topic, reply in zip(topics, replies, strict=True):
            now = reply.read(EntityWait).transaction_id or ""
            if topic.seen and topic.seen != now:
                stream.wake(topic.name, now)
            self._join(stream, client, tenant, topic, now)
        self._streams.add(stream)
        if login and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_for_ends(), name="console-streams")
        return stream

    def leave(self, stream: "LiveStream", tenant: str, topics: Sequence[Topic]) -> None:
        """A stream has ended; a wait that no other stream needs ends with it."""
        self._streams.discard(stream)
        for topic in topics:
            watch = self._watches.get((tenant, topic.entity_id))
            if watch is None:
                continue
            watch.streams.discard(stream)
            if not watch.streams:
                del self._watches[tenant, topic.entity_id]
                if watch.task is not None:
                    watch.task.cancel()

    async def close(self) -> None:
        """End all streams and open no more."""
        self._is_closed = True
        for stream in self._streams:
            stream.end()
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        tasks += [] if self._looking is None else [self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_for_ends(self) -> None:
        """End the streams of logins that have ended: one question for all of them, as long as there are any."""
        while logins := {stream.login for stream in self._streams if stream.login}:
            await asyncio.sleep(LOOK_S)
            try:
                ended = await self._find_ended(logins)
            except SessionsUnavailable:
                continue
            for stream in tuple(self._streams):
                if stream.login in ended:
                    stream.end()

    def _join(self, stream: "LiveStream", client: ApiClient, tenant: str, topic: Topic, now: str) -> None:
        key = (tenant, topic.entity_id)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(now)
            watch.task = asyncio.create_task(self._follow(watch, client, topic))
        stream.note(topic.name, now)
        watch.streams.add(stream)

    async def _follow(self, watch: _Watch, client: ApiClient, topic: Topic) -> None:
        while True:
            begun = monotonic()
            reply = await client.call(_build_wait(topic.entity_id, watch.at, f"PT{WAIT_S}S"))
            client.made.clear()
            if reply.status in {401, 403, 404}:  # of the viewer whose token it is, or of the entity: others ask anew
                for stream in tuple(watch.streams):
                    stream.wake(topic.name, watch.at)
                    stream.end()
                return
            if not reply.is_ok:
                await asyncio.sleep(RETRY_S)
                continue
            told = reply.read(EntityWait)
            now = told.transaction_id or ""
            if told.reached or told.deleted or now != watch.at:
                watch.at = now
                for stream in tuple(watch.streams):
                    stream.wake(topic.name, now)
                if told.deleted:
                    return
            await asyncio.sleep(max(0.0, HINT_PAUSE_S - (monotonic() - begun)))


class LiveStream:
    """The hints of one page, as the bytes of an event stream."""

    def __init__(self, hints: LiveHints, tenant: str, topics: Sequence[Topic], login: str = "") -> None:
        self.login = login
        self._hints = hints
        self._tenant = tenant
        self._topics = topics
        self._seen = {topic.name: topic.seen for topic in topics}
        self._due: set[str] = set()
        self._is_ended = False
        self._changed = asyncio.Event()
        self._events = self._read()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        """The browser has gone, maybe before it read anything."""
        await self._events.aclose()
        self._hints.leave(self, self._tenant, self._topics)

    def note(self, topic: str, seen: str) -> None:
        """The page knows this much, or will once it has asked again."""
        self._seen[topic] = seen

    def wake(self, topic: str, now: str) -> None:
        """Something has changed."""
        self._seen[topic] = now
        self._due.add(topic)
        self._changed.set()

    def end(self) -> None:
        """Say what is due, and no more."""
        self._is_ended = True
        self._changed.set()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        """The events, with a comment now and then that keeps the connection."""
        deadline = monotonic() + STREAM_S
        yield b"retry: 2000\n\n"
        while True:
            if self._due:
                mark = ",".join(f"{name}@{seen}" for name, seen in self._seen.items())
                due, self._due = sorted(self._due), set()
                yield "".join(f"event: {name}\nid: {mark}\ndata: 1\n\n" for name in due).encode()
            if self._is_ended or monotonic() >= deadline:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(PING_S):
                    await self._changed.wait()
            except TimeoutError:
                yield b": still here\n\n"


def _build_wait(entity_id: str, after: str | None, timeout: str) -> ApiCall:
    return build_ops_call(
        "entities", entity_id, "wait", query={"after": after, "timeout": timeout}, timeout_s=WAIT_S + 10.0
    )


MIN_KEPT_S: Final = 10.0
KEPT_PER_SECOND: Final = 20
PATIENT_S: Final = 0.5
"""How long a part waits for a count, and then asks again: it must not hold up pages that are made meanwhile."""
CONFIRMATION_PATIENT_S: Final = 5.0
"""How long a question that names the number waits for it."""
GIVEN_UP_S: Final = 30.0
MAX_KEPT: Final = 500

Key = tuple[str, str, int]
"""Tenant, name and version of a model."""


class StateCount(Struct, frozen=True):
    """How many entities are in a state."""

    state: str = ""
    count: int = 0


class ModelCounts(Struct, frozen=True, kw_only=True):
    """The entities of a model by state, most first. ``age_s`` tells how long ago they were counted."""

    states: tuple[StateCount, ...] = ()
    age_s: float = 0.0
    is_counting: bool = False
    """Whether the count is still being made: ask again."""
    failed: Reply | None = None

    @property
    def total(self) -> int:
        """All entities of the model."""
        return sum(each.count for each in self.states)

    def require_model(self) -> None:
        """Raises ``CallFailed`` where there is no such model."""
        if self.failed is not None and self.failed.status == HTTPStatus.NOT_FOUND:
            self.failed.require()

    def get(self, state: str) -> int:
        """The entities in one state."""
        return next((each.count for each in self.states if each.state == state), 0)

    def get_share(self, each: StateCount) -> int:
        """The part of all entities that is in a state, in percent; at least one where there is any."""
        return max(1, round(100 * each.count / self.total)) if each.count else 0


class _Kept(Struct):
    task: "asyncio.Task[Reply]"
    begun: float
    ended: float | None = None

    @property
    def is_fresh(self) -> bool:
        if self.ended is None:
            return True
        kept_s = max(MIN_KEPT_S, KEPT_PER_SECOND * (self.ended - self.begun))
        return monotonic() - self.ended < kept_s


class KeptCounts:
    """The counts of one process."""

    def __init__(self) -> None:
        self._kept: dict[Key, _Kept] = {}

    async def count(
        self, client: ApiClient, tenant: str, name: str, version: int, *, patience_s: float = PATIENT_S
    ) -> ModelCounts:
        """The counts of a model, kept or new; without an answer after ``patience_s`` they are still being made."""
        key = (tenant, name, version)
        kept = self._kept.get(key)
        if kept is None or not kept.is_fresh:
            kept = self._begin(key, client)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await asyncio.shield(kept.task)
        if not kept.task.done():
            return ModelCounts(is_counting=True)
        reply = kept.task.result()
        if not reply.is_ok:
            self._kept.pop(key, None)
            return ModelCounts(failed=reply)
        ended = kept.ended or monotonic()
        states = tuple(sorted(reply.pick_items(StateCount), key=lambda each: (-each.count, each.state)))
        return ModelCounts(states=states, age_s=monotonic() - ended)

    async def close(self) -> None:
        """End what is being counted."""
        tasks = [kept.task for kept in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: Key, client: ApiClient) -> _Kept:
        _, name, version = key
        call = build_entity_call("entity", "stats", "states", name, version, timeout_s=GIVEN_UP_S)
        kept = _Kept(asyncio.create_task(client.call(call)), monotonic())

        def note_end(_task: "asyncio.Task[Reply]") -> None:
            kept.ended = monotonic()

        kept.task.add_done_callback(note_end)
        while len(self._kept) >= MAX_KEPT:
            self._kept.pop(next(iter(self._kept))).task.cancel()
        self._kept[key] = kept
        return kept
