"""Changing a running process (spec/auth-and-operations.md §21). Nothing here outlives it, or reaches another one."""

import msgspec
from msgspec import Struct

from statewright import logs
from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BadRequest, Forbidden

ADMIN = "ROLE_ADMIN"
MAX_BYTES = 1024 * 1024

log = logs.logger("admin")


class _Wanted(Struct):
    level: str | None = None


_wanted = msgspec.json.Decoder(_Wanted).decode


async def log_level(exchange: Exchange) -> Answer:
    """The level in force."""
    _require_admin(exchange)
    return Answer(json_body({"level": logs.level()}))


async def set_log_level(exchange: Exchange) -> Answer:
    """Put a level in force; an unknown word means ``info``."""
    _require_admin(exchange)
    try:
        word = _wanted(await exchange.body(MAX_BYTES)).level
    except ValueError as malformed:  # what msgspec raises
        raise BadRequest("invalid request body") from malformed
    if not word:
        raise BadRequest("level is required")
    previous = logs.set_level(word)
    log.warn("log_level_changed", level=logs.level(), previous=previous, by=exchange.principal.id)
    return Answer(json_body({"level": logs.level(), "previous": previous}))


def _require_admin(exchange: Exchange) -> None:
    if ADMIN not in exchange.principal.roles:
        raise Forbidden("admin role required")
