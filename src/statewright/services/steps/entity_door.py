"""The step engine's entities through the entity API: what clients may do there, and what not (spec §25.3).

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

from msgspec import Struct

from statewright.engine.anchor import demand
from statewright.entity import Entity, ModelKey
from statewright.failures import BadRequest, Forbidden, StepNotFound, TransitionNotFound
from statewright.identity import ModelId
from statewright.jsonval.values import JsonObject
from statewright.net import Moment, uuid_to_ulid
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin, hosting
from statewright.services.steps.documents import read_object, refuse_unstorable
from statewright.services.steps.instances import UNKNOWN
from statewright.services.steps.writing import uuid
from statewright.services.writing import Saved
from statewright.steps.core import (
    Applied,
    Instance,
    Process,
    Refusal,
    cancel,
    complete_user_task_by_id,
    retry_step,
)


class Fire(Struct, frozen=True, kw_only=True):
    """A transition that a client wants to fire on an entity of a built-in model; None is a mere save."""

    entity: Entity
    transition: str | None
    document: JsonObject
    if_match: str | None = None


def refuse_model(key: ModelKey) -> None:
    """Keep clients from making, changing or removing a built-in model or its entities. Raises ``Forbidden``."""
    if key in builtin.KEYS.values():
        raise Forbidden(f"model {key.name}/{key.version} belongs to the step engine")


def refuse_entities(model: ModelId) -> None:
    """As ``refuse_model``, by the model's id. Raises ``Forbidden``."""
    key = builtin.KEYS.get(model)
    if key is not None:
        refuse_model(key)


async def fire(runtime: Runtime, caller: Caller, request: Fire) -> Saved:
    """Fire an open transition.

    Raises ``Forbidden`` for a save and for transitions that only the step engine fires, ``TransitionNotFound`` for what
    the state does not have, ``EntityModified``, ``BadRequest`` and the failures of the operation.
    """
    entity = request.entity
    key = builtin.KEYS[entity.model]
    if request.transition is None:
        raise Forbidden(f"entities of {key.name}/{key.version} are written by the step engine only")
    declared = builtin.transitions_of(key, entity.state)
    if request.transition not in declared:
        raise TransitionNotFound(
            f'transition "{request.transition}" not found in state "{entity.state}": transition not found'
        )
    if request.transition not in builtin.OPEN[entity.model]:
        raise Forbidden(f'transition "{request.transition}" is fired by the step engine only')
    if request.if_match is not None:
        demand(entity, request.if_match)
    refuse_unstorable(request.document)
    if entity.model == builtin.USER_TASK_ID:
        return await _complete(runtime, caller, request)
    return await _change_instance(runtime, caller, request)


async def _change_instance(runtime: Runtime, caller: Caller, request: Fire) -> Saved:
    document = request.document
    reason, step_id = _text(document, "reason"), _text(document, "stepId")
    variables = _object(document, "variables") if request.transition == "retry" else None

    def operation(process: Process, current: Instance, moment: Moment) -> Applied | Refusal:
        if request.transition == "cancel":
            return cancel(process, current, reason, moment)
        return retry_step(process, current, step_id or _failed_step(current), variables, moment)

    advanced = await hosting.advance(
        runtime,
        caller,
        request.entity.id,
        operation,
        kind=f"instance.{request.transition}",
        unknown=StepNotFound(UNKNOWN),
        if_match=request.if_match,
    )
    return Saved(transaction_id=advanced.transaction_id, entity_ids=(request.entity.id,))


async def _complete(runtime: Runtime, caller: Caller, request: Fire) -> Saved:
    document = request.document
    variables = _object(document, "variables") or _object(document, "result")
    by = _text(document, "completedBy") or caller.principal.id
    task = uuid_to_ulid(request.entity.id)
    advanced = await hosting.advance(
        runtime,
        caller,
        uuid(str(read_object(request.entity.document)["instanceId"])),
        lambda process, current, moment: complete_user_task_by_id(process, current, task, variables, moment, by=by),
        kind="instance.complete_user_task",
        unknown=StepNotFound(UNKNOWN),
    )
    return Saved(transaction_id=advanced.transaction_id, entity_ids=(request.entity.id,))


def _failed_step(instance: Instance) -> str:
    """The step that failed the instance, as far as there is one."""
    return next((str(token.node) for token in instance.marking.tokens if token.stage == "FAILED"), "")


def _text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text")
    return value


def _object(document: JsonObject, name: str) -> JsonObject:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} must be an object")
    return value
