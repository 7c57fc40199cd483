"""Effects as what changes in tables: rows to insert and rows to change, ready for one set-based statement each, and the
history of an instance, which has one line per entry into a node.

What is made and closed in one step is a single row that is born closed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.effects import (
    AdjustCounter,
    ArmTimer,
    CancelChild,
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
from statewright.net.identifiers import ExecutionId, TimerId, WorkId

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


# Tuples: every advance asks for each effect, and a union would be made anew each time.
_TIMER_ENDS: Final = (FireTimer, DisarmTimer)
_HOLDS: Final = (HoldWork, ReleaseWork)


def compute_row_changes(effects: tuple[Effect, ...]) -> RowChanges:
    """The changes that effects amount to."""
    jobs = {effect.task: effect for effect in effects if isinstance(effect, EnqueueTask)}
    tasks = {effect.task: effect for effect in effects if isinstance(effect, OpenHumanTask)}
    timers = {effect.timer: effect for effect in effects if isinstance(effect, ArmTimer)}
    closed_jobs = {effect.task: effect for effect in effects if isinstance(effect, CloseTask)}
    closed_tasks = {effect.task: effect for effect in effects if isinstance(effect, CloseHumanTask)}
    ended = dict.fromkeys(effect.timer for effect in effects if isinstance(effect, _TIMER_ENDS))
    return RowChanges(
        new_jobs=tuple(NewJob(job, _job_status(closed_jobs, task)) for task, job in jobs.items()),
        closed_jobs=tuple(closing for task, closing in closed_jobs.items() if task not in jobs),
        new_tasks=tuple(NewUserTask(opened, _task_status(closed_tasks, task)) for task, opened in tasks.items()),
        closed_tasks=tuple(closing for task, closing in closed_tasks.items() if task not in tasks),
        armed_timers=tuple(timer for timer_id, timer in timers.items() if timer_id not in ended),
        ended_timers=tuple(timer_id for timer_id in ended if timer_id not in timers),
        children=list_children(effects),
        cancelled_children=tuple(
            dict.fromkeys(effect.execution for effect in effects if isinstance(effect, CancelChild))
        ),
        parts=tuple(effect for effect in effects if isinstance(effect, StorePart)),
        counters=_sum_up([effect for effect in effects if isinstance(effect, AdjustCounter)]),
        is_held=_is_held(effects),
    )


def list_children(effects: Sequence[Effect]) -> tuple[StartChild, ...]:
    """The instances to be started, without those that are not needed any more at the end of the step."""
    wanted: dict[int, StartChild] = {}
    for place, effect in enumerate(effects):
        if isinstance(effect, StartChild):
            wanted[place] = effect
        elif isinstance(effect, CancelChild):
            wanted = {at: child for at, child in wanted.items() if child.awaited_by != effect.execution}
    return tuple(wanted.values())


def _sum_up(adjustments: Sequence[AdjustCounter]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for adjustment in adjustments:
        sums[adjustment.name] = sums.get(adjustment.name, 0) + adjustment.by
    return sums


def _job_status(closed: dict[WorkId, CloseTask], task: WorkId) -> NewJobStatus:
    return closed[task].status if task in closed else "UNLOCKED"


def _task_status(closed: dict[WorkId, CloseHumanTask], task: WorkId) -> NewTaskStatus:
    return closed[task].status if task in closed else "OPEN"


def _is_held(effects: tuple[Effect, ...]) -> bool | None:
    """The last word counts: a retry that fails at once releases and holds again."""
    words = [isinstance(effect, HoldWork) for effect in effects if isinstance(effect, _HOLDS)]
    return words[-1] if words else None


ExecutionStatus: TypeAlias = Literal["RUNNING", "COMPLETED", "FAILED", "SKIPPED", "BYPASSED"]


class Execution(Struct, frozen=True, kw_only=True):
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

    new: tuple[Execution, ...]
    ended: tuple[ExecutionEnd, ...]


def compute_history_changes(
    get_node_type: Callable[[str], str], instance_id: str, effects: tuple[Effect, ...], at: int
) -> HistoryChanges:
    """The lines that effects amount to; those of one step share its instant."""
    new: dict[str, Execution] = {}
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


def apply_end(execution: Execution, end: ExecutionEnd) -> Execution:
    """The line after its end is known."""
    return replace(
        execution,
        status=end.status,
        ended_at=end.ended_at,
        output_snapshot=end.output_snapshot,
        failure_reason=end.failure_reason,
    )


def _build_execution(get_node_type: Callable[[str], str], instance_id: str, entry: RecordEntry, at: int) -> Execution:
    return Execution(
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
