"""Instances of flows through the entity API: what clients may fire there (docs/reference/flows.md#as-entities).

Of writes only the open transitions are let in; they run the same use cases as ``/v1/flows``, and commit on their own.
``cancel`` takes a ``reason`` from the document that comes with it, ``change`` what it changes; ``terminate`` and
``restart`` need nothing.
"""

from collections.abc import Mapping
from typing import Final

from statewright.failures import BadRequest
from statewright.flows.context import ContextChange
from statewright.flows.definition import FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.models import INSTANCE
from statewright.flows.operations import (
    Applied,
    cancel_instance,
    change_context,
    restart_instance,
    terminate_instance,
)
from statewright.ids import ModelId, TransactionId, model_id
from statewright.jsonval.values import JsonObject
from statewright.net import Moment
from statewright.processes.language import Rejection
from statewright.services.builtin import FireRequest
from statewright.services.flows import find_flows
from statewright.services.flows.instances import check_change
from statewright.services.processes import advancing
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.processes.instances import build_not_found
from statewright.services.runtime import BuiltinTransition, Caller, Runtime


async def fire_transition(runtime: Runtime, caller: Caller, request: FireRequest) -> TransactionId:
    """Fire an open transition; the transaction that wrote the instance. Raises ``BadRequest`` and the failures of the
    operation.
    """
    await refuse_unstorable(request.document)
    reason = request.document.get("reason") or ""
    if not isinstance(reason, str):
        raise BadRequest("reason must be a text")

    change = _read_change(request.document, reason) if request.transition == "change" else None
    if change is not None:
        await check_change(change)

    def operation(process: FlowProcess, current: FlowInstance, moment: Moment) -> Applied | Rejection:
        if change is not None:
            return change_context(process, current, change, moment)
        match request.transition:
            case "cancel":
                return cancel_instance(process, current, reason, moment)
            case "terminate":
                return terminate_instance(process, current, moment)
            case _:
                return restart_instance(process, current, moment)

    advanced = await advancing.advance(
        find_flows(runtime),
        caller,
        request.entity.id,
        operation,
        kind=f"flow.{request.transition}",
        unknown=build_not_found(request.entity.id),
        if_match=request.if_match,
    )
    return advanced.transaction_id


def _read_change(document: JsonObject, reason: str) -> ContextChange:
    node, element = document.get("node"), document.get("element")
    for name, number in (("node", node), ("element", element)):
        if (number is not None or name == "node") and (isinstance(number, bool) or not isinstance(number, int)):
            raise BadRequest(f"{name} must be an integer")
    if "input" not in document:
        raise BadRequest("input is required")
    assert isinstance(node, int) and isinstance(element, int | None)  # noqa: S101, PT018 - as checked
    return ContextChange(node=node, element=element, input=document["input"], reason=reason)


TRANSITIONS: Final[Mapping[ModelId, BuiltinTransition]] = {
    model_id(INSTANCE.key.name, INSTANCE.key.version): fire_transition,
}
