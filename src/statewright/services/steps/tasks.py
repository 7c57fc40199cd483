"""User tasks: the inbox, and completing them (docs/reference/steps.md#user-tasks-and-signals)."""

from datetime import timedelta

from statewright.failures import ProcessNotFound
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.services.processes import advancing
from statewright.services.processes import tasks as inbox
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.processes.tasks import Inbox, UserTask
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import find_steps
from statewright.services.steps.instances import INSTANCE_NOT_FOUND
from statewright.steps import complete_user_task, complete_user_task_by_id
from statewright.steps.operations import NO_TASK


def to_task_record(task: UserTask) -> JsonObject:
    """The record clients read; members that are not set are left out."""
    record: JsonObject = {
        "id": task.id,
        "instanceId": task.instance_id,
        "stepId": task.node_id,
        "stepExecutionId": task.execution_id,
        "definitionId": task.definition_id,
        "definitionVersion": task.definition_version,
        "status": "OPEN",
        "payload": task.payload,
        "createdAt": format_instant(task.created_at),
    }
    if task.job_type:
        record["jobType"] = task.job_type
    if task.business_key is not None:
        record["businessKey"] = task.business_key
    return record


async def list_open_tasks(
    runtime: Runtime,
    caller: Caller,
    *,
    job_type: str = "",
    definition_id: str = "",
    older_than: timedelta = timedelta(0),
    page: int = 0,
    page_size: int = 0,
) -> Inbox:
    """Open user tasks that match all filters (``processes.tasks.list_open_tasks``)."""
    return await inbox.list_open_tasks(
        find_steps(runtime),
        caller,
        job_type=job_type,
        definition_id=definition_id,
        older_than=older_than,
        page=page,
        page_size=page_size,
    )


async def complete(
    runtime: Runtime,
    caller: Caller,
    instance_id: str,
    step_id: str,
    variables: "JsonObject | None" = None,
    *,
    completed_by: str = "",
) -> None:
    """A person's result for the oldest open task at a step. Raises the failures of the table in
    docs/reference/steps.md#user-tasks-and-signals.
    """
    await refuse_unstorable(variables)
    await refuse_unstorable({"completedBy": completed_by})
    unknown = ProcessNotFound(INSTANCE_NOT_FOUND)
    await advancing.advance(
        find_steps(runtime),
        caller,
        parse_instance_id(instance_id, unknown),
        lambda process, current, moment: complete_user_task(
            process, current, step_id, variables, moment, by=completed_by
        ),
        kind="instance.complete_user_task",
        given=variables,
        unknown=unknown,
    )


async def complete_by_id(
    runtime: Runtime, caller: Caller, task_id: str, variables: "JsonObject | None" = None, *, completed_by: str = ""
) -> None:
    """As ``complete``, for a task named by its own id. Raises ``ProcessNotFound`` (``user task not found``)."""
    await refuse_unstorable(variables)
    await refuse_unstorable({"completedBy": completed_by})
    unknown = ProcessNotFound(NO_TASK)
    task = parse_instance_id(task_id, unknown)
    instance = await inbox.find_instance_of_task(find_steps(runtime), caller, task)
    if instance is None:
        raise unknown
    name = uuid_to_ulid(task)
    await advancing.advance(
        find_steps(runtime),
        caller,
        instance,
        lambda process, current, moment: complete_user_task_by_id(
            process, current, name, variables, moment, by=completed_by
        ),
        kind="instance.complete_user_task",
        given=variables,
        unknown=unknown,
    )
