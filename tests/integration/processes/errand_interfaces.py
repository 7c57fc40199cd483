"""Errands for clients: what makes REST, open transitions, operations of the client, commands and pages of the console
for the toy language.
"""

from typer import Typer

from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.processes.tables import build_api
from statewright.api.http.request import Request
from statewright.cli.local_definitions import LocalLanguage, add_commands, read_definition
from statewright.console import process_languages
from statewright.jsonval.values import JsonObject
from statewright.operations.process_nouns import Nouns
from statewright.processes.language import Drawing
from statewright.sdk.exchange import Blocking, Items, make_method
from statewright.sdk.operations.processes import ProcessPaths
from statewright.services.core import Caller
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.dialects import DefinitionIntake, Demand, ProcessDialect, Verb, describe_instance
from statewright.services.processes.hosting import Processes
from tests.integration.processes.errands import ERRANDS, Plan, cancel

compile_plan = ERRANDS.compile_source


def render(plan: Plan) -> JsonObject:
    return {"id": plan.id, "version": plan.version, "limit": plan.limit}


def draw(plan: Plan, drawing: Drawing = Drawing()) -> "str | JsonObject":  # noqa: B008
    if drawing.as_graph:
        return {"nodes": [{"id": node, "name": node, "kind": "task"} for node in plan.net.nodes], "edges": [[0, 1]]}
    return "flowchart LR\n" + "".join(f"  {node}\n" for node in plan.net.nodes)


async def accept(_processes: Processes, _caller: Caller, source: bytes) -> NewDefinition:
    plan, text = compile_plan(source.decode(), 0), source.decode()
    return NewDefinition(id=plan.id, name=plan.id, source=text, build_document=lambda n: render(plan) | {"version": n})


NOUNS = Nouns(
    language="errands",
    title="Errand",
    definition="plan",
    instance="errand",
    statuses=("RUNNING", "COMPLETED", "FAILED", "CANCELLED"),
    definitions_path="/v1/plans",
    instances_path="/v1/errands",
    validate_path="/v1/plans/validate",
)
ERRAND_DIALECT = ProcessDialect(
    language=ERRANDS,
    nouns=NOUNS,
    verbs=(Verb(name="cancel", summary="Call an errand off", ends=True, read=lambda *_: Demand(operation=cancel)),),
    intake=DefinitionIntake(accept=accept, checked_members=("id", "limit")),
    render_definition=render,
    render_instance=lambda errand: describe_instance(errand) | {"input": errand.marking.data},
    draw=draw,
    draw_instance=lambda _plan, _errand, statuses, _: "\n".join(f"{node}: {end}" for node, end in statuses.items()),
    drawing_options=("format",),
)
ERRAND_API = build_api(ProcessInterface(ERRAND_DIALECT, Request.body))
PATHS = ProcessPaths(definition="plan", instance="errand", definitions_path="/plans", instances_path="/errands")


class ErrandSubject(Blocking):
    start, errand, change = make_method(PATHS.start), make_method(PATHS.get_instance), make_method(PATHS.change)
    errands, history = Items(PATHS.list_instances), Items(PATHS.list_history)


errands = Typer()
LOCAL = LocalLanguage(
    checked="plans",
    check=lambda file: {"file": file, "id": compile_plan(read_definition(file), 0).id, "error": None, "warnings": []},
    draw=lambda file: str(draw(compile_plan(read_definition(file), 0))),
)
add_commands(errands, LOCAL)
PAGES = process_languages.ProcessLanguage(nouns=NOUNS, code="plan", title="Plans")
