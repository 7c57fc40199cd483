"""Commands about step definitions: ``statewright steps simulate``, ``lint`` and ``mermaid``.

They read files and need no service: a definition is checked, played or drawn by the pure functions that serve it.
"""

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.markup import escape
from rich.table import Table

from statewright.cli.client import fail, format_document, print_document, report_failures
from statewright.cli.local_definitions import LocalLanguage, Report, add_commands

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.steps import Accepted, Process, Simulation
    from statewright.steps.simulation import SimulatedInstance

STANDARD_INPUT: Final = "-"

DefinitionFile = Annotated[str, typer.Argument(help="Definition as JSON; `-` for standard input.", metavar="FILE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text for people.")]

steps = typer.Typer(
    help="The JSON step engine: check, draw and play definitions; remove finished instances.", no_args_is_help=True
)

_STYLES: Final = {
    "COMPLETED": "green",
    "FAILED": "bold red",
    "CANCELLED": "yellow",
    "SKIPPED": "dim",
    "RUNNING": "cyan",
    "ACTIVE": "cyan",
    "WAITING": "cyan",
}

_COLUMNS: Final = {
    "time": len("2026-06-01T09:00:00Z"),
    "step": None,
    "type": len("PARALLEL_GATEWAY"),
    "attempt": None,
    "status": len("COMPLETED"),
    "reason": None,
}
"""The columns of a simulation and their least widths; what has none is folded where the terminal is narrow."""


def _check(file: str) -> Report:
    from statewright.steps import Accepted, accept_text

    outcome = accept_text(_read(file))
    if isinstance(outcome, Accepted):
        return {"file": file, "id": outcome.definition.id, "error": None, "warnings": list(outcome.warnings)}
    return {"file": file, "id": None, "error": outcome.reason, "warnings": []}


def _list_lines(report: Report) -> Iterator[str]:
    name = escape(report["file"])
    if report["error"]:
        yield f"[bold red]{name}: {escape(report['error'])}"
    elif not report["warnings"]:
        yield f"[green]{name}: {escape(report['id'])} is fine"
    for warning in report["warnings"]:
        yield f"[yellow]{name}: {escape(warning)}"


def _draw(file: str) -> str:
    from statewright.steps import draw_definition

    return draw_definition(_accept(file).definition)


add_commands(
    steps,
    LocalLanguage(
        checked="definitions as an upload would",
        files="Definitions as JSON",
        json_help="Print one JSON document instead of text for people.",
        check=_check,
        list_lines=_list_lines,
        highlights=True,
        draw=_draw,
        drawing="mermaid",
        drawing_help="Print a definition as a Mermaid flowchart.",
        file="Definition as JSON",
    ),
)


