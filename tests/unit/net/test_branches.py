"""Failures that are routed, and what an instance comes to (docs/reference/kernel.md#quiescence)."""

from collections.abc import Mapping

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Arc, Many, Net, Node, NodeId, Routing, SubNet, Tally, Task
from statewright.net.effects import (
    CancelChild,
    Cancelled,
    ChangePhase,
    ChildEnded,
    Injected,
    RecordExit,
    RecordPatch,
    Restarted,
    StartChild,
    TaskCompleted,
    TaskFailed,
    TaskPatched,
    TimerFired,
    Trace,
)
from tests.unit.net.builders import Letters, Player
from tests.unit.net.routed import A_SECOND, a_step, at, routed, tell

WORK = Task("work")


class Summing(Letters):
    """The last node is told how many branches there were."""

    def summarize(self, data: JsonObject, tally: Tally, visits: Mapping[NodeId, int]) -> JsonValue:
        return f"{tally.succeeded}/{tally.failed}"


def failing(*targets: str, **members: object) -> Player:
    """``s`` fails; ``ok`` and ``ko`` may follow."""
    net = routed(a_step("s", *targets, activity=WORK), a_step("ok"), a_step("ko"), **members)
    player = Player(net, Summing()).start()
    return player.play(TaskFailed(player.task_at("s"), "boom"))


def test_a_failure_is_handled_by_an_arc_with_a_guard():
    player = failing("boom->ok")
    assert player.marking.phase == "COMPLETED"
    assert (player.marking.tally.succeeded, player.marking.tally.failed) == (1, 0)


def test_a_failure_that_moves_on_by_itself_counts():
    player = failing("ok")
    assert tell(player.effects) == ["+ok", "ok", "FAILED"]
    assert (player.marking.tally.succeeded, player.marking.tally.failed) == (1, 1)


@pytest.mark.parametrize("targets", [(), ("zzz->ok",)])
def test_a_failure_without_a_way_on_ends_its_branch(targets: tuple[str, ...]):
    player = failing(*targets)
    assert player.marking.phase == "FAILED"
    assert player.marking.tally.failures[0].reason == "boom"


def test_a_guard_that_cannot_be_evaluated_does_not_match():
    net = routed(a_step("s", "?->a", "b", mode="FIRST"), a_step("a"), a_step("b"))
    player = Player(net).start()
    assert tell(player.effects)[-2:] == ["b", "COMPLETED"]
    (decision,) = [trace for trace in player.told(Trace) if trace.kind == "arcs.evaluated"]
    assert decision.details["defects"] == [{"arc": 0, "reason": "no such guard"}]


def test_a_branch_fails_where_guards_cannot_be_evaluated_and_none_matches():
    player = Player(routed(a_step("s", "?->a"), a_step("a"))).start()
    assert player.marking.reason == "GUARD_ERROR"


@pytest.mark.parametrize(("unmatched", "phase"), [(None, "COMPLETED"), ("NO_NEXT", "FAILED")])
def test_a_branch_without_an_open_arc_ends_well_unless_the_net_says_otherwise(unmatched: str | None, phase: str):
    player = Player(routed(a_step("s", "zzz->a", unmatched=unmatched), a_step("a"))).start()
    assert player.marking.phase == phase


def test_the_first_failure_discards_what_has_not_begun():
    net = routed(
        a_step("s", "a", "b", "c"),
        a_step("a", activity=WORK),
        a_step("b", "c", activity=WORK),
        a_step("c", activity=WORK),
        capacity=2,
        fails_fast=True,
    )
    player = Player(net).start()
    assert tell(player.play(TaskFailed(player.task_at("a"), "boom")).effects) == ["-c"]
    assert tell(player.play(TaskCompleted(player.task_at("b"))).effects) == ["FAILED"]


