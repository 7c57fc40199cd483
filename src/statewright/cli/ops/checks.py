"""``statewright ops workflow …``: workflows are checked, and played through, before they are imported
(docs/reference/operations.md#checking-workflows, docs/reference/operations.md#simulating-workflows).

``statewright ops revisions …``: what they are and have been (docs/reference/operations.md#revisions-of-workflows).

Simulations without a service (docs/reference/operations.md#simulating-workflows): the model is known by a sample
document, and the scenario brings its workflows. What this needs is imported when it is called: few commands do.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    AsJson,
    DocumentFile,
    Json,
    Model,
    command,
    print_answer,
    read_document,
    read_object,
    require_server,
    show_table,
    split_model,
)
from statewright.cli.ops.calls import DEFAULT_LIMIT, Limit, ask, drop_none, list_first, print_patch
from statewright.cli.workflows import show_check, wrap_workflows
from statewright.operations.table import (
    ACTIVATE_WORKFLOW_REVISION,
    CHECK_WORKFLOWS,
    COMPARE_WORKFLOW_REVISIONS,
    COUNT_POPULATION,
    COUNT_REVISION_ENTITIES,
    GET_WORKFLOW_REVISION,
    LIST_WORKFLOW_REVISIONS,
    SIMULATE_WORKFLOWS,
)

if TYPE_CHECKING:
    from statewright.engine.models import Model as EngineModel
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.sdk import Client


OPERATOR: Final = "operator"
"""For whom everything is done where the scenario does not say."""


def simulate_here(document: "JsonObject", name: str, version: int, sample: "JsonObject") -> Json:
    """What a service would answer to the scenario in a document.

    Raises ``ValueError`` for a scenario that cannot be played, or not without a service.
    """
    from statewright.api.http.ops.checks import read_scenario, show_simulation
    from statewright.api.http.response import encode_json
    from statewright.engine.simulation import Scenario, SimulationLimits, simulate
    from statewright.entity import Principal
    from statewright.failures import Failure
    from statewright.ids import TenantId, system_clock
    from statewright.jsonval.codec import decode, encode

    tenant = TenantId(OPERATOR)
    try:
        request = read_scenario(encode(document), tenant)
        if request.workflows is None or request.document is None:
            raise ValueError("without a service the scenario needs its workflows, and a document to start from")
        scenario = Scenario(
            start=request.document,
            events=request.events,
            stubs=request.stubs,
            principal=request.principal or Principal(id=OPERATOR, name=OPERATOR, kind="user", tenant=tenant),
            at=system_clock() if request.at is None else request.at,
        )
        found = simulate(_build_model(name, version, sample, request.workflows), scenario, SimulationLimits())
    except Failure as refused:
        raise ValueError(refused.message) from refused
    return decode(encode_json(show_simulation(found)))


def _build_model(name: str, version: int, sample: "JsonObject", workflows: "JsonValue") -> "EngineModel":
    from statewright.engine.models import DocumentRules
    from statewright.engine.models import Model as EngineModel
    from statewright.engine.simulation.simulator import read_importable
    from statewright.entity import ModelKey
    from statewright.ids import model_id
    from statewright.schema import compile_validator, flatten_fields, infer

    key, id_, schema = ModelKey(name, version), model_id(name, version), infer(sample)
    return EngineModel(
        key=key,
        id=id_,
        declared=flatten_fields(schema),
        documents=DocumentRules(model=id_, key=key, schema=schema, validate=compile_validator(schema)),
        workflows=read_importable(workflows),
        workflows_revision=1,
    )


workflow = typer.Typer(help="Check and simulate workflows.", no_args_is_help=True)

FAILING: Final = {False: ("ERROR",), True: ("ERROR", "WARNING")}
"""Severities that make a check fail, by whether it is strict."""


@command(workflow)
def check(
    client: "Client",
    file: DocumentFile,
    model: Annotated[
        str | None,
        typer.Option(
            help="Which model they are for; else the file says so.", metavar="NAME/VERSION", show_default=False
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            help="File with a sample document of the model: the check is done here, without a service.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the check, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with workflows, what they would change, and whom that concerns. Nothing is imported."""
    document = wrap_workflows(read_document(file))
    name, version = split_model(model) if model else _read_model(document)
    if sample is None:
        found = ask(client, CHECK_WORKFLOWS, name, str(version), body=document)
    else:
        found = _check_here(document, name, version, read_object(sample))
    print_answer(found, None if as_json else show_check)
    if any(each["severity"] in FAILING[strict] for each in found["findings"]):
        raise typer.Exit(1)


