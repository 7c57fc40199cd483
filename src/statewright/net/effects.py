"""What the kernel asks of its host, to be carried out in the transaction that stores the new marking.

Every task, human task and timer is closed exactly once, by an effect of the same or of a later event.

What can happen to an instance. An event that no longer applies (late, repeated) changes nothing.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.marking import ExecutionId, NodeId, Phase, TimerId, WorkId

ExitStatus: TypeAlias = Literal["COMPLETED", "FAILED", "SKIPPED", "BYPASSED"]
"""``SKIPPED``: withdrawn before it was done. ``BYPASSED``: not begun, since the guard of the node did not hold."""
WorkStatus: TypeAlias = Literal["COMPLETED", "FAILED", "CANCELLED"]


class RecordEntry(Struct, frozen=True, kw_only=True):
    """A node was entered: a new line in the history, running."""

    execution: ExecutionId
    node: NodeId
    attempt: int
    input: JsonValue
    element: int | None = None
    """The element of a loop that this is the execution of; ``None``: the node as a whole."""
    token: ExecutionId | None = None
    """The token that fired the node, where tokens take turns; of an element, that of its loop."""


class RecordExit(Struct, frozen=True, kw_only=True):
    """An execution ended."""

    execution: ExecutionId
    node: NodeId
    status: ExitStatus
    output: JsonValue = None
    reason: str | None = None
    element: int | None = None
    """The element of a loop that it was the execution of; ``None``: the node as a whole."""


class EnqueueTask(Struct, frozen=True, kw_only=True):
    """A task for the job queue, to be claimed by any worker for its kind."""

    task: WorkId
    execution: ExecutionId
    node: NodeId
    kind: str
    retries: int
    input: JsonValue
    element: int | None = None
    """The element of a loop that it is for."""


class CloseTask(Struct, frozen=True, kw_only=True):
    """A task is done, or must not be done any more."""

    task: WorkId
    status: WorkStatus


class OpenHumanTask(Struct, frozen=True, kw_only=True):
    """A task for a person."""

    task: WorkId
    execution: ExecutionId
    node: NodeId
    kind: str
    input: JsonValue
    about: JsonObject = {}
    """What its language tells of it beside."""


class CloseHumanTask(Struct, frozen=True, kw_only=True):
    """A person's task is done, or not needed any more."""

    task: WorkId
    status: WorkStatus
    result: JsonValue = None
    by: str | None = None


NEVER: Final = (1 << 63) - 1
"""The instant of a timer that only something else than time can fire."""


class ArmTimer(Struct, frozen=True, kw_only=True):
    """A timer to be reported at ``at``, in microseconds of the epoch, or later."""

    timer: TimerId
    execution: ExecutionId
    node: NodeId
    at: int
    target: NodeId
    interrupting: bool
    topic: str | None = None
    """Fired by an event of this name. The kernel itself makes none such."""
    matched: tuple[int, ...] | None = None
    """Hashes of the values that it is compared with: an event with one that is not among them does not fire it.
    ``None``: they are not known.
    """
    counter: str | None = None
    """Fired as soon as the counter of this name is zero or less."""


class FireTimer(Struct, frozen=True):
    """A timer fired and had its effect: remove it."""

    timer: TimerId


class DisarmTimer(Struct, frozen=True):
    """A timer must not fire any more: remove it."""

    timer: TimerId


class AdjustCounter(Struct, frozen=True, kw_only=True):
    """Add to a counter that all instances of a tenant share. Languages ask for it, the kernel does not."""

    name: str
    by: int


class StorePart(Struct, frozen=True, kw_only=True):
    """Store a part of the instance that its document leaves out, as JSON text. Languages ask for it."""

    name: str
    text: bytes


class StartChild(Struct, frozen=True, kw_only=True):
    """Start an instance of another definition; ``awaited_by`` is the execution that goes on at its end, ``None`` for
    none.
    """

    net: str
    version: int = 0
    """Of the definition; 0: the latest when it is started."""
    input: JsonValue
    awaited_by: ExecutionId | None = None


class CancelChild(Struct, frozen=True):
    """The instance this execution awaits is not needed any more."""

    execution: ExecutionId


class HoldWork(Struct, frozen=True):
    """The instance failed: hand out none of its tasks, fire none of its timers, but keep them."""


class ReleaseWork(Struct, frozen=True):
    """The instance runs again: undo :class:`HoldWork`."""


class RecordPatch(Struct, frozen=True):
    """The shared data were changed: from outside, or by an execution."""

    changes: JsonObject
    execution: ExecutionId | None = None
    """The execution that changed them."""
    is_held: bool = False
    """Whether they are changed once the element of a loop that did it has ended."""


class Trace(Struct, frozen=True, kw_only=True):
    """A decision about a token, for the record; there is nothing to carry out.

    ``token.created``, ``token.discarded``, ``admission.evaluated``, ``join.fired``, ``join.absorbed``,
    ``join.incomplete``, ``join.closed``, ``loop.started``, ``arcs.evaluated``, ``branch.done``, ``branch.failed``,
    ``admission.requested``, ``task.paused``, ``task.resumed``, or what the language adds.
    """

    kind: str
    node: NodeId
    token: ExecutionId | None = None
    """The token, or the execution, that it is about."""
    details: JsonObject = {}


class ChangePhase(Struct, frozen=True, kw_only=True):
    """The instance entered another phase."""

    phase: Phase
    reason: str | None = None


Effect: TypeAlias = (
    RecordEntry
    | RecordExit
    | EnqueueTask
    | CloseTask
    | OpenHumanTask
    | CloseHumanTask
    | ArmTimer
    | FireTimer
    | DisarmTimer
    | AdjustCounter
    | StorePart
    | StartChild
    | CancelChild
    | HoldWork
    | ReleaseWork
    | RecordPatch
    | Trace
    | ChangePhase
)


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


class TaskPaused(Struct, frozen=True, kw_only=True):
    """Whoever does a task gives it back. It is requested anew at an instant, or where there is none as soon as an
    instance has ended that is started for it.
    """

    task: WorkId
    until: int | None = None
    """In microseconds of the epoch."""
    net: str = ""
    """Of the definition of that instance."""
    input: JsonValue = None
    """What it is started with."""


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
    | TaskPaused
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
