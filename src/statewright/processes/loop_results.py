"""What the document of an instance leaves out of its loops: the results of long ones
(docs/adr/0023-results-of-iterations-are-kept-apart.md).

Each advance writes the whole document. So a loop over thousands of elements would write thousands of results thousands
of times. They are stored apart, so many at a time, once each and never changed; the document names them.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import InstanceTooLarge
from statewright.jsonval.codec import encode_large
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, Loop, Marking
from statewright.net.effects import Effect, StorePart

PART_RESULTS: Final = 256
"""Results that are stored at a time; loops over fewer elements are in the document as they are."""
MAX_SAVED_CHARS: Final = 64 * 1024 * 1024
"""Of what is stored apart of the loops of an instance."""


class SavedLoop(Struct, frozen=True, array_like=True):
    """What of a loop is stored apart."""

    results: int = 0
    """How many, from the first on."""
    items: int = 0
    """The number of the stored sequence; 0: it is in the document."""
    sequences: int = 0
    """How many sequences were ever stored: another one gets another number."""
    chars: int = 0
    """Of all that is stored."""


SavedLoops: TypeAlias = Mapping[ExecutionId, SavedLoop]


SaveItems: TypeAlias = Callable[[Marking, Loop, SavedLoop, list[Effect]], SavedLoop]
"""Stores the sequence of a long loop, unless it is known; the effects that do it are added to those given."""


def save_loops(
    marking: Marking, saved: SavedLoops, save_items: SaveItems | None = None
) -> tuple[SavedLoops, tuple[Effect, ...]]:
    """What of the loops is stored apart from now on, and the effects that store what was not.

    Raises ``InstanceTooLarge``.
    """
    if not marking.loops:
        return {}, ()
    effects: list[Effect] = []
    found: dict[ExecutionId, SavedLoop] = {}
    for loop in marking.loops:
        known = saved.get(loop.token, SavedLoop())
        if loop.size >= PART_RESULTS:
            if save_items is not None:
                known = save_items(marking, loop, known, effects)
            known = _save_results(loop, known, effects)
        if known != SavedLoop():
            found[loop.token] = known
    if (chars := count_saved_chars(found)) > MAX_SAVED_CHARS:
        raise InstanceTooLarge(chars, MAX_SAVED_CHARS)
    return found, tuple(effects)


def _save_results(loop: Loop, known: SavedLoop, effects: list[Effect]) -> SavedLoop:
    while len(loop.results) - known.results >= PART_RESULTS:
        part = loop.results[known.results : known.results + PART_RESULTS]
        rows: list[JsonValue] = [[each.element, list(each.payloads), each.outcome] for each in part]
        chars = store_part(_name_results(loop.token, known.results), rows, effects)
        known = replace(known, results=known.results + PART_RESULTS, chars=known.chars + chars)
    return known


def count_saved_chars(saved: SavedLoops) -> int:
    """Of what is stored apart."""
    return sum(loop.chars for loop in saved.values())


def leave_out_results(marking: Marking, saved: SavedLoops) -> Marking:
    """The marking without the results that are stored apart."""
    if not saved:
        return marking
    loops = [
        replace(loop, results=loop.results[saved[loop.token].results :]) if loop.token in saved else loop
        for loop in marking.loops
    ]
    return replace(marking, loops=tuple(loops))


def list_result_parts(marking: Marking, saved: SavedLoops) -> list[JsonValue]:
    """Where in the document of an instance results belong that were left out: before the array at ``at`` come those of
    ``names``.
    """
    parts: list[JsonValue] = []
    for place, loop in enumerate(marking.loops):
        if loop.token in saved and (count := saved[loop.token].results):
            names = [_name_results(loop.token, first) for first in range(0, count, PART_RESULTS)]
            parts.append(point_to(["loops", place, "results"], names))
    return parts


def store_part(name: str, value: list[JsonValue], effects: list[Effect]) -> int:
    """Add the effect that stores a part; how many characters it has."""
    text = encode_large(value)
    effects.append(StorePart(name=name, text=text))
    return len(text)


def point_to(path: list[JsonValue], names: list[str]) -> JsonObject:
    """An entry of ``parts``; the path is that in the marking."""
    return {"at": ["marking", *path], "names": list(names)}


def _name_results(loop: ExecutionId, first: int) -> str:
    return f"{loop}/results/{first}"
