"""What holds for any net and any order of events (docs/reference/kernel.md#guarantees)."""

import os
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import (
    Language,
    Many,
    Marking,
    Moment,
    Net,
    Node,
    NodeId,
    SubNet,
    Token,
    Visit,
    Wait,
    advance,
    marking_from_document,
    marking_to_document,
    start,
)
from statewright.net.effects import (
    ArmTimer,
    CancelChild,
    Cancelled,
    ChangePhase,
    ChildEnded,
    CloseHumanTask,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    Event,
    FireTimer,
    HumanTaskCompleted,
    Injected,
    OpenHumanTask,
    Patched,
    Reconsidered,
    RecordEntry,
    RecordExit,
    Restarted,
    Retried,
    Signalled,
    StartChild,
    TaskCompleted,
    TaskFailed,
    TaskPatched,
    TaskPaused,
    Terminated,
    TimerFired,
)
from statewright.net.local import LocalClock
from statewright.net.marking import PAUSE, ExecutionId, TimerId, WorkId
from statewright.net.nodes import Activity, Task
from tests.unit.net.builders import AT, Letters
from tests.unit.net.strategies import MAX_VISITS, nets, routed_nets

EXAMPLES = int(os.environ.get("NET_EXAMPLES", "80"))
FINAL = ("COMPLETED", "CANCELLED")
MAX_ITEMS = 3
KINDS = [
    "complete",
    "complete",
    "complete",
    "fail",
    "timer",
    "again",
    "retry",
    "restart",
    "terminate",
    "patch",
    "change",
    "pause",
    "inject",
    "look",
    "cancel",
]


class FewLetters(Letters):
    """Loops over loops would make ever longer texts: each goes over three letters at most."""

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue]:
        return super().list_items(data, visit)[:MAX_ITEMS]


LETTERS = FewLetters()


