"""Commands about flows: ``statewright flows lint``, ``compile`` and ``diagram`` (docs/reference/flows.md#command-line).

They read files and need no service.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from statewright.cli.client import fail

if TYPE_CHECKING:
    from statewright.flows.graph import Graph

STANDARD_INPUT: Final = "-"

FlowFile = Annotated[str, typer.Argument(help="Flow as text; `-` for standard input.", metavar="FILE")]

flows = typer.Typer(help="The flow language: check, compile and draw flows.", no_args_is_help=True)


@flows.command()
def lint(
    files: Annotated[list[str], typer.Argument(help="Flows as text; `-` for standard input.", metavar="FILE…")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the command, too.")] = False,
) -> None:
    """Check flows: errors end with code 1, warnings only under `--strict`."""
    from statewright.flows.compiling import compile_flow
    from statewright.flows.documents import warning_to_document
    from statewright.flows.errors import FlowError

    reports: list[dict[str, object]] = []
    for file in files:
        try:
            graph = compile_flow(_read(file))
        except FlowError as refused:
            place = {"line": refused.position.line, "column": refused.position.column}
            error = {"code": refused.code, **place, "text": refused.reason}
            reports.append({"file": file, "error": error, "warnings": []})
            continue
        reports.append({"file": file, "error": None, "warnings": [*map(warning_to_document, graph.warnings)]})
    if as_json:
        _print_json(reports)
    else:
        for report in reports:
            _show(report)
    if any(report["error"] or (strict and report["warnings"]) for report in reports):
        raise typer.Exit(1)


@flows.command(name="compile")
def compile_(file: FlowFile) -> None:
    """Print the graph of a flow as JSON."""
    from statewright.flows.documents import graph_to_document
    from statewright.jsonval.codec import encode

    sys.stdout.write(encode(graph_to_document(_compile(file))).decode() + "\n")


@flows.command()
def diagram(
    file: FlowFile,
    vertical: Annotated[bool, typer.Option("--vertical", help="Draw from top to bottom.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Write the documentation of tasks beside them.")] = False,
) -> None:
    """Print a flow as a Mermaid state diagram."""
    from statewright.flows.mermaid import draw_flow

    sys.stdout.write(draw_flow(_compile(file), is_horizontal=not vertical, with_docs=docs))


def _compile(file: str) -> "Graph":
    from statewright.flows.compiling import compile_flow
    from statewright.flows.errors import FlowError

    text = _read(file)
    try:
        return compile_flow(text)
    except FlowError as refused:
        fail(f"{file}:{refused}")


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        fail(f"{file} cannot be read: {unreadable}")


def _show(report: dict[str, object]) -> None:
    console = Console(highlight=False)
    lines = [("error", report["error"])] if report["error"] else []
    warnings = report["warnings"]
    assert isinstance(warnings, list)  # noqa: S101 - made so above
    lines += [("warning", warning) for warning in warnings]
    for kind, each in lines:
        assert isinstance(each, dict)  # noqa: S101 - made so above
        text = f"{report['file']}:{each['line']}:{each['column']}: {kind} {each['code']}: {each['text']}"
        console.print(text, markup=False, soft_wrap=True)
    if not lines:
        console.print(f"{report['file']}: fine", markup=False, soft_wrap=True)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
