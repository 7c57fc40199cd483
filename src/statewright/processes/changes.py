"""Effects as what changes in tables: rows to insert and rows to change, ready for one set-based statement each, and the
history of an instance, which has one line per entry into a node.

What is made and closed in one step is a single row that is born closed.

Decisions about a job that need only its own row, not the instance.

The number of retries lives with the job: a retry changes no instance.

The life of an instance as a workflow of its entity: it moves by the kernel, and a table of its language names the
moves from one phase to another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net import Delay, Phase
from statewright.net.effects import (
    AdjustCounter,
    ArmTimer,
    CancelChild,
    ChangePhase,
    CloseHumanTask,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    FireTimer,
    HoldWork,
    OpenHumanTask,
    RecordEntry,
    RecordExit,
    ReleaseWork,
    StartChild,
    StorePart,
)
from statewright.net.marking import ExecutionId, TimerId, WorkId

NewJobStatus: TypeAlias = Literal["UNLOCKED", "COMPLETED", "FAILED", "CANCELLED"]
NewTaskStatus: TypeAlias = Literal["OPEN", "COMPLETED", "FAILED", "CANCELLED"]


class NewJob(Struct, frozen=True):
    """A job, and the status it has after the step that made it."""

    task: EnqueueTask
    status: NewJobStatus


class NewUserTask(Struct, frozen=True):
    """A user task, and the status it has after the step that made it."""

    task: OpenHumanTask
    status: NewTaskStatus


class RowChanges(Struct, frozen=True, kw_only=True):
    """What one step changes outside the instance itself and its history."""

    new_jobs: tuple[NewJob, ...]
    closed_jobs: tuple[CloseTask, ...]
    """Of earlier steps."""
    new_tasks: tuple[NewUserTask, ...]
    closed_tasks: tuple[CloseHumanTask, ...]
    """Of earlier steps."""
    armed_timers: tuple[ArmTimer, ...]
    ended_timers: tuple[TimerId, ...]
    """Of earlier steps, fired or disarmed."""
    children: tuple[StartChild, ...]
    cancelled_children: tuple[ExecutionId, ...]
    """Executions that wait no more for an instance of an earlier step."""
    counters: Mapping[str, int]
    """What is added to counters, by their names."""
    parts: tuple[StorePart, ...]
    is_held: bool | None
    """Whether the instance's jobs and timers, new ones included, are held from now on; ``None``: as before."""


def compute_row_changes(effects: tuple[Effect, ...]) -> RowChanges:
    """The changes that effects amount to. Of holding and releasing the last word counts: a retry that fails at once
    does both.
    """
    jobs: dict[WorkId, EnqueueTask] = {}
    closed_jobs: dict[WorkId, CloseTask] = {}
    tasks: dict[WorkId, OpenHumanTask] = {}
    closed_tasks: dict[WorkId, CloseHumanTask] = {}
    timers: dict[TimerId, ArmTimer] = {}
    ended: dict[TimerId, None] = {}
    cancelled: dict[ExecutionId, None] = {}
    counters: dict[str, int] = {}
    parts: list[StorePart] = []
    is_held: bool | None = None
    for effect in effects:
        match effect:
            case EnqueueTask(task=task):
                jobs[task] = effect
            case CloseTask(task=task):
                closed_jobs[task] = effect
            case OpenHumanTask(task=task):
                tasks[task] = effect
            case CloseHumanTask(task=task):
                closed_tasks[task] = effect
            case ArmTimer(timer=timer):
                timers[timer] = effect
            case FireTimer(timer=timer) | DisarmTimer(timer=timer):
                ended[timer] = None
            case CancelChild(execution=execution):
                cancelled[execution] = None
            case AdjustCounter(name=name, by=by):
                counters[name] = counters.get(name, 0) + by
            case StorePart():
                parts.append(effect)
            case HoldWork() | ReleaseWork():
                is_held = isinstance(effect, HoldWork)
            case _:  # of the history, or of the instance itself
                pass
    return RowChanges(
        new_jobs=tuple([NewJob(job, _job_status(closed_jobs, task)) for task, job in jobs.items()]),
        closed_jobs=tuple([closing for task, closing in closed_jobs.items() if task not in jobs]),
        new_tasks=tuple([NewUserTask(opened, _task_status(closed_tasks, task)) for task, opened in tasks.items()]),
        closed_tasks=tuple([closing for task, closing in closed_tasks.items() if task not in tasks]),
        armed_timers=tuple([armed for timer, armed in timers.items() if timer not in ended]),
        ended_timers=tuple([timer for timer in ended if timer not in timers]),
        children=list_children(effects),
        cancelled_children=tuple(cancelled),
        parts=tuple(parts),
        counters=counters,
        is_held=is_held,
    )


