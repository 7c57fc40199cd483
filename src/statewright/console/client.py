"""The API inside the process: a call goes through the same application as a request from outside, so that it is
authenticated, limited, recorded and measured in the same way (docs/console.md#what-it-is).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from statewright.console.calls import ApiCall, Reply, build_problem_reply
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.scanning import MalformedJson
from statewright.jsonval.values import JsonValue

MAX_REPLY_BYTES: Final = 32 * 1024 * 1024
MAX_INLINE_BYTES: Final = 64 * 1024
"""JSON up to this size is decoded at once, longer text in a thread."""
USER_AGENT: Final = b"statewright-console"

GATEWAY_TIMEOUT: Final = 504


class Api(Protocol):
    """Whatever answers calls: the application of this process, or the answers of a test."""

    async def call(self, call: ApiCall, headers: Sequence[tuple[bytes, bytes]]) -> Reply: ...


Asgi = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
"""An ASGI application: its protocol is made of dictionaries."""


class AsgiApi:
    """Calls an ASGI application without a socket."""

    def __init__(self, application: Asgi, context_path: str) -> None:
        self._application = application
        self._context_path = context_path

    async def call(self, call: ApiCall, headers: Sequence[tuple[bytes, bytes]]) -> Reply:
        """The reply; one with the status 504 when it took too long."""
        begun = perf_counter()
        exchange = _Exchange(call.body)
        limit = asyncio.timeout(call.timeout_s)
        try:
            async with limit:
                await self._application(self._build_scope(call, headers), exchange.receive, exchange.send)
        except TimeoutError:
            if not limit.expired():
                raise
        if limit.expired():  # the application makes an answer of its own when it is cancelled
            return build_problem_reply(
                call, GATEWAY_TIMEOUT, "CALL_TIMEOUT", f"no answer within {call.timeout_s:g} s", perf_counter() - begun
            )
        return Reply(
            call=call,
            status=exchange.status,
            headers=exchange.headers,
            value=await _decode(exchange.headers.get("content-type", ""), exchange.body),
            body=exchange.body,
            seconds=perf_counter() - begun,
        )

    def _build_scope(self, call: ApiCall, headers: Sequence[tuple[bytes, bytes]]) -> dict[str, Any]:
        target = call.get_target(self._context_path).encode("ascii")
        path, _, query = target.partition(b"?")
        sent = [
            (b"host", b"localhost"),
            (b"user-agent", USER_AGENT),
            *headers,
            *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in call.headers),
        ]
        if call.body is not None:
            sent += [(b"content-type", call.media_type.encode()), (b"content-length", b"%d" % len(call.body))]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "http",
            "path": path.decode(),
            "raw_path": path,
            "query_string": query,
            "headers": sent,
            "client": None,
            "server": None,
        }


class _Exchange:
    """Both directions of one call."""

    def __init__(self, body: bytes | None) -> None:
        self._body: bytes | None = body or b""
        self._parts: list[bytes] = []
        self._size = 0
        self.status = 500
        self.headers: dict[str, str] = {}

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.get_running_loop().create_future()  # the client stays; the call ends by its deadline
        raise AssertionError

    async def send(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "http.response.start", "status": status, "headers": headers}:
                self.status = status
                self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
            case {"body": part}:
                self._size += len(part)
                if self._size > MAX_REPLY_BYTES:
                    raise ReplyTooLong
                self._parts.append(part)


class ReplyTooLong(Exception):
    """An answer is longer than the console reads."""


async def _decode(media_type: str, body: bytes) -> JsonValue:
    if "json" not in media_type or not body:
        return None
    decode = _decode_lines if "ndjson" in media_type else _decode_document
    try:
        return decode(body) if len(body) <= MAX_INLINE_BYTES else await asyncio.to_thread(decode, body)
    except (MalformedJson, ValueError):
        return None


def _decode_document(body: bytes) -> JsonValue:
    return decode_stored(body)


def _decode_lines(body: bytes) -> JsonValue:
    return [decode_stored(line) for line in body.splitlines() if line]


class ApiClient:
    """The API as one visitor of the console sees it. ``made`` are the calls so far, with their replies."""

    def __init__(self, api: Api, token: str | None, trace: str | None = None) -> None:
        self._api = api
        self._headers = [(b"authorization", f"Bearer {token}".encode("latin-1"))] if token else []
        if trace:
            self._headers.append((b"traceparent", trace.encode("latin-1")))
        self.made: list[Reply] = []

    async def call(self, call: ApiCall) -> Reply:
        """The reply to a call; a call that fails has one, too."""
        try:
            reply = await self._api.call(call, self._headers)
        except ReplyTooLong:
            reply = build_problem_reply(call, 502, "REPLY_TOO_LONG", f"the answer is over {MAX_REPLY_BYTES} bytes long")
        self.made.append(reply)
        return reply

    async def call_all(self, calls: Sequence[ApiCall]) -> tuple[Reply, ...]:
        """The replies to calls that are made at the same time, in the order of the calls."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.call(call)) for call in calls]
        return tuple(task.result() for task in tasks)
