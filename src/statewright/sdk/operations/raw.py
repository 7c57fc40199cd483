"""Any request, for what has no operation of its own."""

from collections.abc import Mapping

from statewright.jsonval.values import JsonValue
from statewright.sdk.operations.calls import Call, Operation, read_value
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
    call = Call(
        name="request",
        target=(method, path),
        method=method,
        path=path,
        query=tuple((query or {}).items()),
        headers=headers or {},
        body=None if body is None else encode_json(body),
        at_root=at_root,
        only_asks=only_asks,
    )
    return Operation(call, read_value)
