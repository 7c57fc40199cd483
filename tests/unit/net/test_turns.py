"""Tokens take turns, and some must be admitted first (docs/reference/kernel.md#turns-and-admission)."""

import pytest

from statewright.net import Admission, NodeId, Task
from statewright.net.effects import (
    DisarmTimer,
    EnqueueTask,
    Injected,
    Patched,
    Reconsidered,
    Restarted,
    TaskCompleted,
    TaskFailed,
    TaskPatched,
    TimerFired,
    Trace,
)
from tests.unit.net.builders import Letters, Player
from tests.unit.net.routed import A_SECOND, a_step, at, routed, tell
from tests.unit.net.test_cost import count_calls

WORK = Task("work")


def test_tokens_fire_in_the_order_in_which_they_were_made():
    net = routed(a_step("s", "a", "b"), a_step("a", "m"), a_step("b", "m"), a_step("m"))
    player = Player(net).start()
    assert tell(player.effects) == ["+s", "s", "+a", "+b", "a", "+m", "b", "+m", "m", "m", "COMPLETED"]


def test_no_more_run_at_once_than_the_instance_has_capacity_for():
    net = routed(a_step("s", "a", "b", "c"), *[a_step(name, activity=WORK) for name in "abc"], capacity=2)
    player = Player(net).start()
    assert (at(player.marking, "WORKING"), at(player.marking, "READY")) == (["a", "b"], ["c"])
    player.play(TaskCompleted(player.task_at("b")))
    assert at(player.marking, "WORKING") == ["a", "c"]


def test_a_token_that_is_not_admitted_waits_for_a_change_of_the_data():
    net = routed(a_step("s", "gate"), a_step("gate", when="open"))
    player = Player(net).start()
    assert tell(player.effects) == ["+s", "s", "+gate", "!gate", "WAITING"]
    assert tell(player.play(Patched({"shut": True})).effects) == []
    assert tell(player.play(Patched({"open": True})).effects) == ["RUNNING", "gate", "COMPLETED"]


def test_a_running_task_and_a_result_admit_others():
    net = routed(
        a_step("s", "work", "late", "later"),
        a_step("work", activity=WORK),
        a_step("late", when="open"),
        a_step("later", when="work"),
    )
    player = Player(net).start()
    assert at(player.marking, "PENDING") == ["late", "later"]
    assert tell(player.play(TaskPatched(player.task_at("work"), {"open": True})).effects) == ["late"]
    assert tell(player.play(TaskCompleted(player.task_at("work"))).effects) == ["later", "COMPLETED"]


def test_only_one_passes_where_only_one_may():
    """Each is compared with what the one before has left."""
    net = routed(a_step("s", "a", "b"), a_step("a", "once"), a_step("b", "once"), a_step("once", when="!once"))
    player = Player(net).start()
    assert tell(player.effects)[-3:] == ["once", "!once", "WAITING"]


def test_tokens_are_admitted_in_their_order():
    net = routed(a_step("s", "a", "b", "a"), a_step("a", when="open"), a_step("b", when="open"))
    player = Player(net).start()
    assert tell(player.play(Patched({"open": True})).effects) == ["RUNNING", "a", "b", "a", "COMPLETED"]


def test_what_a_rule_cannot_see_does_not_have_it_asked():
    asked: list[str] = []

    class Asking(Letters):
        def admit(self, rule, data, visit):
            asked.append(rule)
            return super().admit(rule, data, visit)

    gate = a_step("gate")
    gate = type(gate)(id=gate.id, admission=Admission(rule="open", watches=frozenset({"open", "other"})))
    player = Player(routed(a_step("s", "gate"), gate), Asking()).start()
    player.play(Patched({"unseen": 1}))
    assert len(asked) == 1
    player.play(Patched({"other": 1}))
    assert len(asked) == 2


def test_a_refusal_is_told_once():
    net = routed(a_step("s", "gate"), a_step("gate", when="open"))
    player = Player(net).start()
    player.play(Patched({"shut": True}))
    assert [trace for trace in player.told(Trace) if trace.kind == "admission.evaluated"] == []


