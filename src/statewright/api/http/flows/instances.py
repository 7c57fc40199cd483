"""Instances of flows over REST (docs/reference/flows.md#rest)."""

from statewright.api.http.flows.parameters import read_diagram_options
from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import read, read_optional, reply_by_size
from statewright.api.http.processes.records import describe_abridged, describe_line, reply_page
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.failures import ProcessBadRequest
from statewright.flows.context import ContextChange
from statewright.flows.definition import FlowProcess
from statewright.flows.instance import FlowInstance, render_instance
from statewright.flows.paths import describe
from statewright.jsonval.values import JsonObject
from statewright.processes.changes import Execution
from statewright.services.flows import instances
from statewright.services.flows.instances import FlowStart
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.instances import AbridgedInstance


async def start_instance(request: Request) -> Response:
    """Start an instance."""
    body = await read(request)
    start = FlowStart(
        definition_id=body.text("definitionId"),
        definition_version=body.number("definitionVersion"),
        input=body.get("input"),
        business_key=body.text("businessKey"),
    )
    if not start.definition_id:
        raise ProcessBadRequest("definitionId is required")
    caller = request.answer_with(_respond_started)
    return await _reply_instance(await instances.start(request.runtime, caller, start), 201)


async def list_instances(request: Request) -> Response:
    """A page of instances."""
    found = await instances.list_instances(
        request.runtime,
        request.caller,
        definition_id=parameters.read_text(request, "definitionId"),
        status=parameters.read_text(request, "status"),
        business_key=parameters.read_text(request, "businessKey"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return await reply_page([_render_item(item) for item in found.items], found)


async def get_instance(request: Request) -> Response:
    """An instance."""
    found = await instances.get_instance(request.runtime, request.caller, request.path_params["id"])
    return await _reply_instance(found)


async def list_history(request: Request) -> Response:
    """A page of the entries into nodes."""
    found = await instances.get_history(
        request.runtime,
        request.caller,
        request.path_params["id"],
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return await reply_page([_describe_execution(found.process, line) for line in found.page.lines], found.page)


async def draw_instance(request: Request) -> Response:
    """The flow of an instance as a Mermaid diagram, coloured."""
    options = read_diagram_options(request)
    drawn = await instances.get_instance_diagram(request.runtime, request.caller, request.path_params["id"], options)
    return Response(drawn.encode(), media_type=TEXT)


async def cancel_instance(request: Request) -> Response:
    """Stop an instance for good."""
    reason = (await read_optional(request)).text("reason")
    caller = request.answer_with(_respond_changed)
    return await _reply_instance(await instances.cancel(request.runtime, caller, request.path_params["id"], reason))


async def terminate_instance(request: Request) -> Response:
    """Let running tasks end, and begin no others; once more: stop at once."""
    caller = request.answer_with(_respond_changed)
    return await _reply_instance(await instances.terminate(request.runtime, caller, request.path_params["id"]))


async def restart_instance(request: Request) -> Response:
    """Begin again what failed or was interrupted."""
    caller = request.answer_with(_respond_changed)
    return await _reply_instance(await instances.restart(request.runtime, caller, request.path_params["id"]))


async def _respond_started(result: AdvanceResult[FlowInstance]) -> Response:
    return await _reply_instance(result.instance, 201)


async def _respond_changed(result: AdvanceResult[FlowInstance]) -> Response:
    return await _reply_instance(result.instance)


async def change_context(request: Request) -> Response:
    """Give a node that failed or was interrupted another input."""
    body = await read(request)
    node = body.integer("node")
    if node is None:
        raise ProcessBadRequest("node is required")
    if "input" not in body.document:
        raise ProcessBadRequest("input is required")
    change = ContextChange(
        node=node, element=body.integer("element"), input=body.get("input"), reason=body.text("reason")
    )
    caller = request.answer_with(_respond_changed)
    return await _reply_instance(
        await instances.change_context(request.runtime, caller, request.path_params["id"], change)
    )


async def _reply_instance(instance: FlowInstance, status: int = 200) -> Response:
    return await reply_by_size(render_instance(instance), status)


def _render_item(instance: FlowInstance | AbridgedInstance) -> JsonObject:
    if isinstance(instance, FlowInstance):
        return render_instance(instance)
    return describe_abridged(instance, definition_member="definitionId", status_member="status")


def _describe_execution(process: FlowProcess, line: Execution) -> JsonObject:
    node = process.flow.graph.nodes[int(line.node_id)]
    return describe_line(line, {"node": node.index, "name": describe(node), "kind": node.kind})
