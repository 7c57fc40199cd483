"""Tasks that are given back for a while (docs/reference/kernel.md#pauses)."""

from statewright.jsonval.codec import decode, encode
from statewright.net import Many, NodeId, marking_from_document, marking_to_document
from statewright.net.durations import Delay
from statewright.net.effects import (
    ArmTimer,
    CancelChild,
    Cancelled,
    ChildEnded,
    CloseTask,
    DisarmTimer,
    EnqueueTask,
    StartChild,
    TaskCompleted,
    TaskPaused,
    TimerFired,
)
from statewright.net.nodes import Node, Routing, Task
from tests.unit.net.builders import AT, Player, a_net, a_node, arcs

WORK = Task("work")


def a_player(activity: Task | Many = WORK, limit_us: int | None = None) -> Player:
    node = Node(
        id=NodeId("a"),
        activity=activity,
        time_limit=None if limit_us is None else Delay(0, limit_us),
        routing=Routing(mode="ALL", arcs=arcs("b")),
    )
    return Player(a_net(node, a_node("b"))).start(("xy",))


def store(player: Player) -> None:
    """Go on from what was written, as after a restart."""
    document = decode(encode(marking_to_document(player.marking)))
    assert isinstance(document, dict)
    player.marking = marking_from_document(document, player.marking.data)


def test_a_task_rests_until_an_instant_and_is_requested_anew():
    player = a_player()
    first = player.task_at("a")
    player.play(TaskPaused(task=first, until=AT + 5))
    assert player.told(CloseTask) == [CloseTask(task=first, status="COMPLETED")]
    assert [armed.at for armed in player.told(ArmTimer)] == [AT + 5]
    assert not player.tasks
    store(player)
    player.fire_timers(AT + 5)
    [again] = player.told(EnqueueTask)
    assert again.task != first
    assert (again.input, again.kind) == ("xy", "work")
    assert player.play(TaskCompleted(first, "late")).effects == ()
    player.complete(again.task)
    assert player.marking.phase == "COMPLETED"


def test_a_task_rests_until_another_instance_has_ended_well_or_badly():
    for reason in (None, "boom"):
        player = a_player()
        player.play(TaskPaused(task=player.task_at("a"), net="other", input={"x": 1}))
        [token] = player.marking.tokens
        assert player.told(StartChild) == [StartChild(net="other", input={"x": 1}, awaited_by=token.id)]
        store(player)
        player.play(ChildEnded(token.id, "result", reason))
        player.complete(player.task_at("a"))
        assert player.marking.phase == "COMPLETED"
        assert player.play(ChildEnded(token.id, "result", reason)).effects == ()


def test_an_instance_that_is_cancelled_takes_down_what_a_paused_task_waits_for():
    player = a_player()
    player.play(TaskPaused(task=player.task_at("a"), net="other"))
    [token] = player.marking.tokens
    player.play(Cancelled("enough"))
    assert player.told(CancelChild) == [CancelChild(token.id)]
    player = a_player()
    player.play(TaskPaused(task=player.task_at("a"), until=AT + 5))
    [armed] = player.timers
    player.play(Cancelled("enough"))
    assert (player.told(DisarmTimer), player.told(CancelChild)) == ([DisarmTimer(armed)], [])
    assert player.play(TimerFired(armed)).effects == ()


def test_the_time_of_a_node_goes_on_while_its_task_rests():
    player = a_player(limit_us=3_000_000)
    player.play(TaskPaused(task=player.task_at("a"), net="other"))
    player.fire_timers(AT + 4_000_000)
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "TIMEOUT")
    assert len(player.told(CancelChild)) == 1


def test_elements_of_a_loop_rest_each_for_itself():
    player = a_player(Many(WORK, limit=2))
    first, second = player.open_at("a")
    player.play(TaskPaused(task=first, until=AT + 5))
    player.play(TaskPaused(task=second, net="other"))
    [child] = player.children
    store(player)
    player.play(ChildEnded(child))
    player.complete(player.open["y"], "Y")
    player.fire_timers(AT + 5)
    player.complete(player.open["x"], "X")
    assert (player.marking.phase, player.marking.data["a"]) == ("COMPLETED", "X,Y")
