"""The life of an instance as a workflow of its entity: it moves by the kernel, and a table of its language names the
moves from one phase to another.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from statewright.net import Phase
from statewright.net.effects import ChangePhase, Effect

MoveT = TypeVar("MoveT", bound=str)


def list_moves(
    table: Mapping[tuple[Phase, Phase], MoveT], before: Phase | None, effects: Sequence[Effect], *, initial: Phase
) -> tuple[MoveT, ...]:
    """The moves that one step of the kernel amounts to. ``before`` ``None``: the instance is new, and begins in
    ``initial``. Where the phase stays there is the move from it to itself, if anything happened.
    """
    phases: list[Phase] = [effect.phase for effect in effects if isinstance(effect, ChangePhase)]
    if not phases and effects and before is not None:
        return (table[before, before],)
    moves: list[MoveT] = []
    current: Phase = before or initial
    for phase in phases:
        moves.append(table[current, phase])
        current = phase
    return tuple(moves)