def test_someone_can_ask_again():
    class Moody(Letters):
        mood = False

        def admit(self, rule, data, visit):
            return super().admit(rule, {"open": 1} if self.mood else {}, visit)

    language = Moody()
    player = Player(routed(a_step("s", "gate"), a_step("gate", when="open")), language).start()
    language.mood = True
    assert tell(player.play(Reconsidered()).effects) == ["RUNNING", "gate", "COMPLETED"]


def test_a_token_that_is_refused_can_be_discarded():
    net = routed(a_step("s", "gate", "b"), a_step("gate", when="open", denies="DISCARD"), a_step("b"))
    player = Player(net).start()
    assert tell(player.effects)[4:] == ["!gate", "-gate", "b", "COMPLETED"]
    assert player.marking.tally.succeeded == 2


@pytest.mark.parametrize(("policy", "phase"), [("DISCARD", "COMPLETED"), ("FAIL", "FAILED"), ("WAIT", "WAITING")])
def test_a_net_says_what_becomes_of_tokens_that_nothing_admits(policy: str, phase: str):
    net = routed(a_step("s", "gate"), a_step("gate", when="open"), on_pending=policy)
    assert Player(net).start().marking.phase == phase


def test_a_token_is_injected_and_must_be_admitted():
    net = routed(a_step("s", activity=WORK), a_step("gate", when="open"), a_step("free"))
    player = Player(net).start()
    assert tell(player.play(Injected(NodeId("free"), ("x",))).effects) == ["+free", "free"]
    assert player.inputs("free") == ["x"]
    assert tell(player.play(Injected(NodeId("gate"))).effects) == ["+gate", "!gate"]
    assert player.play(Injected(NodeId("nowhere"))).effects == ()


def test_a_token_waits_no_longer_for_admission_than_its_node_allows():
    net = routed(a_step("s", "gate"), a_step("gate", when="open", limit=A_SECOND))
    player = Player(net).start()
    player.play(TimerFired(player.marking.tokens[0].timers[0].id))
    assert (player.marking.phase, player.marking.reason) == ("FAILED", "TIMEOUT")
    assert player.marking.tally.failed == 1


def test_an_admitted_token_waits_for_its_timer_no_more():
    net = routed(a_step("s", "gate"), a_step("gate", when="open", limit=A_SECOND))
    player = Player(net).start()
    (timer,) = player.marking.tokens[0].timers
    assert player.play(Patched({"open": 1})).told(DisarmTimer) == [DisarmTimer(timer.id)]


def test_a_run_takes_no_longer_than_its_node_allows():
    net = routed(a_step("slow", "TIMEOUT->handled", activity=WORK, limit=A_SECOND), a_step("handled"))
    player = Player(net).start()
    player.play(TimerFired(player.marking.tokens[0].timers[0].id))
    assert tell(player.effects) == ["+handled", "handled", "COMPLETED"]


def test_a_patch_costs_what_it_admits_and_not_what_the_instance_holds():
    """Of a thousand tokens that are not admitted, those are asked about whose rule can see the change."""
    gates = [f"g{number}" for number in range(40)]
    nodes = [a_step(gate, when=gate) for gate in gates]
    nodes = [
        type(node)(id=node.id, admission=Admission(rule=node.id, watches=frozenset({str(node.id)}))) for node in nodes
    ]
    player = Player(routed(a_step("s", *(gates * 25)), *nodes)).start()
    assert len(at(player.marking, "PENDING")) == 1_000
    player.play(Patched({"g0": 1}))
    assert len(at(player.marking, "PENDING")) == 975
    unseen = count_calls(lambda: player.play(Patched({"unseen": 1})))
    assert unseen < 1_000


def test_a_failed_run_begins_again_with_what_its_token_brought():
    net = routed(a_step("s", "work"), a_step("work", activity=WORK))
    player = Player(net).start()
    player.play(TaskFailed(player.task_at("work"), "boom", {"kind": "boom"}))
    assert player.marking.phase == "FAILED"
    assert player.marking.tally.failures[0].error == {"kind": "boom"}
    player.play(Restarted())
    assert (player.marking.phase, player.marking.tally.failed) == ("RUNNING", 0)
    assert player.inputs("work") == ["s"]
    assert player.play(TaskCompleted(player.told(EnqueueTask)[0].task)).marking.phase == "COMPLETED"
