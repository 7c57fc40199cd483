"""The event logs of instances over REST: as pages, and as a stream of server-sent events, the format of browsers'
``EventSource`` (docs/reference/executions.md#event-log).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Generic, TypeAlias, TypeVar

from statewright.api.http.processes.bodies import reply_by_size
from statewright.api.http.request import Request
from statewright.api.http.response import Response, prime_stream
from statewright.failures import InvalidParameter
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.language import I, P
from statewright.services.processes import event_log
from statewright.services.processes.dialects import RenderEvent
from statewright.services.processes.event_log import MAX_PAGE, LoggedEvent
from statewright.services.processes.hosting import Processes, ProcessHost

DEFAULT_PAGE: Final = 100
EVENT_STREAM: Final = "text/event-stream"
STREAM_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
"""Of a stream of events. A proxy like nginx would keep events back until it has some pages of them."""
_MAX_DIGITS: Final = 18

T = TypeVar("T")
FindHost: TypeAlias = Callable[[Processes], ProcessHost[P, I]]


class LogInterface(Generic[P, I]):
    """The endpoints of the logs of a language that keeps them; ``render`` makes the record of an event of an instance,
    from what is stored, its number and its instant.
    """

    def __init__(self, host: FindHost[P, I], render: RenderEvent) -> None:
        self._find_host = host
        self._render = render

    async def list_events(self, request: Request) -> Response:
        """Events behind a number: a page, or a stream of those that come, by ``Accept: text/event-stream``."""
        host, id_, after = self._find_host(request.runtime.processes), request.path_params["id"], _read_after(request)
        if EVENT_STREAM in (request.header(b"accept") or ""):
            pages = event_log.follow_events(host, request.caller, id_, after=read_last_event_id(request, after))
            parts = await prime_stream(stream_events(pages, lambda events: self._render_events(id_, events)))
            return Response(parts, media_type=EVENT_STREAM, headers=STREAM_HEADERS)
        limit = request.query_int32("limit", DEFAULT_PAGE)
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidParameter("limit")
        found = await event_log.list_events(host, request.caller, id_, after=after, limit=limit)
        items: list[JsonValue] = [*self._render_events(id_, found.events)]
        onward = found.events[-1].number if found.events else after
        return await reply_by_size({"items": items, "next": onward, "ended": found.has_ended})

    async def read_value(self, request: Request) -> Response:
        """A value that events name rather than have."""
        host, params = self._find_host(request.runtime.processes), request.path_params
        return await reply_by_size(
            {"value": await event_log.read_value(host, request.caller, params["id"], params["value"])}
        )

    def _render_events(self, instance_id: str, events: Sequence[LoggedEvent]) -> list[JsonObject]:
        return [self._render(one.event, instance_id, one.number, one.at) for one in events]


def _read_after(request: Request) -> int:
    after = request.query_int64("after") or 0
    if after < 0:
        raise InvalidParameter("after")
    return after


def read_last_event_id(request: Request, otherwise: int) -> int:
    """The number of the last event that a client has seen, which it sends when it connects again. Raises
    ``InvalidParameter``.
    """
    given = request.header(b"last-event-id")
    if given is None:
        return otherwise
    if not given.isascii() or not given.isdecimal() or len(given) > _MAX_DIGITS:
        raise InvalidParameter("Last-Event-ID")
    return int(given)


async def stream_events(
    pages: AsyncGenerator[Sequence[T]], render: Callable[[Sequence[T]], list[JsonObject]]
) -> AsyncGenerator[bytes]:
    """The events of all pages; a comment for an empty one, so that what stands between sees life."""
    async with aclosing(pages):
        async for page in pages:
            if not page:
                yield b": nothing new\n\n"
                continue
            yield b"".join(map(_encode_event, render(page)))
    yield b"event: end\ndata: {}\n\n"


def _encode_event(event: JsonObject) -> bytes:
    return f"id: {event['seq']}\nevent: {event['event_type']}\ndata: ".encode() + encode(event) + b"\n\n"
