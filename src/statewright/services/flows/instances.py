"""Instances of flows: start, read, list, history, cancel, terminate, restart, draw
(docs/reference/flows.md#instances).
"""

from functools import partial
from typing import Final

from msgspec import Struct

from statewright.background import run_by_size
from statewright.failures import ProcessBadRequest
from statewright.flows import operations
from statewright.flows.context import ContextChange
from statewright.flows.definition import FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.language import INPUT
from statewright.flows.mermaid import DiagramOptions, render_instance_diagram
from statewright.flows.operations import cancel_instance, restart_instance, terminate_instance
from statewright.jsonval.values import JsonValue
from statewright.processes.changes import ExecutionStatus
from statewright.services.flows import definitions, find_flows
from statewright.services.processes import advancing
from statewright.services.processes import instances as hosted
from statewright.services.processes.advancing import InstanceOperation, parse_instance_id
from statewright.services.processes.documents import check_reason, refuse_unstorable
from statewright.services.processes.instances import AbridgedPage, HistoryPage, StartRequest, build_not_found
from statewright.services.runtime import Caller, Runtime
from statewright.storage.processes.instances import InstanceFilter

FlowOperation = InstanceOperation[FlowProcess, FlowInstance]

_TEXT_WEIGHT: Final = 8
"""Bytes of JSON that a character of a flow is as much work as, when it is drawn."""


class FlowStart(Struct, frozen=True, kw_only=True):
    """What to start. ``definition_version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    definition_id: str
    definition_version: int = 0
    input: JsonValue = None
    """An object or an array; ``None`` is ``{}``."""
    business_key: str = ""


class FlowHistory(Struct, frozen=True, kw_only=True):
    """A part of the history of an instance, and the version of the flow whose nodes it names."""

    process: FlowProcess
    page: HistoryPage


async def start(runtime: Runtime, caller: Caller, request: FlowStart) -> FlowInstance:
    """Start an instance; it is durable, and as far as it comes without any task.

    Raises ``ProcessBadRequest`` for an input that is no object or array, ``ProcessNotFound``, ``BusinessKeyInUse``.
    """
    given = {} if request.input is None else request.input
    if not isinstance(given, dict | list):
        raise ProcessBadRequest("input must be an object or an array")
    return await hosted.start(
        find_flows(runtime),
        caller,
        StartRequest(
            definition_id=request.definition_id,
            definition_version=request.definition_version,
            variables={INPUT: given},
            business_key=request.business_key,
        ),
    )


async def get_instance(runtime: Runtime, caller: Caller, instance_id: str) -> FlowInstance:
    """An instance as it is now. Raises ``ProcessNotFound``."""
    return await hosted.get_instance(find_flows(runtime), caller, instance_id)


async def list_instances(
    runtime: Runtime,
    caller: Caller,
    *,
    definition_id: str = "",
    status: str = "",
    business_key: str = "",
    page: int = 0,
    page_size: int = 0,
) -> AbridgedPage[FlowInstance]:
    """Instances that match all filters exactly (``processes.instances.list_abridged_instances``)."""
    matching = InstanceFilter(definition_id=definition_id, status=status, business_key=business_key)
    return await hosted.list_abridged_instances(find_flows(runtime), caller, matching, page=page, page_size=page_size)


async def get_history(
    runtime: Runtime, caller: Caller, instance_id: str, *, page: int = 0, page_size: int = 0
) -> FlowHistory:
    """A page of the entries into nodes, by start time, then id. Raises ``ProcessNotFound``."""
    found = await get_instance(runtime, caller, instance_id)
    published = await definitions.get_version(runtime, caller, found.definition_id, found.definition_version)
    listed = await hosted.list_history_page(find_flows(runtime), caller, instance_id, page=page, page_size=page_size)
    return FlowHistory(process=published.process, page=listed)


async def get_instance_diagram(
    runtime: Runtime,
    caller: Caller,
    instance_id: str,
    options: DiagramOptions = DiagramOptions(),  # noqa: B008
) -> str:
    """The flow of an instance in Mermaid's notation, its nodes coloured by what became of them.

    Raises ``ProcessNotFound``.
    """
    found = await get_instance(runtime, caller, instance_id)
    published = await definitions.get_version(runtime, caller, found.definition_id, found.definition_version)
    statuses = await hosted.fetch_last_statuses(find_flows(runtime), caller, instance_id)
    known: dict[int, ExecutionStatus] = {int(node): status for node, status in statuses.items()}
    process = published.process
    draw = partial(render_instance_diagram, process.flow.graph, known, options)
    return await run_by_size(len(process.source.text) * _TEXT_WEIGHT, draw)


async def cancel(runtime: Runtime, caller: Caller, instance_id: str, reason: str = "") -> FlowInstance:
    """Stop an instance for good. Raises ``ProcessNotFound``, ``ProcessConflict`` for one that is complete."""
    check_reason(reason)
    await refuse_unstorable({"reason": reason})
    return await _advance(
        runtime,
        caller,
        instance_id,
        "cancel",
        lambda process, current, moment: cancel_instance(process, current, reason, moment),
    )


async def terminate(runtime: Runtime, caller: Caller, instance_id: str) -> FlowInstance:
    """Let running tasks end, and begin no others; once more: stop at once. Raises ``ProcessNotFound``,
    ``ProcessConflict``.
    """
    return await _advance(runtime, caller, instance_id, "terminate", terminate_instance)


async def restart(runtime: Runtime, caller: Caller, instance_id: str) -> FlowInstance:
    """Begin again what failed or was interrupted. Raises ``ProcessNotFound``, ``ProcessConflict``,
    ``BusinessKeyInUse``.
    """
    return await _advance(runtime, caller, instance_id, "restart", restart_instance)


async def change_context(runtime: Runtime, caller: Caller, instance_id: str, change: ContextChange) -> FlowInstance:
    """Give a node that failed or was interrupted another input, with which a restart begins it again. Raises
    ``ProcessNotFound``, ``ProcessConflict`` for an instance that is not stopped, ``ProcessBadRequest``.
    """
    await check_change(change)
    unknown = build_not_found(instance_id)
    done = await advancing.advance(
        find_flows(runtime),
        caller,
        parse_instance_id(instance_id, unknown),
        lambda process, current, moment: operations.change_context(process, current, change, moment),
        kind="flow.change",
        unknown=unknown,
        given=change.input,
    )
    return done.instance


async def check_change(change: ContextChange) -> None:
    """Refuse a change that cannot be stored. Raises ``ProcessBadRequest``."""
    check_reason(change.reason)
    await refuse_unstorable({"input": change.input, "reason": change.reason})


async def _advance(
    runtime: Runtime, caller: Caller, instance_id: str, kind: str, operation: FlowOperation
) -> FlowInstance:
    unknown = build_not_found(instance_id)
    instance = parse_instance_id(instance_id, unknown)
    host = find_flows(runtime)
    done = await advancing.advance(host, caller, instance, operation, kind=f"flow.{kind}", unknown=unknown)
    return done.instance
