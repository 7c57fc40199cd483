"""The admin listener: ``/livez``, ``/readyz`` and ``/metrics`` (docs/reference/service.md#health).

It must answer when nothing else does, and say the same whatever the main API uses: its routes need neither the runtime
nor the database, and no bearer token of the main API.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from statewright import logs
from statewright.api.http.application import Dialect, HttpApplication
from statewright.api.http.errors import build_error_format
from statewright.api.http.response import TEXT, Response
from statewright.api.http.router import PublicRequest, PublicRoute
from statewright.api.http.security import PageGuard
from statewright.settings import Secret

Ready = Callable[[], Awaitable[bool]]
RenderMetrics = Callable[[], bytes | Awaitable[bytes]]

READINESS_TIMEOUT_S: Final = 1.5
"""For a readiness check: probes give up after 2 to 3 s (docs/reference/cli.md,
docs/reference/service.md#what-stops-the-start), and want an answer before.
"""

_EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
_CHALLENGE: Final = ((b"www-authenticate", b'Bearer realm="cyoda metrics"'),)

log = logs.logger(__name__)


def build_admin_application(
    *, ready: Ready, metrics: RenderMetrics, bearer: Secret | None, guard: PageGuard | None = None
) -> HttpApplication:
    """``metrics`` gives the Prometheus text, which may have to be collected first; ``bearer`` is what it takes to see
    it, if any; ``guard`` is that of the mock mode.
    """
    expected = None if bearer is None else f"Bearer {bearer.reveal()}".encode()

    async def check_life(_request: PublicRequest) -> Response:
        return Response(b"ok", 200, TEXT)

    async def check_readiness(_request: PublicRequest) -> Response:
        return Response(b"ready", 200, TEXT) if await _is_ready(ready) else Response(b"not ready\n", 503, TEXT)

    async def render_metrics(request: PublicRequest) -> Response:
        authorization = next((value for name, value in request.scope["headers"] if name == b"authorization"), b"")
        if expected is not None and not hmac.compare_digest(authorization, expected):
            return Response(b"unauthorized", 401, TEXT, _CHALLENGE)
        exposition = metrics()
        return Response(exposition if isinstance(exposition, bytes) else await exposition, 200, _EXPOSITION)

    endpoints = {"/livez": check_life, "/readyz": check_readiness, "/metrics": render_metrics}
    routes = [PublicRoute(method="ANY", path=path, endpoint=endpoint) for path, endpoint in endpoints.items()]
    dialect = Dialect(base="", errors=build_error_format(""), observe=_observe_nothing, public=routes, guard=guard)
    return HttpApplication([dialect])


async def _is_ready(ready: Ready) -> bool:
    """The reason why not is logged and never told (docs/reference/service.md#health)."""
    try:
        async with asyncio.timeout(READINESS_TIMEOUT_S):
            return await ready()
    except Exception as failed:  # whatever the check ran into, the service is not ready
        log.warning("readiness_check_failed", error=repr(failed))
        return False


def _observe_nothing(_method: str, _path: str, _status: int, _seconds: float) -> None:
    """Probes are not counted."""