class Ledger:
    """Plays events on a net, and keeps the books: what was begun must be ended once, or be in the marking."""

    def __init__(self, net: Net, language: Language | None = None) -> None:
        self.net = net
        self.language = language or LETTERS
        self.clock = LocalClock(AT)
        self.marking = Marking(data={})
        self.executions: dict[str, str] = {}
        self.tasks: dict[WorkId, str] = {}
        self.people: set[WorkId] = set()
        self.closed: list[WorkId] = []
        self.timers: set[TimerId] = set()
        self.children: set[ExecutionId] = set()
        self.phases: list[str] = []
        self.log: list[tuple[Event | None, Moment]] = []

    def play(self, event: Event | None) -> tuple[Effect, ...]:
        moment = self.clock.next_moment()
        self.log.append((event, moment))
        before, self.marking, effects = self.marking, *run(self.net, self.marking, event, moment, self.language)
        if not effects:
            assert self.marking is before
        for effect in effects:
            self._book(effect)
        self._check()
        return effects

    def _book(self, effect: Effect) -> None:
        match effect:
            case RecordEntry(execution=execution, node=node):
                assert execution not in self.executions
                assert not self.phases or self.phases[-1] not in FINAL
                self.executions[execution] = node
            case RecordExit(execution=execution, node=node):
                assert self.executions[execution] == node
                self.executions[execution] = "ended"
                self.children.discard(execution)
            case EnqueueTask(task=task, node=node, execution=execution):
                assert not self.phases or self.phases[-1] == "RUNNING", self.phases[-1]
                self.children.discard(execution)  # which it awaited, if its task was paused
                self.tasks[task] = node
            case OpenHumanTask(task=task):
                self.people.add(task)
            case CloseTask(task=task):
                del self.tasks[task]  # closed once
                self.closed.append(task)
            case CloseHumanTask(task=task):
                self.people.remove(task)
                self.closed.append(task)
            case ArmTimer(timer=timer):
                self.timers.add(timer)
            case FireTimer(timer=timer) | DisarmTimer(timer=timer):
                self.timers.remove(timer)
            case StartChild(awaited_by=execution):
                assert execution is not None
                self.children.add(execution)
            case CancelChild(execution=execution):
                assert execution in self.children
            case ChangePhase(phase=phase):
                self.phases.append(phase)
            case _:
                pass

    def _check(self) -> None:
        marking, tokens = self.marking, self.marking.tokens
        running = {execution for execution, node in self.executions.items() if node != "ended"}
        assert running == {token.id for token in tokens if token.stage == "WORKING"}
        assert {*self.tasks, *self.people} == {token.work for token in tokens if token.work is not None}
        assert self.timers - {marking.deadline} == {timer.id for token in tokens for timer in token.timers}
        assert marking.deadline is None or marking.deadline in self.timers
        assert self.children == {token.id for token in self._list_awaiting()}
        assert marking_from_document(marking_to_document(marking), marking.data) == marking
        assert all(loop.token in {token.id for token in tokens} for loop in marking.loops)
        assert all(scope.owner in {loop.token for loop in marking.loops} for scope in marking.scopes)
        assert {token.scope for token in tokens} <= {None, *(scope.id for scope in marking.scopes)}
        if marking.phase == "RUNNING":
            assert not marking.pending
            assert not marking.answers
            assert any(token.stage in ("WORKING", "WAITING") for token in tokens)
        if marking.phase in ("RUNNING", "WAITING"):
            self._check_turns(marking)
        if marking.phase == "TERMINATED":
            assert not self.tasks
        for token in tokens:
            if token.stage == "QUEUED":
                busy = [one for one in tokens if (one.node, one.scope) == (token.node, token.scope)]
                assert any(one.stage not in ("QUEUED", "WAITING") for one in busy) or marking.pending
        for node in self.net.nodes.values():
            if node.concurrency is not None:
                places = Counter(
                    token.scope
                    for token in tokens
                    if token.node == node.id and token.stage == "WORKING" and token.owner is None
                )
                assert all(count <= node.concurrency for count in places.values())

    def _list_awaiting(self) -> list[Token]:
        loops = self.list_working(Many)
        elements = [token for token in loops if token.owner is not None and token.work is None]
        paused = [token for token in self.list_working(Task) if token.is_paused]
        return [
            *self.list_working(SubNet),
            *(token for token in (*elements, *paused) if all(timer.index != PAUSE for timer in token.timers)),
        ]

    def _check_turns(self, marking: Marking) -> None:
        """Whoever may begin has begun, as far as the capacity goes; an instance waits if all who are left may not."""
        stages = Counter(token.stage for token in marking.tokens if token.owner is None)
        capacity = self.net.capacity
        assert capacity is None or stages["WORKING"] <= capacity
        assert not stages["READY"] or stages["WORKING"] == capacity
        assert (marking.phase == "WAITING") == (stages["PENDING"] > 0 == stages["WORKING"])
        for token in marking.tokens:
            if token.stage == "PENDING":
                node = self.net.nodes[token.node]
                visit = Visit(node=node, at=AT, payloads=token.payloads)
                assert node.admission is not None
                assert not self.language.admit(node.admission.rule, marking.data, visit).allows

    def list_working(self, activity: type[Activity]) -> list[Token]:
        """The tokens at which such an activity runs."""
        working = (token for token in self.marking.tokens if token.stage == "WORKING")
        return [token for token in working if isinstance(self.net.nodes[token.node].activity, activity)]

    def list_completions(self, output: str) -> list[Event]:
        """What the outside world can complete now."""
        return [
            *[TaskCompleted(task, output) for task in sorted(self.tasks)],
            *[HumanTaskCompleted(task, output) for task in sorted(self.people)],
            *[ChildEnded(execution, output) for execution in sorted(self.children)],
            *[Signalled(token.node, output) for token in self.list_working(Wait)],
        ]


def run(
    net: Net, marking: Marking, event: Event | None, moment: Moment, language: Language
) -> tuple[Marking, tuple[Effect, ...]]:
    result = start(net, language, {}, moment) if event is None else advance(net, language, marking, event, moment)
    return result.marking, result.effects


def turn_into_failure(event: Event) -> Event:
    """A failure of what the event completes, where it can fail."""
    match event:
        case TaskCompleted(task=task):
            return TaskFailed(task, "boom")
        case ChildEnded(execution=execution):
            return ChildEnded(execution, reason="boom")
        case _:
            return event


def draw_event(data: DataObject, ledger: Ledger, kinds: list[str]) -> Event:
    completions = ledger.list_completions(data.draw(st.sampled_from(["n", "ab", "", "zzz"]), label="output"))
    kind = data.draw(st.sampled_from(kinds), label="event")
    if kind in ("complete", "fail") and completions:
        event = data.draw(st.sampled_from(completions), label="work")
        return event if kind == "complete" else turn_into_failure(event)
    if kind == "timer" and ledger.timers:
        return TimerFired(data.draw(st.sampled_from(sorted(ledger.timers)), label="timer"))
    if kind == "again" and ledger.closed:
        return TaskCompleted(data.draw(st.sampled_from(ledger.closed)), "late")
    match kind:
        case "retry":
            return Retried(data.draw(st.sampled_from(sorted(ledger.net.nodes))), {})
        case "terminate":
            return Terminated()
        case "patch":
            return Patched({"patched": True})
        case "change" if ledger.tasks:
            key = data.draw(st.sampled_from(["n1", "n2", "patched"]), label="key")
            return TaskPatched(data.draw(st.sampled_from(sorted(ledger.tasks))), {key: kind})
        case "pause" if ledger.tasks:
            task = data.draw(st.sampled_from(sorted(ledger.tasks)), label="task")
            return TaskPaused(task=task, until=data.draw(st.sampled_from([AT, None]), label="until"))
        case "inject" if len(ledger.marking.tokens) < 20:
            return Injected(data.draw(st.sampled_from(sorted(ledger.net.nodes))), ("ab",))
        case "look":
            return Reconsidered()
        case "cancel" if data.draw(st.integers(0, 5)) == 0:
            return Cancelled("enough")
        case _:
            return Restarted()


