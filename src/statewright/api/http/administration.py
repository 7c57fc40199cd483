"""Changing a running process (docs/reference/service.md#log-level). Nothing here outlives it, or reaches another
one.
"""

from typing import Final

import msgspec
from msgspec import Struct

from statewright import logs
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import MODEL, Query, Route
from statewright.failures import BadRequest, Forbidden, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.services import retention
from statewright.services.auth.identity import Administration
from statewright.settings import read_period

ADMIN: Final = "ROLE_ADMIN"
MAX_BYTES: Final = 1024 * 1024

log = logs.logger(__name__)


class _LevelRequest(Struct):
    level: str | None = None


_decode_level = msgspec.json.Decoder(_LevelRequest).decode


async def get_log_level(request: Request) -> Response:
    """The level in force."""
    require_admin(request)
    return Response(encode_json({"level": logs.get_level()}))


async def set_log_level(request: Request) -> Response:
    """Put a level in force; an unknown word means ``info``."""
    require_platform_admin(request)
    try:
        word = _decode_level(await request.body(MAX_BYTES)).level
    except ValueError as malformed:  # what msgspec raises
        raise BadRequest("invalid request body") from malformed
    if not word:
        raise BadRequest("level is required")
    previous = logs.set_level(word)
    log.warning("log_level_changed", level=logs.get_level(), previous=previous, by=request.principal.id)
    return Response(encode_json({"level": logs.get_level(), "previous": previous}))


def require_admin(request: Request) -> None:
    """Raises ``Forbidden`` for who is no administrator."""
    if ADMIN not in request.principal.roles:
        raise Forbidden("admin role required")


def require_platform_admin(request: Request) -> None:
    """Raises ``Forbidden`` for who may not change what all tenants have in common."""
    administration = request.runtime.extensions.get(Administration)
    administration.require_platform_admin(request.principal, "admin role required")


# Removing superseded versions by request: an extension of ours.

PRUNE_ROLE: Final = "ROLE_ADMIN"


async def prune_history(request: Request) -> Response:
    """Remove versions of a model that were superseded long ago, for a few seconds; whether that was all."""
    if PRUNE_ROLE not in request.principal.roles:
        raise Forbidden("admin role required")
    key = request.model_key()
    try:
        period = read_period(request.query("olderThan") or "")
    except (ValueError, OverflowError) as malformed:
        raise InvalidParameter("olderThan") from malformed
    pruning = await retention.prune(request.runtime, request.caller, key, period=period)
    answer = {
        "removed": pruning.removed,
        "keptFrom": to_rfc3339(pruning.kept_from),
        "complete": pruning.is_complete,
    }
    return Response(encode_json(answer))


# Routes for administrators.

ADMINISTRATION: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/admin/log-level",
        endpoint=get_log_level,
        id="getLogLevel",
        tag="Administration",
        summary="The least severe events that this process logs",
        reply="LogLevel",
        problems=("FORBIDDEN",),
    ),
    Route(
        method="POST",
        path="/admin/log-level",
        endpoint=set_log_level,
        recording="nothing",
        id="setLogLevel",
        tag="Administration",
        summary="Change the level of this process until it ends",
        body="LogLevel",
        reply="LogLevelChange",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
    Route(
        method="POST",
        path=f"{MODEL}/history/prune",
        endpoint=prune_history,
        recording="transaction",
        id="pruneHistory",
        is_ours=True,
        tag="Administration",
        summary="Remove superseded versions of a model's entities, for a few seconds; again until complete",
        query=(Query("olderThan", "string", "they were superseded so long ago: `90d`, `12h`"),),
        reply="Pruning",
        problems=("BAD_REQUEST", "FORBIDDEN", "MODEL_NOT_FOUND"),
    ),
)
