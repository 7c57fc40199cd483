"""What was committed, for other systems: pages and streams of events, and whether they are recorded
(docs/reference/operations.md#events-out).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from statewright.api.http.ops.route import read_body, serve
from statewright.api.http.processes.event_log import EVENT_STREAM, STREAM_HEADERS
from statewright.api.http.request import Request, read_entity_id
from statewright.api.http.response import Response, SendLimit, StreamNotRead, encode_json, prime_stream
from statewright.failures import InvalidParameter
from statewright.loop.background import cancel_all, wait_at_most
from statewright.operations.events import (
    GET_EVENT_RECORDING,
    INCLUDE_BODY,
    KINDS,
    READ_EVENTS,
    SET_EVENT_RECORDING,
    EventFilter,
    EventPosition,
    EventRecording,
    RecordingSwitch,
    parse_position,
    place_behind,
)
from statewright.operations.records import DEFAULT_LIMIT, MAX_LIMIT
from statewright.services.ops import events
from statewright.services.ops.events import FollowedEvents

WordT = TypeVar("WordT", bound=str)

PART_BYTES: Final = 64 * 1024
"""Of a stream that are sent at once: the server holds a few parts that a client does not read."""

MAX_BEHIND_BYTES: Final = 1024 * 1024
"""That may wait for a reader, beside those parts; one for whom more wait is closed."""

CATCH_UP_S: Final = 0.25
"""In which a reader may take what is more: events of one look can be more than a mebibyte."""

_BEGINNING: Final = b"retry: 2000\n\n"
_NOTHING_NEW: Final = b": nothing new\n\n"
"""A comment, so that what stands between sees life."""


@serve(GET_EVENT_RECORDING)
async def get_event_recording(request: Request) -> Response:
    """Whether events are recorded, and since when."""
    runtime = request.runtime
    return Response(encode_json(await events.get_recording(runtime.core, runtime.operations.events, request.caller)))


@serve(SET_EVENT_RECORDING)
async def set_event_recording(request: Request) -> Response:
    """Record events, or stop it."""
    body = await read_body(request, RecordingSwitch)

    async def respond(state: EventRecording) -> Response:
        return Response(encode_json(state))

    operations = request.runtime.operations
    switched = await events.switch_recording(
        request.runtime.core,
        operations.concerns.suspensions,
        operations.events,
        request.answer_with(respond),
        enabled=body.enabled,
    )
    return await respond(switched)


@serve(READ_EVENTS)
async def read_events(request: Request) -> Response:
    """What was committed, the oldest first: a page, or a stream."""
    log, tenant, wanted = request.runtime.operations.events, request.caller.tenant, _read_filter(request)
    include = _read_word("includeBody", request.query("includeBody") or "NONE", INCLUDE_BODY)
    limit = request.query_int32("limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidParameter("limit")
    position = await log.begin(tenant, _read_position(request))
    if EVENT_STREAM in (request.header(b"accept") or ""):
        pages = log.follow(tenant, position, wanted, include=include, is_permitted=request.is_still_permitted)
        sending = SendLimit(log.unread_timeout_s)
        return Response(
            await prime_stream(_Backlog(pages, sending.expire).read_parts()),
            media_type=EVENT_STREAM,
            headers=STREAM_HEADERS,
            limit=sending,
        )
    found = await log.read_page(tenant, position, wanted, include=include, limit=limit)
    items = b",".join([event.text for event in found.events])
    return Response(b'{"items":[%b],"nextCursor":"%b"}\n' % (items, found.position.write().encode()))


class _Backlog:
    """What waits for the reader of a stream, as server-sent events.

    Events of the past are made as the reader takes them, however slowly that is. Those to come are made as they come,
    so what waits is how far the reader is behind: ``close`` is called when that is too far. The texts of events that
    wait are those of all readers.
    """

    def __init__(self, pages: AsyncGenerator[FollowedEvents], close: Callable[[], None]) -> None:
        self._pages = pages
        self._close = close
        self._waiting: deque[bytes | memoryview] = deque()
        self._size = 0
        self._added, self._taken = asyncio.Event(), asyncio.Event()

    async def read_parts(self) -> AsyncGenerator[bytes]:
        """What is sent. Raises ``StreamNotRead`` for a reader that is too far behind, and what the events raise."""
        filling = asyncio.create_task(self._fill(), name="event-stream")
        filling.add_done_callback(lambda _: self._added.set())
        try:
            while self._waiting or not filling.done():
                if not self._waiting:
                    self._added.clear()
                    await self._added.wait()
                    continue
                part = self._take()
                self._taken.set()
                yield part
            await filling
        finally:
            await cancel_all({filling})

    async def _fill(self) -> None:
        beginning: bytes = _BEGINNING
        async with aclosing(self._pages):
            async for page in self._pages:
                self._add(beginning if page.events else beginning or _NOTHING_NEW)
                beginning = b""
                for event in page.events:
                    self._add(f"id: {event.sequence}\nevent: {event.type}\ndata: ".encode(), event.text, b"\n\n")
                self._added.set()
                if not page.is_live:
                    await self._wait_until_taken()
                elif self._size > MAX_BEHIND_BYTES:
                    await wait_at_most(self._wait_until_taken(), CATCH_UP_S)
                    if self._size > MAX_BEHIND_BYTES:
                        self._waiting.clear()
                        self._close()
                        raise StreamNotRead

    async def _wait_until_taken(self) -> None:
        while self._size > PART_BYTES:
            self._taken.clear()
            await self._taken.wait()

    def _add(self, *texts: bytes) -> None:
        self._waiting.extend(texts)
        self._size += sum(map(len, texts))

    def _take(self) -> bytes:
        part, room = list[bytes | memoryview](), PART_BYTES
        while self._waiting and room:
            text = self._waiting.popleft()
            if len(text) > room:
                whole = memoryview(text)
                text, rest = whole[:room], whole[room:]
                self._waiting.appendleft(rest)
            part.append(text)
            room -= len(text)
        self._size -= PART_BYTES - room
        return b"".join(part)


def _read_filter(request: Request) -> EventFilter:
    entity_id = request.query("entityId")
    return EventFilter(
        kinds=tuple(_read_word("kinds", kind, KINDS) for kind in request.query_all("kinds")),
        model_name=request.query("modelName"),
        model_version=None if request.query("modelVersion") is None else request.query_int32("modelVersion", 0),
        entity_id=None if entity_id is None else read_entity_id("entityId", entity_id),
        to_state=request.query("toState"),
    )


def _read_word(name: str, word: str, words: Sequence[WordT]) -> WordT:
    found = next((known for known in words if known == word), None)
    if found is None:
        raise InvalidParameter(name, ", ".join(words))
    return found


def _read_position(request: Request) -> EventPosition | None:
    """Behind the last event that a client has seen, or from an instant on; None: now. Raises ``InvalidParameter``."""
    since = request.query_instant("since")
    for name, given in (("Last-Event-ID", request.header(b"last-event-id")), ("after", request.query("after"))):
        if given is not None:
            position = parse_position(given)
            if position is None:
                raise InvalidParameter(name)
            return position
    return None if since is None else place_behind(since - 1)
