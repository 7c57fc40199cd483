"""User tasks: the inbox, and completing them (spec/step-engine.md §11.7)."""

from datetime import timedelta

from msgspec import Struct

from statewright.failures import NotImplementedHere
from statewright.jsonval.values import JsonObject
from statewright.services.runtime import Caller, Runtime


class UserTask(Struct, frozen=True, kw_only=True):
    """An open task. Instants are epoch microseconds; render it with ``task_record``."""

    id: str
    instance_id: str
    step_id: str
    step_execution_id: str
    definition_id: str
    definition_version: int
    job_type: str
    """Empty when the step has none."""
    business_key: str | None
    payload: JsonObject
    """All variables as they were when the task was opened."""
    created_at: int


class Inbox(Struct, frozen=True, kw_only=True):
    """A page of open tasks, the oldest first. ``total`` counts all that match."""

    items: tuple[UserTask, ...]
    page: int
    page_size: int
    total: int


def task_record(task: UserTask) -> JsonObject:
    """The record clients read; members that are not set are left out."""
    raise NotImplementedHere("steps")


async def inbox(
    runtime: Runtime,
    caller: Caller,
    *,
    job_type: str = "",
    definition_id: str = "",
    older_than: timedelta = timedelta(0),
    page: int = 0,
    page_size: int = 0,
) -> Inbox:
    """Open user tasks that match all filters; an empty filter matches all. Pages are as in ``definitions.listing``."""
    raise NotImplementedHere("steps")


async def complete(
    runtime: Runtime,
    caller: Caller,
    instance_id: str,
    step_id: str,
    variables: "JsonObject | None" = None,
    *,
    completed_by: str = "",
) -> None:
    """A person's result for the oldest open task at a step. Raises the failures of the table in §11.7."""
    raise NotImplementedHere("steps")


async def complete_by_id(
    runtime: Runtime, caller: Caller, task_id: str, variables: "JsonObject | None" = None, *, completed_by: str = ""
) -> None:
    """As ``complete``, for a task named by its own id. Raises ``StepNotFound`` (``user task not found``)."""
    raise NotImplementedHere("steps")
