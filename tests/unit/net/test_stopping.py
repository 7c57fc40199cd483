"""Terminating, restarting and patching an instance (docs/reference/kernel.md#guarantees)."""

from statewright.net import DRAIN, HumanTask, Task, marking_from_document, marking_to_document
from statewright.net.effects import (
    Cancelled,
    ChangePhase,
    CloseTask,
    EnqueueTask,
    Patched,
    RecordEntry,
    RecordPatch,
    Restarted,
    TaskCompleted,
    TaskFailed,
    Terminated,
)
from tests.unit.net.builders import Player, a_net, a_node

WORK = Task("work")


def a_player() -> Player:
    net = a_net(
        a_node("fork", "a", "b"),
        a_node("a", "a2", activity=WORK),
        a_node("a2", activity=WORK),
        a_node("b", activity=HumanTask("form")),
        on_failure=DRAIN,
    )
    return Player(net).start()


def test_terminating_leaves_tasks_to_end_and_begins_nothing():
    player = a_player()
    task = player.task_at("a")
    assert player.play(Terminated()).marking.phase == "TERMINATING"
    assert player.play(TaskCompleted(task, "A")).marking.phase == "TERMINATED"
    assert player.told(EnqueueTask) == []
    player.play(Restarted())
    assert {(entry.node, entry.input) for entry in player.told(RecordEntry)} == {("a2", "A"), ("b", "fork")}


def test_asked_twice_it_terminates_at_once_and_ignores_what_comes_later():
    player = a_player()
    task = player.task_at("a")
    player.play(Terminated())
    assert player.play(Terminated()).marking.phase == "TERMINATED"
    assert player.told(CloseTask) == [CloseTask(task=task, status="CANCELLED")]
    assert player.play(TaskCompleted(task, "late")).effects == ()
    player.play(Restarted())
    assert [task.node for task in player.told(EnqueueTask)] == ["a"]


def test_an_instance_without_running_tasks_is_terminated_at_once():
    player = Player(a_net(a_node("b", activity=HumanTask("form")), on_failure=DRAIN)).start()
    player.play(Terminated())
    assert [change.phase for change in player.told(ChangePhase)] == ["TERMINATING", "TERMINATED"]


def test_a_failure_while_terminating_is_listed_and_begins_again_at_a_restart():
    player = a_player()
    player.play(Terminated())
    player.play(TaskFailed(player.task_at("a"), "boom"))
    assert player.marking.phase == "TERMINATED"
    assert [token.node for token in player.marking.failures] == ["a"]
    player.play(Restarted())
    assert [task.node for task in player.told(EnqueueTask)] == ["a"]


def test_a_terminated_instance_can_be_cancelled_for_good():
    player = a_player()
    player.play(Terminated()).play(Terminated()).play(Cancelled("enough"))
    assert (player.marking.phase, player.marking.reason) == ("CANCELLED", "enough")
    assert player.play(Restarted()).effects == ()


def test_a_patch_changes_the_data():
    player = a_player().play(Patched({"more": 1}))
    assert player.marking.data["more"] == 1
    assert player.told(RecordPatch) == [RecordPatch({"more": 1})]


def test_a_stopped_marking_is_read_back_from_its_document_unchanged():
    marking = a_player().play(Terminated()).marking
    assert marking_from_document(marking_to_document(marking), marking.data) == marking
