"""User tasks over REST (docs/reference/steps.md#user-tasks-and-signals), and the inbox, which is ours."""

from datetime import timedelta

from statewright.api.http.processes import bodies
from statewright.api.http.processes.bodies import (
    NO_CONTENT,
    read_optional,
    reply_page,
    respond_empty,
)
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.services.processes import tasks
from statewright.services.steps import instances
from statewright.services.steps.dialect import STEP_DIALECT, read_task_result
from statewright.services.steps.instances import to_task_record


async def list_inbox(request: Request) -> Response:
    """A page of open tasks."""
    found = await tasks.list_open_tasks(
        STEP_DIALECT.find_host(request.runtime.processes),
        request.caller,
        job_type=bodies.read_text(request, "jobType"),
        definition_id=bodies.read_text(request, "definitionId"),
        older_than=timedelta(seconds=max(bodies.read_number(request, "olderThanSeconds"), 0)),
        page=bodies.read_number(request, "page"),
        page_size=bodies.read_number(request, "pageSize"),
    )
    return await reply_page([to_task_record(task) for task in found.items], found)


async def complete_task_by_id(request: Request) -> Response:
    """Take a person's result, for a task by its own id."""
    body = await read_optional(request)
    result, by = read_task_result(body)
    caller = request.answer_with(respond_empty)
    await instances.complete_by_id(
        request.runtime.processes, caller, request.path_params["taskId"], result, completed_by=by
    )
    return NO_CONTENT