def list_carried(effects: Iterable[Effect]) -> list[JsonValue]:
    """What effects carry of values, which may be large even where they were found by looking at little."""
    members = (getattr(effect, name) for effect in effects for name in effect.__struct_fields__)
    return [value for value in members if isinstance(value, dict | list | str)]


def list_children(effects: Sequence[Effect]) -> tuple[StartChild, ...]:
    """The instances to be started, without those that are not needed any more at the end of the step."""
    wanted: dict[int, StartChild] = {}
    for place, effect in enumerate(effects):
        if isinstance(effect, StartChild):
            wanted[place] = effect
        elif isinstance(effect, CancelChild):
            wanted = {at: child for at, child in wanted.items() if child.awaited_by != effect.execution}
    return tuple(wanted.values())


def _job_status(closed: dict[WorkId, CloseTask], task: WorkId) -> NewJobStatus:
    return closed[task].status if task in closed else "UNLOCKED"


def _task_status(closed: dict[WorkId, CloseHumanTask], task: WorkId) -> NewTaskStatus:
    return closed[task].status if task in closed else "OPEN"


ExecutionStatus: TypeAlias = Literal["RUNNING", "COMPLETED", "FAILED", "SKIPPED", "BYPASSED"]


class NodeExecution(Struct, frozen=True, kw_only=True):
    """A line of the history. Instants are microseconds of the epoch."""

    id: str
    instance_id: str
    node_id: str
    node_type: str
    attempt_number: int
    status: ExecutionStatus
    started_at: int
    ended_at: int | None = None
    input_snapshot: JsonValue = None
    output_snapshot: JsonValue = None
    failure_reason: str | None = None
    element: int | None = None
    """The element of a loop that it is for; ``None``: the node as a whole."""
    are_values_omitted: bool = False
    """Whether input and output were left out of an answer that would have become too large."""


class ExecutionEnd(Struct, frozen=True, kw_only=True):
    """What changes in a line that was written before."""

    id: str
    status: ExecutionStatus
    ended_at: int
    output_snapshot: JsonValue
    failure_reason: str | None


class HistoryChanges(Struct, frozen=True):
    """What one step adds to the history: new lines, maybe ended already, and the ends of earlier ones."""

    new: tuple[NodeExecution, ...]
    ended: tuple[ExecutionEnd, ...]


def compute_history_changes(
    get_node_type: Callable[[str], str], instance_id: str, effects: tuple[Effect, ...], at: int
) -> HistoryChanges:
    """The lines that effects amount to; those of one step share its instant."""
    new: dict[str, NodeExecution] = {}
    ended: list[ExecutionEnd] = []
    for effect in effects:
        if isinstance(effect, RecordEntry):
            new[effect.execution] = _build_execution(get_node_type, instance_id, effect, at)
        elif isinstance(effect, RecordExit):
            end = _build_end(effect, at)
            known = new.get(effect.execution)
            if known is None:
                ended.append(end)
            else:
                new[effect.execution] = apply_end(known, end)
    return HistoryChanges(tuple(new.values()), tuple(ended))


def apply_end(execution: NodeExecution, end: ExecutionEnd) -> NodeExecution:
    """The line after its end is known."""
    return replace(
        execution,
        status=end.status,
        ended_at=end.ended_at,
        output_snapshot=end.output_snapshot,
        failure_reason=end.failure_reason,
    )


def _build_execution(
    get_node_type: Callable[[str], str], instance_id: str, entry: RecordEntry, at: int
) -> NodeExecution:
    return NodeExecution(
        id=entry.execution,
        instance_id=instance_id,
        node_id=entry.node,
        node_type=get_node_type(entry.node),
        attempt_number=entry.attempt,
        status="RUNNING",
        started_at=at,
        input_snapshot=entry.input,
        element=entry.element,
    )


def _build_end(end: RecordExit, at: int) -> ExecutionEnd:
    return ExecutionEnd(
        id=end.execution,
        status=end.status,
        ended_at=at,
        output_snapshot=end.output,
        failure_reason=end.reason,
    )


