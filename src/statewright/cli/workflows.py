"""``statewright workflows``: what needs no service (docs/reference/workflows.md#json-schema)."""

import json

import typer

workflows = typer.Typer(help="Workflows.", no_args_is_help=True)


@workflows.callback()
def _group() -> None:
    """Without it, a group of one command would be that command."""


@workflows.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of workflow definitions, for editors."""
    from statewright.workflow.json_schema import build_workflow_schema

    typer.echo(json.dumps(build_workflow_schema(), indent=2, ensure_ascii=False))
