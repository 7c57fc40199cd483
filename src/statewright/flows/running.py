"""Flows run in the process that calls, without a service (docs/reference/flows.md#running-locally)."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from statewright.flows.compiling import Flow
from statewright.flows.graph import FlowNode
from statewright.flows.language import INPUT
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import WorkId
from statewright.net.effects import EnqueueTask, TaskFailed, Terminated
from statewright.net.local import LocalRun


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


class LocalInstance(LocalRun):
    """One instance of a flow, held in memory."""

    def __init__(self, flow: Flow, flow_input: JsonValue = None, *, at: int = 0) -> None:
        self.flow = flow
        given: JsonObject = {INPUT: {} if flow_input is None else flow_input}
        super().__init__(flow.net, lambda _: flow.create_language(), given, at=at)
        self.start()

    @property
    def open(self) -> tuple[Invocation, ...]:
        """What is to be done, the oldest first."""
        return tuple(map(self._invoke, self.tasks.values()))

    @property
    def status(self) -> str:
        """The phase of the instance."""
        return self.marking.phase

    def fail(self, task: WorkId, reason: str) -> None:
        """A task failed."""
        self.play(TaskFailed(task, reason))

    def terminate(self) -> None:
        """Let running tasks end, and begin no others."""
        self.play(Terminated())

    def run(self, implement: Implementation) -> None:
        """Do what is to be done, the oldest first, until nothing is left. A :class:`TaskError` fails its task."""
        while self.tasks:
            invocation = self._invoke(next(iter(self.tasks.values())))
            try:
                output = implement(invocation)
            except TaskError as error:
                self.fail(invocation.task, str(error))
            else:
                self.complete(invocation.task, output)

    def _invoke(self, effect: EnqueueTask) -> Invocation:
        node = self.flow.graph.nodes[int(effect.node)]
        return Invocation(task=effect.task, node=node, kind=effect.kind, input=effect.input, element=effect.element)


def list_failures(instance: LocalInstance) -> Iterator[tuple[int, str]]:
    """The nodes that failed, each with the reason."""
    return ((int(token.node), token.reason or "") for token in instance.marking.failures)
