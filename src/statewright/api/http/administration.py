"""Changing a running process (docs/reference/service.md#log-level). Nothing here outlives it, or reaches another
one.

The admin listener: ``/livez``, ``/readyz`` and ``/metrics`` (docs/reference/service.md#health).

It must answer when nothing else does, and say the same whatever the main API uses: its routes need neither the runtime
nor the database, and no bearer token of the main API.

The trace sampler of a process (docs/reference/service.md#trace-sampler).

Spans are sampled by what is set here from the moment it is set; where traces are switched off, it is kept and told all
the same.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from statewright.api.http.application import Dialect, HttpApplication
from statewright.api.http.declaration import Subject
from statewright.api.http.errors import build_error_format
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response, encode_json
from statewright.api.http.router import MODEL, PublicRoute
from statewright.api.http.security import PageGuard
from statewright.failures import BadRequest, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.operations.entity_answers import LogLevel, LogLevelChange, Pruning
from statewright.operations.records import QueryParameter
from statewright.services import deletions
from statewright.services.auth.clients import require_admin
from statewright.settings import Secret, read_period
from statewright.telemetry import logs
from statewright.telemetry.tracing import Sampling, get_sampling, set_sampling

MAX_BYTES: Final = 1024 * 1024

log = logs.logger(__name__)

_ADMINISTRATION: Final = Subject(tag="Administration", recording="nothing", problems=("FORBIDDEN",))


class _LevelRequest(Struct):
    level: str | None = None


_decode_level = msgspec.json.Decoder(_LevelRequest).decode


@_ADMINISTRATION.declare("GET /admin/log-level", "getLogLevel", reply="LogLevel")
async def get_log_level(request: Request) -> Response:
    """The least severe events that this process logs."""
    require_admin(request.principal)
    return Response(encode_json(LogLevel(level=logs.get_level())))


@_ADMINISTRATION.declare(
    "POST /admin/log-level", "setLogLevel", body="LogLevel", reply="LogLevelChange", problems=("BAD_REQUEST",)
)
async def set_log_level(request: Request) -> Response:
    """Change the level of this process until it ends."""
    request.runtime.identity.require_platform_admin(request.principal)
    try:
        word = _decode_level(await request.body(MAX_BYTES)).level
    except (ValueError, RecursionError) as malformed:  # ValueError: what msgspec raises
        raise BadRequest("invalid request body") from malformed
    if not word:
        raise BadRequest("level is required")
    previous = logs.set_level(word)
    log.warning("log_level_changed", level=logs.get_level(), previous=previous, by=request.principal.id)
    return Response(encode_json(LogLevelChange(level=logs.get_level(), previous=previous)))


# Removing superseded versions by request: an extension of ours.


@_ADMINISTRATION.declare(
    f"POST {MODEL}/history/prune",
    "pruneHistory",
    recording="transaction",
    is_ours=True,
    query=(QueryParameter("olderThan", "string", "they were superseded so long ago: `90d`, `12h`"),),
    reply="Pruning",
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
)
async def prune_history(request: Request) -> Response:
    """Remove superseded versions of a model's entities, for a few seconds; again until complete."""
    require_admin(request.principal)
    key = request.model_key()
    try:
        period = read_period(request.query("olderThan") or "")
    except (ValueError, OverflowError) as malformed:
        raise InvalidParameter("olderThan") from malformed
    pruning = await deletions.prune(request.runtime.core, request.caller, key, period=period)
    kept_from = to_rfc3339(pruning.kept_from)
    return Response(encode_json(Pruning(removed=pruning.removed, kept_from=kept_from, complete=pruning.is_complete)))


Ready = Callable[[], Awaitable[bool]]
RenderMetrics = Callable[[], bytes | Awaitable[bytes]]

READINESS_TIMEOUT_S: Final = 1.5
"""For a readiness check: probes give up after 2 to 3 s (docs/reference/cli.md,
docs/reference/service.md#what-stops-the-start), and want an answer before.
"""

_EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
_CHALLENGE: Final = ((b"www-authenticate", b'Bearer realm="cyoda metrics"'),)


def build_admin_application(
    *, ready: Ready, metrics: RenderMetrics, bearer: Secret | None, guard: PageGuard | None = None
) -> HttpApplication:
    """``metrics`` gives the Prometheus text, which may have to be collected first; ``bearer`` is what it takes to see
    it, if any; ``guard`` is that of the mock mode.
    """
    expected = None if bearer is None else f"Bearer {bearer.reveal()}".encode()

    async def check_life(_request: Request) -> Response:
        return Response(b"ok", 200, TEXT)

    async def check_readiness(_request: Request) -> Response:
        return Response(b"ready", 200, TEXT) if await _is_ready(ready) else Response(b"not ready\n", 503, TEXT)

    async def render_metrics(request: Request) -> Response:
        authorization = request.headers.get(b"authorization", b"")
        if expected is not None and not hmac.compare_digest(authorization, expected):
            return Response(b"unauthorized", 401, TEXT, _CHALLENGE)
        exposition = metrics()
        return Response(exposition if isinstance(exposition, bytes) else await exposition, 200, _EXPOSITION)

    endpoints = {"/livez": check_life, "/readyz": check_readiness, "/metrics": render_metrics}
    routes = [
        PublicRoute(method="ANY", path=path, endpoint=endpoint, is_probe=True) for path, endpoint in endpoints.items()
    ]
    dialect = Dialect(base="", errors=build_error_format(""), public=routes, guard=guard)
    return HttpApplication([dialect])


async def _is_ready(ready: Ready) -> bool:
    """The reason why not is logged and never told (docs/reference/service.md#health)."""
    try:
        async with asyncio.timeout(READINESS_TIMEOUT_S):
            return await ready()
    except Exception as failed:  # whatever the check ran into, the service is not ready
        log.warning("readiness_check_failed", error=repr(failed))
        return False


class _Wanted(Struct):
    sampler: str = ""
    ratio: float | None = None
    parent_based: bool | None = None


_decode = msgspec.json.Decoder(_Wanted).decode


@_ADMINISTRATION.declare("GET /admin/trace-sampler", "getTraceSampler", reply="TraceSampler")
async def get_sampler(request: Request) -> Response:
    """The trace sampler of the process that answers."""
    require_admin(request.principal)
    return Response(encode_json(get_sampling()))


@_ADMINISTRATION.declare(
    "POST /admin/trace-sampler",
    "setTraceSampler",
    body="TraceSamplerChange",
    reply="TraceSampler",
    problems=("BAD_REQUEST",),
)
async def set_sampler(request: Request) -> Response:
    """Put another trace sampler in force until the process ends."""
    request.runtime.identity.require_platform_admin(request.principal)
    try:
        wanted = _decode(await request.body(MAX_BYTES))
    except (ValueError, RecursionError) as malformed:  # ValueError: what msgspec raises
        raise BadRequest("invalid request body") from malformed
    sampling = _read_sampling(wanted)
    previous = set_sampling(sampling)
    log.info("trace_sampler_changed", sampler=sampling.sampler, previous=previous.sampler, by=request.principal.id)
    return Response(encode_json(sampling))


def _read_sampling(wanted: _Wanted) -> Sampling:
    parent_based = wanted.parent_based is not False
    match wanted.sampler:
        case "always" | "never":
            if wanted.ratio:
                raise BadRequest(f"ratio has no meaning for the sampler {wanted.sampler}")
            return Sampling(wanted.sampler, parent_based=parent_based)
        case "ratio":
            if wanted.ratio is None or not 0 < wanted.ratio <= 1:
                raise BadRequest("ratio must be above 0 and at most 1; the sampler never keeps none")
            return Sampling("ratio", wanted.ratio, parent_based)
        case _:
            raise BadRequest("sampler must be always, never or ratio")
