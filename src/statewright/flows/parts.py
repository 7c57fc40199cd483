"""What the document of an instance leaves out: the results of a long iteration, and what it iterates over
(docs/adr/0023-results-of-iterations-are-kept-apart.md).

Each advance writes the whole document. So an iteration over thousands of elements would write thousands of results
thousands of times. They are stored apart, so many at a time, once each and never changed; the document names them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.flows.language import INPUT
from statewright.jsonval.codec import encode_large
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, Loop, Marking, Token
from statewright.net.effects import Effect, StorePart

PART_RESULTS: Final = 256
"""Results that are stored at a time; iterations over fewer elements are in the document as they are."""


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


SavedLoops = Mapping[ExecutionId, SavedLoop]


def save_parts(marking: Marking, saved: SavedLoops) -> tuple[SavedLoops, tuple[Effect, ...]]:
    """What is stored apart from now on, and the effects that store what was not."""
    if not marking.loops and not saved:
        return saved, ()
    effects: list[Effect] = []
    found: dict[ExecutionId, SavedLoop] = {}
    for loop in marking.loops:
        known = saved.get(loop.token, SavedLoop())
        if loop.size >= PART_RESULTS:
            known = _save_items(marking, loop, known, effects)
            known = _save_results(loop, known, effects)
        if known != SavedLoop():
            found[loop.token] = known
    return found, tuple(effects)


def forget_items(saved: SavedLoops, loop: ExecutionId) -> SavedLoops:
    """The sequence of a loop was changed: what is stored of it is that of earlier versions."""
    known = saved.get(loop)
    return saved if known is None else {**saved, loop: replace(known, items=0)}


def leave_out(marking: Marking, saved: SavedLoops) -> Marking:
    """The marking without what is stored apart, and without the copies of the input."""
    kept = {token for token, known in saved.items() if known.items}
    kept |= {token.id for token in marking.tokens if _carries_input(marking, token)}
    if not saved and not kept:
        return marking
    return replace(
        marking,
        tokens=tuple([replace(token, payloads=()) if token.id in kept else token for token in marking.tokens]),
        loops=tuple(
            replace(loop, results=loop.results[saved[loop.token].results :]) if loop.token in saved else loop
            for loop in marking.loops
        ),
    )


def list_parts(marking: Marking, saved: SavedLoops) -> list[JsonValue]:
    """Where in the document of an instance what was left out belongs: before the array at ``at`` come those of
    ``names``.
    """
    parts: list[JsonValue] = []
    for place, token in enumerate(marking.tokens):
        if token.id in saved and (number := saved[token.id].items):
            parts.append(_point_to(["tokens", place, "payloads"], [_name_items(token.id, number)]))
    for place, loop in enumerate(marking.loops):
        if loop.token in saved and (count := saved[loop.token].results):
            names = [_name_results(loop.token, first) for first in range(0, count, PART_RESULTS)]
            parts.append(_point_to(["loops", place, "results"], names))
    return parts


def list_carriers(marking: Marking) -> list[JsonValue]:
    """The tokens, by their places, that carry the input of the instance, which the document has already."""
    return [place for place, token in enumerate(marking.tokens) if _carries_input(marking, token)]


def restore_input(marking: Marking, carriers: Sequence[int]) -> Marking:
    """The marking with the input where it was left out."""
    if not carriers:
        return marking
    tokens = list(marking.tokens)
    for place in carriers:
        tokens[place] = replace(tokens[place], payloads=(marking.data[INPUT],))
    return replace(marking, tokens=tuple(tokens))


def _carries_input(marking: Marking, token: Token) -> bool:
    """Whether it is the very same value: equal ones are not looked for."""
    return len(token.payloads) == 1 and token.payloads[0] is marking.data.get(INPUT)


def _save_items(marking: Marking, loop: Loop, known: SavedLoop, effects: list[Effect]) -> SavedLoop:
    if known.items:
        return known
    token = next((token for token in marking.tokens if token.id == loop.token), None)
    if token is None or _carries_input(marking, token):
        return known
    number = known.sequences + 1
    chars = _store(_name_items(loop.token, number), list(token.payloads), effects)
    return replace(known, items=number, sequences=number, chars=known.chars + chars)


def _save_results(loop: Loop, known: SavedLoop, effects: list[Effect]) -> SavedLoop:
    while len(loop.results) - known.results >= PART_RESULTS:
        part = loop.results[known.results : known.results + PART_RESULTS]
        rows: list[JsonValue] = [[each.element, list(each.payloads), each.outcome] for each in part]
        chars = _store(_name_results(loop.token, known.results), rows, effects)
        known = replace(known, results=known.results + PART_RESULTS, chars=known.chars + chars)
    return known


def _store(name: str, value: list[JsonValue], effects: list[Effect]) -> int:
    text = encode_large(value)
    effects.append(StorePart(name=name, text=text))
    return len(text)


def _name_items(loop: ExecutionId, number: int) -> str:
    return f"{loop}/items/{number}"


def _name_results(loop: ExecutionId, first: int) -> str:
    return f"{loop}/results/{first}"


def _point_to(path: list[JsonValue], names: list[str]) -> JsonObject:
    return {"at": ["marking", *path], "names": list(names)}