@settings(max_examples=EXAMPLES, deadline=None)
@given(nets() | routed_nets(), st.data())
def test_what_is_begun_is_ended_once_or_in_the_marking(net: Net, data: DataObject):
    ledger = Ledger(net)
    ledger.play(None)
    for _ in range(data.draw(st.integers(0, 14), label="events")):
        ledger.play(draw_event(data, ledger, KINDS))


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(nets() | routed_nets(), st.data())
def test_replaying_the_same_events_gives_the_same_marking_byte_for_byte(net: Net, data: DataObject):
    ledger = Ledger(net)
    ledger.play(None)
    for _ in range(8):
        ledger.play(draw_event(data, ledger, KINDS))
    again = Marking(data={})
    for event, moment in ledger.log:
        stored = marking_from_document(marking_to_document(again), again.data)
        again, _ = run(net, stored, event, moment, LETTERS)
    assert encode(marking_to_document(again)) == encode(marking_to_document(ledger.marking))
    assert again.data == ledger.marking.data


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(nets() | routed_nets(), st.data())
def test_a_completion_delivered_twice_and_events_after_the_end_change_nothing(net: Net, data: DataObject):
    ledger = Ledger(net)
    ledger.play(None)
    for _ in range(8):
        event = draw_event(data, ledger, KINDS)
        ledger.play(event)
        if isinstance(event, TaskCompleted | TaskFailed | HumanTaskCompleted):
            assert ledger.play(event) == ()
    if ledger.marking.phase not in FINAL:
        ledger.play(Cancelled("enough"))
    if ledger.marking.phase in FINAL:
        late: list[Event] = [Restarted(), Terminated(), Patched({}), Cancelled("more"), Retried(NodeId("n0"), {})]
        late += [TaskCompleted(task, "late") for task in ledger.closed]
        assert all(ledger.play(event) == () for event in late)
        assert Counter(phase in FINAL for phase in ledger.phases)[True] == 1


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(nets() | routed_nets(), st.data())
def test_every_net_comes_to_rest_within_its_limits(net: Net, data: DataObject):
    """Each node is entered so often at the top and in each pass over a body, so that work runs out."""
    ledger = Ledger(net)
    ledger.play(None)
    of_a_pass = 1 + MAX_ITEMS
    for _ in range(len(net.nodes) * MAX_VISITS * MAX_ITEMS * of_a_pass):
        completions = ledger.list_completions("ab")
        if not completions or ledger.marking.phase != "RUNNING":
            break
        ledger.play(completions[0])
    else:
        raise AssertionError("it goes on for ever")
    assert all(token.stage == "WAITING" for token in ledger.marking.tokens) or ledger.marking.phase in (
        "FAILED",
        "WAITING",
    )


def _survives_failures(node: Node) -> bool:
    loops_on = isinstance(node.activity, Many) and node.activity.on_failure != "FAIL"
    return loops_on or any("FAILED" in arc.on for arc in node.routing.arcs)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(nets(acyclic=True), st.data())
def test_failures_and_restarts_lose_no_token(net: Net, data: DataObject):
    """A restart after every failure comes to the same end as a run without failures, whatever the order."""
    if any(_survives_failures(node) for node in net.nodes.values()):
        return
    smooth, rough = Ledger(net), Ledger(net)
    for ledger, kinds in ((smooth, ["complete"]), (rough, ["complete", "fail", "restart"])):
        ledger.play(None)
        for count in range(400):
            work = ledger.list_completions("ab")
            if not work and ledger.marking.phase in ("RUNNING", "COMPLETED"):
                break
            kind = data.draw(st.sampled_from(kinds)) if count < 30 else "complete"
            if ledger.marking.phase == "FAILED" and (kind == "restart" or not work):
                if not ledger.play(Restarted()) or count > 60:
                    return  # failed for a reason that stays
            elif work:
                event = data.draw(st.sampled_from(work))
                ledger.play(turn_into_failure(event) if kind == "fail" else event)
    if smooth.marking.phase == "COMPLETED" or rough.marking.phase == "COMPLETED":
        assert smooth.marking.phase == rough.marking.phase
        assert smooth.marking.result == rough.marking.result
