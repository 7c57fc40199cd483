"""Instances over REST (spec/step-engine.md §11.3–11.5, §11.7, §14.3)."""

from datetime import timedelta

from statewright.api.http.exchange import Answer, Exchange
from statewright.api.http.steps import parameters
from statewright.api.http.steps.bodies import NO_CONTENT, TEXT, read, read_lenient, read_optional, reply
from statewright.failures import Forbidden, StepBadRequest
from statewright.jsonval.values import JsonValue
from statewright.net import parse_delay
from statewright.services.steps import instances
from statewright.services.steps import purge as purging
from statewright.services.steps.instances import Start
from statewright.steps.core import history_item, instance_record

ADMIN = "ROLE_ADMIN"


async def start(exchange: Exchange) -> Answer:
    """Start an instance."""
    body = await read(exchange)
    request = Start(
        definition_id=body.text("definitionId"),
        definition_version=body.number("definitionVersion"),
        variables=body.object("variables") or {},
        business_key=body.text("businessKey"),
    )
    if not request.definition_id:
        raise StepBadRequest("definitionId is required")
    return reply(instance_record(await instances.start(exchange.runtime, exchange.caller, request)), 201)


async def listing(exchange: Exchange) -> Answer:
    """A page of instances."""
    found = await instances.listing(
        exchange.runtime,
        exchange.caller,
        definition_id=parameters.text(exchange, "definitionId"),
        status=parameters.text(exchange, "status"),
        business_key=parameters.text(exchange, "businessKey"),
        page=parameters.number(exchange, "page"),
        page_size=parameters.number(exchange, "pageSize"),
    )
    items: list[JsonValue] = [instance_record(instance) for instance in found.items]
    return reply({"items": items, "total": found.total, "page": found.page, "pageSize": found.page_size})


async def one(exchange: Exchange) -> Answer:
    """An instance."""
    return reply(instance_record(await instances.instance(exchange.runtime, exchange.caller, exchange.segments["id"])))


async def history(exchange: Exchange) -> Answer:
    """The entries into steps."""
    lines = await instances.history(exchange.runtime, exchange.caller, exchange.segments["id"])
    return reply({"items": [history_item(line) for line in lines]})


async def diagram(exchange: Exchange) -> Answer:
    """The instance on its definition as a Mermaid flowchart."""
    drawn = await instances.diagram(exchange.runtime, exchange.caller, exchange.segments["id"])
    return Answer(drawn.encode(), media_type=TEXT)


async def cancel(exchange: Exchange) -> Answer:
    """Stop an instance; a body that cannot be read is no reason."""
    body = await read_lenient(exchange)
    try:
        reason = body.text("reason")
    except StepBadRequest:
        reason = ""
    cancelled = await instances.cancel(exchange.runtime, exchange.caller, exchange.segments["id"], reason)
    return reply(instance_record(cancelled))


async def retry(exchange: Exchange) -> Answer:
    """Run the step again that failed an instance."""
    variables = (await read_optional(exchange)).object("variables")
    segments = exchange.segments
    retried = await instances.retry(exchange.runtime, exchange.caller, segments["id"], segments["stepId"], variables)
    return reply(instance_record(retried))


async def signal(exchange: Exchange) -> Answer:
    """Resume a WAIT step; the body is the variables themselves."""
    variables = (await read_optional(exchange)).whole
    segments = exchange.segments
    await instances.signal(exchange.runtime, exchange.caller, segments["id"], segments["stepId"], variables)
    return NO_CONTENT


async def purge(exchange: Exchange) -> Answer:
    """Remove finished instances of some age, for a few seconds; whether that was all. Only for administrators."""
    if ADMIN not in exchange.principal.roles:
        raise Forbidden("admin role required")
    body = await read(exchange)
    purged = await purging.purge(exchange.runtime, exchange.caller, older_than=_age(body.text("olderThan")))
    return reply({"purged": purged.removed, "complete": purged.is_complete})


def _age(given: str) -> timedelta:
    if not given:
        raise StepBadRequest("olderThan is required")
    delay = parse_delay(given)
    if delay is None or delay.months:
        raise StepBadRequest("olderThan must be an ISO-8601 duration in weeks, days or less, such as P30D")
    return timedelta(microseconds=delay.microseconds)
