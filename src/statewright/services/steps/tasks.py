"""User tasks: the inbox, and completing them (spec/step-engine.md §11.7)."""

from datetime import timedelta

from msgspec import Struct

from statewright.failures import StepNotFound
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import hosting
from statewright.services.steps.documents import read_object, refuse_unstorable
from statewright.services.steps.hosting import wanted
from statewright.services.steps.instances import UNKNOWN
from statewright.services.steps.paging import page_of
from statewright.steps.core import complete_user_task, complete_user_task_by_id
from statewright.steps.core.operations import NO_TASK
from statewright.steps.core.times import instant_text
from statewright.storage.steps import jobs, tasks
from statewright.storage.steps.tasks import OpenTask, TaskFilter


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
    record: JsonObject = {
        "id": task.id,
        "instanceId": task.instance_id,
        "stepId": task.step_id,
        "stepExecutionId": task.step_execution_id,
        "definitionId": task.definition_id,
        "definitionVersion": task.definition_version,
        "status": "OPEN",
        "payload": task.payload,
        "createdAt": instant_text(task.created_at),
    }
    if task.job_type:
        record["jobType"] = task.job_type
    if task.business_key is not None:
        record["businessKey"] = task.business_key
    return record


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
    asked = page_of(page, page_size)
    age = older_than // timedelta(microseconds=1)
    matching = TaskFilter(
        job_type=job_type,
        definition_id=definition_id,
        opened_before=max(runtime.clock() - age, 0) if age > 0 else None,
    )
    found, total = await tasks.listed(runtime.pool, caller.tenant, matching, offset=asked.offset, limit=asked.size)
    return Inbox(items=tuple(map(_task, found)), page=asked.number, page_size=asked.size, total=total)


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
    refuse_unstorable(variables)
    refuse_unstorable({"completedBy": completed_by})
    unknown = StepNotFound(UNKNOWN)
    await hosting.advance(
        runtime,
        caller,
        wanted(instance_id, unknown),
        lambda process, current, moment: complete_user_task(
            process, current, step_id, variables, moment, by=completed_by
        ),
        kind="instance.complete_user_task",
        unknown=unknown,
    )


async def complete_by_id(
    runtime: Runtime, caller: Caller, task_id: str, variables: "JsonObject | None" = None, *, completed_by: str = ""
) -> None:
    """As ``complete``, for a task named by its own id. Raises ``StepNotFound`` (``user task not found``)."""
    refuse_unstorable(variables)
    refuse_unstorable({"completedBy": completed_by})
    unknown = StepNotFound(NO_TASK)
    task = wanted(task_id, unknown)
    instance = await jobs.instance_of(runtime.pool, caller.tenant, task)
    if instance is None:
        raise unknown
    name = uuid_to_ulid(task)
    await hosting.advance(
        runtime,
        caller,
        instance,
        lambda process, current, moment: complete_user_task_by_id(
            process, current, name, variables, moment, by=completed_by
        ),
        kind="instance.complete_user_task",
        unknown=unknown,
    )


def _task(task: OpenTask) -> UserTask:
    return UserTask(
        id=uuid_to_ulid(task.id),
        instance_id=uuid_to_ulid(task.instance),
        step_id=task.step_id,
        step_execution_id=uuid_to_ulid(task.execution),
        definition_id=task.definition_id,
        definition_version=task.definition_version,
        job_type=task.job_type,
        business_key=task.business_key,
        payload=read_object(task.input),
        created_at=task.created_at,
    )
