"""Changes to a part of a document: JSON Merge Patch (RFC 7396) and JSON Patch (RFC 6902).

Patches never change a value in place: parts that stay are shared between the old document and the new one.

What has changed between two documents, as a JSON Patch (RFC 6902) of ``add``, ``remove`` and ``replace``.

``jsonval.patches`` applies it. Of arrays the common head and tail are cut, and the rest is compared by position: that
is no shortest patch, but a readable one, found in one walk.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct, ValidationError, convert

from statewright.jsonval.codec import MAX_NESTING, is_nested_too_deep
from statewright.jsonval.values import JsonObject, JsonValue, is_number

Pointer: TypeAlias = tuple[str, ...]
"""The steps of a JSON Pointer (RFC 6901), none for the whole document."""

MAX_OPERATIONS: Final = 10_000
"""Operations of one JSON Patch."""

MAX_COPIED_CHARS: Final = 10 * 1024 * 1024
"""Characters that all ``copy`` operations of a patch may copy together; without a limit, copying a copy again and again
would double the document each time.
"""

MAX_COPIED_VALUES: Final = 200_000
"""Values that all ``copy`` operations of a patch may copy together, for the same reason: small ones cost their number,
not their length.
"""

MAX_WORK: Final = 20_000_000
"""What a JSON Patch may cost, in references copied: those of each container at its first change, and what making room
in arrays and walking to the places amounts to.
"""

_WORK_PER_MEMBER: Final = 4
_WORK_PER_STEP: Final = 50
_SHIFTED_PER_WORK: Final = 8
"""Items of an array that are shifted in the time in which one reference is copied."""

MAX_STEPS: Final = MAX_NESTING
"""Steps of a pointer: no document is nested deeper."""


class PatchFailed(ValueError):
    """A JSON Patch that is malformed, or does not fit the document; the text names the operation."""


def apply_merge_patch(document: JsonValue, patch: JsonValue) -> JsonValue:
    """The document after a merge patch: members are set, merged when both are objects, and removed by null."""
    if not isinstance(patch, dict):
        return patch
    merged: JsonObject = dict(document) if isinstance(document, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), change)
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


class _PatchMismatch(Exception):
    """An operation whose pointer leads nowhere in the document."""


def apply_json_patch(document: JsonValue, patch: JsonValue) -> JsonValue:
    """The document after all operations of a JSON Patch, or none. Raises :class:`PatchFailed`."""
    if not isinstance(patch, list):
        raise PatchFailed("a JSON Patch is an array of operations")
    if len(patch) > MAX_OPERATIONS:
        raise PatchFailed(f"operation {MAX_OPERATIONS}: a patch has at most {MAX_OPERATIONS} operations")
    draft = _Draft(document)
    for number, raw in enumerate(patch):
        try:
            operation = _read_operation(raw)
            _OPERATIONS[operation.op](draft, operation)
        except _PatchMismatch as misfit:
            raise PatchFailed(f"operation {number}: {misfit}") from misfit
    if draft.has_grown and is_nested_too_deep(draft.document):
        raise PatchFailed(f"the document would be nested more than {MAX_NESTING} levels deep")
    return draft.document


def count_copies(patch: JsonValue) -> int:
    """How many operations of a JSON Patch copy a part of the document."""
    operations = patch if isinstance(patch, list) else []
    return sum(isinstance(operation, dict) and operation.get("op") == "copy" for operation in operations)


def take_values(document: JsonValue, source: JsonValue, pointers: Sequence[str]) -> JsonValue:
    """The document with the values that ``source`` has at JSON Pointers; what is not there is removed. Raises
    :class:`PatchFailed` for a pointer whose place the document does not have.
    """
    draft = _Draft(document)
    for number, text in enumerate(pointers):
        try:
            path = _parse_pointer(text)
            is_wanted, wanted = _look_at(source, path)
            is_present, _ = _look_at(draft.document, path)
            if not is_wanted:
                if is_present:
                    draft.remove(path)
            elif is_present:
                draft.replace(path, wanted)
            else:
                draft.insert(path, wanted)
        except _PatchMismatch as misfit:
            raise PatchFailed(f"path {number}: {misfit}") from misfit
    return draft.document


def _look_at(document: JsonValue, path: Pointer) -> tuple[bool, JsonValue]:
    try:
        return True, _get_at(document, path)
    except _PatchMismatch:
        return False, None


def is_json_equal(a: JsonValue, b: JsonValue) -> bool:
    """Equality of JSON values: numbers by value, and never equal to booleans (RFC 6902 §4.6)."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_json_equal(member, b[name]) for name, member in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_json_equal, a, b))
    return is_number(a) == is_number(b) and a == b


