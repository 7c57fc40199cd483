"""The kernel by itself, with a language that has no shared variables (docs/reference/kernel.md#the-token-kernel)."""

import pytest

from statewright.net import (
    AllInputs,
    HumanTask,
    Marking,
    Routing,
    SubNet,
    Task,
    Wait,
    marking_from_document,
    marking_to_document,
)
from statewright.net.effects import (
    CancelChild,
    Cancelled,
    ChangePhase,
    ChildEnded,
    EnqueueTask,
    HumanTaskCompleted,
    RecordEntry,
    RecordExit,
    Retried,
    Signalled,
    StartChild,
    Started,
    TaskCompleted,
    TaskFailed,
)
from statewright.net.marking import ExecutionId, NodeId, WorkId
from tests.unit.net.builders import Player, a_net, a_node, arcs


def inputs(player: Player, node: str) -> list[object]:
    entries = [effect for effect in player.effects if isinstance(effect, RecordEntry)]
    return [entry.input for entry in entries if entry.node == node]


def entered(player: Player) -> list[str]:
    return [effect.node for effect in player.effects if isinstance(effect, RecordEntry)]


def the_task(player: Player, node: str) -> WorkId:
    return next(token.work for token in player.marking.tokens if token.node == node and token.work is not None)


def test_a_net_without_end_nodes_is_complete_when_nothing_moves_any_more():
    player = Player(a_net(a_node("a", "b", "c"), a_node("b"), a_node("c"))).start()
    assert entered(player) == ["a", "b", "c"]
    assert player.marking.phase == "COMPLETED"


def test_a_net_with_end_nodes_is_complete_at_the_first_one():
    net = a_net(a_node("a", "b", "c"), a_node("b", ends=True), a_node("c"), ending=None)
    player = Player(net).start()
    assert entered(player) == ["a", "b"]
    assert player.marking.phase == "COMPLETED"


def test_a_net_with_end_nodes_never_ends_without_reaching_one():
    player = Player(a_net(a_node("a"), ending=None)).start()
    assert player.marking.phase == "RUNNING"
    assert player.marking.tokens == ()


def test_a_branch_goes_on_until_it_rests_before_the_next_one_starts():
    net = a_net(a_node("fork", "a", "b"), a_node("a", "a2"), a_node("a2"), a_node("b", "b2"), a_node("b2"))
    assert entered(Player(net).start()) == ["fork", "a", "a2", "b", "b2"]


def test_all_of_waits_for_one_value_of_every_source_and_takes_them_in_the_order_of_the_set():
    join = AllInputs((("b", "a"),))
    net = a_net(
        a_node("fork", "a", "b"),
        a_node("a", "join", activity=Task("work")),
        a_node("b", "join", activity=Task("work")),
        a_node("join", arrival=join),
    )
    player = Player(net).start()
    player.play(TaskCompleted(the_task(player, "a"), "A"))
    assert player.marking.current_nodes == ("b", "join")
    player.play(TaskCompleted(the_task(player, "b"), "B"))
    assert inputs(player, "join") == ["B+A"]
    assert player.marking.phase == "COMPLETED"


def test_values_of_one_source_queue_up_until_the_others_have_come():
    net = a_net(
        a_node("a", "join"),
        a_node("b", "join", activity=Wait()),
        a_node("c", "b"),
        a_node("join", arrival=AllInputs((("a", "b"),))),
        entries=(NodeId("a"), NodeId("a"), NodeId("b"), NodeId("b")),
    )
    player = Player(net).start()
    player.play(Signalled(NodeId("b"), "1"))
    assert inputs(player, "join") == ["a+1"]
    player.play(Signalled(NodeId("b"), "2"))
    assert inputs(player, "join") == ["a+2"]


