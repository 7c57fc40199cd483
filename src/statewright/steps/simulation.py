"""A dry run: a definition played through with stubs for workers, people and signals, on a clock of its own.

Everything that can happen is put on a timetable: a stub's reply after its delay, a timer when it is due. The next entry
is always played next, whatever real time it stands for; what came too late by then has no effect, as in real life.
"""

import heapq
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.net import Delay, add_delay, format_ulid, parse_delay
from statewright.net.effects import ArmTimer, Effect, EnqueueTask, OpenHumanTask, RecordEntry, StartChild
from statewright.net.local import LocalClock
from statewright.processes.changes import (
    JOB_FAILED,
    FailureReport,
    GivenUp,
    JobState,
    NodeExecution,
    Requeued,
    apply_end,
    compute_history_changes,
    decide_retry,
)
from statewright.processes.language import InstanceOperation, NewInstance, Rejection
from statewright.steps import operations
from statewright.steps.documents import DefinitionMembers, UnreadableDefinition, map_spellings
from statewright.steps.instance import Instance, render_history_item, render_instance
from statewright.steps.language import Process
from statewright.steps.operations import Applied, start_instance

MAX_EVENTS: Final = 10_000
"""Most events of one simulated chain: a definition that loops for ever is cut here."""

NO_DELAY: Final = Delay(0, 0)

_WORKER: Final = "simulation"


class SuccessReply(Struct, frozen=True, kw_only=True):
    """A reply that succeeds, some time after it was asked for."""

    variables: JsonObject = {}
    delay: Delay = NO_DELAY


class FailureReply(Struct, frozen=True, kw_only=True):
    """A reply of a worker that fails."""

    message: str = JOB_FAILED
    retryable: bool = False
    delay: Delay = NO_DELAY


Reply: TypeAlias = SuccessReply | FailureReply
Replies: TypeAlias = tuple[Reply, ...]
"""One reply per delivery; the last one is given again and again."""


class Stubs(Struct, frozen=True, kw_only=True):
    """The replies to what an instance waits for. What is not listed gets no reply, so that timers fire."""

    jobs: Mapping[str, Replies] = {}
    """By job type."""
    user_tasks: Mapping[str, Replies] = {}
    """By step id; only answers."""
    signals: Mapping[str, Replies] = {}
    """By step id; only answers."""


class SimulatedInstance(Struct, frozen=True, kw_only=True):
    """An instance after the simulation."""

    process: Process
    instance: Instance
    history: tuple[NodeExecution, ...]
    ended_at_step: str | None
    """The END it completed at."""
    has_chained: bool
    """Whether that END starts another instance."""


class Simulation(Struct, frozen=True, kw_only=True):
    """All instances of a chain, in the order in which they were started."""

    instances: tuple[SimulatedInstance, ...]
    stopped: Literal["at rest", "event limit", "unknown successor"]
    """Why it went no further: nothing is left to happen, or what stood in the way."""
    clock: int
    """The simulated instant of the last event."""


def simulate(
    process: Process,
    variables: JsonObject,
    stubs: Stubs,
    *,
    at: int,
    successor: Callable[[str], Process | None] = lambda _: None,
    business_key: str = "",
) -> Simulation:
    """Play a definition through from instant ``at``; ``successor`` finds the definitions it chains to."""
    player = _Simulator(stubs, at)
    played: list[SimulatedInstance] = []
    current: Process | None = process
    parent: str | None = None
    stopped: Literal["at rest", "event limit", "unknown successor"] = "at rest"
    while current is not None and player.has_events_left:
        one, child = player.run_instance(current, variables, business_key, parent)
        played.append(one)
        current = None if child is None else successor(child.net)
        if child is not None and current is None:
            stopped = "unknown successor"
        variables, parent = one.instance.variables, one.instance.id
    return Simulation(
        instances=tuple(played),
        stopped=stopped if player.has_events_left else "event limit",
        clock=player.clock,
    )


