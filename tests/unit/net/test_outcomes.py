"""Nodes that are skipped, fail along an arc, queue up, or yield a result (docs/reference/kernel.md#nets)."""

from msgspec.structs import replace

from statewright.net import DRAIN, AllInputs, Arc, NodeId, Routing, Task
from statewright.net.effects import (
    ChangePhase,
    EnqueueTask,
    HoldWork,
    RecordEntry,
    RecordExit,
    Restarted,
    TaskCompleted,
    TaskFailed,
)
from tests.unit.net.builders import Player, a_net, a_node

WORK = Task("work")


def list_statuses(player: Player, node: str) -> list[str]:
    return [exit_.status for exit_ in player.told(RecordExit) if exit_.node == node]


def list_inputs(player: Player, node: str) -> list[object]:
    return [entry.input for entry in player.told(RecordEntry) if entry.node == node]


def test_a_node_whose_guard_does_not_hold_is_bypassed_and_its_token_goes_on():
    guarded = replace(a_node("b", "c", activity=WORK), skip_unless="nothing like it")
    player = Player(a_net(a_node("a", "b"), guarded, a_node("c"))).start()
    assert list_statuses(player, "b") == ["BYPASSED"]
    assert player.told(EnqueueTask) == []
    assert player.marking.phase == "COMPLETED"


def test_a_node_whose_guard_holds_runs():
    guarded = replace(a_node("b", activity=WORK), skip_unless="a")
    player = Player(a_net(a_node("a", "b"), guarded)).start()
    assert [task.node for task in player.told(EnqueueTask)] == ["b"]


def test_a_guard_of_a_node_that_cannot_be_evaluated_fails_it():
    player = Player(a_net(a_node("a", "b"), replace(a_node("b"), skip_unless="?"))).start()
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "no such guard")


def test_a_skipped_node_sends_nothing_along_arcs_for_what_is_done_which_is_how_a_loop_ends():
    back = Routing(mode="ALL", arcs=(Arc(NodeId("head"), on=("DONE",)), Arc(NodeId("out"), on=("SKIPPED",))))
    head = a_node("head", "again", activity=WORK, arrival=AllInputs((("a",), ("again",))))
    player = Player(
        a_net(a_node("a", "head"), head, replace(a_node("again", routing=back), skip_unless="more"), a_node("out"))
    ).start()
    player.play(TaskCompleted(player.task_at("head"), "more"))
    assert list_inputs(player, "head") == ["again"]
    player.play(TaskCompleted(player.task_at("head"), "enough"))
    assert list_inputs(player, "head") == []
    assert list_inputs(player, "out") == ["again"]
    assert player.marking.phase == "COMPLETED"


def test_an_arc_can_count_for_another_source():
    fork = a_node("fork", routing=Routing(mode="ALL", arcs=(Arc(NodeId("join"), source=NodeId("elsewhere")),)))
    player = Player(a_net(fork, a_node("join", arrival=AllInputs((("elsewhere",),))))).start()
    assert list_inputs(player, "join") == ["fork"]


def test_an_arc_can_carry_a_payload_of_its_own():
    arcs = (Arc(NodeId("b"), payload="upper"), Arc(NodeId("c")))
    player = Player(a_net(a_node("a", routing=Routing(mode="ALL", arcs=arcs)), a_node("b"), a_node("c"))).start()
    assert (list_inputs(player, "b"), list_inputs(player, "c")) == (["A"], ["a"])


def test_a_failure_with_an_arc_for_it_does_not_fail_the_instance():
    arcs = (Arc(NodeId("done")), Arc(NodeId("mend"), on=("FAILED",)))
    net = a_net(a_node("a", activity=WORK, routing=Routing(mode="ALL", arcs=arcs)), a_node("done"), a_node("mend"))
    player = Player(net).start()
    player.play(TaskFailed(player.task_at("a"), "boom"))
    assert list_statuses(player, "a") == ["FAILED"]
    assert list_inputs(player, "mend") == ["boom"]
    assert player.marking.phase == "COMPLETED"


def test_a_failure_without_an_open_arc_for_it_fails_the_instance():
    arcs = (Arc(NodeId("mend"), guard="other", on=("FAILED",)),)
    net = a_net(a_node("a", activity=WORK, routing=Routing(mode="EVERY", arcs=arcs)), a_node("mend"))
    player = Player(net).start()
    player.play(TaskFailed(player.task_at("a"), "boom"))
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "boom")


