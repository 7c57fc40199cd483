"""Playbooks as their clients know them
(docs/reference/executions.md#rest, docs/reference/executions.md#as-entities).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.entity import Principal
from statewright.jsonval.values import JsonObject
from statewright.playbooks.context import CTX, WORKLOAD
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
from statewright.processes import changes
from statewright.processes.language import InstanceOperation
from statewright.services.playbooks import definitions
from statewright.services.processes.dialects import (
    DefinitionIntake,
    Demand,
    Nouns,
    ProcessDialect,
    RequestReader,
    Verb,
    build_transitions,
)
from statewright.services.processes.instances import StartRequest


def _read_start(body: RequestReader) -> StartRequest:
    if not body.text("path"):
        raise body.build_refusal("path is required")
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
    ctx, reason = body.object("ctx") or {}, body.text("reason")
    stored: JsonObject = {"ctx": ctx, "reason": reason}
    return Demand(operation=partial(patch_context, patch=ctx), given=ctx, stored=(stored,), reason=reason)


def _read_token(body: RequestReader, _: Mapping[str, str]) -> Demand[PlaybookProcess, Execution]:
    step, args = body.text("step"), body.object("args") or {}
    if not step:
        raise body.build_refusal("step is required")
    return Demand(operation=partial(inject_token, step=step, args=args), given=args, stored=(args,))


def _read_cancel(body: RequestReader, _: Mapping[str, str]) -> Demand[PlaybookProcess, Execution]:
    reason = body.text("reason")
    return Demand(operation=partial(cancel_execution, reason=reason), stored=({"reason": reason},), reason=reason)


def _read_restart(body: RequestReader, _: Mapping[str, str]) -> Demand[PlaybookProcess, Execution]:
    return Demand(operation=restart_execution, reason=body.text("reason"))


def _adapt(
    operation: InstanceOperation[PlaybookProcess, Execution], principal: Principal, reason: str
) -> InstanceOperation[PlaybookProcess, Execution]:
    """The log of an execution has who asked for what, and why."""
    return partial(apply_request, operation=operation, principal=principal.id, reason=reason)


def _render_definition(process: PlaybookProcess) -> JsonObject:
    return definition_to_document(process.source, describe_playbook(process.read), process.version)


def _locate(_: PlaybookProcess, line: changes.NodeExecution) -> JsonObject:
    return {"step": line.node_id}


PLAYBOOK_DIALECT: Final = ProcessDialect(
    language=PLAYBOOKS,
    nouns=Nouns(
        language="playbooks",
        title="Playbook",
        definition="playbook",
        definitions="playbooks",
        instance="execution",
        instances="executions",
        entry="Every run of a step with its input and output",
        nodes="steps",
        diagram="flowchart",
        drawn_instance="The playbook of an execution as a Mermaid flowchart: completed, running, pending, failed",
        id_member="path",
        definition_member="path",
        status_member="state",
        definitions_path="/v1/playbooks",
        instances_path="/v1/executions",
        validate_path="/v1/playbooks/validate",
        names={
            "start": "startExecution",
            "instance": "getExecution",
            "instances": "listExecutions",
            "history": "getExecutionHistory",
            "draw_instance": "drawExecution",
        },
        schemas={
            "source": "Playbook",
            "start": "ExecutionStart",
            "instance": "PlaybookExecution",
            "instances": "PlaybookExecutions",
        },
        summaries={
            "upload": "Store a playbook as the next version of its path; the same content again is the same version",
            "definition": "The latest version of a playbook; `/` in its path is written `%2F`",
        },
    ),
    verbs=(
        Verb(
            name="patch",
            id="patchExecution",
            summary="Change members of `ctx`; tokens that were denied are looked at again",
            read=_read_patch,
            kind="playbook.patch",
            body="ExecutionPatch",
            use="required",
            errors=(400, 404, 409, 413),
        ),
        Verb(
            name="inject",
            id="injectToken",
            summary="One more token for a step; it goes through admission",
            read=_read_token,
            kind="playbook.inject",
            path="tokens",
            body="ExecutionToken",
            use="required",
            errors=(400, 404, 409, 413),
        ),
        Verb(
            name="evaluate",
            id="evaluateExecution",
            summary="Look at all tokens once more that were denied",
            read=lambda _body, _segments: Demand(operation=reconsider),
            kind="playbook.evaluate",
        ),
        Verb(
            name="cancel",
            id="cancelExecution",
            summary="Stop an execution for good, and withdraw its runs",
            read=_read_cancel,
            kind="playbook.cancel",
            body="ExecutionCancel",
            use="optional",
            errors=(400, 404, 409, 413),
            ends=True,
        ),
        Verb(
            name="restart",
            id="restartExecution",
            summary="Begin the runs that failed again, with the same args",
            read=_read_restart,
            kind="playbook.restart",
        ),
    ),
    intake=DefinitionIntake(
        accept=definitions.accept,
        checked_members=("path", "name", "steps", "kinds", "warnings"),
    ),
    render_definition=_render_definition,
    read_start=_read_start,
    check_start=definitions.refuse_lacking_credentials,
    render_instance=render_execution,
    locate=_locate,
    draw=draw_process,
    draw_instance=draw_instance,
    drawing_options=("direction",),
    adapt=_adapt,
    unknown_definition=definitions.NOT_FOUND,
)

TRANSITIONS: Final = build_transitions(PLAYBOOK_DIALECT)
