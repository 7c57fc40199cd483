"""Changes to a part of a document: JSON Merge Patch (RFC 7396) and JSON Patch (RFC 6902).

Patches never change a value in place: parts that stay are shared between the old document and the new one.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import Struct, ValidationError, convert

from statewright.jsonval.codec import NESTING_LIMIT
from statewright.jsonval.values import JsonObject, JsonValue

Pointer: TypeAlias = tuple[str, ...]
"""The steps of a JSON Pointer (RFC 6901), none for the whole document."""

COPY_LIMIT: Final = 10 * 1024 * 1024
"""Characters that all ``copy`` operations of a patch may copy together; copying a copy doubles, and doubles again."""

MAX_STEPS: Final = NESTING_LIMIT
"""Of a pointer: no document is deeper."""


class PatchFailed(ValueError):
    """A JSON Patch that is malformed, or does not fit the document; the text names the operation."""


def merge_patched(document: JsonValue, patch: JsonValue) -> JsonValue:
    """The document after a merge patch: members are set, merged when both are objects, and removed by null."""
    if not isinstance(patch, dict):
        return patch
    merged: JsonObject = dict(document) if isinstance(document, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patched(merged.get(name), change)
    return merged


class _Wire(Struct):
    op: str
    path: str
    source: str | None = None


class _Operation(Struct, frozen=True, kw_only=True):
    op: str
    path: Pointer
    source: Pointer = ()
    value: JsonValue = None


class _Misfit(Exception):
    """An operation that the document has no place for."""


def json_patched(document: JsonValue, patch: JsonValue) -> JsonValue:
    """The document after all operations of a JSON Patch, or none. Raises :class:`PatchFailed`."""
    if not isinstance(patch, list):
        raise PatchFailed("a JSON Patch is an array of operations")
    copied = 0
    for number, raw in enumerate(patch):
        try:
            operation = _read(raw)
            if operation.op == "copy":
                copied += _size(_at(document, operation.source), COPY_LIMIT - copied)
            document = _OPERATIONS[operation.op](document, operation)
        except _Misfit as misfit:
            raise PatchFailed(f"operation {number}: {misfit}") from misfit
    return document


def same(a: JsonValue, b: JsonValue) -> bool:
    """Equality of JSON values: numbers by value, and never equal to booleans (RFC 6902 §4.6)."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(member, b[name]) for name, member in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return _is_number(a) == _is_number(b) and a == b


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _read(raw: JsonValue) -> _Operation:
    members = {"source" if name == "from" else name: value for name, value in _object(raw).items() if name != "source"}
    try:
        wire = convert(members, _Wire)
    except ValidationError as malformed:
        raise _Misfit(f"malformed: {malformed}") from malformed
    if wire.op not in _OPERATIONS:
        raise _Misfit(f'unknown op "{wire.op}"')
    if wire.op in _TAKES_VALUE and "value" not in members:
        raise _Misfit(f'"{wire.op}" needs a value')
    if wire.op in _TAKES_SOURCE and wire.source is None:
        raise _Misfit(f'"{wire.op}" needs a "from"')
    return _Operation(
        op=wire.op, path=_pointer(wire.path), source=_pointer(wire.source or ""), value=members.get("value")
    )


def _object(raw: JsonValue) -> JsonObject:
    if not isinstance(raw, dict):
        raise _Misfit("malformed: no object")
    return raw


def _pointer(text: str) -> Pointer:
    if not text:
        return ()
    if not text.startswith("/"):
        raise _Misfit(f'"{text}" is no JSON Pointer')
    steps = text[1:].split("/")
    if len(steps) > MAX_STEPS:
        raise _Misfit(f"the pointer has more than {MAX_STEPS} steps")
    if any(rest[:1] not in ("0", "1") for step in steps for rest in step.split("~")[1:]):
        raise _Misfit(f'"{text}" is no JSON Pointer')
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _add(document: JsonValue, operation: _Operation) -> JsonValue:
    return _inserted(document, operation.path, operation.value)


