"""What may happen to an attempt at a request with a key: the table of its moves, and what follows from it."""

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.operations.idempotency import StoredAnswer
from statewright.services.idempotency.progress import MOVES, IllegalMove, Move, Progress, Stored

ANSWER = StoredAnswer(200, "application/json", "{}")
AMENDED = StoredAnswer(200, "application/json", "[]")

MAKE: dict[str, Callable[[Progress], Progress]] = {
    "claim": Progress.claim,
    "take claim": lambda progress: progress.resume(()),
    "take chunks": lambda progress: progress.resume(("[1]", "[2]")),
    "segment": Progress.add_segment,
    "chunk": lambda progress: progress.add_chunk("[]"),
    "answer": lambda progress: progress.finish(ANSWER),
    "amend": lambda progress: progress.amend(AMENDED),
    "restart": Progress.restart,
}
steps = st.lists(st.sampled_from([*MAKE.values()]), max_size=12)


def go(progress: Progress, step: Callable[[Progress], Progress]) -> Progress:
    """After a step, which has no effect where it is illegal."""
    try:
        return step(progress)
    except IllegalMove:
        return progress


def test_the_table_names_everything_that_can_be_stored_and_done():
    assert {*MOVES} == {*get_args(Stored)}
    assert {move for moves in MOVES.values() for move in moves} == {*get_args(Move)} == {*MAKE}


def test_the_moves_of_an_attempt_are_those_of_the_table_and_no_others():
    reached: dict[Stored, Progress] = {
        "nothing": Progress(),
        "claim": Progress().claim(),
        "segment": Progress().add_segment(),
        "chunk": Progress().add_chunk("[]"),
        "answer": Progress().finish(ANSWER),
    }
    for stored, progress in reached.items():
        for move, make in MAKE.items():
            if move in MOVES[stored]:
                assert make(progress).stored == MOVES[stored][move]  # type: ignore[index]
            else:
                with pytest.raises(IllegalMove, match=f"{move} where {stored} is stored"):
                    make(progress)


@given(steps)
def test_what_is_durable_of_an_effect_is_never_given_back(steps: list[Callable[[Progress], Progress]]):
    progress = Progress()
    for step in steps:
        before, progress = progress, go(progress, step)
        if before.is_partly_durable:
            assert progress.is_partly_durable or progress.answer is not None
            assert progress.elements[: len(before.elements)] == before.elements
            assert progress.is_claimed, "each further write demands the token"


@given(steps)
def test_an_answer_is_the_end(steps: list[Callable[[Progress], Progress]]):
    progress = Progress()
    for step in steps:
        before, progress = progress, go(progress, step)
        assert (progress.answer is not None) == (progress.stored == "answer")
        if before.answer is not None:
            assert progress.answer in {before.answer, AMENDED}


@given(steps)
def test_an_attempt_that_begins_again_knows_nothing_of_the_one_before(steps: list[Callable[[Progress], Progress]]):
    progress = Progress()
    for step in steps:
        progress = go(progress, step)
    if "restart" in MOVES[progress.stored]:
        assert progress.restart() == Progress()
    else:
        with pytest.raises(IllegalMove):
            progress.restart()


def test_whoever_takes_over_goes_on_behind_the_chunks_that_are_durable():
    resumed = Progress().resume(("[1]",)).add_chunk("[2]")
    assert (resumed.elements, resumed.is_partly_durable) == (("[1]", "[2]"), True)
    assert not Progress().resume(()).is_partly_durable
