"""Flows run in the process that calls, without a service (docs/reference/flows.md#running-locally)."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.flows.compiling import Flow
from statewright.flows.graph import FlowNode
from statewright.flows.language import INPUT
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Marking, Moment, WorkId, advance, start
from statewright.net.effects import (
    CloseTask,
    Effect,
    EnqueueTask,
    Event,
    Restarted,
    TaskCompleted,
    TaskFailed,
    Terminated,
)
from statewright.net.marking import IDS_PER_MOMENT

_US_PER_EVENT: Final = 1_000


class Invocation(Struct, frozen=True, kw_only=True):
    """What a task is asked to do."""

    task: WorkId
    node: FlowNode
    """With ``name``, ``base`` and ``parameters`` of a task, or the ``uri`` of a resource."""
    kind: str
    input: JsonValue
    element: int | None = None
    """The element of an iteration that it is for."""


class TaskError(Exception):
    """Raised by an implementation to fail its task with a reason."""


Implementation: TypeAlias = Callable[[Invocation], JsonValue]


class LocalInstance:
    """One instance of a flow, held in memory. Events come one at a time; nothing runs by itself."""

    def __init__(self, flow: Flow, flow_input: JsonValue = None, *, at: int = 0) -> None:
        self.flow = flow
        self._at = at
        self._events = 0
        self._open: dict[WorkId, Invocation] = {}
        data: JsonObject = {INPUT: {} if flow_input is None else flow_input}
        result = start(flow.net, flow.create_language(), data, self._next_moment())
        self.marking: Marking = result.marking
        self.effects: tuple[Effect, ...] = result.effects
        self._take_effects()

    @property
    def open(self) -> tuple[Invocation, ...]:
        """What is to be done, the oldest first."""
        return tuple(self._open.values())

    @property
    def status(self) -> str:
        """The phase of the instance."""
        return self.marking.phase

    @property
    def result(self) -> JsonValue:
        """Of a completed instance."""
        return self.marking.result

    def complete(self, task: WorkId, output: JsonValue = None) -> None:
        """A task is done. Without effect when it was before."""
        self.play(TaskCompleted(task, output))

    def fail(self, task: WorkId, reason: str) -> None:
        """A task failed."""
        self.play(TaskFailed(task, reason))

    def restart(self) -> bool:
        """Go on after a failure or a termination; False when there is nothing to begin again."""
        self.play(Restarted())
        return bool(self.effects)

    def terminate(self) -> None:
        """Let running tasks end, and begin no others."""
        self.play(Terminated())

    def play(self, event: Event) -> None:
        """Any event of the kernel."""
        result = advance(self.flow.net, self.flow.create_language(), self.marking, event, self._next_moment())
        self.marking, self.effects = result.marking, result.effects
        self._take_effects()

    def run(self, implement: Implementation) -> None:
        """Do what is to be done, the oldest first, until nothing is left. A :class:`TaskError` fails its task."""
        while self._open:
            invocation = next(iter(self._open.values()))
            try:
                output = implement(invocation)
            except TaskError as error:
                self.fail(invocation.task, str(error))
            else:
                self.complete(invocation.task, output)

    def _take_effects(self) -> None:
        for effect in self.effects:
            if isinstance(effect, EnqueueTask):
                self._open[effect.task] = self._invoke(effect)
            elif isinstance(effect, CloseTask):
                self._open.pop(effect.task, None)

    def _invoke(self, effect: EnqueueTask) -> Invocation:
        node = self.flow.graph.nodes[int(effect.node)]
        return Invocation(task=effect.task, node=node, kind=effect.kind, input=effect.input, element=effect.element)

    def _next_moment(self) -> Moment:
        self._events += 1
        at = self._at + self._events * _US_PER_EVENT
        return Moment(at=at, first_id=(at // 1_000 << 80) + self._events * IDS_PER_MOMENT)


def list_failures(instance: LocalInstance) -> Iterator[tuple[int, str]]:
    """The nodes that failed, each with the reason."""
    return ((int(token.node), token.reason or "") for token in instance.marking.failures)