def _read_operation(raw: JsonValue) -> _Operation:
    members = {
        "source" if name == "from" else name: value for name, value in _require_object(raw).items() if name != "source"
    }
    try:
        wire = convert(members, _Wire)
    except ValidationError as malformed:
        raise _PatchMismatch(f"malformed: {malformed}") from malformed
    if wire.op not in _OPERATIONS:
        raise _PatchMismatch(f'unknown op "{wire.op}"')
    if wire.op in _TAKES_VALUE and "value" not in members:
        raise _PatchMismatch(f'"{wire.op}" needs a value')
    if wire.op in _TAKES_SOURCE and wire.source is None:
        raise _PatchMismatch(f'"{wire.op}" needs a "from"')
    return _Operation(
        op=wire.op, path=_parse_pointer(wire.path), source=_parse_pointer(wire.source or ""), value=members.get("value")
    )


def _require_object(raw: JsonValue) -> JsonObject:
    if not isinstance(raw, dict):
        raise _PatchMismatch("malformed: no object")
    return raw


def _parse_pointer(text: str) -> Pointer:
    if not text:
        return ()
    if not text.startswith("/"):
        raise _PatchMismatch(f'"{text}" is no JSON Pointer')
    steps = text[1:].split("/")
    if len(steps) > MAX_STEPS:
        raise _PatchMismatch(f"the pointer has more than {MAX_STEPS} steps")
    if "~" not in text:
        return tuple(steps)
    if any(rest[:1] not in ("0", "1") for step in steps for rest in step.split("~")[1:]):
        raise _PatchMismatch(f'"{text}" is no JSON Pointer')
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


