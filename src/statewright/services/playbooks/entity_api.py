"""Executions of playbooks through the entity API: what clients may fire there
(docs/reference/executions.md#as-entities).

Of writes only the open transitions are let in; they run the same use cases as ``/v1/executions``, and commit on their
own. ``cancel`` takes a ``reason`` from the document that comes with it; ``restart`` needs nothing.
"""

from collections.abc import Mapping
from typing import Final

from statewright.failures import BadRequest
from statewright.ids import ModelId, TransactionId, model_id
from statewright.net import Moment
from statewright.playbooks.execution import Execution
from statewright.playbooks.models import EXECUTION
from statewright.playbooks.operations import Applied, cancel_execution, record_request, restart_execution
from statewright.playbooks.process import PlaybookProcess
from statewright.processes.language import Rejection
from statewright.services.builtin import FireRequest
from statewright.services.playbooks import find_playbooks
from statewright.services.playbooks.executions import build_not_found
from statewright.services.processes import advancing
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.runtime import BuiltinTransition, Caller, Runtime


async def fire_transition(runtime: Runtime, caller: Caller, request: FireRequest) -> TransactionId:
    """Fire an open transition; the transaction that wrote the execution. Raises ``BadRequest`` and the failures of the
    operation.
    """
    await refuse_unstorable(request.document)
    reason = request.document.get("reason") or ""
    if not isinstance(reason, str):
        raise BadRequest("reason must be a text")

    def operation(process: PlaybookProcess, current: Execution, moment: Moment) -> Applied | Rejection:
        if request.transition == "cancel":
            done = cancel_execution(process, current, reason, moment)
        else:
            done = restart_execution(process, current, moment)
        return record_request(done, principal=caller.principal.id, reason=reason)

    advanced = await advancing.advance(
        find_playbooks(runtime),
        caller,
        request.entity.id,
        operation,
        kind=f"playbook.{request.transition}",
        unknown=build_not_found(request.entity.id),
        if_match=request.if_match,
    )
    return advanced.transaction_id


TRANSITIONS: Final[Mapping[ModelId, BuiltinTransition]] = {
    model_id(EXECUTION.key.name, EXECUTION.key.version): fire_transition,
}