class _Simulator:
    """Plays one instance after the other on one timetable."""

    def __init__(self, stubs: Stubs, at: int) -> None:
        self._clock = LocalClock(at, tick=0)
        self._stubs = stubs
        self._events = 0
        self._last_sequence = 0
        self._reply_counts: dict[tuple[str, str], int] = {}
        self._event_queue: list[tuple[int, int, Callable[[], None]]] = []
        self._history: dict[str, NodeExecution] = {}
        self._child: StartChild | None = None

    @property
    def clock(self) -> int:
        """The simulated instant."""
        return self._clock.now

    @property
    def has_events_left(self) -> bool:
        return self._events < MAX_EVENTS

    def run_instance(
        self, process: Process, variables: JsonObject, business_key: str, parent: str | None
    ) -> tuple[SimulatedInstance, StartChild | None]:
        self._process, self._history, self._event_queue, self._child = process, {}, [], None
        new = NewInstance(
            id=format_ulid(self._clock.next_moment().first_id),
            variables=variables,
            business_key=business_key,
            parent_instance_id=parent,
        )
        self._apply(start_instance(process, new, self._clock.next_moment()))
        while self._event_queue and self.has_events_left and not self._instance.is_terminal:
            self._clock.now, _, event = heapq.heappop(self._event_queue)
            self._events += 1
            event()
        played = SimulatedInstance(
            process=process,
            instance=self._instance,
            history=tuple(self._history.values()),
            ended_at_step=self._find_end_step(),
            has_chained=self._child is not None,
        )
        return played, self._child

    def _find_end_step(self) -> str | None:
        ends = [line.node_id for line in self._history.values() if line.node_type == "END"]
        return ends[-1] if ends and self._instance.status == "COMPLETED" else None

    def _get_step_type(self, step_id: str) -> str:
        return self._process.steps[step_id].type

    def _apply(self, applied: Applied | Rejection) -> None:
        if isinstance(applied, Rejection):
            return
        self._instance = applied.instance
        changes = compute_history_changes(self._get_step_type, applied.instance.id, applied.effects, self.clock)
        self._history.update({line.id: line for line in changes.new})
        for end in changes.ended:
            self._history[end.id] = apply_end(self._history[end.id], end)
        for effect in applied.effects:
            self._plan(effect)

    def _plan(self, effect: Effect) -> None:
        match effect:
            case EnqueueTask():
                self._plan_job(effect, effect.retries)
            case OpenHumanTask(task=task, node=node):
                answers = self._stubs.user_tasks
                self._plan_reply("userTasks", node, answers, lambda reply: self._complete_task(task, reply))
            case RecordEntry(node=node) if self._process.steps[node].type == "WAIT":
                self._plan_reply("signals", node, self._stubs.signals, lambda reply: self._signal(node, reply))
            case ArmTimer(timer=timer, at=at):
                self._schedule(at, lambda: self._play(partial(operations.fire_timer, timer=timer)))
            case StartChild():
                self._child = effect
            case _:
                pass

    def _plan_job(self, job: EnqueueTask, retries: int) -> None:
        self._plan_reply("jobs", job.kind, self._stubs.jobs, lambda reply: self._report_job(job, retries, reply))

    def _plan_reply(
        self, group: str, name: str, replies: Mapping[str, Replies], deliver: Callable[[Reply], None]
    ) -> None:
        prepared = replies.get(name)
        if not prepared:
            return
        asked = self._reply_counts.get((group, name), 0)
        self._reply_counts[group, name] = asked + 1
        reply = prepared[min(asked, len(prepared) - 1)]
        at = add_delay(self.clock, reply.delay)
        if at is not None:
            self._schedule(at, lambda: deliver(reply))

    def _schedule(self, at: int, event: Callable[[], None]) -> None:
        self._last_sequence += 1
        heapq.heappush(self._event_queue, (max(at, self.clock), self._last_sequence, event))

    def _report_job(self, job: EnqueueTask, retries: int, reply: Reply) -> None:
        if isinstance(reply, SuccessReply):
            self._play(partial(operations.complete_job, job=job.task, variables=reply.variables))
            return
        state = JobState(status="LOCKED", worker_id=_WORKER, retries_remaining=retries)
        report = FailureReport(worker_id=_WORKER, message=reply.message, retryable=reply.retryable)
        verdict = decide_retry(state, report)
        if isinstance(verdict, Requeued):
            self._plan_job(job, verdict.retries_remaining)
        elif isinstance(verdict, GivenUp):
            self._play(partial(operations.fail_job, job=job.task, reason=verdict.reason))

    def _complete_task(self, task: str, reply: Reply) -> None:
        if isinstance(reply, SuccessReply):
            complete = operations.complete_user_task_by_id
            self._play(partial(complete, task=task, variables=reply.variables, by=_WORKER))

    def _signal(self, step_id: str, reply: Reply) -> None:
        if isinstance(reply, SuccessReply):
            self._play(partial(operations.signal_step, step_id=step_id, variables=reply.variables))

    def _play(self, operation: InstanceOperation[Process, Instance]) -> None:
        self._apply(operation(self._process, self._instance, moment=self._clock.next_moment()))