def _remove(document: JsonValue, operation: _Operation) -> JsonValue:
    return _removed(document, operation.path)


def _replace(document: JsonValue, operation: _Operation) -> JsonValue:
    _at(document, operation.path)
    return _changed(document, operation.path, lambda _: operation.value)


def _move(document: JsonValue, operation: _Operation) -> JsonValue:
    source, path = operation.source, operation.path
    if len(source) < len(path) and path[: len(source)] == source:
        raise _Misfit(f"{_shown(source)} cannot be moved into itself")
    return _inserted(_removed(document, source), path, _at(document, source))


def _copy(document: JsonValue, operation: _Operation) -> JsonValue:
    return _inserted(document, operation.path, _at(document, operation.source))


def _test(document: JsonValue, operation: _Operation) -> JsonValue:
    if not same(_at(document, operation.path), operation.value):
        raise _Misfit(f"the value at {_shown(operation.path)} is another")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[JsonValue, _Operation], JsonValue]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
_TAKES_VALUE: Final = frozenset(("add", "replace", "test"))
_TAKES_SOURCE: Final = frozenset(("move", "copy"))


def _at(document: JsonValue, path: Pointer) -> JsonValue:
    value = document
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value) - 1, path)]
        else:
            raise _Misfit(f"there is nothing at {_shown(path)}")
    return value


def _changed(document: JsonValue, path: Pointer, change: Callable[[JsonValue], JsonValue]) -> JsonValue:
    """The document with the existing value at ``path`` changed, and everything around it copied."""
    if not path:
        return change(document)
    step, inner = path[0], path[1:]
    if isinstance(document, dict) and step in document:
        return {**document, step: _changed(document[step], inner, change)}
    if isinstance(document, list):
        index = _index(step, len(document) - 1, path)
        return [*document[:index], _changed(document[index], inner, change), *document[index + 1 :]]
    raise _Misfit(f"there is nothing at {_shown(path)}")


def _inserted(document: JsonValue, path: Pointer, value: JsonValue) -> JsonValue:
    if not path:
        return value
    *parent, step = path

    def insert(container: JsonValue) -> JsonValue:
        if isinstance(container, dict):
            return {**container, step: value}
        if isinstance(container, list):
            index = len(container) if step == "-" else _index(step, len(container), path)
            return [*container[:index], value, *container[index:]]
        raise _Misfit(f"nothing can be added at {_shown(path)}")

    _at(document, tuple(parent))  # its failure names the whole path
    return _changed(document, tuple(parent), insert)


def _removed(document: JsonValue, path: Pointer) -> JsonValue:
    _at(document, path)
    if not path:
        return None
    *parent, step = path

    def remove(container: JsonValue) -> JsonValue:
        if isinstance(container, list):
            index = int(step)
            return [*container[:index], *container[index + 1 :]]
        members: JsonObject = container if isinstance(container, dict) else {}
        return {name: member for name, member in members.items() if name != step}

    return _changed(document, tuple(parent), remove)


def _index(step: str, last: int, path: Pointer) -> int:
    if not (step.isascii() and step.isdecimal()) or (step.startswith("0") and step != "0") or len(step) > 9:
        raise _Misfit(f'"{step}" in {_shown(path)} is no index')
    index = int(step)
    if index > last:
        raise _Misfit(f"there is nothing at {_shown(path)}")
    return index


def _shown(path: Pointer) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path) or "the whole document"


def _size(value: JsonValue, budget: int) -> int:
    """About how many characters the value has. Raises when they are more than ``budget``."""
    size, waiting = 0, [value]
    while waiting:
        current = waiting.pop()
        size += len(current) + 1 if isinstance(current, str) else 1
        if isinstance(current, dict):
            size += sum(map(len, current))
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
        if size > budget:
            raise _Misfit("too much is copied")
    return size
