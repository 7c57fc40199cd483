"""Paths into documents: ``$.order.buyer``, ``$.lines[*].sku``, ``$.lines[0]`` (docs/reference/conditions.md#paths,
decision S2).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from statewright.jsonval.codec import MAX_NESTING
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import DeclaredField


class Wildcard(Enum):
    """The step that stands for every element of an array."""

    EACH = "[*]"


EACH: Final = Wildcard.EACH

Step: TypeAlias = str | int | Wildcard
"""A member name, an index, or every element."""

_PART: Final = re.compile(r"([^.\[\]]+)((?:\[(?:\*|[0-9]{1,9})\])*)")
_BRACKET: Final = re.compile(r"\[(\*|[0-9]+)\]")


MAX_STEPS: Final = MAX_NESTING
"""Steps of a path: no document is nested deeper (decision S6)."""

MAX_CACHED_PATH_CHARS: Final = 256
"""Characters of a path; longer ones are rare, and would take much of the cache's memory."""


class Path(Struct, frozen=True):
    """Steps from the root of a document. No steps: the document itself."""

    steps: tuple[Step, ...]

    @property
    def declared_as(self) -> str:
        """The name under which a schema lists the field: every array hop is ``[*]``."""
        return "$" + "".join([f".{step}" if isinstance(step, str) else "[*]" for step in self.steps])

    @property
    def elements(self) -> "Path":
        """The path of what is in the array at this path."""
        return Path((*self.steps, EACH))


def parse_path(text: str) -> Path | None:
    """The path that the text names, with or without ``$.``.

    ``None`` when it names nothing: empty, with more than :data:`MAX_STEPS` steps, or using what is not supported
    (filters, slices, ``..``, quoted names).
    """
    return _parse_cached(text) if len(text) <= MAX_CACHED_PATH_CHARS else _parse(text)


def _parse(text: str) -> Path | None:
    text = text.strip()
    body = text.removeprefix("$.")
    if body.count(".") + body.count("[") >= MAX_STEPS:
        return None
    if text == "$":
        return Path(())
    if text.startswith("$["):  # a document is no array
        return None
    steps: list[Step] = []
    for part in body.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        steps.append(match[1])
        steps.extend(EACH if bracket == "*" else int(bracket) for bracket in _BRACKET.findall(match[2]))
    return Path(tuple(steps))


_parse_cached = lru_cache(maxsize=4096)(_parse)
"""A check of a condition asks for the same path several times, and so does the next."""


def format_path(path: Path) -> str:
    """The path as a condition may have it."""
    return "$" + "".join(_format_step(step) for step in path.steps)


def _format_step(step: str | int | Wildcard) -> str:
    match step:
        case str():
            return f".{step}"
        case int():
            return f"[{step}]"
        case _:
            return step.value


def types_at(path: Path, declared: Mapping[str, DeclaredField]) -> frozenset[DataType]:
    """The declared types of the field; empty when there is no such field, or it is a mere container."""
    field = declared.get(path.declared_as)
    return frozenset() if field is None else field.types


def is_field(path: Path, declared: Mapping[str, DeclaredField]) -> bool:
    """Whether scalars are declared at this very path."""
    return path.declared_as in declared


def array_at(path: Path, declared: Mapping[str, DeclaredField]) -> Path:
    """The path of the array that is meant: a trailing wildcard is tolerated where it does not name arrays itself."""
    has_wildcard_too_many = path.steps[-1:] == (EACH,) and not is_field(path.elements, declared)
    return Path(path.steps[:-1]) if has_wildcard_too_many else path


def is_known(path: Path, declared: Mapping[str, DeclaredField]) -> bool:
    """Whether the schema has the path: as a field, or as an object or array with fields somewhere below."""
    name = path.declared_as
    return not path.steps or name in declared or any(field.startswith((f"{name}.", f"{name}[*]")) for field in declared)


# Following a path into a document (docs/reference/conditions.md#what-a-path-finds).

Found: TypeAlias = "JsonValue | UnsetType"
"""What a path leads to; unset when it leads nowhere."""

Lookup = Callable[[Found], Found]
"""The value at a path without wildcards; unset when there is none."""

Spend = Callable[[int], None]
"""Accounts for so many elements that are looked at; raises when they are too many."""

Collect = Callable[[Found, Spend], Sequence[JsonValue] | None]
"""The values at a path with wildcards, in document order; ``None`` when the first array is missing or is none.

Elements that lack the rest of the path contribute nothing; explicit nulls are collected. The elements of all arrays on
the way are accounted for.
"""


def compile_lookup(path: Path) -> Lookup:
    """The value at the path, which has no wildcards."""
    (steps,) = split_at_wildcards(path.steps)
    return _compile_steps(steps)


def compile_collect(path: Path) -> Collect:
    """The values at the path, which has wildcards."""
    before, *pieces = split_at_wildcards(path.steps)
    first = _compile_steps(before)
    (second, weight), *rest = ((_compile_steps(steps) if steps else None, _weigh(steps)) for steps in pieces)

    def values(document: Found, spend: Spend) -> Sequence[JsonValue] | None:
        array = first(document)
        if not isinstance(array, list):
            return None
        spend(len(array) * weight)
        found = _collect_values(array, second)
        for get, weight_below in rest:
            arrays = [array for array in found if isinstance(array, list)]
            spend(sum(map(len, arrays)) * weight_below)
            found = _collect_values([element for array in arrays for element in array], get)
        return found

    return values


def _weigh(steps: tuple[str | int, ...]) -> int:
    """The visits that an element counts as below which so many steps are gone; no document nests much deeper."""
    return 1 + min(len(steps), MAX_NESTING) // 4


def has_wildcard(path: Path) -> bool:
    """Whether the path may have more than one value."""
    return EACH in path.steps


def _collect_values(elements: list[JsonValue], get: Lookup | None) -> list[JsonValue]:
    """The values below the elements; themselves without ``get``."""
    if get is None:
        return elements
    return [value for element in elements if (value := get(element)) is not UNSET]


def split_at_wildcards(steps: tuple[Step, ...]) -> list[tuple[str | int, ...]]:
    """One more piece than there are wildcards; any of them may be empty."""
    pieces: list[list[str | int]] = [[]]
    for step in steps:
        if step is EACH:
            pieces.append([])
        else:
            pieces[-1].append(step)
    return [tuple(piece) for piece in pieces]


def _compile_steps(steps: tuple[str | int, ...]) -> Lookup:
    getters = [_compile_member(step) if isinstance(step, str) else _compile_item(step) for step in steps]
    if len(getters) == 1:
        return getters[0]
    return _chain(getters)


MAX_CHAIN: Final = 16
"""Steps of a path that are all gone, whether they lead on or not: one look at each value would take as long."""


def _chain(getters: list[Lookup]) -> Lookup:
    if len(getters) > MAX_CHAIN:
        return _chain_parts([_chain(getters[at : at + MAX_CHAIN]) for at in range(0, len(getters), MAX_CHAIN)])

    def get(value: Found) -> Found:
        for getter in getters:
            value = getter(value)
        return value

    return get


def _chain_parts(parts: list[Lookup]) -> Lookup:
    def get(value: Found) -> Found:
        for part in parts:
            value = part(value)
            if value is UNSET:
                break
        return value

    return get


def _compile_member(name: str) -> Lookup:
    def get(value: Found) -> Found:
        return value.get(name, UNSET) if isinstance(value, dict) else UNSET

    return get


def _compile_item(index: int) -> Lookup:
    def get(value: Found) -> Found:
        return value[index] if isinstance(value, list) and index < len(value) else UNSET

    return get
