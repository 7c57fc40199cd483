"""Playbooks run in the process that calls, without a service (docs/reference/executions.md#running-locally)."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.ids import Clock
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import ExecutionId, KernelResult, NodeId, WorkId
from statewright.net.effects import (
    Cancelled,
    ChildEnded,
    EnqueueTask,
    Injected,
    Patched,
    Reconsidered,
    TaskPatched,
)
from statewright.net.local import LocalRun
from statewright.playbooks.compiling import CompiledPlaybook
from statewright.playbooks.context import build_data, describe_patch
from statewright.playbooks.dispatch import Dispatch, build_dispatch
from statewright.playbooks.events import LogEvent, find_execution_status, list_events, list_start_events, tell_task
from statewright.playbooks.graph import Status, fail_task
from statewright.playbooks.pipeline import PipelineDecision, PipelineEnd, ToolCall, begin, prepare, settle
from statewright.playbooks.policies import Outcome
from statewright.playbooks.templates import EvaluationContext

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


class LocalExecution(LocalRun):
    """One execution of a playbook, held in memory."""

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
        clock: Clock | None = None,
    ) -> None:
        self.compiled = compiled
        self.execution_id = execution_id
        data = build_data(compiled.playbook, execution_id, workload or {}, ctx or {}, depth=depth)
        self.log: list[LogEvent] = list_start_events(compiled, data)
        self.instants: list[int] = []
        """Of the entries of the log, in microseconds of the epoch."""
        super().__init__(compiled.net, compiled.create_language, data, at=at, clock=clock)
        self.start(({"args": args or {}},))

    @property
    def open(self) -> tuple[OpenRun, ...]:
        """What is to be done, the oldest first."""
        return tuple(map(_build_open_run, self.tasks.values()))

    @property
    def status(self) -> Status:
        """The status of the execution."""
        return find_execution_status(self.marking)

    def fail(self, task: WorkId, error: JsonObject) -> None:
        """A run failed."""
        self.play(fail_task(task, error))

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

    def run(self, tool: Tool, *, limit: int = 1_000_000) -> None:
        """Do what is to be done, the oldest run first, until nothing is left or ``limit`` runs were done."""
        while self.tasks and limit:
            limit -= 1
            self.do(_build_open_run(next(iter(self.tasks.values()))), tool)

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
        """What the worker of a run is given; the data are those of now, and credentials have no members."""
        step = self.compiled.rules[open_run.step].step
        data, given = self.marking.data, open_run.input
        (token,) = [token for token in self.marking.tokens if token.id == open_run.run_id]
        built = build_dispatch(
            self.compiled.playbook,
            step,
            data,
            given,
            run=open_run.run_id,
            element=open_run.element,
            context=EvaluationContext(at=token.begun_at),
        )
        return replace(built, keychain={one.name: {} for one in self.compiled.playbook.keychain})

    def _take(self, result: KernelResult) -> None:
        before = self.marking
        super()._take(result)
        self.log.extend(list_events(self.compiled, before, self.marking, self.effects))
        self.instants += [self.clock.now] * (len(self.log) - len(self.instants))


def _build_open_run(effect: EnqueueTask) -> OpenRun:
    return OpenRun(
        task=effect.task,
        step=effect.node,
        run_id=effect.execution,
        input=effect.input if isinstance(effect.input, dict) else {},
        element=effect.element,
    )


def _describe_task(
    open_run: OpenRun, label: str, outcome: Outcome, turn: PipelineDecision, target: str | None
) -> Iterable[LogEvent]:
    """The end of a task, and what its policy made of it."""
    done = LogEvent(
        type="task.done",
        entity_type="task",
        entity_id=label,
        source="worker",
        step=open_run.step,
        step_run_id=open_run.run_id,
        iteration=open_run.element,
        payload={"task": label},
    )
    return tell_task(done, {"rule": turn.rule, "action": turn.do, "to": target}, is_ok=outcome.is_ok)
