"""What requests to the operations API have in common: where they go, and how answers and lists are read."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import MAX_PAGE_SIZE, Call, Operation, Page, Query, Script, ask
from statewright.sdk.outcomes import encode_json

ResultT = TypeVar("ResultT")

ROOT: Final = "/ops/v1"

if TYPE_CHECKING:
    Value: TypeAlias = JsonValue
    Members: TypeAlias = JsonObject
else:  # read before, with exact numbers: msgspec, which knows no recursive types, looks no further
    Value = Any
    Members = dict


class ModelRef(Struct, frozen=True):
    """A model by name and version."""

    name: str
    version: int


class Actor(Struct, frozen=True):
    """Who did something; ``kind`` is ``user``, ``service`` or ``system``."""

    id: str
    kind: str


def build_call(
    name: str,
    method: str,
    path: str,
    *,
    target: tuple[str, ...] = (),
    query: Query = (),
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
    only_asks: bool = False,
) -> Call:
    """A request; ``path`` begins below the root of the operations API."""
    return Call(
        name=name,
        target=target,
        method=method,
        path=f"{ROOT}{path}",
        query=query,
        headers=headers or {},
        body=None if body is None else encode_json(body),
        at_root=True,
        only_asks=only_asks,
    )


def build_reader(as_type: type[ResultT]) -> Callable[[bytes], ResultT]:
    """Reads an answer with exact numbers."""
    return lambda body: msgspec.convert(decode(body), as_type)


def read_list(
    name: str,
    path: str,
    item: type[ResultT],
    query: Query,
    *,
    target: tuple[str, ...] = (),
    size: int = MAX_PAGE_SIZE,
    cursor: str | None = None,
) -> Script[Page[ResultT]]:
    """A list, page by page (docs/reference/operations.md#lists)."""
    asked = (*query, ("limit", str(size)), *((("cursor", cursor),) if cursor is not None else ()))
    found = yield from ask(Operation(build_call(name, "GET", path, target=target, query=asked), _read_page))
    items = msgspec.convert(found.items, list[item])  # type: ignore[valid-type] # the type is a value here
    if found.next_cursor is None:
        return Page(items)
    return Page(items, partial(read_list, name, path, item, query, target=target, size=size, cursor=found.next_cursor))


def repeat_parameter(name: str, values: Sequence[str] | str) -> Query:
    """A parameter for each value; one may be given as a mere text."""
    return tuple((name, value) for value in ([values] if isinstance(values, str) else values))


def write_duration(seconds: float) -> str:
    """Seconds in ISO 8601."""
    return f"PT{seconds:.3f}S"


class _ListPage(Struct, frozen=True, rename="camel"):
    items: list[Any]  # converted when the type of the items is known
    next_cursor: str | None = None


_read_page = build_reader(_ListPage)
