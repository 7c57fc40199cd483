"""What can happen to an instance. An event that no longer applies (late, repeated) changes nothing."""

from typing import TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.identifiers import ExecutionId, NodeId, TimerId, WorkId


class Started(Struct, frozen=True):
    """The first event of every instance."""


class TaskCompleted(Struct, frozen=True):
    """A worker finished a task."""

    task: WorkId
    output: JsonValue = None


class TaskFailed(Struct, frozen=True):
    """A task failed for good: no retry is left, or none makes sense."""

    task: WorkId
    reason: str


class HumanTaskCompleted(Struct, frozen=True):
    """A person finished a task; ``by`` is the id of that person, ``None`` when unknown."""

    task: WorkId
    output: JsonValue = None
    by: str | None = None


class Signalled(Struct, frozen=True):
    """A signal for the oldest token parked at a node."""

    node: NodeId
    output: JsonValue = None


class TimerFired(Struct, frozen=True):
    """A timer is due."""

    timer: TimerId


class ChildEnded(Struct, frozen=True):
    """An awaited instance ended: with ``output``, or without success for ``reason``."""

    execution: ExecutionId
    output: JsonValue = None
    reason: str | None = None


class Cancelled(Struct, frozen=True):
    """The instance is to be stopped for ``reason``."""

    reason: str


class Retried(Struct, frozen=True):
    """The failed node of a failed instance is to be entered again, after ``changes`` to the data."""

    node: NodeId
    changes: JsonObject


class Restarted(Struct, frozen=True):
    """A failed or terminated instance is to go on: what failed or was interrupted begins again, with the same input."""


class Terminated(Struct, frozen=True):
    """The instance is to be stopped so that it can be restarted: what runs is left to end. Once more: at once."""


class Patched(Struct, frozen=True):
    """Changes to the shared data, from outside."""

    changes: JsonObject


Event: TypeAlias = (
    Started
    | TaskCompleted
    | TaskFailed
    | HumanTaskCompleted
    | Signalled
    | TimerFired
    | ChildEnded
    | Cancelled
    | Retried
    | Restarted
    | Terminated
    | Patched
)
