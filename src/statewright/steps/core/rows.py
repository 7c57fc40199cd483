"""Effects as what changes in tables: rows to insert and rows to change, ready for one set-based statement each.

What is made and closed in one step is a single row that is born closed.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.net.effects import (
    ArmTimer,
    CloseHumanTask,
    CloseTask,
    DisarmTimer,
    Effect,
    EnqueueTask,
    FireTimer,
    HoldWork,
    OpenHumanTask,
    ReleaseWork,
    StartChild,
)
from statewright.net.identifiers import TimerId, WorkId

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


class Changes(Struct, frozen=True, kw_only=True):
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
    is_held: bool | None
    """Whether the instance's jobs and timers, new ones included, are held from now on; ``None``: as before."""


def changes(effects: tuple[Effect, ...]) -> Changes:
    """The changes that effects amount to."""
    jobs = {effect.task: effect for effect in effects if isinstance(effect, EnqueueTask)}
    tasks = {effect.task: effect for effect in effects if isinstance(effect, OpenHumanTask)}
    timers = {effect.timer: effect for effect in effects if isinstance(effect, ArmTimer)}
    closed_jobs = {effect.task: effect for effect in effects if isinstance(effect, CloseTask)}
    closed_tasks = {effect.task: effect for effect in effects if isinstance(effect, CloseHumanTask)}
    ended = dict.fromkeys(effect.timer for effect in effects if isinstance(effect, FireTimer | DisarmTimer))
    return Changes(
        new_jobs=tuple(NewJob(job, _job_status(closed_jobs, task)) for task, job in jobs.items()),
        closed_jobs=tuple(closing for task, closing in closed_jobs.items() if task not in jobs),
        new_tasks=tuple(NewUserTask(opened, _task_status(closed_tasks, task)) for task, opened in tasks.items()),
        closed_tasks=tuple(closing for task, closing in closed_tasks.items() if task not in tasks),
        armed_timers=tuple(timer for timer_id, timer in timers.items() if timer_id not in ended),
        ended_timers=tuple(timer_id for timer_id in ended if timer_id not in timers),
        children=tuple(effect for effect in effects if isinstance(effect, StartChild)),
        is_held=_is_held(effects),
    )


def _job_status(closed: dict[WorkId, CloseTask], task: WorkId) -> NewJobStatus:
    return closed[task].status if task in closed else "UNLOCKED"


def _task_status(closed: dict[WorkId, CloseHumanTask], task: WorkId) -> NewTaskStatus:
    return closed[task].status if task in closed else "OPEN"


def _is_held(effects: tuple[Effect, ...]) -> bool | None:
    """The last word counts: a retry that fails at once releases and holds again."""
    words = [isinstance(effect, HoldWork) for effect in effects if isinstance(effect, HoldWork | ReleaseWork)]
    return words[-1] if words else None
