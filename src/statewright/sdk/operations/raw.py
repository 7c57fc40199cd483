"""Any request, for what has no operation of its own."""

from collections.abc import Mapping
from http import HTTPStatus

from statewright.jsonval.values import JsonValue
from statewright.sdk.operations.calls import Call, HttpResponse, Operation, read_value
from statewright.sdk.outcomes import encode_json


def request(
    method: str,
    path: str,
    body: object = None,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    at_root: bool = False,
    only_asks: bool = False,
) -> Operation[JsonValue]:
    """Send any request, and read its answer as JSON. ``path`` begins below the context path, or below the host when
    ``at_root``; ``only_asks`` says that it changes nothing, so that it may be repeated.
    """
    content = None if body is None else encode_json(body)
    call = _build_call(method, path, content, query=query, headers=headers, at_root=at_root, only_asks=only_asks)
    return Operation(call, read_value)


def fetch(
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    at_root: bool = False,
    only_asks: bool = False,
) -> Operation[HttpResponse]:
    """The same with bytes: the body is sent as it is, and the answer comes back with its headers."""
    call = _build_call(method, path, body, query=query, headers=headers, at_root=at_root, only_asks=only_asks)
    return _Fetch(call, lambda content: HttpResponse(HTTPStatus.OK, content))


class _Fetch(Operation[HttpResponse], frozen=True):
    """An operation whose result is the whole answer."""

    def interpret(self, response: HttpResponse) -> HttpResponse:
        return response


def _build_call(
    method: str,
    path: str,
    body: bytes | None,
    *,
    query: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    at_root: bool,
    only_asks: bool,
) -> Call:
    return Call(
        name="request",
        target=(method, path),
        method=method,
        path=path,
        query=tuple((query or {}).items()),
        headers=headers or {},
        body=body,
        at_root=at_root,
        only_asks=only_asks,
    )