def test_tokens_queue_up_at_a_node_that_does_one_thing_at_a_time():
    node = replace(a_node("b", activity=WORK), concurrency=1)
    net = a_net(a_node("a1", "b"), a_node("a2", "b"), a_node("a3", "b"), node)
    player = Player(replace(net, entries=(NodeId("a1"), NodeId("a2"), NodeId("a3")))).start()
    seen = []
    for _ in range(3):
        (task,) = player.told(EnqueueTask)
        seen.append(task.input)
        player.play(TaskCompleted(task.task))
    assert seen == ["a1", "a2", "a3"]
    assert player.marking.phase == "COMPLETED"


def test_a_net_that_drains_leaves_its_tasks_running_and_lists_all_that_fail():
    net = a_net(
        a_node("fork", "a", "b", "c"),
        a_node("a", activity=WORK),
        a_node("b", activity=WORK),
        a_node("c", "d", activity=WORK),
        a_node("d"),
        on_failure=DRAIN,
    )
    player = Player(net).start()
    b, c = player.task_at("b"), player.task_at("c")
    player.play(TaskFailed(player.task_at("a"), "first"))
    assert player.told(HoldWork) == []
    player.play(TaskFailed(b, "second"))
    player.play(TaskCompleted(c, "C"))
    assert [(token.node, token.reason) for token in player.marking.failures] == [("a", "first"), ("b", "second")]
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "first")
    player.play(Restarted())
    assert [task.node for task in player.told(EnqueueTask)] == ["a", "b"]
    assert list_inputs(player, "d") == ["C"]


def test_a_restart_begins_what_failed_with_the_same_input():
    net = a_net(a_node("a", "b"), a_node("b", activity=WORK), on_failure=DRAIN)
    player = Player(net).start()
    player.play(TaskFailed(player.task_at("b"), "no"))
    player.play(Restarted())
    (task,) = player.told(EnqueueTask)
    assert task.input == "a"
    player.play(TaskCompleted(task.task))
    assert player.marking.phase == "COMPLETED"


def test_a_restart_of_what_runs_or_has_nothing_to_begin_does_nothing():
    running = Player(a_net(a_node("a", activity=WORK), on_failure=DRAIN)).start()
    assert running.play(Restarted()).effects == ()
    stalled = Player(a_net(a_node("a", "join"), a_node("join", arrival=AllInputs((("a", "b"),))), a_node("b")))
    stalled.language.stalls = True
    assert stalled.start().marking.phase == "FAILED"
    assert stalled.play(Restarted()).effects == ()


def test_an_input_that_cannot_be_built_fails_the_node():
    player = Player(a_net(a_node("a", "unreadable"), a_node("unreadable"))).start()
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "unreadable input")


def test_a_node_can_be_entered_so_often_over_the_life_of_an_instance():
    net = a_net(a_node("a", "a", activity=WORK), max_visits=2, on_failure=DRAIN)
    player = Player(net).start()
    player.play(TaskCompleted(player.task_at("a")))
    player.play(TaskCompleted(player.task_at("a")))
    assert player.marking.phase == "FAILED"
    assert str(player.marking.reason).startswith("VISIT_LIMIT")
    assert [token.node for token in player.marking.failures] == ["a"]


def test_the_last_value_of_the_node_that_yields_is_the_result():
    net = a_net(a_node("a", "end"), a_node("b", "end"), replace(a_node("end"), yields=True))
    player = Player(replace(net, entries=(NodeId("a"), NodeId("b")))).start()
    assert player.marking.result == ["end"]
    assert player.told(ChangePhase) == [ChangePhase(phase="COMPLETED")]


def test_a_language_can_call_an_instance_stalled():
    net = a_net(a_node("a", "join"), a_node("join", arrival=AllInputs((("a", "b"),))), a_node("b"))
    player = Player(net)
    player.language.stalls = True
    assert player.start().marking.reason == "stalled at join"


def test_a_limit_cannot_be_escaped_along_an_arc_for_failures():
    back = Routing(mode="ALL", arcs=(Arc(NodeId("a"), on=("FAILED",)),))
    for limit in ({"max_visits": 3}, {"max_entries": 20}):
        player = Player(a_net(a_node("broken", routing=back), a_node("a", "broken"), **limit)).start()
        assert player.marking.phase == "FAILED"