@command(workflow)
def simulate(
    client: "Client",
    file: DocumentFile,
    model: Annotated[str, typer.Option(help="Which model it is about.", metavar="NAME/VERSION")],
    sample: Annotated[
        str | None,
        typer.Option(
            help="File with a sample document of the model: it is played here, without a service.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play an entity through a workflow, with stubs for members and a clock that jumps. Nothing is written."""
    name, version = split_model(model)
    scenario = read_object(file)
    if sample is None:
        found = ask(client, SIMULATE_WORKFLOWS, name, str(version), body=scenario)
    else:
        with require_server("simulate --sample"):
            found = simulate_here(scenario, name, version, read_object(sample))
    print_answer(found, None if as_json else _show_simulation)
    if found["outcome"] == "FAILED":
        raise typer.Exit(1)


def _show_simulation(found: Json) -> None:
    show_table("at | from | transition | to | failure", "path")(found)
    for finding in found["findings"]:
        typer.echo(f"{finding['code']} {finding['path']}: {finding['message']}")
    typer.echo(
        f"{found['outcome'].lower()} in {found['state']}" + (f": {found['failure']}" if found["failure"] else "")
    )


def _read_model(document: "JsonObject") -> tuple[str, int]:
    name, version = document.get("entityName"), document.get("modelVersion")
    if isinstance(name, str) and isinstance(version, int):
        return name, version
    raise ValueError("the file does not say which model it is for: --model NAME/VERSION")


def _check_here(document: "JsonObject", name: str, version: int, sample: "JsonObject") -> Json:
    """A check against a model that is known by a sample only; nothing is known of entities and members."""
    import msgspec

    from statewright.conditions import KnownFields
    from statewright.entity import ModelKey
    from statewright.operations.checks import WorkflowCheck
    from statewright.schema import flatten_fields, infer
    from statewright.workflow.review import Surroundings, check_import

    around = Surroundings(fields=KnownFields(flatten_fields(infer(sample))))
    result = check_import(document, ModelKey(name, version), (), around)
    found = WorkflowCheck(importable=result.is_importable, findings=result.findings, diff=None, affected=None)
    return msgspec.to_builtins(found)


revisions = typer.Typer(help="Look at the workflows that a model has and has had.", no_args_is_help=True)

Revision = Annotated[int, typer.Argument(min=1, max=2**31 - 1, help="The number of the revision.")]


@command(
    revisions, show_table("revision | current | importedAt | by: importedBy.id | origin | mode | note"), name="list"
)
def list_revisions(client: "Client", model: Model, limit: Limit = DEFAULT_LIMIT) -> list[Json]:
    """List the revisions of the workflows of a model, newest first."""
    return list_first(client, LIST_WORKFLOW_REVISIONS, limit, *_split(model))


@command(revisions)
def show(client: "Client", model: Model, revision: Revision) -> Json:
    """Show a revision, with its export document."""
    return ask(client, GET_WORKFLOW_REVISION, *_split(model), str(revision))


def _show_patch(found: Json) -> None:
    typer.echo(f"{found['from'] or '(nothing)'} -> {found['to']}")
    print_patch(found["patch"])


@command(revisions, _show_patch, name="diff")
def compare(
    client: "Client",
    model: Model,
    revision: Revision,
    to: Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="The newer one.", show_default=False)] = None,
) -> Json:
    """Show what changed between two revisions; without --to, from the one before."""
    return ask(client, COMPARE_WORKFLOW_REVISIONS, *_split(model), str(revision), query={"to": to})


@command(revisions, show_table("revision | importedAt | note"))
def activate(
    client: "Client",
    model: Model,
    revision: Revision,
    reason: Annotated[str, typer.Option(help="Why; it is on record.", show_default=False)],
    if_match: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Only while this is the current one.", show_default=False)
    ] = None,
) -> Json:
    """Bring the workflows of a revision back, as a new one."""
    body = drop_none({"reason": reason, "ifMatch": if_match})
    return ask(client, ACTIVATE_WORKFLOW_REVISION, *_split(model), str(revision), body=body)


@command(revisions, show_table("workflow | state | revision | count | issue", "items"))
def population(
    client: "Client",
    model: Model,
    revision: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Only what it moved last.", show_default=False)
    ] = None,
) -> Json:
    """Count the entities by workflow, state and the revision under which they were moved last."""
    if revision is None:
        return ask(client, COUNT_POPULATION, *_split(model))
    return ask(client, COUNT_REVISION_ENTITIES, *_split(model), str(revision))


def _split(model: str) -> tuple[str, str]:
    name, version = split_model(model)
    return name, str(version)
