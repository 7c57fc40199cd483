"""A dry run: a definition played through with stubs for workers, people and signals, on a clock of its own.

Everything that can happen is put on a timetable: a stub's reply after its delay, a timer when it is due. The next entry
is always played next, whatever real time it stands for; what came too late by then has no effect, as in real life.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.net import Delay, Moment, due, ulid
from statewright.net.effects import ArmTimer, Effect, EnqueueTask, OpenHumanTask, RecordEntry, StartChild
from statewright.net.identifiers import IDS_PER_MOMENT
from statewright.steps.core import operations
from statewright.steps.core.compiling import Process
from statewright.steps.core.history import Execution, history_changes, with_end
from statewright.steps.core.instance import Instance
from statewright.steps.core.jobs import FailureReport, GivenUp, JobState, Requeued, judge_failure
from statewright.steps.core.operations import Applied, NewInstance, Refusal, start_instance

EVENT_LIMIT: Final = 10_000
"""Most events of one simulated chain: a definition that loops for ever is cut here."""

AT_ONCE: Final = Delay(0, 0)

_WORKER: Final = "simulation"


class Answer(Struct, frozen=True, kw_only=True):
    """A reply that succeeds, some time after it was asked for."""

    variables: JsonObject = {}
    delay: Delay = AT_ONCE


class Failure(Struct, frozen=True, kw_only=True):
    """A reply of a worker that fails."""

    message: str = operations.JOB_FAILED
    retryable: bool = False
    delay: Delay = AT_ONCE


Reply: TypeAlias = Answer | Failure
Replies: TypeAlias = tuple[Reply, ...]
"""One reply per delivery; the last one is given again and again."""


class Stubs(Struct, frozen=True, kw_only=True):
    """Who replies what. Whoever is not here never replies, so that timers get their turn."""

    jobs: Mapping[str, Replies] = {}
    """By job type."""
    user_tasks: Mapping[str, Replies] = {}
    """By step id; only answers."""
    signals: Mapping[str, Replies] = {}
    """By step id; only answers."""


class Played(Struct, frozen=True, kw_only=True):
    """An instance after the simulation."""

    process: Process
    instance: Instance
    history: tuple[Execution, ...]
    ended_at_step: str | None
    """The END it completed at."""


class Simulation(Struct, frozen=True, kw_only=True):
    """All instances of a chain, in the order in which they were started."""

    played: tuple[Played, ...]
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
    player = _Player(stubs, at)
    played: list[Played] = []
    current: Process | None = process
    parent: str | None = None
    stopped: Literal["at rest", "event limit", "unknown successor"] = "at rest"
    while current is not None and player.has_time:
        one, child = player.play(current, variables, business_key, parent)
        played.append(one)
        current = None if child is None else successor(child.net)
        if child is not None and current is None:
            stopped = "unknown successor"
        variables, parent = one.instance.variables, one.instance.id
    return Simulation(
        played=tuple(played),
        stopped=stopped if player.has_time else "event limit",
        clock=player.clock,
    )


class _Player:
    """Plays one instance after the other on one timetable."""

    def __init__(self, stubs: Stubs, at: int) -> None:
        self.clock = at
        self._stubs = stubs
        self._minted = 0
        self._events = 0
        self._planned = 0
        self._asked: dict[tuple[str, str], int] = {}
        self._timetable: list[tuple[int, int, Callable[[], None]]] = []
        self._history: dict[str, Execution] = {}
        self._child: StartChild | None = None

    @property
    def has_time(self) -> bool:
        return self._events < EVENT_LIMIT

    def play(
        self, process: Process, variables: JsonObject, business_key: str, parent: str | None
    ) -> tuple[Played, StartChild | None]:
        self._process, self._history, self._timetable, self._child = process, {}, [], None
        new = NewInstance(
            id=ulid(self._moment().first_id),
            variables=variables,
            business_key=business_key,
            parent_instance_id=parent,
        )
        self._take(start_instance(process, new, self._moment()))
        while self._timetable and self.has_time and not self._instance.is_terminal:
            self.clock, _, event = heapq.heappop(self._timetable)
            self._events += 1
            event()
        played = Played(
            process=process,
            instance=self._instance,
            history=tuple(self._history.values()),
            ended_at_step=self._end(),
        )
        return played, self._child

    def _end(self) -> str | None:
        ends = [line.step_id for line in self._history.values() if line.step_type == "END"]
        return ends[-1] if ends and self._instance.status == "COMPLETED" else None

    def _moment(self) -> Moment:
        self._minted += 1
        return Moment(at=self.clock, first_id=(self.clock // 1000 << 80) + self._minted * IDS_PER_MOMENT)

    def _take(self, applied: Applied | Refusal) -> None:
        if isinstance(applied, Refusal):
            return
        self._instance = applied.instance
        changes = history_changes(self._process, applied.instance.id, applied.effects, self.clock)
        self._history.update({line.id: line for line in changes.new})
        for end in changes.ended:
            self._history[end.id] = with_end(self._history[end.id], end)
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
                self._at(at, lambda: self._fire(timer))
            case StartChild():
                self._child = effect
            case _:
                pass

    def _plan_job(self, job: EnqueueTask, retries: int) -> None:
        self._plan_reply("jobs", job.kind, self._stubs.jobs, lambda reply: self._report(job, retries, reply))

    def _plan_reply(self, group: str, name: str, replies: Mapping[str, Replies], play: Callable[[Reply], None]) -> None:
        prepared = replies.get(name)
        if not prepared:
            return
        asked = self._asked.get((group, name), 0)
        self._asked[group, name] = asked + 1
        reply = prepared[min(asked, len(prepared) - 1)]
        at = due(self.clock, reply.delay)
        if at is not None:
            self._at(at, lambda: play(reply))

    def _at(self, at: int, event: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._timetable, (max(at, self.clock), self._planned, event))

    def _report(self, job: EnqueueTask, retries: int, reply: Reply) -> None:
        if isinstance(reply, Answer):
            self._take(
                operations.complete_job(self._process, self._instance, job.task, reply.variables, self._moment())
            )
            return
        state = JobState(status="LOCKED", worker_id=_WORKER, retries_remaining=retries)
        report = FailureReport(worker_id=_WORKER, message=reply.message, retryable=reply.retryable)
        verdict = judge_failure(state, report)
        if isinstance(verdict, Requeued):
            self._plan_job(job, verdict.retries_remaining)
        elif isinstance(verdict, GivenUp):
            self._take(operations.fail_job(self._process, self._instance, job.task, verdict.reason, self._moment()))

    def _complete_task(self, task: str, reply: Reply) -> None:
        if isinstance(reply, Answer):
            self._take(
                operations.complete_user_task_by_id(
                    self._process, self._instance, task, reply.variables, self._moment(), by=_WORKER
                )
            )

    def _signal(self, step_id: str, reply: Reply) -> None:
        if isinstance(reply, Answer):
            self._take(operations.signal(self._process, self._instance, step_id, reply.variables, self._moment()))

    def _fire(self, timer: str) -> None:
        self._take(operations.fire_timer(self._process, self._instance, timer, self._moment()))
