"""``statewright ops workflow …``: workflows are checked, and played through, before they are imported
(docs/reference/operations.md#checking-workflows, docs/reference/operations.md#simulating-workflows).
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statewright.cli.client import split_model, with_client
from statewright.cli.documents import AsJson, DocumentFile, print_document, print_table, read_document, read_object
from statewright.cli.ops.local_simulations import simulate_here
from statewright.cli.workflows import wrap_workflows

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject
    from statewright.sdk import Client

Json = Any  # what a service answers is checked where it is used

workflow = typer.Typer(help="Check and simulate workflows.", no_args_is_help=True)

FAILING: Final = {False: ("ERROR",), True: ("ERROR", "WARNING")}
"""Severities that make a check fail, by whether it is strict."""


@workflow.command()
@with_client
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
        path = f"/ops/v1/models/{name}/{version}/workflow/check"
        found: Json = client.request("POST", path, document, at_root=True, only_asks=True)
    else:
        found = _check_here(document, name, version, read_object(sample))
    if as_json:
        print_document(found)
    else:
        _print_check(found)
    if any(each["severity"] in FAILING[strict] for each in found["findings"]):
        raise typer.Exit(1)


@workflow.command()
@with_client
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
    path = f"/ops/v1/models/{name}/{version}/workflow/simulate"
    scenario = read_object(file)
    if sample is None:
        found: Json = client.request("POST", path, scenario, at_root=True, only_asks=True)
    else:
        found = simulate_here(scenario, name, version, read_object(sample))
    if as_json:
        print_document(found)
    else:
        rows = [
            (step["at"], step["from"], step["transition"], step["to"], step["failure"] or "") for step in found["path"]
        ]
        print_table(("at", "from", "transition", "to", "failure"), rows)
        for finding in found["findings"]:
            typer.echo(f"{finding['code']} {finding['path']}: {finding['message']}")
        typer.echo(
            f"{found['outcome'].lower()} in {found['state']}" + (f": {found['failure']}" if found["failure"] else "")
        )
    if found["outcome"] == "FAILED":
        raise typer.Exit(1)


def _read_model(document: "JsonObject") -> tuple[str, int]:
    name, version = document.get("entityName"), document.get("modelVersion")
    if isinstance(name, str) and isinstance(version, int):
        return name, version
    raise ValueError("the file does not say which model it is for: --model NAME/VERSION")


def _check_here(document: "JsonObject", name: str, version: int, sample: "JsonObject") -> Json:
    """A check against a model that is known by a sample only; nothing is known of entities and members."""
    from statewright.conditions import KnownFields
    from statewright.entity import ModelKey
    from statewright.schema import flatten_fields, infer
    from statewright.workflow.checking import check_import
    from statewright.workflow.review import Surroundings

    around = Surroundings(fields=KnownFields(flatten_fields(infer(sample))))
    result = check_import(document, ModelKey(name, version), (), around)
    findings = [
        {"code": each.code, "severity": each.severity, "path": each.path, "message": each.message, "hint": each.hint}
        for each in result.findings
    ]
    return {"importable": result.is_importable, "findings": findings, "diff": None, "affected": None}


def _print_check(found: Json) -> None:
    rows = [(each["severity"].lower(), each["code"], each["path"], each["message"]) for each in found["findings"]]
    if rows:
        print_table(("severity", "code", "path", "message"), rows)
    typer.echo("importable" if found["importable"] else "not importable")
    for each in (found["diff"] or {}).get("workflows", ()):
        typer.echo(f"{each['change'].lower()}: {each['name']}")
    affected = found["affected"]
    if affected is not None:
        typer.echo(f"{affected['total']} entities, {affected['armedTimers']} armed timers")
