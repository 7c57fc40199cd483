"""Declared indexes over REST: an extension of ours."""

import msgspec
from msgspec import Struct

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BadRequest, Forbidden
from statewright.services import search_indexes
from statewright.storage.search_indexes import DeclaredIndex

ADMIN = "ROLE_ADMIN"


class _Wanted(Struct, forbid_unknown_fields=True):
    path: str
    type: str | None = None
    state: str | None = None


_wanted = msgspec.json.Decoder(_Wanted).decode


async def declare(exchange: Exchange) -> Answer:
    """Have an index built."""
    _require_admin(exchange)
    key = exchange.model_key()
    try:
        wanted = _wanted(await exchange.body())
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        raise BadRequest(f"invalid index: {malformed}") from malformed
    index = await search_indexes.declare(
        exchange.runtime, exchange.caller, key, path=wanted.path, kind=wanted.type, state=wanted.state
    )
    return Answer(json_body(_shown(index)))


async def listing(exchange: Exchange) -> Answer:
    """The indexes of a model."""
    found = await search_indexes.listing(exchange.runtime, exchange.caller, exchange.model_key())
    return Answer(json_body([_shown(index) for index in found]))


async def withdraw(exchange: Exchange) -> Answer:
    """Have an index dropped."""
    _require_admin(exchange)
    key = exchange.model_key()
    await search_indexes.withdraw(exchange.runtime, exchange.caller, key, exchange.segments["indexId"])
    return Answer(json_body({"success": True}))


def _shown(index: DeclaredIndex) -> dict[str, object]:
    shown: dict[str, object] = {"id": index.id, "path": index.path, "type": index.kind, "status": index.status}
    if index.state is not None:
        shown["state"] = index.state
    if index.failure is not None:
        shown["failure"] = index.failure
    if index.progress is not None:
        shown["progress"] = {"phase": index.progress.phase, "percent": index.progress.percent}
    return shown


def _require_admin(exchange: Exchange) -> None:
    """An index slows the writes of all tenants down."""
    if ADMIN not in exchange.principal.roles:
        raise Forbidden("admin role required")
