"""Instances of flows: how they are started (docs/reference/flows.md#instances)."""

from msgspec import Struct

from statewright.failures import ProcessBadRequest
from statewright.flows.instance import FlowInstance
from statewright.flows.language import INPUT
from statewright.jsonval.values import JsonValue
from statewright.services.core import Caller
from statewright.services.flows import find_flows
from statewright.services.processes import instances as hosted
from statewright.services.processes.hosting import Processes
from statewright.services.processes.instances import StartRequest


class FlowStart(Struct, frozen=True, kw_only=True):
    """What to start. ``definition_version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    definition_id: str
    definition_version: int = 0
    input: JsonValue = None
    """An object or an array; ``None`` is ``{}``."""
    business_key: str = ""


async def start(processes: Processes, caller: Caller, request: FlowStart) -> FlowInstance:
    """Start an instance; it is durable, and as far as it comes without any task.

    Raises ``ProcessBadRequest`` for an input that is no object or array, ``ProcessNotFound``, ``BusinessKeyInUse``.
    """
    given = {} if request.input is None else request.input
    if not isinstance(given, dict | list):
        raise ProcessBadRequest("input must be an object or an array")
    return await hosted.start(
        find_flows(processes),
        caller,
        StartRequest(
            definition_id=request.definition_id,
            definition_version=request.definition_version,
            variables={INPUT: given},
            business_key=request.business_key,
        ),
    )