JobStatus: TypeAlias = Literal["UNLOCKED", "LOCKED", "COMPLETED", "FAILED", "CANCELLED"]

JOB_FAILED: Final = "job failed"
"""The reason of a failure that came without one."""


class JobState(Struct, frozen=True, kw_only=True):
    """What a job's row knows. ``is_held``: its instance is failed."""

    status: JobStatus
    worker_id: str | None
    retries_remaining: int
    is_held: bool = False


class FailureReport(Struct, frozen=True, kw_only=True):
    """What a worker says of a job it could not do. ``worker_id`` may be empty. ``retry_after_s``: how long the job is
    to rest, None: the worker does not say.
    """

    worker_id: str
    message: str
    retryable: bool
    retry_after_s: int | None = None


MAX_RETRY_AFTER_S: Final = 3600
"""Most that a worker may ask for."""


class Backoff(Struct, frozen=True, kw_only=True):
    """How long jobs rest after failures; ``retries`` is how many each of them has when it is made."""

    retries: int
    delay_s: float = 0.5
    max_delay_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2

    def compute_pause_us(self, retries_left: int, chance: float) -> int:
        """How long a job rests that had so many retries left before this one; ``chance`` from 0 to 1 decides the
        jitter.
        """
        failed_before = min(max(self.retries - retries_left, 0), MAX_GROWTH)
        pause_s = min(self.max_delay_s, self.delay_s * self.factor**failed_before)
        return round(pause_s * (1 + self.jitter * (2 * chance - 1)) * 1_000_000)


class JobPolicy(Struct, frozen=True, kw_only=True):
    """How the jobs of a node are done, in any language: how often again, after which rest, and for how long."""

    retries: int = 0
    """How often a job that failed can be claimed again."""
    backoff: Backoff | None = None
    """How long it rests before; ``None``: not at all."""
    deliveries: int | None = None
    """How often it is handed out to workers that are not heard of any more; ``None``: as all jobs of the language."""
    time_limit: Delay | None = None
    """How long the node may be active, with rests and retries."""

    @property
    def max_losses(self) -> int | None:
        """How often a lease of a job may run out without an end of the job."""
        return None if self.deliveries is None else self.deliveries - 1


MAX_GROWTH: Final = 100
"""Failures after which a pause grows no more: a float holds no larger power."""


class Ignored(Struct, frozen=True):
    """The report has no effect: the job is finished or held, or another worker has it now."""


class Requeued(Struct, frozen=True):
    """The job can be claimed again at once, with the same payload and place in the queue."""

    retries_remaining: int


class GivenUp(Struct, frozen=True):
    """The job failed, and with it the instance."""

    reason: str


def decide_retry(job: JobState, report: FailureReport) -> Ignored | Requeued | GivenUp:
    """What a failure report leads to."""
    if job.status not in ("UNLOCKED", "LOCKED") or job.is_held:
        return Ignored()
    if job.status == "LOCKED" and report.worker_id and job.worker_id and report.worker_id != job.worker_id:
        return Ignored()
    if report.retryable and job.retries_remaining > 0:
        return Requeued(job.retries_remaining - 1)
    return GivenUp(report.message or JOB_FAILED)


MoveT = TypeVar("MoveT", bound=str)


def list_moves(
    table: Mapping[tuple[Phase, Phase], MoveT], before: Phase | None, effects: Sequence[Effect], *, initial: Phase
) -> tuple[MoveT, ...]:
    """The moves that one step of the kernel amounts to. ``before`` ``None``: the instance is new, and begins in
    ``initial``. Where the phase stays there is the move from it to itself, if anything happened.
    """
    phases: list[Phase] = [effect.phase for effect in effects if isinstance(effect, ChangePhase)]
    if not phases and effects and before is not None:
        return (table[before, before],)
    moves: list[MoveT] = []
    current: Phase = before or initial
    for phase in phases:
        moves.append(table[current, phase])
        current = phase
    return tuple(moves)


ENDED: Final[frozenset[Phase]] = frozenset({"COMPLETED", "CANCELLED", "FAILED", "TERMINATED"})
"""The phases in which an instance has come to an end; from the last two it can be restarted."""


def find_completion(known: int | None, effects: Iterable[Effect], at: int) -> int | None:
    """When an instance ended to which these effects happen at an instant; ``None``: it goes on. ``known``: before."""
    for effect in effects:
        if isinstance(effect, ChangePhase):
            known = at if effect.phase in ENDED else None
    return known
