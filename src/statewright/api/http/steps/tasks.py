"""User tasks over REST (docs/reference/steps.md#user-tasks-and-signals), and the inbox, which is ours."""

from datetime import timedelta

from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import (
    NO_CONTENT,
    RequestMembers,
    read_optional,
    respond_empty,
)
from statewright.api.http.processes.records import reply_page
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.jsonval.values import JsonObject
from statewright.services.steps import tasks
from statewright.services.steps.tasks import to_task_record


async def list_inbox(request: Request) -> Response:
    """A page of open tasks."""
    found = await tasks.list_open_tasks(
        request.runtime,
        request.caller,
        job_type=parameters.read_text(request, "jobType"),
        definition_id=parameters.read_text(request, "definitionId"),
        older_than=timedelta(seconds=max(parameters.read_number(request, "olderThanSeconds"), 0)),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return await reply_page([to_task_record(task) for task in found.items], found)


async def complete_task(request: Request) -> Response:
    """Take a person's result, for the task at a step of an instance."""
    body = await read_optional(request)
    segments = request.path_params
    await tasks.complete(
        request.runtime,
        request.answer_with(respond_empty),
        segments["id"],
        segments["stepId"],
        _read_result(body),
        completed_by=_read_completed_by(body),
    )
    return NO_CONTENT


async def complete_task_by_id(request: Request) -> Response:
    """Take a person's result, for a task by its own id."""
    body = await read_optional(request)
    await tasks.complete_by_id(
        request.runtime,
        request.answer_with(respond_empty),
        request.path_params["taskId"],
        _read_result(body),
        completed_by=_read_completed_by(body),
    )
    return NO_CONTENT


def _read_result(body: RequestMembers) -> "JsonObject | None":
    variables = body.object("variables")
    return body.object("result") if variables is None else variables


def _read_completed_by(body: RequestMembers) -> str:
    return body.text("completedBy") or body.text("workerId")
