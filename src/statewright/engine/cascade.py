"""The automatic part of a run, as a function from where the entity stands to what happens next.

In every state the automated transitions are looked at in declaration order; the first whose criterion holds fires, and
the search starts again from the new state. It ends when nothing fires. Two limits stop what would never end: how often
a state may be visited, and how many transitions one cascade may fire (spec/workflows.md §8.5). Nothing here waits: a
criterion that only a calculation member can judge is a move too, and its answer comes back in the position.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import Function
from statewright.workflow import Transition, Workflow

MAX_STEPS = 100
"""A cascade that has fired so many transitions is aborted."""

Holds = Callable[[Transition], bool]
"""Whether the criterion of a transition, which has one of its own to evaluate in memory, holds for the entity as it is
now.
"""


class Position(Struct, frozen=True, kw_only=True):
    """Where a cascade stands.

    ``answers`` holds what members said of criteria of the current state, by name of transition.
    """

    state: str
    visits: Mapping[str, int]
    steps: int = 0
    answers: Mapping[str, bool] = {}

    @classmethod
    def at(cls, state: str) -> "Position":
        """The beginning of a cascade."""
        return cls(state=state, visits={state: 1})

    def moved(self, state: str) -> "Position":
        """The position after a transition into ``state``."""
        return Position(state=state, visits={**self.visits, state: self.visits.get(state, 0) + 1}, steps=self.steps + 1)

    def answered(self, transition: str, *, matches: bool) -> "Position":
        """The position after a member judged the criterion of ``transition``."""
        return replace(self, answers={**self.answers, transition: matches})


class Fire(Struct, frozen=True):
    """Take this transition. ``declined``: those before it whose criterion did not hold, judged in memory."""

    transition: Transition
    declined: tuple[Transition, ...] = ()


class Ask(Struct, frozen=True):
    """Let a member judge the criterion of this transition."""

    transition: Transition
    declined: tuple[Transition, ...] = ()


class Settled(Struct, frozen=True):
    """Nothing more fires here."""

    declined: tuple[Transition, ...] = ()


class Abort(Struct, frozen=True):
    """A limit is exceeded."""

    reason: str


Move = Fire | Ask | Settled | Abort


def next_move(workflow: Workflow, position: Position, holds: Holds, *, max_visits: int) -> Move:
    """What the cascade wants next.

    ``declined`` names each transition once, although a question interrupts the search.
    """
    if position.steps >= MAX_STEPS:
        return Abort(f'cascade depth exceeded ({MAX_STEPS}) at state "{position.state}"')
    if position.visits[position.state] > max_visits:
        return Abort(f'state "{position.state}" visited {position.visits[position.state]} times (limit: {max_visits})')
    declined: list[Transition] = []
    for transition in _unjudged(workflow.automated_of(position.state), position.answers):
        answer = position.answers.get(transition.name)
        if answer is None and is_external(transition):
            return Ask(transition, tuple(declined))
        if answer or (answer is None and (transition.criterion is None or holds(transition))):
            return Fire(transition, tuple(declined))
        if answer is None:
            declined.append(transition)
    return Settled(tuple(declined))


def is_external(transition: Transition) -> bool:
    """Whether only a calculation member can judge the transition's criterion."""
    return transition.criterion is not None and isinstance(transition.criterion.condition, Function)


def _unjudged(transitions: tuple[Transition, ...], answers: Mapping[str, bool]) -> tuple[Transition, ...]:
    """The transitions from the last answered one on: those before it have been declined already."""
    if not answers:
        return transitions
    last = max((n for n, transition in enumerate(transitions) if transition.name in answers), default=0)
    return transitions[last:]
