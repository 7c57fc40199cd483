"""Playbooks as their clients know them
(docs/reference/executions.md#rest, docs/reference/executions.md#as-entities).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.entity import Principal
from statewright.jsonval.values import JsonObject
from statewright.operations.process_nouns import PLAYBOOK_NOUNS, Nouns
from statewright.playbooks.context import CTX, WORKLOAD
from statewright.playbooks.events import render_event
from statewright.playbooks.execution import Execution, render_execution
from statewright.playbooks.mermaid import draw_instance, draw_process
from statewright.playbooks.operations import (
    ARGS,
    apply_request,
    cancel_execution,
    inject_token,
    patch_context,
    reconsider,
    restart_execution,
)
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.playbooks.source import PlaybookProcess, definition_to_document, describe_playbook
from statewright.processes.language import InstanceOperation
from statewright.services.playbooks import definitions
from statewright.services.processes.dialects import (
    DefinitionIntake,
    Demand,
    ProcessDialect,
    RequestReader,
    Verb,
    read_bare,
    read_reasoned,
    refuse_unknown,
)
from statewright.services.processes.instances import StartRequest


def _read_start(body: RequestReader, _: Nouns) -> StartRequest:
    refuse_unknown(body, (ARGS, "businessKey", CTX, "path", "version", WORKLOAD))
    if not body.text("path"):
        raise body.build_refusal("path", "path is required")
    return StartRequest(
        definition_id=body.text("path"),
        definition_version=body.number("version"),
        variables={
            WORKLOAD: body.object("workload") or {},
            CTX: body.object("ctx") or {},
            ARGS: body.object("args") or {},
        },
        business_key=body.text("businessKey"),
    )


def _read_patch(body: RequestReader, _: Mapping[str, str]) -> Demand[PlaybookProcess, Execution]:
    refuse_unknown(body, ("ctx", "reason"))
    ctx, reason = body.object("ctx") or {}, body.text("reason")
    stored: JsonObject = {"ctx": ctx, "reason": reason}
    return Demand(operation=partial(patch_context, patch=ctx), given=ctx, stored=(stored,), reason=reason)


def _read_token(body: RequestReader, _: Mapping[str, str]) -> Demand[PlaybookProcess, Execution]:
    refuse_unknown(body, (ARGS, "step"))
    step, args = body.text("step"), body.object("args") or {}
    if not step:
        raise body.build_refusal("step", "step is required")
    return Demand(operation=partial(inject_token, step=step, args=args), given=args, stored=(args,))


def _adapt(
    operation: InstanceOperation[PlaybookProcess, Execution], principal: Principal, reason: str
) -> InstanceOperation[PlaybookProcess, Execution]:
    """The log of an execution has who asked for what, and why."""
    return partial(apply_request, operation=operation, principal=principal.id, reason=reason)


PLAYBOOK_DIALECT: Final = ProcessDialect(
    language=PLAYBOOKS,
    nouns=PLAYBOOK_NOUNS,
    verbs=(
        Verb(
            name="patch",
            summary="Change members of `ctx`; tokens that were denied are looked at again",
            read=_read_patch,
            body="ExecutionPatch",
            use="required",
        ),
        Verb(
            name="inject",
            id="injectToken",
            summary="One more token for a step; it goes through admission",
            read=_read_token,
            path="tokens",
            body="ExecutionToken",
            use="required",
        ),
        Verb(
            name="evaluate",
            summary="Look at all tokens once more that were denied",
            read=lambda _body, _segments: Demand(operation=reconsider),
        ),
        Verb(
            name="cancel",
            summary="Stop an execution for good, and withdraw its runs",
            read=read_reasoned(cancel_execution),
            body="ExecutionCancel",
            use="optional",
            ends=True,
        ),
        Verb(
            name="restart",
            summary="Begin the runs that failed again, with the same args",
            read=read_bare(restart_execution),
        ),
    ),
    intake=DefinitionIntake(
        accept=definitions.accept,
        checked_members=("path", "name", "steps", "kinds", "warnings"),
    ),
    render_definition=lambda one: definition_to_document(one.source, describe_playbook(one.read), one.version),
    read_start=_read_start,
    check_start=definitions.refuse_lacking_credentials,
    render_instance=render_execution,
    render_event=render_event,
    draw=draw_process,
    draw_instance=draw_instance,
    drawing_options=("direction",),
    adapt=_adapt,
    unknown_definition=definitions.NOT_FOUND,
)
