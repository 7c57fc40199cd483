"""The step engine's entities through the entity API: what clients may do there, and what not
(docs/reference/steps.md#writes-through-the-entity-api).

Reading, searching, history and audit need nothing from here. Of writes only the open transitions are let in; they run
the same use cases as ``/v1``, and commit on their own. The document that comes with one carries its arguments:

====================  ==========  ===================================================================
model                 transition  members of the document, all optional
====================  ==========  ===================================================================
StepWorkflowInstance  cancel      ``reason``
StepWorkflowInstance  retry       ``stepId`` (absent: the step that failed), ``variables``
StepUserTask          complete    ``variables`` or ``result``, ``completedBy``
====================  ==========  ===================================================================
"""

from collections.abc import Mapping
from typing import Final

from statewright.failures import BadRequest, ProcessNotFound
from statewright.ids import ModelId, TransactionId, model_id
from statewright.jsonval.values import JsonObject
from statewright.net import Moment, uuid_to_ulid
from statewright.processes.language import Rejection
from statewright.services.builtin import FireRequest
from statewright.services.processes import advancing
from statewright.services.processes.documents import read_object, refuse_unstorable
from statewright.services.processes.writing import to_entity_id
from statewright.services.runtime import BuiltinTransition, Caller, Runtime
from statewright.services.steps import find_steps
from statewright.services.steps.instances import INSTANCE_NOT_FOUND
from statewright.steps import (
    Applied,
    Instance,
    Process,
    cancel_instance,
    complete_user_task_by_id,
    retry_step,
)
from statewright.steps.models import INSTANCE, USER_TASK

INSTANCE_ID: Final = model_id(INSTANCE.key.name, INSTANCE.key.version)
USER_TASK_ID: Final = model_id(USER_TASK.key.name, USER_TASK.key.version)


async def fire_transition(runtime: Runtime, caller: Caller, request: FireRequest) -> TransactionId:
    """Fire an open transition; the transaction that wrote the instance. Raises ``BadRequest`` and the failures of the
    operation.
    """
    await refuse_unstorable(request.document)
    if request.entity.model == USER_TASK_ID:
        return await _complete_task(runtime, caller, request)
    return await _change_instance(runtime, caller, request)


async def _change_instance(runtime: Runtime, caller: Caller, request: FireRequest) -> TransactionId:
    document = request.document
    reason, step_id = _read_text(document, "reason"), _read_text(document, "stepId")
    variables = _read_object(document, "variables") if request.transition == "retry" else None

    def operation(process: Process, current: Instance, moment: Moment) -> Applied | Rejection:
        if request.transition == "cancel":
            return cancel_instance(process, current, reason, moment)
        return retry_step(process, current, step_id or _find_failed_step(current), variables, moment)

    advanced = await advancing.advance(
        find_steps(runtime),
        caller,
        request.entity.id,
        operation,
        kind=f"instance.{request.transition}",
        unknown=ProcessNotFound(INSTANCE_NOT_FOUND),
        if_match=request.if_match,
    )
    return advanced.transaction_id


async def _complete_task(runtime: Runtime, caller: Caller, request: FireRequest) -> TransactionId:
    document = request.document
    variables = _read_object(document, "variables") or _read_object(document, "result")
    by = _read_text(document, "completedBy") or caller.principal.id
    task = uuid_to_ulid(request.entity.id)
    advanced = await advancing.advance(
        find_steps(runtime),
        caller,
        to_entity_id(str(read_object(request.entity.document)["instanceId"])),
        lambda process, current, moment: complete_user_task_by_id(process, current, task, variables, moment, by=by),
        kind="instance.complete_user_task",
        unknown=ProcessNotFound(INSTANCE_NOT_FOUND),
    )
    return advanced.transaction_id


def _find_failed_step(instance: Instance) -> str:
    """The step that failed the instance, as far as there is one."""
    return next((str(token.node) for token in instance.marking.tokens if token.stage == "FAILED"), "")


def _read_text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text")
    return value


def _read_object(document: JsonObject, name: str) -> JsonObject:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} must be an object")
    return value


TRANSITIONS: Final[Mapping[ModelId, BuiltinTransition]] = {
    INSTANCE_ID: fire_transition,
    USER_TASK_ID: fire_transition,
}
