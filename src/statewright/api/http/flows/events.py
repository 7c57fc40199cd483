"""Events for waiting tasks, and counters, over REST (docs/reference/flows.md#events)."""

from statewright.api.http.processes.bodies import read, reply
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.flows.advancing import FlowEvent
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.flows import events
from statewright.services.flows.events import Receipt


async def send_event(request: Request) -> Response:
    """Deliver an event to the tasks that wait for it."""
    body = await read(request)
    event = FlowEvent(kind=body.text("event"), fields=body.object("fields") or {}, output=body.get("output"))
    delivered = await events.deliver(request.runtime.processes, request.caller, event, after=body.text("after"))
    receipts: list[JsonValue] = [_describe(receipt) for receipt in delivered.receipts]
    onward: JsonObject = {} if delivered.next is None else {"next": delivered.next}
    return reply({"tasks": delivered.tasks, "receipts": receipts, **onward})


async def get_counter(request: Request) -> Response:
    """The value of a counter."""
    name = request.path_params["name"]
    return reply({"name": name, "value": await events.get_counter(request.runtime.core, request.caller, name)})


def _describe(receipt: Receipt) -> JsonObject:
    element: JsonObject = {} if receipt.element is None else {"element": receipt.element}
    return {"instanceId": receipt.instance_id, "node": receipt.node, **element}