# Stubs of a dry run as a document, and its outcome as one.
#
# ``{"jobs": {"credit-score": {"variables": {"creditScore": 720}}}, "userTasks": {…}, "signals": {…}}``: by job type and
# by step id, one reply or a list of them, one per delivery. A reply has ``variables``, or for a worker ``error`` and
# maybe ``retryable``; ``after`` is how long it takes, an ISO-8601 duration.

_STUBS: Final = map_spellings("jobs", "userTasks", "signals")
_REPLY: Final = map_spellings("variables", "error", "retryable", "after")


def read_stubs(value: JsonValue) -> Stubs:
    """The stubs in a document. Raises ValueError, which says where it is wrong."""
    try:
        members = DefinitionMembers({} if value is None else value, _STUBS, "")
        return Stubs(
            jobs=_read_replies(members, "jobs"),
            user_tasks=_read_replies(members, "userTasks"),
            signals=_read_replies(members, "signals"),
        )
    except UnreadableDefinition as defect:
        raise ValueError(str(defect).removeprefix("json: ")) from None


def report_simulation(simulation: Simulation) -> JsonObject:
    """The outcome: every instance of the chain with its history."""
    return {
        "stopped": simulation.stopped,
        "clock": to_rfc3339(simulation.clock),
        "instances": [_report_instance(played) for played in simulation.instances],
    }


def _report_instance(simulated: SimulatedInstance) -> JsonObject:
    return {
        **render_instance(simulated.instance),
        "endedAtStep": simulated.ended_at_step,
        "chained": simulated.has_chained,
        "history": [render_history_item(line, simulated.process) for line in simulated.history],
    }


def _read_replies(members: DefinitionMembers, group: str) -> Mapping[str, Replies]:
    return {
        name: _read_reply_list(value, f"{members.path_of(group)}.{name}", group)
        for name, value in (members.object(group) or {}).items()
    }


def _read_reply_list(value: JsonValue, path: str, group: str) -> Replies:
    listed = value if isinstance(value, list) else [value]
    return tuple(_read_reply(item, f"{path}[{index}]", group) for index, item in enumerate(listed))


def _read_reply(value: JsonValue, path: str, group: str) -> Reply:
    members = DefinitionMembers({} if value is None else value, _REPLY, path)
    after = members.text("after")
    delay = parse_delay(after) if after else NO_DELAY
    if delay is None:
        raise UnreadableDefinition(f"invalid ISO-8601 duration {quote(after)} at {members.path_of('after')}")
    if members.get("error") is None:
        return SuccessReply(variables=members.object("variables") or {}, delay=delay)
    if group != "jobs":
        raise UnreadableDefinition(f"only jobs can fail, not {path}")
    return FailureReply(message=members.text("error"), retryable=members.flag("retryable") or False, delay=delay)
