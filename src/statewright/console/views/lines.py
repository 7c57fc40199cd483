"""Texts by lines: with numbers, and two of them compared."""

from difflib import SequenceMatcher
from typing import Final, Literal

from msgspec import Struct

MAX_COMPARED_LINES: Final = 3_000
MAX_SHOWN_LINES: Final = 10_000
CONTEXT: Final = 3

_SIGNS: Final = {"same": " ", "added": "+", "removed": "−"}


class Line(Struct, frozen=True):
    """A line of a text. ``refs`` are the ids of the rows that it belongs to, with blanks around each."""

    number: int
    text: str
    refs: str = ""


class DiffLine(Struct, frozen=True):
    """A line of a comparison, with its numbers in both texts; 0: it is not there."""

    change: Literal["same", "added", "removed", "gap"]
    old: int
    new: int
    text: str

    @property
    def sign(self) -> str:
        """What stands before it."""
        return _SIGNS.get(self.change, "")


def number_lines(text: str, refs: dict[int, list[str]] | None = None) -> tuple[Line, ...]:
    """The lines of a text, the first ones of a very long one."""
    known = refs or {}
    return tuple(
        Line(number, line, f" {' '.join(known[number])} " if number in known else "")
        for number, line in enumerate(text.split("\n")[:MAX_SHOWN_LINES], start=1)
    )


def compare_lines(old: str, new: str) -> tuple[DiffLine, ...] | None:
    """What differs, with a few lines around it; None where the texts are too long to be compared."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return None
    found: list[DiffLine] = []
    for group in SequenceMatcher(None, before, after, autojunk=True).get_grouped_opcodes(CONTEXT):
        if found or group[0][1] > 0:
            found.append(DiffLine("gap", 0, 0, "…"))
        for kind, first, last, begin, end in group:
            if kind == "equal":
                pairs = zip(range(first, last), range(begin, end), strict=True)
                found += [DiffLine("same", i + 1, j + 1, before[i]) for i, j in pairs]
                continue
            found += [DiffLine("removed", i + 1, 0, before[i]) for i in range(first, last)]
            found += [DiffLine("added", 0, j + 1, after[j]) for j in range(begin, end)]
    return tuple(found)
