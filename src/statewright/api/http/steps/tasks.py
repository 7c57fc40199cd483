"""User tasks over REST (spec/step-engine.md §11.7), and the inbox, which is ours."""

from datetime import timedelta

from statewright.api.http.exchange import Answer, Exchange
from statewright.api.http.steps import parameters
from statewright.api.http.steps.bodies import NO_CONTENT, Body, read_optional, reply
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.steps import tasks
from statewright.services.steps.tasks import task_record


async def inbox(exchange: Exchange) -> Answer:
    """A page of open tasks."""
    found = await tasks.inbox(
        exchange.runtime,
        exchange.caller,
        job_type=parameters.text(exchange, "jobType"),
        definition_id=parameters.text(exchange, "definitionId"),
        older_than=timedelta(seconds=max(parameters.number(exchange, "olderThanSeconds"), 0)),
        page=parameters.number(exchange, "page"),
        page_size=parameters.number(exchange, "pageSize"),
    )
    items: list[JsonValue] = [task_record(task) for task in found.items]
    return reply({"items": items, "total": found.total, "page": found.page, "pageSize": found.page_size})


async def complete(exchange: Exchange) -> Answer:
    """Take a person's result, for the task at a step of an instance."""
    body = await read_optional(exchange)
    segments = exchange.segments
    await tasks.complete(
        exchange.runtime,
        exchange.caller,
        segments["id"],
        segments["stepId"],
        _result(body),
        completed_by=_person(body),
    )
    return NO_CONTENT


async def complete_by_id(exchange: Exchange) -> Answer:
    """Take a person's result, for a task by its own id."""
    body = await read_optional(exchange)
    await tasks.complete_by_id(
        exchange.runtime, exchange.caller, exchange.segments["taskId"], _result(body), completed_by=_person(body)
    )
    return NO_CONTENT


def _result(body: Body) -> "JsonObject | None":
    variables = body.object("variables")
    return body.object("result") if variables is None else variables


def _person(body: Body) -> str:
    return body.text("completedBy") or body.text("workerId")
