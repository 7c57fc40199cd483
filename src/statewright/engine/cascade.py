"""The automatic part of a run, as a function from where the entity stands to what happens next.

In every state the automated transitions are looked at in declaration order; the first whose criterion holds fires, and
the search starts again from the new state. It ends when nothing fires. Two limits stop what would never end: how often
a state may be visited, and how many transitions one cascade may fire (docs/reference/workflows.md#the-cascade). Nothing
here waits: a criterion that only a calculation member can evaluate is a move too, and its result comes back in the
position.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import Function
from statewright.workflow import Transition, Workflow

MAX_CASCADE_STEPS: Final = 100
"""Transitions that one cascade may fire; one that wants to fire more is aborted."""

Holds = Callable[[Transition], bool]
"""Whether a transition's criterion, which is there and can be evaluated in memory, holds for the entity as it is now.
"""


class Position(Struct, frozen=True, kw_only=True):
    """Where a cascade stands: its state, how often it has been in each state, and the transitions it has fired.

    ``answers`` says whether external criteria of the current state hold, by name of transition.
    """

    state: str
    visits: Mapping[str, int]
    steps: int = 0
    answers: Mapping[str, bool] = {}

    @classmethod
    def start_at(cls, state: str) -> "Position":
        """The beginning of a cascade."""
        return cls(state=state, visits={state: 1})

    def move_to(self, state: str) -> "Position":
        """The position after a transition into ``state``."""
        return Position(state=state, visits={**self.visits, state: self.visits.get(state, 0) + 1}, steps=self.steps + 1)

    def with_answer(self, transition: str, *, matches: bool) -> "Position":
        """The position after a member evaluated the criterion of ``transition``."""
        return replace(self, answers={**self.answers, transition: matches})


class Fire(Struct, frozen=True):
    """Take this transition. ``declined``: those before it whose criterion, evaluated in memory, did not hold."""

    transition: Transition
    declined: tuple[Transition, ...] = ()


class Ask(Struct, frozen=True):
    """Have a member evaluate the criterion of this transition; ``declined`` as for :class:`Fire`."""

    transition: Transition
    declined: tuple[Transition, ...] = ()


class Settled(Struct, frozen=True):
    """Nothing fires any more: the cascade ends in the present state."""

    declined: tuple[Transition, ...] = ()


class Abort(Struct, frozen=True):
    """A limit is exceeded, and the run must fail for ``reason``."""

    reason: str


Move = Fire | Ask | Settled | Abort


def decide_next_move(workflow: Workflow, position: Position, holds: Holds, *, max_visits: int) -> Move:
    """What the cascade does next. ``max_visits``: how often it may be in one state.

    ``declined`` names each transition once, although the evaluation by a member interrupts the search.
    """
    if position.steps >= MAX_CASCADE_STEPS:
        return Abort(f'cascade depth exceeded ({MAX_CASCADE_STEPS}) at state "{position.state}"')
    if position.visits[position.state] > max_visits:
        return Abort(f'state "{position.state}" visited {position.visits[position.state]} times (limit: {max_visits})')
    declined: list[Transition] = []
    for transition in _skip_declined(workflow.list_automated(position.state), position.answers):
        answer = position.answers.get(transition.name)
        if answer is None and is_external(transition):
            return Ask(transition, tuple(declined))
        if answer or (answer is None and (transition.criterion is None or holds(transition))):
            return Fire(transition, tuple(declined))
        if answer is None:
            declined.append(transition)
    return Settled(tuple(declined))


def is_external(transition: Transition) -> bool:
    """Whether only a calculation member can evaluate the transition's criterion."""
    return transition.criterion is not None and isinstance(transition.criterion.condition, Function)


def _skip_declined(transitions: tuple[Transition, ...], answers: Mapping[str, bool]) -> tuple[Transition, ...]:
    """The transitions from the last answered one on: those before it have been declined already."""
    if not answers:
        return transitions
    last = max((n for n, transition in enumerate(transitions) if transition.name in answers), default=0)
    return transitions[last:]
