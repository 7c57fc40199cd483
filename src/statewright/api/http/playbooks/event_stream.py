"""Events as a stream of server-sent events, the format of browsers' ``EventSource``
(docs/reference/executions.md#event-log).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from statewright.api.http.request import Request
from statewright.failures import InvalidParameter
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject

EVENT_STREAM: Final = "text/event-stream"
_MAX_DIGITS: Final = 18

T = TypeVar("T")


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
