"""Runs pipelines over outcomes that are given."""

from collections.abc import Iterable

from msgspec import Struct

from statewright.playbooks.context import Patch
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.pipeline import (
    PipelineDecision,
    PipelineEnd,
    PipelineState,
    ToolCall,
    begin,
    prepare,
    settle,
)
from statewright.playbooks.policies import Outcome


class Played(Struct):
    """A run that was played to its end, or until no outcome was left."""

    calls: list[ToolCall]
    turns: list[PipelineDecision]
    state: PipelineState
    end: PipelineEnd

    @property
    def patches(self) -> list[Patch]:
        return [patch for turn in self.turns for patch in turn.patches]


def play(dispatch: Dispatch, outcomes: Iterable[Outcome]) -> Played:
    """Run a pipeline whose calls have these outcomes, in order."""
    state, rest = begin(dispatch), iter(outcomes)
    assert isinstance(state, PipelineState)
    calls, turns = [], []
    while True:
        prepared = prepare(dispatch, state)
        if isinstance(prepared, ToolCall):
            calls.append(prepared)
            prepared = next(rest)
        turn = settle(dispatch, state, prepared)
        turns.append(turn)
        state = turn.state
        if turn.end is not None:
            return Played(calls=calls, turns=turns, state=state, end=turn.end)