def test_the_last_node_follows_when_many_tokens_were_discarded():
    many = [f"n{number}" for number in range(40)]
    nodes = [a_step(name, activity=WORK) for name in many]
    net = routed(a_step("s", *many), *nodes, a_step("end"), capacity=1, fails_fast=True, finalizer=NodeId("end"))
    player = Player(net).start()
    told = tell(player.play(TaskFailed(player.task_at("n0"), "boom")).effects)
    assert told == [*(f"-{name}" for name in many[1:]), "+end", "end", "FAILED"]


def test_a_restart_begins_runs_again_although_a_branch_that_nothing_repairs_has_failed():
    """Where the first failure discards what has not begun, those of before the restart do not."""
    net = routed(
        a_step("s", "a", "b"),
        a_step("a", activity=WORK),
        a_step("b", "c", activity=WORK),
        a_step("c", activity=WORK),
        a_step("none", "zzz->c", unmatched="NO_NEXT"),
        fails_fast=True,
    )
    player = Player(net).start()
    player.play(Injected(NodeId("none")))
    player.play(TaskFailed(player.task_at("a"), "boom")).play(TaskFailed(player.task_at("b"), "boom"))
    assert player.marking.tally.failed == 3
    assert tell(player.play(Restarted()).effects) == ["RUNNING", "+a", "+b", "a", "b"]
    assert tell(player.play(TaskCompleted(player.task_at("b"))).effects) == ["+c", "c"]
    assert player.play(TaskFailed(player.task_at("a"), "boom")).marking.tally.failed == 2
    player.play(Injected(NodeId("c")))
    assert tell(player.effects) == ["+c", "-c"]


def test_a_node_comes_after_all_others_once():
    net = routed(a_step("s", "a", "b"), a_step("a"), a_step("b"), a_step("end", "a"), finalizer=NodeId("end"))
    player = Player(net, Summing()).start()
    assert tell(player.effects)[-3:] == ["+end", "end", "COMPLETED"]
    assert player.inputs("end") == ["2/0"]


def test_the_last_node_needs_no_admission_and_waits_for_no_others():
    net = routed(a_step("s"), a_step("end", when="never", join=("s", "x")), finalizer=NodeId("end"))
    assert Player(net, Summing()).start().marking.phase == "COMPLETED"


def test_the_last_node_is_not_run_again_where_it_ran_before():
    net = routed(a_step("s", "end"), a_step("end"), finalizer=NodeId("end"))
    assert tell(Player(net).start().effects).count("end") == 1


def test_the_last_node_comes_after_failures_too_and_may_fail_itself():
    player = failing(finalizer=NodeId("ko"))
    assert player.inputs("ko") == ["0/1"]
    net = routed(a_step("s"), a_step("end", activity=WORK), finalizer=NodeId("end"))
    player = Player(net, Summing()).start()
    player.play(TaskFailed(player.task_at("end"), "boom"))
    assert player.marking.tally.final == "FAILED"
    player.play(Restarted())
    assert player.play(TaskCompleted(player.task_at("end"))).marking.tally.final == "DONE"


def test_nothing_comes_after_a_cancellation():
    net = routed(a_step("s", activity=WORK), a_step("end"), finalizer=NodeId("end"))
    player = Player(net).start().play(Cancelled("enough"))
    assert tell(player.effects) == ["CANCELLED"]


def test_an_arc_changes_the_data_before_what_it_carries_is_computed():
    seen: list[JsonValue] = []

    class Seeing(Letters):
        def inscribe(self, expression, data, visit):
            seen.append(data.get("flag"))
            return expression

    net = routed(
        Node(id=NodeId("s"), routing=Routing(arcs=(Arc(NodeId("a"), payload="x", assignment="flag"),))), a_step("a")
    )
    player = Player(net, Seeing()).start()
    assert seen == ["s"]
    assert player.inputs("a") == ["x"]
    assert [patch.changes for patch in player.told(RecordPatch)] == [{"flag": "s"}]


