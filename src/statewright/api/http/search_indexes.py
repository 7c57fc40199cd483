"""Declared indexes over REST: an extension of ours."""

from typing import Final

import msgspec
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import BadRequest, Forbidden
from statewright.operations.listings import DeclaredIndex
from statewright.services import search

ADMIN: Final = "ROLE_ADMIN"


class _IndexRequest(Struct, forbid_unknown_fields=True):
    path: str
    type: str | None = None
    state: str | None = None


_decode_request = msgspec.json.Decoder(_IndexRequest).decode


async def declare_index(request: Request) -> Response:
    """Have an index built."""
    _require_admin(request)
    key = request.model_key()
    try:
        wanted = _decode_request(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        raise BadRequest(f"invalid index: {malformed}") from malformed
    index = await search.declare(
        request.runtime.core, request.caller, key, path=wanted.path, kind=wanted.type, state=wanted.state
    )
    return Response(encode_json(_describe_index(index)))


async def list_indexes(request: Request) -> Response:
    """The indexes of a model."""
    found = await search.list_indexes(request.runtime.core, request.caller, request.model_key())
    return Response(encode_json([_describe_index(index) for index in found]))


async def drop_index(request: Request) -> Response:
    """Have an index dropped."""
    _require_admin(request)
    key = request.model_key()
    await search.withdraw(request.runtime.core, request.caller, key, request.path_params["indexId"])
    return Response(encode_json({"success": True}))


def _describe_index(index: DeclaredIndex) -> dict[str, object]:
    shown: dict[str, object] = {"id": index.id, "path": index.path, "type": index.kind, "status": index.status}
    if index.state is not None:
        shown["state"] = index.state
    if index.failure is not None:
        shown["failure"] = index.failure
    if index.progress is not None:
        shown["progress"] = {"phase": index.progress.phase, "percent": index.progress.percent}
    return shown


def _require_admin(request: Request) -> None:
    """An index slows the writes of all tenants down."""
    if ADMIN not in request.principal.roles:
        raise Forbidden("admin role required")