def test_any_complete_input_set_suffices_as_a_back_edge_needs():
    net = a_net(
        a_node("a", "loop"),
        a_node("b", "loop"),
        a_node("loop", arrival=AllInputs((("a", "b"), ("again",))), routing=Routing(arcs=arcs("again"))),
        a_node("again", "loop", activity=Wait()),
        entries=(NodeId("a"), NodeId("b")),
    )
    player = Player(net).start()
    assert inputs(player, "loop") == ["a+b"]
    player.play(Signalled(NodeId("again"), "once more"))
    assert inputs(player, "loop") == ["once more"]


def test_tokens_that_wait_for_others_keep_a_quiet_net_from_being_complete():
    net = a_net(a_node("a", "join"), a_node("b", "join"), a_node("join", arrival=AllInputs((("a", "b"),))))
    player = Player(net).start()
    assert (player.marking.phase, player.marking.current_nodes) == ("RUNNING", ("join",))


@pytest.mark.parametrize(
    ("mode", "targets", "taken"),
    [
        ("FIRST", ("x->b", "a->c", "d"), ["c"]),
        ("EVERY", ("x->b", "a->c", "d"), ["c", "d"]),
        ("ALL", ("b", "c", "d"), ["b", "c", "d"]),
        ("EVERY", ("x->b",), []),
    ],
)
def test_routing_takes_the_first_every_or_all_open_arcs(mode: str, targets: tuple[str, ...], taken: list[str]):
    routing = Routing(mode=mode, arcs=arcs(*targets))  # type: ignore[arg-type]
    net = a_net(a_node("a", routing=routing), a_node("b"), a_node("c"), a_node("d"))
    assert entered(Player(net).start())[1:] == taken


def test_guards_after_the_first_open_arc_are_not_evaluated():
    net = a_net(a_node("a", routing=Routing(arcs=arcs("a->b", "?->b"))), a_node("b"))
    assert Player(net).start().marking.phase == "COMPLETED"


def test_a_guard_that_cannot_be_evaluated_fails_the_node_that_has_nothing_else_to_do():
    player = Player(a_net(a_node("a", routing=Routing(arcs=arcs("?->b"))), a_node("b"))).start()
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "no such guard")
    assert [exit_.status for exit_ in player.told(RecordExit)] == ["FAILED"]


def test_where_no_arc_is_open_the_language_decides_whether_that_is_a_failure():
    routing = Routing(arcs=arcs("x->b"), unmatched="nowhere to go")
    assert Player(a_net(a_node("a", routing=routing), a_node("b"))).start().marking.reason == "nowhere to go"


def test_a_net_that_never_pauses_is_cut():
    net = a_net(a_node("a", "b"), a_node("b", "a"), max_entries=50)
    player = Player(net).start()
    assert player.marking.reason == "node budget exceeded (50 nodes without a pause)"
    assert len(player.told(RecordEntry)) == 51


def test_an_arc_to_a_node_that_does_not_exist_fails_the_instance():
    player = Player(a_net(a_node("a", "gone"))).start()
    assert player.marking.reason == 'node "a" leads to unknown node "gone"'


def test_a_child_is_started_awaited_and_its_output_taken_over():
    player = Player(a_net(a_node("a", "b", activity=SubNet("other")), a_node("b"))).start()
    (child,) = player.told(StartChild)
    assert isinstance(child, StartChild)
    assert (child.net, child.awaited_by) == ("other", player.marking.tokens[0].id)
    player.play(ChildEnded(player.marking.tokens[0].id, "result"))
    assert inputs(player, "b") == ["result"]


def test_a_child_that_fails_fails_the_node_that_awaits_it():
    player = Player(a_net(a_node("a", activity=SubNet("other")))).start()
    player.play(ChildEnded(player.marking.tokens[0].id, reason="child failed"))
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "child failed")


def test_a_child_is_cancelled_with_the_instance_that_awaits_it():
    player = Player(a_net(a_node("a", activity=SubNet("other")))).start()
    awaiting = player.marking.tokens[0].id
    assert player.play(Cancelled("enough")).told(CancelChild) == [CancelChild(awaiting)]


