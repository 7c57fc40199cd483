"""What has changed between two documents, as a JSON Patch (RFC 6902) of ``add``, ``remove`` and ``replace``.

``jsonval.patches`` applies it. Of arrays the common head and tail are cut, and the rest is compared by position: that
is no shortest patch, but a readable one, found in one walk.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from statewright.jsonval.patches import MAX_OPERATIONS, is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue

ROOT: Final = ""


def build_json_patch(old: JsonValue, new: JsonValue) -> list[JsonObject]:
    """The operations that make ``new`` of ``old``, in order of their pointers; numbers are compared by value.

    With more than ``MAX_OPERATIONS`` one operation replaces the whole.
    """
    operations = list(islice(_compare(ROOT, old, new), MAX_OPERATIONS + 1))
    if len(operations) > MAX_OPERATIONS:
        return [{"op": "replace", "path": ROOT, "value": new}]
    return operations


def _compare(path: str, old: JsonValue, new: JsonValue) -> Iterator[JsonObject]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_objects(path, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_arrays(path, old, new)
    elif not is_json_equal(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _compare_objects(path: str, old: JsonObject, new: JsonObject) -> Iterator[JsonObject]:
    for name in sorted({*old, *new}):
        place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            yield {"op": "remove", "path": place}
        elif name not in old:
            yield {"op": "add", "path": place, "value": new[name]}
        else:
            yield from _compare(place, old[name], new[name])


def _compare_arrays(path: str, old: Sequence[JsonValue], new: Sequence[JsonValue]) -> Iterator[JsonObject]:
    head = _count_equal(zip(old, new, strict=False))
    tail = _count_equal(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    for index, (before, after) in enumerate(zip(left, right, strict=False), start=head):
        yield from _compare(f"{path}/{index}", before, after)
    shared = head + min(len(left), len(right))
    for _ in range(len(left) - len(right)):
        yield {"op": "remove", "path": f"{path}/{shared}"}
    for index in range(shared, head + len(right)):
        yield {"op": "add", "path": f"{path}/{index}", "value": new[index]}


def _count_equal(pairs: Iterator[tuple[JsonValue, JsonValue]]) -> int:
    count = 0
    for before, after in pairs:
        if not is_json_equal(before, after):
            break
        count += 1
    return count
