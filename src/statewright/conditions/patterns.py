"""Patterns: regular expressions of the RE2 dialect, and LIKE globs (docs/reference/conditions.md#like,
docs/reference/conditions.md#matches_pattern, decision S4).

RE2 runs in time linear in the text whatever the pattern, so that no author of a condition can stop the service.
"""

# re2 comes without types; what is used of it is typed by _Pattern below.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import re2
from msgspec import Struct

TextTest = Callable[[str], bool]

MAX_LIKE_WILDCARDS: Final = 1_000
"""Of one glob: RE2 compiles some ten thousand, PostgreSQL calls itself for each."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # a client's mistake is no line on standard error
_OPTIONS.never_capture = True

_GLOB_PART: Final = re.compile(r"\\[%_\\]|[%_]", re.DOTALL)
_WILDCARDS: Final = {"%": "[^\n]*", "_": "[^\n]"}


class _Pattern(Protocol):
    """What is used of the patterns of ``re2``, which comes without types."""

    def fullmatch(self, text: bytes) -> object | None: ...


def find_pattern_defect(pattern: str) -> str | None:
    """Why RE2 refuses the pattern; ``None`` when it does not."""
    try:
        _compile(pattern)
    except re2.error as error:
        return _read_reason(error)
    return None


def compile_pattern_test(pattern: str) -> TextTest:
    """Whether a whole text matches the pattern, which :func:`find_pattern_defect` has found none in."""
    fullmatch = _compile(pattern).fullmatch

    def matches(stored: str) -> bool:
        return fullmatch(stored.encode()) is not None

    return matches


def find_like_defect(glob: str) -> str | None:
    """Why the glob cannot be matched; ``None`` when it can."""
    parts = split_glob(glob)
    wildcards = sum(part.is_wildcard for part in parts)
    if wildcards > MAX_LIKE_WILDCARDS:
        return f"more than {MAX_LIKE_WILDCARDS} wildcards"
    return find_pattern_defect(_write_pattern(parts)) if wildcards else None


class GlobPart(Struct, frozen=True):
    """A wildcard of a glob, or the literal text between two, with its escapes resolved."""

    text: str
    is_wildcard: bool = False


def split_glob(glob: str) -> list[GlobPart]:
    """The parts of a LIKE operand, none of them empty.

    A backslash takes the meaning from a following ``%``, ``_`` or backslash; any other backslash stands for itself.
    """
    parts: list[GlobPart] = []
    literal = ""
    end = 0
    for found in _GLOB_PART.finditer(glob):
        literal += glob[end : found.start()]
        end = found.end()
        if found[0] in _WILDCARDS:
            parts += [GlobPart(literal)] if literal else []
            parts.append(GlobPart(found[0], is_wildcard=True))
            literal = ""
        else:
            literal += found[0][1]
    literal += glob[end:]
    return [*parts, GlobPart(literal)] if literal else parts


def compile_like_test(glob: str) -> TextTest:
    """Whether a whole text matches the glob, which :func:`find_like_defect` has found none in: ``%`` any run, ``_`` one
    character, neither crossing a line feed.
    """
    parts = split_glob(glob)
    if not any(part.is_wildcard for part in parts):
        return "".join(part.text for part in parts).__eq__
    return compile_pattern_test(_write_pattern(parts))


def _write_pattern(parts: Iterable[GlobPart]) -> str:
    """The glob as a regular expression."""
    return "".join(_WILDCARDS[part.text] if part.is_wildcard else re2.escape(part.text) for part in parts)


def _compile(pattern: str) -> _Pattern:
    compiled: _Pattern = re2.compile(pattern.encode(), _OPTIONS)  # in bytes: half the time of matching ``str``
    return compiled


def _read_reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