def test_a_child_that_ends_while_the_instance_is_failed_is_taken_over_after_a_retry():
    net = a_net(
        a_node("fork", "a", "b"),
        a_node("a", activity=Task("work")),
        a_node("b", "c", activity=SubNet("other")),
        a_node("c"),
    )
    player = Player(net).start()
    awaiting = next(token.id for token in player.marking.tokens if token.node == "b")
    player.play(TaskFailed(the_task(player, "a"), "first"))
    player.play(ChildEnded(awaiting, "result"))
    assert player.marking.data == {"fork": "fork"}
    player.play(Retried(NodeId("a"), {}))
    assert inputs(player, "c") == ["result"]


def test_a_child_that_fails_while_the_instance_is_failed_fails_it_again_after_a_retry():
    net = a_net(
        a_node("fork", "a", "b"),
        a_node("a", activity=Task("work")),
        a_node("b", activity=SubNet("other")),
    )
    player = Player(net).start()
    awaiting = next(token.id for token in player.marking.tokens if token.node == "b")
    player.play(TaskFailed(the_task(player, "a"), "first"))
    player.play(ChildEnded(awaiting, reason="second"))
    assert player.marking.reason == "first"
    player.play(Retried(NodeId("a"), {}))
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "second")
    player.play(Retried(NodeId("b"), {}))
    assert (player.marking.phase, player.marking.current_nodes) == ("RUNNING", ("a", "b"))


def test_events_for_another_kind_of_activity_do_nothing():
    player = Player(a_net(a_node("a", activity=Task("work")))).start()
    task, token = the_task(player, "a"), player.marking.tokens[0].id
    for event in (
        HumanTaskCompleted(task),
        Signalled(NodeId("a")),
        ChildEnded(token),
        Started(),
        Retried(NodeId("a"), {}),
    ):
        before = player.marking
        assert player.play(event).effects == ()
        assert player.marking is before


def test_events_nobody_waits_for_do_nothing():
    player = Player(a_net(a_node("a", activity=HumanTask("form")))).start()
    for event in (TaskCompleted(WorkId("x")), TaskFailed(WorkId("x"), "no"), ChildEnded(ExecutionId("x"))):
        assert player.play(event).effects == ()


def test_a_completed_instance_starts_its_successor_and_does_not_wait_for_it():
    player = Player(a_net(a_node("a", ends=True, successor="next"))).start()
    assert player.told(StartChild) == [StartChild(net="next", input={"a": "a"}, awaited_by=None)]
    assert player.told(ChangePhase) == [ChangePhase(phase="COMPLETED")]


def test_a_language_that_cannot_complete_a_node_fails_it():
    player = Player(a_net(a_node("broken", activity=Task("work")))).start()
    (task,) = player.told(EnqueueTask)
    assert isinstance(task, EnqueueTask)
    player.play(TaskCompleted(task.task))
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "broken by design")


def test_a_marking_is_read_back_from_its_document_unchanged():
    net = a_net(
        a_node("fork", routing=Routing(mode="ALL", arcs=arcs("a", "b", "broken"), join_node=NodeId("join"))),
        a_node("a", activity=Task("work")),
        a_node("b", "join"),
        a_node("broken", activity=Wait()),
        a_node("join", arrival=AllInputs((("a", "b"),))),
    )
    player = Player(net).start()
    player.play(Signalled(NodeId("broken")))
    player.play(TaskCompleted(the_task(player, "a"), {"deep": [1, None]}))
    marking = player.marking
    assert marking.phase == "FAILED"
    assert marking.answers
    assert marking_from_document(marking_to_document(marking), marking.data) == marking


def test_a_damaged_document_is_reported_as_such():
    with pytest.raises(ValueError, match="stored marking is damaged"):
        marking_from_document({"tokens": 3}, {})


def test_a_fresh_marking_needs_no_members_at_all():
    assert marking_to_document(Marking(data={"x": 1})) == {}