@steps.command()
def simulate(
    file: DefinitionFile,
    variables: Annotated[
        str, typer.Option(help="Variables at the start: JSON, or `@FILE`.", metavar="JSON|@FILE", show_default=False)
    ] = "{}",
    stubs: Annotated[
        str,
        typer.Option(
            help='Who replies what, e.g. {"jobs": {"score": {"variables": {"points": 7}}}, "userTasks": {…}, '
            '"signals": {…}}; a reply may have `error`, `retryable` and `after`. JSON, or `@FILE`.',
            metavar="JSON|@FILE",
            show_default=False,
        ),
    ] = "{}",
    chained: Annotated[
        list[str] | None,
        typer.Option("--chained", help="Another definition that may be chained to; repeatable.", metavar="FILE"),
    ] = None,
    business_key: Annotated[str, typer.Option(help="Business key of the instance.")] = "",
    at: Annotated[str | None, typer.Option(help="Simulated start; default: now.", metavar="RFC3339")] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", help="END step of each instance of the chain, in order; else code 1.", metavar="STEP"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a definition without workers, people or a database; time passes only in the simulation.

    Ends with code 1 when an instance failed, or when `--expect` was not met.
    """
    from statewright.steps import read_stubs, report_simulation
    from statewright.steps import simulate as play

    with report_failures():
        process, others = _compile_process(file), [_compile_process(other) for other in chained or ()]
        known = {one.definition.id: one for one in [process, *others]}
        played = play(
            process,
            _parse_object(variables, "--variables"),
            read_stubs(_parse_value(stubs, "--stubs")),
            at=_parse_instant(at),
            successor=known.get,
            business_key=business_key,
        )
    if as_json:
        print_document(report_simulation(played))
    else:
        _show_simulation(played)
    _check_outcome(played, expect or ())


def _check_outcome(simulation: "Simulation", expected: Sequence[str]) -> None:
    """Ends the program with code 1 unless everything went as it should."""
    found = [played.ended_at_step for played in simulation.instances]
    if expected and found != list(expected):
        fail(f"expected to end at {', '.join(expected)}, not at {', '.join(end or 'no END' for end in found)}")
    if not expected and any(played.instance.status == "FAILED" for played in simulation.instances):
        raise typer.Exit(1)


def _show_simulation(simulation: "Simulation") -> None:
    console = Console(soft_wrap=True)
    for played in simulation.instances:
        _show_played(console, played)
    if simulation.stopped != "at rest":
        console.print(f"[yellow]stopped: {simulation.stopped}")


def _show_played(console: Console, played: "SimulatedInstance") -> None:
    from statewright.instants import format_whole_second

    instance = played.instance
    table = Table(box=None)
    for header, width in _COLUMNS.items():
        table.add_column(header, overflow="fold", min_width=width, no_wrap=bool(width))
    for line in played.history:
        status = f"[{_STYLES[line.status]}]{line.status}"
        step, reason = escape(line.node_id), escape(line.failure_reason or "")
        table.add_row(
            format_whole_second(line.started_at), step, line.node_type, str(line.attempt_number), status, reason
        )
    where = played.ended_at_step or ", ".join(instance.current_step_ids)
    console.print(f"[bold]{escape(instance.definition_id)}")
    console.print(table, crop=False)
    chain = f", starts {escape(played.process.definition.successor or '')}" if played.has_chained else ""
    console.print(f"[{_STYLES[instance.status]}]{instance.status}[/] at {escape(where) or '–'}{chain}")
    if instance.failure_reason:
        console.print(escape(instance.failure_reason))
    console.print(JSONHighlighter()(format_document(instance.variables)), soft_wrap=True)


def _compile_process(file: str) -> "Process":
    from statewright.steps import compile_definition

    return compile_definition(_accept(file).definition, 1)


def _accept(file: str) -> "Accepted":
    """Raises ``ValueError`` for a definition that an upload would refuse."""
    from statewright.steps import Accepted, accept_text

    outcome = accept_text(_read(file))
    if isinstance(outcome, Accepted):
        return outcome
    raise ValueError(f"{file}: {outcome.reason}")


def _parse_object(text: str, option: str) -> "JsonObject":
    value = _parse_value(text, option)
    if isinstance(value, dict):
        return value
    raise ValueError(f"{option} must be a JSON object")


def _parse_value(text: str, option: str) -> "JsonValue":
    """JSON given in place, or in a file after ``@``."""
    from statewright.jsonval.codec import MalformedJson, decode

    try:
        return decode(_read(text[1:]) if text.startswith("@") else text)
    except MalformedJson as malformed:
        raise ValueError(f"{option}: {malformed}") from None


def _parse_instant(text: str | None) -> int:
    from statewright.instants import from_rfc3339

    if text is None:
        return int(datetime.now(UTC).timestamp() * 1_000_000)
    instant = from_rfc3339(text)
    if instant is None:
        raise ValueError(f'--at: "{text}" is no RFC 3339 instant')
    return instant


def _read(file: str) -> bytes:
    text = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    return text.removeprefix(BOM_UTF8)
