"""What the commands of process languages share that read definitions and need no service: their checks and diagrams,
texts of definitions, JSON of options, and files with functions of Python.
"""

import inspect
import json
import re
import runpy
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from statewright.cli.client import fail, format_document, report_failures

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue

STANDARD_INPUT: Final = "-"

Report: TypeAlias = dict[str, Any]
"""What a check found: ``file``, ``error`` or ``errors``, ``warnings``, and what else a language tells."""


@dataclass(frozen=True, kw_only=True)
class LocalLanguage:
    """A process language as commands know it that read files. ``checked`` and ``files`` are said in their help."""

    checked: str
    files: str = "Definitions as text"
    check: Callable[[str], Report]
    """The report about a file."""
    list_lines: Callable[[Report], Iterable[str]] = lambda report: [f"{report['file']}: {report['error'] or 'fine'}"]
    """What is shown of a report, in Rich's markup."""
    highlights: bool = False
    """Whether Rich colours numbers and names in it on its own."""
    json_help: str = "Print one JSON document instead of text."
    draw: Callable[[str], str] | None = None
    """The diagram of a file."""
    drawing: str = "diagram"
    """The command that prints it."""
    drawing_help: str = ""
    file: str = ""
    """What is said of the file that it draws."""


def add_commands(group: typer.Typer, language: LocalLanguage) -> None:
    """The commands of all languages for this one: ``lint``, and one that draws."""

    @group.command(help=f"Check {language.checked}: errors end with code 1, warnings only under `--strict`.")
    def lint(
        files: Annotated[list[str], typer.Argument(help=_say_source(language.files), metavar="FILE…")],
        as_json: Annotated[bool, typer.Option("--json", help=language.json_help)] = False,
        strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the command, too.")] = False,
    ) -> None:
        lint_files(language, files, as_json=as_json, strict=strict)

    draw = language.draw
    if draw is None:
        return

    @group.command(language.drawing, help=language.drawing_help)
    def print_diagram(file: Annotated[str, typer.Argument(help=_say_source(language.file), metavar="FILE")]) -> None:
        with report_failures():
            diagram = draw(file)
        typer.echo(diagram, nl=False)


def lint_files(language: LocalLanguage, files: Iterable[str], *, as_json: bool, strict: bool) -> None:
    """Print what the checks of a language find in files. Ends the command with code 1 if that is an error."""
    with report_failures():
        reports = [language.check(file) for file in files]
    if as_json:
        sys.stdout.write(json.dumps(reports, ensure_ascii=False, indent=2) + "\n")
    else:
        console = Console(highlight=language.highlights, soft_wrap=True)
        for line in (line for report in reports for line in language.list_lines(report)):
            console.print(line)
    if any(report.get("error") or report.get("errors") or (strict and report["warnings"]) for report in reports):
        raise typer.Exit(1)


def _say_source(files: str) -> str:
    return f"{files}; `-` for standard input."


def read_definition(file: str) -> str:
    """The text of a file, or of standard input. Ends the command if it cannot be read."""
    try:
        return sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as unreadable:
        fail(f"{file} cannot be read: {getattr(unreadable, 'strerror', None) or unreadable}")


def run_python_file(file: Path) -> Mapping[str, Any]:
    """The names that a file of Python defines; it may import its neighbours. Ends the command if it cannot be run."""
    if not file.is_file():
        fail(f"{file} cannot be read: there is no such file")
    sys.path.insert(0, str(file.resolve().parent))
    try:
        return runpy.run_path(str(file))
    except Exception as error:
        fail(f"{file} cannot be run: {type(error).__name__}: {error}")


def find_functions(
    file: Path | None, mapping: str, wanted: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], Callable[..., Any]]:
    """The functions of a file, by all the names that each may have; those that it lacks are left out. A function has
    one of its names, with ``_`` for what no name of Python has, or is listed by it in a ``mapping`` of the file.
    Without a file there are none.
    """
    defined = {} if file is None else run_python_file(file)
    listed = defined.get(mapping)
    found: dict[tuple[str, ...], Callable[..., Any]] = {}
    for names in wanted:
        for name in names:
            function = (listed if isinstance(listed, Mapping) else {}).get(name, defined.get(re.sub(r"\W", "_", name)))
            if callable(function):
                found.setdefault(names, function)
    return found


def tell_missing(file: Path | None, names: Iterable[str]) -> str:
    """What to say where there is no function for tasks of these names."""
    listed = ", ".join(names)
    if file is None:
        return f"--tasks must name a Python file with functions for {listed}"
    return f"{file} has no function for {listed}"


def call_function(function: Callable[..., Any], *given: Any) -> "JsonValue":
    """What a function of a file makes of as much as it takes of what is given. Raises what it raises."""
    import asyncio

    outcome = function(*map(to_plain, given[: len(inspect.signature(function).parameters)]))
    return to_value(asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome)


def parse_option(text: str, option: str) -> "JsonValue":
    """The JSON of an option. Ends the command if it is none."""
    from statewright.jsonval.codec import MalformedJson, decode

    try:
        return decode(text)
    except MalformedJson as defect:
        fail(f"{option} is no JSON: {defect}")


def parse_object(text: str, option: str) -> "JsonObject":
    """The same for an object."""
    value = parse_option(text, option)
    return value if isinstance(value, dict) else fail(f"{option} is no JSON object")


def read_stubs(text: str, known: Collection[str], things: str) -> "JsonObject":
    """The answers of ``--stubs``. Ends the command if some are for what is not known."""
    answers = parse_object(text, "--stubs")
    if unused := sorted(answers.keys() - set(known)):
        fail(f"--stubs names no {things}: {', '.join(unused)}; it has {', '.join(sorted(known))}")
    return answers


def to_plain(value: Any) -> Any:
    """A JSON value as workers get it, with exact numbers; what a function does to it changes nothing else."""
    from statewright.jsonval.codec import decode, encode

    return decode(encode(value))


def to_value(value: Any) -> "JsonValue":
    """What a function returned, as a JSON value, by the encoder of workers. Raises ``ValueError`` if it is none."""
    from statewright.jsonval.codec import decode
    from statewright.sdk.outcomes import encode_json

    return decode(encode_json(value))


def show(value: "JsonValue") -> str:
    """The JSON of a value in one line, spaced for people."""
    return format_document(value, indent=0)


def take_answer(answer: "JsonValue") -> "JsonValue":
    """The answer of a stub, of ``{"$each": […]}`` the next one, of which the last stays."""
    if isinstance(answer, dict) and isinstance(turns := answer.get("$each"), list) and turns:
        return turns.pop(0) if len(turns) > 1 else turns[0]
    return answer


def print_json(value: "JsonValue") -> None:
    """One line of JSON."""
    from statewright.jsonval.codec import encode

    sys.stdout.write(encode(value).decode() + "\n")
