"""What the document of an instance leaves out of its iterations: their results
(:mod:`statewright.processes.loop_results`), and what they iterate over, which is stored apart as well.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from statewright.flows.language import INPUT
from statewright.jsonval.values import JsonValue
from statewright.net import ExecutionId, Loop, Marking, Token
from statewright.net.effects import Effect
from statewright.processes.loop_results import (
    SavedLoop,
    SavedLoops,
    leave_out_results,
    list_result_parts,
    point_to,
    save_loops,
    store_part,
)


def save_parts(marking: Marking, saved: SavedLoops) -> tuple[SavedLoops, tuple[Effect, ...]]:
    """What is stored apart from now on, and the effects that store what was not. Raises ``InstanceTooLarge``."""
    return save_loops(marking, saved, _save_items)


def forget_items(saved: SavedLoops, loop: ExecutionId) -> SavedLoops:
    """The sequence of a loop was changed: what is stored of it is that of earlier versions."""
    known = saved.get(loop)
    return saved if known is None else {**saved, loop: replace(known, items=0)}


def leave_out(marking: Marking, saved: SavedLoops) -> Marking:
    """The marking without what is stored apart, and without the copies of the input."""
    kept = {token for token, known in saved.items() if known.items}
    kept |= {token.id for token in marking.tokens if _carries_input(marking, token)}
    if kept:
        tokens = [replace(token, payloads=()) if token.id in kept else token for token in marking.tokens]
        marking = replace(marking, tokens=tuple(tokens))
    return leave_out_results(marking, saved)


def list_parts(marking: Marking, saved: SavedLoops) -> list[JsonValue]:
    """Where in the document of an instance what was left out belongs: before the array at ``at`` come those of
    ``names``.
    """
    sequences: list[JsonValue] = [
        point_to(["tokens", place, "payloads"], [_name_items(token.id, number)])
        for place, token in enumerate(marking.tokens)
        if token.id in saved and (number := saved[token.id].items)
    ]
    return [*sequences, *list_result_parts(marking, saved)]


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
    chars = store_part(_name_items(loop.token, number), list(token.payloads), effects)
    return replace(known, items=number, sequences=number, chars=known.chars + chars)


def _name_items(loop: ExecutionId, number: int) -> str:
    return f"{loop}/items/{number}"
