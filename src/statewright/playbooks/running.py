"""Playbooks run in the process that calls, without a service (docs/reference/executions.md#running-locally)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, Marking, Moment, TimerId, WorkId, advance, start
from statewright.net.effects import (
    ArmTimer,
    Cancelled,
    ChildEnded,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    Event,
    FireTimer,
    Injected,
    Patched,
    Reconsidered,
    Restarted,
    StartChild,
    TaskCompleted,
    TaskFailed,
    TaskPatched,
    TimerFired,
)
from statewright.net.marking import IDS_PER_MOMENT, NodeId
from statewright.playbooks.compiling import CompiledPlaybook
from statewright.playbooks.context import build_data, describe_patch
from statewright.playbooks.dispatch import Dispatch, build_dispatch
from statewright.playbooks.events import LogEvent, find_execution_status, list_events, list_start_events
from statewright.playbooks.pipeline import PipelineEnd, ToolCall, Turn, begin, prepare, settle
from statewright.playbooks.policies import Outcome
from statewright.playbooks.status import Status

_US_PER_EVENT: Final = 1_000

Tool: TypeAlias = Callable[[ToolCall, Dispatch], Outcome]
"""Does what a task asks for."""


class OpenRun(Struct, frozen=True, kw_only=True):
    """A run of a pipeline that is to be done."""

    task: WorkId
    step: str
    run_id: str
    input: JsonObject
    """What the kernel says: ``args``, and of an element its ``item`` and ``index``."""
    element: int | None = None


class LocalExecution:
    """One execution of a playbook, held in memory. Events come one at a time; nothing runs by itself."""

    def __init__(
        self,
        compiled: CompiledPlaybook,
        workload: "JsonObject | None" = None,
        *,
        ctx: "JsonObject | None" = None,
        args: "JsonObject | None" = None,
        execution_id: str = "local",
        depth: int = 0,
        at: int = 0,
    ) -> None:
        self.compiled = compiled
        self.execution_id = execution_id
        self._at = at
        self._events = 0
        self._open: dict[WorkId, OpenRun] = {}
        self.timers: dict[TimerId, int] = {}
        """Armed ones, with the instants at which they are due, in microseconds of the epoch."""
        self.children: dict[ExecutionId, JsonValue] = {}
        """Runs, and elements of loops, that await another playbook: with its path, version and args."""
        data = build_data(compiled.playbook, execution_id, workload or {}, ctx or {}, depth=depth)
        self.log: list[LogEvent] = list_start_events(compiled, data)
        before = Marking(data=data)
        payloads: tuple[JsonValue, ...] = ({"args": args or {}},)
        result = start(compiled.net, compiled.create_language(), data, self._next_moment(), payloads)
        self.marking, self.effects = result.marking, result.effects
        self._take_effects(before)

    @property
    def open(self) -> tuple[OpenRun, ...]:
        """What is to be done, the oldest first."""
        return tuple(self._open.values())

    @property
    def status(self) -> Status:
        """The status of the execution."""
        return find_execution_status(self.marking)

    @property
    def result(self) -> JsonValue:
        """Of an execution that has ended: status, counts, failures and the last result."""
        return self.marking.result

    def complete(self, task: WorkId, result: JsonValue = None) -> None:
        """A run ended well. Without effect when it ended before."""
        self.play(TaskCompleted(task, result))

    def fail(self, task: WorkId, error: JsonObject) -> None:
        """A run failed."""
        self.play(TaskFailed(task, f"{str(error.get('kind', 'error')).upper()}: {error.get('message', '')}", error))

    def report(self, task: WorkId, changes: JsonObject) -> None:
        """A run that goes on has set members of ``ctx``."""
        self.play(TaskPatched(task, changes))

    def patch(self, changes: Mapping[str, JsonValue]) -> None:
        """Change ``ctx`` from outside; null removes a key."""
        self.play(Patched(describe_patch(changes)))

    def inject(self, step: str, args: "JsonObject | None" = None) -> None:
        """One more token."""
        self.play(Injected(NodeId(step), ({"args": args or {}},)))

    def reconsider(self) -> None:
        """Ask about denied tokens once more."""
        self.play(Reconsidered())

    def end_child(self, run_id: ExecutionId, output: JsonValue = None, error: "JsonObject | None" = None) -> None:
        """A playbook that was awaited has ended: with a result, or with an error."""
        reason = None if error is None else f"CHILD: {error.get('message', '')}"
        self.play(ChildEnded(run_id, output, reason, error))

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop for good."""
        self.play(Cancelled(reason))

    def restart(self) -> bool:
        """Begin failed runs again; False when there is nothing to begin."""
        self.play(Restarted())
        return bool(self.effects)

    def fire_timers(self, until: int) -> None:
        """Let time pass: what is due fires, the earliest first."""
        while due := sorted((at, timer) for timer, at in self.timers.items() if at <= until):
            self._at = max(self._at, due[0][0] - self._events * _US_PER_EVENT)
            self.play(TimerFired(due[0][1]))

    def play(self, event: Event) -> None:
        """Any event of the kernel."""
        before = self.marking
        result = advance(self.compiled.net, self.compiled.create_language(), before, event, self._next_moment())
        self.marking, self.effects = result.marking, result.effects
        self._take_effects(before)

    def run(self, tool: Tool, *, limit: int = 1_000_000) -> None:
        """Do what is to be done, the oldest run first, until nothing is left or ``limit`` runs were done."""
        while self._open and limit:
            limit -= 1
            self.do(next(iter(self._open.values())), tool)

    def do(self, open_run: OpenRun, tool: Tool) -> None:
        """Go through the pipeline of a run, without pauses, and report what it sets as it does."""
        dispatch = self.build_dispatch(open_run)
        state = begin(dispatch)
        while not isinstance(state, PipelineEnd):
            prepared = prepare(dispatch, state)
            outcome = prepared if isinstance(prepared, Outcome) else tool(prepared, dispatch)
            label = dispatch.tasks[state.counter].label
            turn = settle(dispatch, state, outcome)
            target = dispatch.tasks[turn.state.counter].label if turn.do == "jump" and turn.end is None else None
            self.log.extend(_describe_task(open_run, label, outcome, turn, target))
            for patch in turn.patches:
                self.report(open_run.task, {".".join(patch.path): patch.value})
            state = turn.state if turn.end is None else turn.end
        if state.error is None:
            self.complete(open_run.task, state.result)
        else:
            self.fail(open_run.task, state.error)

    def build_dispatch(self, open_run: OpenRun) -> Dispatch:
        """What the worker of a run is given; the data are those of now."""
        step = self.compiled.rules[open_run.step].step
        data, given = self.marking.data, open_run.input
        return build_dispatch(self.compiled.playbook, step, data, given, run=open_run.run_id, element=open_run.element)

    def _take_effects(self, before: Marking) -> None:
        self.log.extend(list_events(self.compiled, before, self.marking, self.effects))
        for effect in self.effects:
            self._take(effect)

    def _take(self, effect: Effect) -> None:
        match effect:
            case EnqueueTask():
                self._open[effect.task] = OpenRun(
                    task=effect.task,
                    step=effect.node,
                    run_id=effect.execution,
                    input=effect.input if isinstance(effect.input, dict) else {},
                    element=effect.element,
                )
            case CloseTask(task=task):
                self._open.pop(task, None)
            case ArmTimer(timer=timer, at=at):
                self.timers[timer] = at
            case FireTimer(timer=timer) | DisarmTimer(timer=timer):
                self.timers.pop(timer, None)
            case StartChild(awaited_by=run_id, input=given) if run_id is not None:
                self.children[run_id] = given
            case _:
                pass

    def _next_moment(self) -> Moment:
        self._events += 1
        at = self._at + self._events * _US_PER_EVENT
        return Moment(at=at, first_id=(at // 1_000 << 80) + self._events * IDS_PER_MOMENT)


def _describe_task(
    open_run: OpenRun, label: str, outcome: Outcome, turn: Turn, target: str | None
) -> Iterable[LogEvent]:
    """The end of a task, and what its policy made of it."""
    yield LogEvent(
        type="task.done" if outcome.is_ok else "task.failed",
        entity_type="task",
        entity_id=label,
        status="success" if outcome.is_ok else "error",
        source="worker",
        step=open_run.step,
        step_run_id=open_run.run_id,
        iteration=open_run.element,
        payload={"task": label},
    )
    yield LogEvent(
        type="policy.task.evaluated",
        entity_type="policy",
        entity_id=label,
        source="worker",
        step=open_run.step,
        step_run_id=open_run.run_id,
        iteration=open_run.element,
        payload={"task": label, "rule": turn.rule, "action": turn.do, "to": target},
    )
