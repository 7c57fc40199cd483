"""Paths into documents: ``$.order.buyer``, ``$.lines[*].sku``, ``$.lines[0]`` (spec/search.md §4, decision S2)."""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.datatypes import DataType
from statewright.schema.flatten import Declared


class Wildcard(Enum):
    """The step that stands for every element of an array."""

    EACH = "[*]"


EACH: Final = Wildcard.EACH

Step: TypeAlias = str | int | Wildcard
"""A member name, an index, or every element."""

_PART = re.compile(r"([^.\[\]]+)((?:\[(?:\*|[0-9]{1,9})\])*)")
_BRACKET = re.compile(r"\[(\*|[0-9]+)\]")


WORTH_REMEMBERING: Final = 256
"""Characters of a path; longer ones are nobody's habit, and memory is finite."""


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

    ``None`` when it names nothing: empty, or using what is not supported (filters, slices, ``..``, quoted names).
    """
    return _remembered(text) if len(text) <= WORTH_REMEMBERING else _parsed(text)


def _parsed(text: str) -> Path | None:
    text = text.strip()
    if text == "$":
        return Path(())
    if text.startswith("$["):  # a document is no array
        return None
    steps: list[Step] = []
    for part in text.removeprefix("$.").split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        steps.append(match[1])
        steps.extend(EACH if bracket == "*" else int(bracket) for bracket in _BRACKET.findall(match[2]))
    return Path(tuple(steps))


_remembered = lru_cache(maxsize=4096)(_parsed)
"""A check of a condition asks for the same path several times, and so does the next."""


def types_at(path: Path, declared: Mapping[str, Declared]) -> frozenset[DataType]:
    """The declared types of the field; empty when there is no such field, or it is a mere container."""
    field = declared.get(path.declared_as)
    return frozenset() if field is None else field.types


def is_field(path: Path, declared: Mapping[str, Declared]) -> bool:
    """Whether scalars are declared at this very path."""
    return path.declared_as in declared


def array_at(path: Path, declared: Mapping[str, Declared]) -> Path:
    """The path of the array that is meant: a trailing wildcard is tolerated where it does not name arrays itself."""
    has_wildcard_too_many = path.steps[-1:] == (EACH,) and not is_field(path.elements, declared)
    return Path(path.steps[:-1]) if has_wildcard_too_many else path


def is_known(path: Path, declared: Mapping[str, Declared]) -> bool:
    """Whether the schema has the path: as a field, or as an object or array with fields somewhere below."""
    name = path.declared_as
    return not path.steps or name in declared or any(field.startswith((f"{name}.", f"{name}[*]")) for field in declared)
