"""What can happen to an instance. An event that no longer applies (late, repeated) changes nothing."""

from typing import TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.identifiers import ExecutionId, NodeId, TimerId, WorkId


class Started(Struct, frozen=True):
    """The first event of every instance; ``payloads`` are carried by the tokens it begins with."""

    payloads: tuple[JsonValue, ...] = ()


class TaskCompleted(Struct, frozen=True):
    """A worker finished a task."""

    task: WorkId
    output: JsonValue = None


class TaskFailed(Struct, frozen=True):
    """A task failed for good: no retry is left, or none makes sense."""

    task: WorkId
    reason: str
    error: JsonValue = None
    """What the language sees of it; ``None``: the reason."""


class TaskPatched(Struct, frozen=True):
    """A running task changes the shared data. In a loop that runs several elements at once the change is held back
    until the element has ended.
    """

    task: WorkId
    changes: JsonObject


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
    error: JsonValue = None
    """What the language sees of a failure; ``None``: the reason."""


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


class Injected(Struct, frozen=True):
    """One more token for a node, from outside, in a net whose tokens take turns."""

    node: NodeId
    payloads: tuple[JsonValue, ...] = ()


class Reconsidered(Struct, frozen=True):
    """Tokens that are not admitted are to be looked at once more."""


Event: TypeAlias = (
    Started
    | TaskCompleted
    | TaskFailed
    | TaskPatched
    | HumanTaskCompleted
    | Signalled
    | TimerFired
    | ChildEnded
    | Cancelled
    | Retried
    | Restarted
    | Terminated
    | Patched
    | Injected
    | Reconsidered
)
