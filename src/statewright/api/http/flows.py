"""The REST interface of flows: ``/v1/flows`` (docs/reference/flows.md#rest). Their jobs are those of ``/v1/jobs``.

It looks like the dialect of the step engine, whose workers do its tasks, but says in an error also where the text of a
flow has a defect.
"""

from typing import Final

import msgspec
from msgspec import to_builtins

from statewright.api.http.processes import bodies
from statewright.api.http.processes.bodies import (
    Parameter,
    ProcessRoute,
    RequestMembers,
    decode_text,
    read,
    read_members,
    reply,
)
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.processes.tables import build_table
from statewright.api.http.request import Request
from statewright.api.http.response import JSON, Response
from statewright.failures import InvalidMember, ProcessBadRequest
from statewright.flows.advancing import FlowEvent
from statewright.flows.definition import FlowSettings, FlowSource
from statewright.flows.instance import FlowInstance
from statewright.jsonval.values import JsonObject
from statewright.services.flows import events
from statewright.services.flows.dialect import FLOW_DIALECT
from statewright.services.flows.events import EventAddress
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.dialects import refuse_unknown

PLAIN: Final = "text/plain"
_EVENT_MEMBERS: Final = ("after", "businessKey", "definitionId", "event", "fields", "instanceId", "output")


async def read_source(request: Request) -> FlowSource:
    """The definition in a request: JSON, or the text itself. Raises ``ProcessBadRequest``."""
    raw = await request.body()
    id_ = bodies.read_text(request, "id")
    if (request.header(b"content-type") or "").strip().lower().startswith(PLAIN):
        return FlowSource(id=id_, text=_read_text(raw))
    body = await _read_body(raw)
    settings = body.object("settings")
    return FlowSource(
        id=body.text("id") or id_,
        text=body.text("source"),
        settings=FlowSettings() if settings is None else _read_settings(settings),
    )


async def _read_body(raw: bytes) -> RequestMembers:
    """The members of a body that is said to be no text of a flow, with a hint where it may be one."""
    try:
        return await read_members(raw)
    except ProcessBadRequest as refused:
        if raw.lstrip()[:1] in (b"", b"{", b"[", b'"'):
            raise
        raise ProcessBadRequest(f"{refused.message}; the text of a flow is sent as {PLAIN}") from None


def _read_text(raw: bytes) -> str:
    text = decode_text(raw)
    if "\0" in text:
        raise ProcessBadRequest("the text must not contain the character U+0000")
    return text


def _read_settings(given: JsonObject) -> FlowSettings:
    try:
        return msgspec.convert(given, FlowSettings)
    except msgspec.ValidationError as defect:
        raise InvalidMember("settings", f"settings: {defect}") from None


async def send_event(request: Request) -> Response:
    """Deliver an event to the tasks that wait for it, or to one instance, which keeps it where none does."""
    body = await read(request)
    refuse_unknown(body, _EVENT_MEMBERS)
    event = FlowEvent(kind=body.text("event"), fields=body.object("fields") or {}, output=body.get("output"))
    address = EventAddress(
        instance_id=body.text("instanceId"),
        business_key=body.text("businessKey"),
        definition_id=body.text("definitionId"),
    )
    processes, after = request.runtime.processes, body.text("after")
    if not address.is_given:
        return reply(to_builtins(await events.deliver(processes, request.caller, event, after=after)))
    if after:
        raise InvalidMember("after", "after belongs to events that are for all tasks that wait")
    caller = request.answer_with(_respond_delivered)
    return reply(to_builtins(await events.deliver_to_one(processes, caller, event, address)))


async def _respond_delivered(advanced: AdvanceResult[FlowInstance]) -> Response:
    return reply(to_builtins(events.to_delivery(advanced)))


async def get_counter(request: Request) -> Response:
    """The value of a counter."""
    counter = await events.get_counter(request.runtime.core, request.caller, request.path_params["name"])
    return reply(to_builtins(counter))


_ID: Final = Parameter("id", "string", "the id, where the body names none; else the name of the flow is the id")

FLOW_ROUTES: Final[tuple[ProcessRoute, ...]] = (
    *build_table(ProcessInterface(FLOW_DIALECT, read_source), source_types=(JSON, PLAIN), source_query=(_ID,)).values(),
    ProcessRoute(
        method="POST",
        path="/v1/flows/events",
        endpoint=send_event,
        id="sendFlowEvent",
        tag="Flow instances",
        summary="Complete the tasks `wait:event` that wait for an event; an instance that it is for keeps it else",
        body="FlowEvent",
        reply="FlowDelivery",
        errors=(400, 404, 409, 413),
        is_ours=True,
    ),
    ProcessRoute(
        method="GET",
        path="/v1/flows/counters/{name}",
        endpoint=get_counter,
        id="getFlowCounter",
        tag="Flow instances",
        summary="The value of a counter of `wait:acquire` and `wait:release`",
        reply="FlowCounter",
        errors=(400,),
        is_ours=True,
    ),
)
