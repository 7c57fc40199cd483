"""Flows as their clients know them (docs/reference/flows.md#rest, docs/reference/flows.md#as-entities)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.flows.definition import FlowProcess, definition_to_document
from statewright.flows.graph import describe
from statewright.flows.instance import FlowInstance, render_instance
from statewright.flows.language import INPUT
from statewright.flows.mermaid import draw_instance, draw_process
from statewright.flows.operations import (
    ContextChange,
    cancel_instance,
    change_context,
    restart_instance,
    terminate_instance,
)
from statewright.flows.process_language import FLOWS
from statewright.jsonval.values import JsonObject
from statewright.operations.process_nouns import FLOW_NOUNS, Nouns
from statewright.processes.changes import NodeExecution
from statewright.services.flows import definitions
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
    refuse_unknown(body, ("businessKey", "definitionId", "definitionVersion", "input"))
    if not body.text("definitionId"):
        raise body.build_refusal("definitionId", "definitionId is required")
    given = body.get("input")
    if not isinstance(given, dict | list | None):
        raise body.build_refusal("input", "input must be an object or an array")
    return StartRequest(
        definition_id=body.text("definitionId"),
        definition_version=body.number("definitionVersion"),
        variables={INPUT: {} if given is None else given},
        business_key=body.text("businessKey"),
    )


def _read_change(body: RequestReader, _: Mapping[str, str]) -> Demand[FlowProcess, FlowInstance]:
    refuse_unknown(body, ("element", "input", "node", "reason"))
    node, reason = body.integer("node"), body.text("reason")
    if node is None:
        raise body.build_refusal("node", "node is required")
    if "input" not in body.document:
        raise body.build_refusal("input", "input is required")
    given = body.get("input")
    change = ContextChange(node=node, element=body.integer("element"), input=given, reason=reason)
    return Demand(
        operation=partial(change_context, change=change),
        given=given,
        stored=({"input": given, "reason": reason},),
        reason=reason,
    )


def _locate(process: FlowProcess, line: NodeExecution) -> JsonObject:
    node = process.flow.graph.nodes[int(line.node_id)]
    return {"node": node.index, "name": describe(node), "kind": node.kind}


def _render_definition(process: FlowProcess) -> JsonObject:
    return definition_to_document(process.source, process.describe(), process.version)


FLOW_DIALECT: Final = ProcessDialect(
    language=FLOWS,
    nouns=FLOW_NOUNS,
    verbs=(
        Verb(
            name="cancel",
            summary="Stop an instance for good, and withdraw its tasks",
            read=read_reasoned(cancel_instance),
            body="FlowCancel",
            use="optional",
            ends=True,
        ),
        Verb(
            name="terminate",
            summary="Let running tasks end, and begin no others; once more: stop at once. It can be restarted",
            read=read_bare(terminate_instance),
            ends=True,
        ),
        Verb(
            name="restart",
            summary="Begin again what failed or was interrupted, with the same input",
            read=read_bare(restart_instance),
        ),
        Verb(
            name="change",
            id="changeFlowContext",
            summary="Give a node that failed or was interrupted another input, with which a restart begins it again",
            read=_read_change,
            body="FlowChange",
            use="required",
        ),
    ),
    intake=DefinitionIntake(
        accept=definitions.accept,
        checked_members=("id", "name", "nodes", "tasks", "warnings"),
    ),
    render_definition=_render_definition,
    read_start=_read_start,
    render_instance=render_instance,
    locate=_locate,
    draw=draw_process,
    draw_instance=draw_instance,
    drawing_options=("format", "direction", "docs"),
)
