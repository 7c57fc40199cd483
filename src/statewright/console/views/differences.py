"""What differs between two documents, member by member, for people."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonValue

MAX_ROWS: Final = 500
MAX_VALUE_CHARS: Final = 2_000


class Difference(Struct, frozen=True, kw_only=True):
    """A place that differs; ``old`` and ``new`` are JSON, empty where there is nothing."""

    path: str
    change: Literal["added", "removed", "changed"]
    old: str = ""
    new: str = ""


def list_differences(old: JsonValue, new: JsonValue) -> tuple[tuple[Difference, ...], bool]:
    """The differences by path, and whether there are more than are listed. Items of arrays are compared by position."""
    found = list(islice(_compare("$", old, new), MAX_ROWS + 1))
    return tuple(found[:MAX_ROWS]), len(found) > MAX_ROWS


def _compare(path: str, old: JsonValue, new: JsonValue) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            place = f"{path}.{name}"
            if name not in new:
                yield Difference(path=place, change="removed", old=_show(old[name]))
            elif name not in old:
                yield Difference(path=place, change="added", new=_show(new[name]))
            else:
                yield from _compare(place, old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            place = f"{path}[{index}]"
            if index >= len(new):
                yield Difference(path=place, change="removed", old=_show(old[index]))
            elif index >= len(old):
                yield Difference(path=place, change="added", new=_show(new[index]))
            else:
                yield from _compare(place, old[index], new[index])
    elif not is_json_equal(old, new):
        yield Difference(path=path, change="changed", old=_show(old), new=_show(new))


def _show(value: JsonValue) -> str:
    text = encode(value).decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"
