"""Loops over items, with a task or a part of the net as body (docs/reference/kernel.md#loops)."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import (
    DRAIN,
    AllInputs,
    Body,
    ElementResult,
    Many,
    Net,
    NodeId,
    SubNet,
    Task,
    Visit,
    marking_from_document,
    marking_to_document,
)
from statewright.net.effects import (
    CancelChild,
    Cancelled,
    ChildEnded,
    CloseTask,
    EnqueueTask,
    RecordExit,
    Restarted,
    StartChild,
    TaskCompleted,
    TaskFailed,
    Terminated,
)
from statewright.net.nodes import Activity
from tests.unit.net.builders import Letters, Player, a_net, a_node

WORK = Task("work")


def a_loop(activity: Activity, guard: str | None = None) -> Net:
    """Items are the letters of what ``src`` sends."""
    loop = replace(a_node("loop", "out", activity=activity), skip_unless=guard)
    return a_net(a_node("src", "loop", activity=WORK), loop, a_node("out"), on_failure=DRAIN)


def a_pass(limit: int | None = None) -> Net:
    """Each item goes to ``x`` and ``y``, which meet in ``j``."""
    return a_net(
        a_node("src", "loop", activity=WORK),
        a_node("loop", "out", activity=Many(Body((NodeId("x"), NodeId("y"))), limit)),
        a_node("x", "j", activity=WORK),
        a_node("y", "j", activity=WORK),
        replace(a_node("j", arrival=AllInputs((("x", "y"),))), yields=True),
        a_node("out"),
        on_failure=DRAIN,
    )


def feed(net: Net, letters: str) -> Player:
    player = Player(net).start()
    return player.play(TaskCompleted(player.task_at("src"), letters))


def do(player: Player, **outputs: str) -> Player:
    """Complete the running tasks with these inputs."""
    for name, output in outputs.items():
        player.play(TaskCompleted(player.open[name], output))
    return player


@pytest.mark.parametrize(("limit", "begun"), [(None, ["a", "b", "c"]), (2, ["a", "b"]), (1, ["a"])])
def test_as_many_elements_run_at_once_as_the_limit_says(limit: int | None, begun: list[str]):
    player = feed(a_loop(Many(WORK, limit)), "abc")
    assert [task.input for task in player.told(EnqueueTask)] == begun


def test_the_next_element_begins_when_one_is_done_and_results_are_in_the_order_of_the_items():
    player = feed(a_loop(Many(WORK, 2)), "abc")
    do(player, b="B")
    assert [task.input for task in player.told(EnqueueTask)] == ["c"]
    do(player, c="C", a="A")
    assert player.inputs("out") == ["A,B,C"]
    assert player.marking.phase == "COMPLETED"


def test_a_loop_over_nothing_is_done_at_once():
    assert feed(a_loop(Many(WORK)), "").inputs("out") == [""]


def test_the_guard_of_a_loop_is_one_of_its_items_and_a_skipped_item_stands_for_itself():
    player = feed(a_loop(Many(WORK), guard="b"), "abc")
    assert [task.input for task in player.told(EnqueueTask)] == ["b"]
    assert do(player, b="B").inputs("out") == ["a,B,c"]


def test_an_element_that_fails_fails_the_node_and_a_restart_does_only_what_has_no_result():
    player = feed(a_loop(Many(WORK, 2)), "abcd")
    do(player, a="A")
    player.play(TaskFailed(player.open["b"], "boom"))
    assert (player.marking.phase, player.told(EnqueueTask)) == ("FAILED", [])
    assert [(token.node, token.element) for token in player.marking.failures] == [("loop", 1)]
    do(player, c="C")
    player.play(Restarted())
    assert sorted(str(task.input) for task in player.told(EnqueueTask)) == ["b", "d"]
    assert do(player, b="B", d="D").inputs("out") == ["A,B,C,D"]


def test_a_guard_that_cannot_be_evaluated_for_an_item_fails_that_element():
    player = feed(a_loop(Many(WORK), guard="?"), "ab")
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "no such guard")
    assert [token.element for token in player.marking.failures] == [0]


def test_partial_results_survive_being_written_and_read():
    player = feed(a_loop(Many(WORK, 1)), "abc")
    do(player, a="A")
    player.marking = marking_from_document(marking_to_document(player.marking), player.marking.data)
    assert do(do(player, b="B"), c="C").inputs("out") == ["A,B,C"]


def test_a_result_reported_twice_counts_once():
    player = feed(a_loop(Many(WORK)), "ab")
    task = player.open["a"]
    do(player, a="A")
    assert player.play(TaskCompleted(task, "again")).effects == ()


def test_elements_are_withdrawn_with_their_instance():
    player = feed(a_loop(Many(WORK)), "abc").play(Cancelled("enough"))
    assert len(player.told(CloseTask)) == 3
    assert {token.stage for token in player.marking.tokens} == {"WITHDRAWN"}


def test_a_terminated_loop_goes_on_after_a_restart():
    player = feed(a_loop(Many(WORK, 1)), "abc").play(Terminated())
    assert do(player, a="A").marking.phase == "TERMINATED"
    player.play(Restarted())
    assert do(do(player, b="B"), c="C").inputs("out") == ["A,B,C"]


def test_elements_interrupted_by_a_second_termination_begin_again():
    player = feed(a_loop(Many(WORK, 2)), "abc").play(Terminated()).play(Terminated())
    player.play(Restarted())
    assert [task.input for task in player.told(EnqueueTask)] == ["a", "b"]


def test_tokens_of_different_elements_never_meet_in_the_body():
    player = feed(a_pass(), "ab")
    first, second = player.open_at("x")
    a_of_y, b_of_y = player.open_at("y")
    player.play(TaskCompleted(first, "xa")).play(TaskCompleted(b_of_y, "yb"))
    assert player.inputs("j") == []
    player.play(TaskCompleted(a_of_y, "ya"))
    assert player.inputs("j") == ["xa+ya"]
    player.play(TaskCompleted(second, "xb"))
    assert player.inputs("out") == ["j,j"]


def test_passes_follow_each_other_when_the_limit_is_one():
    player = feed(a_pass(1), "ab")
    assert [task.input for task in player.told(EnqueueTask)] == ["a", "a"]
    for task in player.open_at("x") + player.open_at("y"):
        player.play(TaskCompleted(task, "1"))
    assert [task.input for task in player.told(EnqueueTask)] == ["b", "b"]


def test_a_failure_in_a_pass_begins_again_where_it_was():
    player = feed(a_pass(), "ab")
    player.play(TaskFailed(player.open_at("x")[0], "boom"))
    assert [(token.node, token.scope is not None) for token in player.marking.failures] == [("x", True)]
    player.play(Restarted())
    assert [task.node for task in player.told(EnqueueTask)] == ["x"]
    for task in player.open_at("x") + player.open_at("y"):
        player.play(TaskCompleted(task, "1"))
    assert player.inputs("out") == ["j,j"]
    assert player.marking.phase == "COMPLETED"


def test_a_marking_amid_passes_is_read_back_from_its_document_unchanged():
    marking = feed(a_pass(), "ab").marking
    assert len(marking.scopes) == 2
    assert marking_from_document(marking_to_document(marking), marking.data) == marking


def test_a_node_of_the_body_can_be_visited_as_often_in_each_pass():
    player = feed(replace(a_pass(), max_visits=1), "abc")
    for task in player.open_at("x") + player.open_at("y"):
        player.play(TaskCompleted(task, "1"))
    assert player.marking.phase == "COMPLETED"


GOING_ON = Many(WORK, 1, on_failure="GO_ON")


class Reasons(Letters):
    """Shows of each element of a loop how it was left, and with what."""

    def collect(self, data: JsonObject, visit: Visit, results: Sequence[ElementResult]) -> JsonValue:
        return ",".join(f"{result.outcome}:{result.payloads[0]}" for result in results)


def feed_reasons(net: Net, letters: str) -> Player:
    player = Player(net, Reasons()).start()
    return player.play(TaskCompleted(player.task_at("src"), letters))


def test_a_loop_can_go_on_without_an_element_that_fails():
    player = feed_reasons(a_loop(GOING_ON), "abc")
    do(player, a="A")
    player.play(TaskFailed(player.open["b"], "boom"))
    assert [exit_.status for exit_ in player.told(RecordExit)] == ["FAILED"]
    assert [task.input for task in player.told(EnqueueTask)] == ["c"]
    assert do(player, c="C").inputs("out") == ["DONE:A,FAILED:boom,DONE:C"]
    assert player.marking.phase == "COMPLETED"


def test_a_pass_over_a_body_ends_with_the_first_failure_in_it_where_the_loop_goes_on():
    net = a_pass()
    loop = net.nodes[NodeId("loop")]
    body = replace(loop.activity, on_failure="GO_ON")  # type: ignore[type-var]
    player = feed_reasons(replace(net, nodes={**net.nodes, loop.id: replace(loop, activity=body)}), "ab")
    failed, other = player.open_at("x")
    player.play(TaskFailed(failed, "boom"))
    assert len(player.told(CloseTask)) == 2  # the other task of the pass is withdrawn
    assert len(player.marking.scopes) == 1
    player.play(TaskCompleted(other, "X"))
    player.play(TaskCompleted(player.task_at("y"), "Y"))
    assert player.inputs("out") == ["FAILED:boom,DONE:j"]


def test_a_failure_in_a_loop_that_must_not_go_on_costs_the_pass_of_the_loop_around_that_goes_on():
    inner = a_node("inner", activity=Many(WORK))
    around = a_node("loop", "out", activity=Many(Body((NodeId("inner"),)), on_failure="GO_ON"))
    net = a_net(a_node("src", "loop", activity=WORK), around, replace(inner, yields=True), a_node("out"))
    player = feed_reasons(net, "ab")
    player.play(TaskFailed(player.open["a"], "boom"))
    assert (player.marking.phase, len(player.marking.scopes), len(player.marking.loops)) == ("RUNNING", 1, 2)
    assert do(player, b="B").inputs("out") == ["FAILED:boom,DONE:DONE:B"]


def test_a_loop_in_which_every_element_failed_is_done():
    player = feed_reasons(a_loop(GOING_ON), "ab")
    player.play(TaskFailed(player.open["a"], "one")).play(TaskFailed(player.open["b"], "two"))
    assert player.inputs("out") == ["FAILED:one,FAILED:two"]


def test_an_element_that_fails_while_the_instance_ends_its_tasks_is_not_done_again():
    player = feed_reasons(a_loop(replace(GOING_ON, limit=None)), "ab")
    player.play(Terminated()).play(TaskFailed(player.open["a"], "boom"))
    do(player, b="B")
    assert player.marking.phase == "TERMINATED"
    player.play(Restarted())
    assert (player.told(EnqueueTask), player.inputs("out")) == ([], ["FAILED:boom,DONE:B"])


def test_elements_that_are_other_instances_are_awaited_and_given_up_with_the_loop():
    player = feed(a_loop(Many(SubNet("other"), 2)), "abc")
    first, second = player.told(StartChild)
    assert [(child.net, child.input) for child in (first, second)] == [("other", "a"), ("other", "b")]
    assert first.awaited_by is not None
    player.play(ChildEnded(first.awaited_by, "A"))
    (third,) = player.told(StartChild)
    assert third.input == "c"
    assert player.play(ChildEnded(first.awaited_by, "late")).effects == ()
    player.play(Cancelled("enough"))
    assert {effect.execution for effect in player.told(CancelChild)} == {second.awaited_by, third.awaited_by}
