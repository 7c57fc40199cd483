"""The admin listener: ``/livez``, ``/readyz`` and ``/metrics`` (spec/auth-and-operations.md §20).

It is a raw ASGI application, because it must answer when nothing else does and say the same whatever the main API uses.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from msgspec import Struct

from statewright import logs
from statewright.settings import Secret

Scope = MutableMapping[str, Any]  # Any: what an ASGI scope or message holds is the server's business
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATIENCE = 1.5
"""Seconds for a readiness check: probes give up after 2 to 3 (§26, §29.2), and want an answer before."""

_TEXT = b"text/plain; charset=utf-8"
_EXPOSITION = b"text/plain; version=0.0.4; charset=utf-8"
_CHALLENGE = (b"www-authenticate", b'Bearer realm="cyoda metrics"')

LOG = logs.logger(__name__)


class _Page(Struct, frozen=True):
    status: int
    body: bytes
    content_type: bytes = _TEXT
    headers: tuple[tuple[bytes, bytes], ...] = ()


_LIVE = _Page(200, b"ok")
_READY = _Page(200, b"ready")
_NOT_READY = _Page(503, b"not ready\n")
_UNAUTHORIZED = _Page(401, b"unauthorized", headers=(_CHALLENGE,))
_NOT_FOUND = _Page(404, b"404 page not found\n")


def admin_app(
    *, ready: Callable[[], Awaitable[bool]], metrics: Callable[[], bytes | Awaitable[bytes]], bearer: Secret | None
) -> Application:
    """The ASGI application. ``metrics`` gives the Prometheus text, which may have to be collected first; ``bearer`` is
    what it takes to see it, if any.
    """
    expected = None if bearer is None else f"Bearer {bearer.reveal()}".encode()

    async def page(path: str, authorization: bytes) -> _Page:
        if path == "/livez":
            return _LIVE
        if path == "/readyz":
            return _READY if await _is_ready(ready) else _NOT_READY
        if path != "/metrics":
            return _NOT_FOUND
        if expected is not None and not hmac.compare_digest(authorization, expected):
            return _UNAUTHORIZED
        exposition = metrics()
        return _Page(200, exposition if isinstance(exposition, bytes) else await exposition, _EXPOSITION)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await _send(await page(scope["path"], _authorization(scope)), send)

    return application


async def _is_ready(ready: Callable[[], Awaitable[bool]]) -> bool:
    """The reason why not is logged and never told (§20)."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await ready()
    except Exception as failed:  # a door: whatever the check ran into, the service is not ready
        LOG.warning("readiness_check_failed", error=repr(failed))
        return False


def _authorization(scope: Scope) -> bytes:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for name, value in headers if name == b"authorization"), b"")


async def _send(page: _Page, send: Send) -> None:
    headers = [(b"content-type", page.content_type), (b"content-length", b"%d" % len(page.body)), *page.headers]
    await send({"type": "http.response.start", "status": page.status, "headers": headers})
    await send({"type": "http.response.body", "body": page.body})


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to start or to stop; a server that asks is told so."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
