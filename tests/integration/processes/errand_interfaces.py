"""Errands for clients: what makes REST, open transitions, operations of the client and commands of the toy language."""

import json

import typer

from statewright.api.http.dialects import ProcessApi
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.processes.tables import build_table
from statewright.api.http.request import Request
from statewright.cli.local_definitions import LocalLanguage, add_commands, read_definition
from statewright.jsonval.values import JsonObject
from statewright.sdk.client import Client
from statewright.sdk.exchange import Blocking, Items, make_method
from statewright.sdk.operations.processes import ProcessPaths, Reading
from statewright.services.core import Caller
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.dialects import DefinitionIntake, Demand, Nouns, ProcessDialect, RequestReader, Verb
from statewright.services.processes.hosting import Processes
from statewright.services.processes.instances import StartRequest
from tests.builders import Json
from tests.integration.processes.errands import ERRANDS, Plan, cancel

NOUNS = Nouns(
    language="errands",
    title="Errand",
    definition="plan",
    definitions="plans",
    instance="errand",
    instances="errands",
    definitions_path="/v1/plans",
    validate_path="/v1/plans/validate",
    instances_path="/v1/errands",
    diagram="flowchart",
    drawn_instance="How far an errand is",
)
CANCEL = Verb(
    name="cancel",
    id="cancelErrand",
    summary="Call an errand off",
    kind="errand.cancel",
    ends=True,
    read=lambda _body, _segments: Demand(operation=cancel),
)


def render_definition(plan: Plan) -> JsonObject:
    return {"id": plan.id, "version": plan.version, "limit": plan.limit}


def draw_plan(plan: Plan) -> str:
    return "flowchart LR\n" + "".join(f"  {node}\n" for node in plan.net.nodes)


async def accept(_processes: Processes, _caller: Caller, source: str) -> NewDefinition:
    id_ = json.loads(source)["id"]
    return NewDefinition(
        id=id_,
        name=id_,
        description="",
        source=source,
        content=source,
        build_document=lambda version: render_definition(ERRANDS.compile_source(source, version)),
    )


def read_start(body: RequestReader) -> StartRequest:
    return StartRequest(definition_id=body.text("definitionId"), variables=body.object("data") or {})


async def read_source(request: Request) -> str:
    return (await request.body()).decode()


ERRAND_DIALECT = ProcessDialect(
    language=ERRANDS,
    nouns=NOUNS,
    verbs=(CANCEL,),
    read_start=read_start,
    intake=DefinitionIntake(accept=accept, checked_members=("id", "limit")),
    render_definition=render_definition,
    render_instance=lambda errand: {"id": errand.id, "status": errand.status, "data": errand.marking.data},
    locate=lambda _, line: {"node": line.node_id},
    draw=lambda plan, _: draw_plan(plan),
    draw_instance=lambda _plan, _errand, statuses, _: "\n".join(
        f"{node}: {status}" for node, status in statuses.items()
    ),
)
ROUTES = build_table(ProcessInterface(ERRAND_DIALECT, read_source))
ERRAND_API = ProcessApi(roots=("/v1/plans", "/v1/errands"), routes=tuple(ROUTES.values()))


AS_IT_IS: Reading[Json] = Reading(lambda value: value)
PATHS = ProcessPaths(
    definition="plan",
    instance="errand",
    definitions_path="/plans",
    instances_path="/errands",
    read_definition=AS_IT_IS,
    read_instance=AS_IT_IS,
    read_line=AS_IT_IS,
)


class ErrandSubject(Blocking):
    start = make_method(PATHS.start)
    errand = make_method(PATHS.get_instance)
    errands = Items(PATHS.list_instances)
    history = Items(PATHS.list_history)
    change = make_method(PATHS.change)


class ErrandClient(Client):
    @property
    def errands(self) -> ErrandSubject:
        return ErrandSubject.share(self)


def read_plan(file: str) -> Plan:
    return ERRANDS.compile_source(read_definition(file), 0)


errands = typer.Typer()
add_commands(
    errands,
    LocalLanguage(
        checked="plans",
        files="Plans as JSON",
        check=lambda file: {"file": file, "id": read_plan(file).id, "error": None, "warnings": []},
        list_lines=lambda report: (f"{report['file']}: {report['id']} is fine",),
        draw=lambda file: draw_plan(read_plan(file)),
    ),
)