def test_an_instance_that_makes_ever_more_tokens_is_given_up():
    """Each run would make two: at the limit what has not begun is discarded, and the last node is run all the same."""
    net = routed(a_step("s", "s", "s"), a_step("end"), max_tokens=10, finalizer=NodeId("end"))
    player = Player(net, Summing()).start()
    assert (player.marking.phase, player.marking.tally.verdict) == ("FAILED", "TOO_MANY_TOKENS")
    told = tell(player.effects)
    assert (told.count("s"), told.count("-s"), told[-2:]) == (10, 9, ["end", "FAILED"])


# Loops, and what their elements change.


class Pair(Letters):
    def list_items(self, data, visit):
        return ["x", "y", "z"]


def looping(limit: int | None, on_failure: str) -> Player:
    net: Net = routed(a_step("s", "FAILED->ko", activity=Many(WORK, limit, on_failure)), a_step("ko"))  # type: ignore[arg-type]
    return Player(net, Pair()).start()


def test_a_loop_that_stops_begins_no_others_and_fails_when_those_that_run_have_ended():
    player = looping(2, "STOP")
    first, second = player.open_at("s")
    assert player.play(TaskFailed(first, "boom", {"kind": "boom"})).open_at("s") == [second]
    player.play(TaskCompleted(second, "fine"))
    assert player.marking.reason == "LOOP: 1 of 3 elements failed"
    (exit_,) = [effect for effect in player.told(RecordExit) if effect.status == "FAILED"]
    assert exit_.output is not None


def test_changes_of_elements_that_run_at_once_are_held_back_until_they_end():
    player = looping(None, "GO_ON")
    x, y, z = player.open_at("s")
    player.play(TaskPatched(x, {"k": 1}))
    assert "k" not in player.marking.data
    assert player.told(RecordPatch)[0].is_held
    assert player.play(TaskCompleted(x)).marking.data["k"] == 1
    player.play(TaskPatched(y, {"k": 1}))
    assert player.play(TaskCompleted(y)).marking.tally.failed == 0
    player.play(TaskPatched(z, {"k": 2, "other": 1}))
    player.play(TaskCompleted(z))
    assert (player.marking.data["k"], "other" in player.marking.data) == (1, False)
    (exit_,) = [effect for effect in player.effects if isinstance(effect, RecordExit) and effect.status == "FAILED"]
    assert (exit_.reason or "").startswith("CTX_CONFLICT: k ")


def test_elements_one_after_the_other_change_the_data_at_once():
    player = looping(1, "GO_ON")
    for value in (1, 2, 3):
        (task,) = player.open_at("s")
        assert player.play(TaskPatched(task, {"k": value})).marking.data["k"] == value
        player.play(TaskCompleted(task))
    assert player.marking.phase == "COMPLETED"


def test_changes_of_a_run_that_fails_stay():
    player = looping(2, "GO_ON")
    task = player.open_at("s")[0]
    player.play(TaskPatched(task, {"k": 1})).play(TaskFailed(task, "boom"))
    assert player.marking.data["k"] == 1


# Other instances that are awaited.


def test_an_awaited_instance_ends_or_fails_or_is_given_up():
    def begin() -> Player:
        net = routed(a_step("s", "boom->ko", activity=SubNet("other"), limit=A_SECOND), a_step("ko"))
        return Player(net).start()

    player = begin()
    (child,) = player.told(StartChild)
    assert child.awaited_by is not None
    assert player.play(ChildEnded(child.awaited_by, "fine")).marking.phase == "COMPLETED"
    player = begin()
    (child,) = player.told(StartChild)
    player.play(ChildEnded(child.awaited_by or "", reason="boom", error={"kind": "child"}))  # type: ignore[arg-type]
    assert player.marking.tally.failures[0].error == {"kind": "child"}
    player = begin()
    player.play(TimerFired(player.marking.tokens[0].timers[0].id))
    assert len(player.told(CancelChild)) == 1
    assert player.told(ChangePhase)[-1].phase == "FAILED"
    assert at(player.marking, "FAILED") == ["s"]
