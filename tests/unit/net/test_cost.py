"""An event costs what it changes, however many tokens the instance holds (docs/reference/kernel.md#a-function)."""

import sys
from collections.abc import Callable, Sequence
from copy import copy
from types import FrameType

import pytest
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import AllInputs, Many, Marking, Net, Task, Visit, marking_from_document, marking_to_document
from statewright.net.effects import EnqueueTask, Patched, TaskCompleted
from tests.unit.net.builders import Letters, Player, a_net, a_node
from tests.unit.net.routed import a_step, routed

WORK = Task("work")


class Numbers(Letters):
    """The items of a loop are given, whatever its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.items: list[JsonValue] = ["x"] * size

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue]:
        return self.items


def a_wide_loop(_: int) -> Net:
    return a_net(a_node("loop", "out", activity=Many(WORK)), a_node("out"))


def a_wide_join(size: int) -> Net:
    """All but the last of as many branches wait for that at a join."""
    sources = [f"s{number}" for number in range(size)]
    join = a_node("join", arrival=AllInputs((tuple(sources),)))
    return a_net(a_node("start", *sources), *[a_node(name, "join", activity=WORK) for name in sources], join)


def count_calls(act: Callable[[], object]) -> int:
    """How many Python functions are called."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def count_per_event(build: Callable[[int], Net], size: int) -> int:
    """Calls for one completion among ``size`` tokens, after a few others."""
    player = Player(build(size), Numbers(size)).start()
    tasks = [effect.task for effect in player.told(EnqueueTask)]
    for task in tasks[:3]:
        player.play(TaskCompleted(task, "done"))
    return count_calls(lambda: player.play(TaskCompleted(tasks[3], "done")))


def a_long_queue(size: int) -> Net:
    """All but a few of as many branches wait for their turn."""
    names = [f"s{number}" for number in range(size)]
    return routed(a_step("start", *names), *[a_step(name, activity=WORK) for name in names], capacity=5)


def a_wide_round(size: int) -> Net:
    """All but the last of as many branches meet in a round."""
    sources = tuple(f"s{number}" for number in range(size))
    steps = [a_step(name, "join", activity=WORK) for name in sources]
    return routed(a_step("start", *sources), *steps, a_step("join", join=sources), capacity=size)


@pytest.mark.parametrize("build", [a_wide_loop, a_wide_join, a_long_queue, a_wide_round])
def test_an_event_takes_as_many_steps_among_thousands_of_tokens_as_among_hundreds(build: Callable[[int], Net]):
    assert count_per_event(build, 3_000) <= count_per_event(build, 300) + 5


def test_a_marking_can_be_advanced_more_than_once():
    """What is kept for the next event never shows: each event sees the marking that it is given."""
    player = Player(a_wide_loop(0), Numbers(400)).start()
    tasks = [effect.task for effect in player.told(EnqueueTask)]
    before = player.play(TaskCompleted(tasks[0], "done")).marking
    stored = marking_to_document(before)
    clock = copy(player.clock)
    first = player.play(TaskCompleted(tasks[1], "done")).marking
    player.marking, player.clock = before, copy(clock)
    second = player.play(TaskCompleted(tasks[1], "done")).marking
    assert first == second
    assert marking_to_document(before) == stored
    player.marking, player.clock = marking_from_document(stored, before.data), clock
    assert player.play(TaskCompleted(tasks[1], "done")).marking == first


def test_an_event_that_does_not_apply_leaves_a_large_marking_as_it_is():
    player = Player(a_wide_loop(0), Numbers(400)).start()
    tasks = [effect.task for effect in player.told(EnqueueTask)]
    player.play(TaskCompleted(tasks[0], "done"))
    before = player.marking
    assert player.play(TaskCompleted(tasks[0], "late")).marking is before
    after: Marking = player.play(Patched({"a": "b"})).marking
    assert after.data["a"] == "b"
    assert player.play(TaskCompleted(tasks[1], "done")).marking.loops[0].results[1].payloads == ("done",)


def test_a_document_shares_what_tokens_carry_and_elements_came_to():
    value: JsonValue = {"large": ["value"]}
    net = a_net(a_node("loop", "out", activity=Many(WORK)), a_node("out"))
    player = Player(net, Numbers(2)).start()
    player.play(TaskCompleted(player.told(EnqueueTask)[0].task, "done"))
    loop = player.marking.loops[0]
    results = (replace(loop.results[0], payloads=(value,)),)
    tokens = tuple(replace(token, payloads=(value,)) for token in player.marking.tokens)
    marking = replace(player.marking, tokens=tokens, loops=(replace(loop, results=results),))
    document = marking_to_document(marking)
    assert document["tokens"][0]["payloads"][0] is value  # type: ignore[index, call-overload]
    assert document["loops"][0]["results"][0][1][0] is value  # type: ignore[index, call-overload]
    assert marking_from_document(document, marking.data) == marking