class _Draft:
    """A document while its patch is applied.

    A container is copied when it is first changed, and changed in place from then on: nothing else refers to the copy.
    """

    def __init__(self, document: JsonValue) -> None:
        self.document = document
        self._copies = dict[int, JsonValue]()
        """Containers that nothing but this document refers to, by their identity, all the way down from its root."""
        self._work = self._copied_chars = self._copied_values = 0
        self.has_grown = False
        """Whether an array or an object was put into it, and it may be nested deeper than before."""

    def get(self, path: Pointer) -> JsonValue:
        self._spend(_WORK_PER_STEP * len(path))
        return _get_at(self.document, path)

    def replace(self, path: Pointer, value: JsonValue) -> None:
        if not path:
            self.document = value
            return
        container, step = self._open(path[:-1]), path[-1]
        self.has_grown |= isinstance(value, dict | list)
        if isinstance(container, list):
            container[int(step)] = value
        elif isinstance(container, dict):
            container[step] = value

    def insert(self, path: Pointer, value: JsonValue) -> None:
        if not path:
            self.document = value
            return
        container, step = self._open(path[:-1]), path[-1]
        self.has_grown |= isinstance(value, dict | list)
        if isinstance(container, dict):
            container[step] = value
        elif isinstance(container, list):
            index = len(container) if step == "-" else _parse_index(step, len(container), path)
            self._spend((len(container) - index) // _SHIFTED_PER_WORK)
            container.insert(index, value)
        else:
            raise _PatchMismatch(f"nothing can be added at {_format_pointer(path)}")

    def remove(self, path: Pointer) -> None:
        if not path:
            self.document = None
            return
        container, step = self._open(path[:-1]), path[-1]
        if isinstance(container, list):
            index = int(step)
            self._spend((len(container) - index) // _SHIFTED_PER_WORK)
            del container[index]
        elif isinstance(container, dict):
            del container[step]

    def share(self, value: JsonValue) -> None:
        """Let a value of this document stand at a second place of it: its containers can be changed no more."""
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if isinstance(current, str):
                self._count_copied(len(current), 0)
            elif isinstance(current, dict):
                self._count_copied(sum(map(len, current)), len(current))
                self._copies.pop(id(current), None)
                waiting.extend(current.values())
            elif isinstance(current, list):
                self._count_copied(0, len(current))
                self._copies.pop(id(current), None)
                waiting.extend(current)

    def _count_copied(self, chars: int, values: int) -> None:
        self._copied_chars += chars + values
        self._copied_values += values
        if self._copied_values > MAX_COPIED_VALUES or self._copied_chars > MAX_COPIED_CHARS:
            raise _PatchMismatch(
                f"too much is copied: {MAX_COPIED_VALUES} values and {MAX_COPIED_CHARS} characters are the most"
            )

    def _open(self, path: Pointer) -> JsonValue:
        """The existing value at ``path``, which may be changed in place."""
        self._spend(_WORK_PER_STEP * len(path))
        self.document = current = self._own(self.document)
        for step in path:
            if isinstance(current, dict) and step in current:
                current[step] = inner = self._own(current[step])
            elif isinstance(current, list):
                index = _parse_index(step, len(current) - 1, path)
                current[index] = inner = self._own(current[index])
            else:
                raise _PatchMismatch(f"there is nothing at {_format_pointer(path)}")
            current = inner
        return current

    def _own(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict | list) or id(value) in self._copies:
            return value
        self._spend(len(value) if isinstance(value, list) else len(value) * _WORK_PER_MEMBER)
        copied = value.copy()
        self._copies[id(copied)] = copied
        return copied

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise _PatchMismatch(f"the patch takes too much work: {MAX_WORK} references copied are the most")


def _add(draft: _Draft, operation: _Operation) -> None:
    draft.insert(operation.path, operation.value)


def _remove(draft: _Draft, operation: _Operation) -> None:
    draft.get(operation.path)
    draft.remove(operation.path)


def _replace(draft: _Draft, operation: _Operation) -> None:
    draft.get(operation.path)
    draft.replace(operation.path, operation.value)


def _move(draft: _Draft, operation: _Operation) -> None:
    source, path = operation.source, operation.path
    if len(source) < len(path) and path[: len(source)] == source:
        raise _PatchMismatch(f"{_format_pointer(source)} cannot be moved into itself")
    value = draft.get(source)
    draft.remove(source)
    draft.insert(path, value)


def _copy(draft: _Draft, operation: _Operation) -> None:
    value = draft.get(operation.source)
    draft.share(value)
    draft.insert(operation.path, value)


def _test(draft: _Draft, operation: _Operation) -> None:
    if not is_json_equal(draft.get(operation.path), operation.value):
        raise _PatchMismatch(f"the value at {_format_pointer(operation.path)} is another")


_OPERATIONS: Final[Mapping[str, Callable[[_Draft, _Operation], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
_TAKES_VALUE: Final = frozenset(("add", "replace", "test"))
_TAKES_SOURCE: Final = frozenset(("move", "copy"))


def _get_at(document: JsonValue, path: Pointer) -> JsonValue:
    value = document
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_parse_index(step, len(value) - 1, path)]
        else:
            raise _PatchMismatch(f"there is nothing at {_format_pointer(path)}")
    return value


def _parse_index(step: str, last: int, path: Pointer) -> int:
    if not (step.isascii() and step.isdecimal()) or (step.startswith("0") and step != "0") or len(step) > 9:
        raise _PatchMismatch(f'"{step}" in {_format_pointer(path)} is no index')
    index = int(step)
    if index > last:
        raise _PatchMismatch(f"there is nothing at {_format_pointer(path)}")
    return index


def _format_pointer(path: Pointer) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path) or "the whole document"


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
