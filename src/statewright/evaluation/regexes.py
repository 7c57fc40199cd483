"""Regular expressions of the RE2 dialect: matching takes time linear in the text, whatever the pattern.

Linear does not mean little. A short pattern may compile to hundreds of thousands of instructions, during which nothing
else can run, and each character of a text may be compared with all of them. So patterns have limits, and what they take
can be told before: in *steps*, each about a microsecond of a slow core.
"""

# re2 comes without types; what is used of it is typed by _Compiled below.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import re
from functools import lru_cache
from math import prod
from typing import Final, Protocol

import re2
from msgspec import Struct

from statewright.evaluation.costs import match_pattern

MAX_PATTERN_CHARS: Final = 10_000
"""Of one pattern."""

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a compiled pattern; half of it is for the states that matching makes."""

MAX_COMPILATION_STEPS: Final = 60_000
"""What compiling the largest pattern takes, or finding it too large."""

_MAX_CLASSES: Final = 300
r"""Classes of Unicode such as ``\pL`` in one pattern: each has hundreds of ranges."""
_STEPS_PER_CLASS: Final = 500
"""What such a class takes each time it is written out."""
_CHARS_PER_OTHER: Final = 5000
"""Optional parts are looked at once more for so many characters of a pattern."""
_MAX_REPEATS: Final = 1000
"""RE2 refuses more, also of repetitions within repetitions."""
_REPEATS: Final = re.compile(r"\{(\d{1,4})(?:,(\d{1,4}))?")

_CAPTURING: Final = re2.Options()
_CAPTURING.log_errors = False  # a client's mistake is no line on standard error
_CAPTURING.max_mem = _MAX_BYTES
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = _MAX_BYTES
_OPTIONS.never_capture = True


class MalformedRegex(ValueError):
    """A pattern that RE2 refuses, or that is too long. The message says why."""


class _Match(Protocol):
    """What is used of a match."""

    def groupdict(self) -> dict[bytes, bytes | None]: ...


class _Compiled(Protocol):
    """What is used of the patterns of ``re2``, which comes without types."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...

    def fullmatch(self, text: bytes) -> "_Match | None": ...


class Regex(Struct, frozen=True):
    """A compiled pattern."""

    compiled: _Compiled
    instructions: int

    def matches_part(self, text: str) -> bool:
        """Whether some part of the text matches."""
        return self.compiled.search(text.encode()) is not None  # in bytes: half the time of matching ``str``

    def read_fields(self, text: str) -> dict[str, str] | None:
        """The texts of the named groups of the pattern, which is compiled with ``captures``, in a whole text; ``None``
        when it does not match.
        """
        match = self.compiled.fullmatch(text.encode())
        if match is None:
            return None
        return {name.decode(): found.decode() for name, found in match.groupdict().items() if found is not None}

    def count_match_steps(self, chars: int) -> int:
        """What matching a text of so many characters takes at most."""
        return match_pattern(chars, self.instructions)


def compile_regex(pattern: str, *, captures: bool = False) -> Regex:
    """The pattern, compiled; what its groups match can be asked for if it ``captures``. Raises
    :class:`MalformedRegex`.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise MalformedRegex(f"longer than {MAX_PATTERN_CHARS} characters")
    found = _compile(pattern, captures)
    if isinstance(found, str):
        raise MalformedRegex(found)
    return found


def escape(text: str) -> str:
    """A pattern that the text alone matches."""
    pattern: str = re2.escape(text)
    return pattern


def count_compilation_steps(pattern: str) -> int:
    """What compiling the pattern takes at most."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return 0  # it is refused
    chars = len(pattern)
    once = chars + chars * chars // _CHARS_PER_OTHER + _STEPS_PER_CLASS * _count_classes(pattern)
    counts = (max(int(least), int(most or 0), 1) for least, most in _REPEATS.findall(pattern))
    return min(once * min(prod(counts), _MAX_REPEATS), MAX_COMPILATION_STEPS)


@lru_cache(maxsize=128)
def _compile(pattern: str, captures: bool) -> Regex | str:
    """The compiled pattern, or what is wrong with it: finding that out may take as long."""
    if _count_classes(pattern) > _MAX_CLASSES:
        return f"more than {_MAX_CLASSES} classes of Unicode"
    try:
        compiled: _Compiled = re2.compile(pattern.encode(), _CAPTURING if captures else _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "malformed"
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return Regex(compiled, compiled.programsize)


def _count_classes(pattern: str) -> int:
    return pattern.count(r"\p") + pattern.count(r"\P")
