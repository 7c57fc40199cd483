"""Commands about playbooks: ``statewright playbooks lint``, ``convert``, ``run`` and ``simulate``
(docs/reference/playbooks.md#command-line), which read files and need no service, and ``events``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape

from statewright.cli.client import PATIENCE_S, command, fail
from statewright.cli.local_definitions import (
    STANDARD_INPUT,
    LocalLanguage,
    Report,
    call_function,
    find_functions,
    lint_files,
    parse_object,
    print_json,
    read_definition,
    read_stubs,
    show,
    take_answer,
    tell_missing,
)

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.playbooks import Finding, Playbook
    from statewright.playbooks.dispatch import Dispatch
    from statewright.playbooks.pipeline import ToolCall
    from statewright.playbooks.policies import Outcome
    from statewright.playbooks.running import Tool
    from statewright.playbooks.survey import Survey
    from statewright.sdk import Client
    from statewright.sdk.operations.playbooks import PlaybookEvent

KINDS: Final = "KINDS"
"""The mapping of a file of functions, for names that no function can have."""
MAX_RUNS: Final = 100_000
"""Runs of pipelines in one execution of a command."""

_ENDED_WELL: Final = ("success", "partial")
_RESERVED: Final = ("http", "noop", "playbook", "wait")

PlaybookFile = Annotated[str, typer.Argument(help="Playbook in YAML or JSON; `-` for standard input.", metavar="FILE")]
Workload = Annotated[str, typer.Option("--workload", help="Merged over the defaults of the playbook.", metavar="JSON")]
Context = Annotated[str, typer.Option("--ctx", help="What `ctx` has at the start.", metavar="JSON")]
WithLog = Annotated[bool, typer.Option("--log", help="Print the event log, one JSON object a line, instead.")]

playbooks = typer.Typer(
    help="Playbooks: check, run and simulate them, read the logs of executions.", no_args_is_help=True
)


def _check(file: str) -> Report:
    from statewright.playbooks import read_playbook
    from statewright.playbooks.tasks import list_worker_kinds

    text = read_definition(file)
    found = read_playbook(text)
    tasks = [task for step in (found.playbook.steps if found.playbook else ()) for task in step.tasks]
    records = _to_records(text, (*found.errors, *found.warnings))
    count = len(found.errors)
    kinds = list_worker_kinds(tasks)
    return {"file": file, "errors": records[:count], "warnings": records[count:], "workerKinds": kinds}


def _list_lines(report: Report) -> Iterator[str]:
    for severity in ("error", "warning"):
        for found in report[f"{severity}s"]:
            place = f"{report['file']}:{found['line']}:{found['column']}"
            yield escape(f"{place}: {severity} {found['path'] or '/'}: {found['message']}")
    if not report["errors"] and not report["warnings"]:
        yield escape(f"{report['file']}: fine")
    if kinds := report["workerKinds"]:
        yield escape(f"{report['file']}: needs a worker for {', '.join(kinds)}{_offer_tools(kinds)}")


def _offer_tools(kinds: Iterable[str]) -> str:
    """What a line about kinds of tasks that need a worker ends with."""
    from statewright.tools.tasks import KINDS as TOOL_KINDS

    offered = ",".join(kind for kind in TOOL_KINDS if kind in set(kinds))
    return f"; `statewright tools --kinds {offered}` is one" if offered else ""


_LANGUAGE: Final = LocalLanguage(checked="playbooks", files="Playbooks", check=_check, list_lines=_list_lines)


@playbooks.command()
def lint(
    files: Annotated[
        list[str], typer.Argument(help="Playbooks; `-` for standard input. Folders with `--public`.", metavar="FILE…")
    ],
    as_json: Annotated[bool, typer.Option("--json", help=_LANGUAGE.json_help)] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the command, too.")] = False,
    public: Annotated[
        bool, typer.Option("--public", help="Tell on one page what playbooks in older public forms would need.")
    ] = False,
) -> None:
    """Check playbooks: errors end with code 1, warnings only under `--strict`."""
    if not public:
        lint_files(_LANGUAGE, files, as_json=as_json, strict=strict)
        return
    from msgspec import json as msgspec_json

    from statewright.playbooks.survey import sum_up, survey_playbook

    paths = [path for file in files for path in _list_files(file)]
    survey = sum_up(survey_playbook(path, read_definition(path)) for path in paths)
    if as_json:
        typer.echo(msgspec_json.format(msgspec_json.encode(survey), indent=2))
    else:
        for line in _list_survey_lines(survey):
            typer.echo(line)
    if survey.totals.files.get("findings"):
        raise typer.Exit(1)


@playbooks.command()
def convert(
    source: Annotated[
        str, typer.Argument(help="Playbook, or a folder of them; `-` for standard input.", metavar="FILE")
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write to, by the names that the files have.", metavar="DIR")
    ] = None,
) -> None:
    """Write playbooks in older public forms in the form of today.

    What could not be converted is told on the standard error, and ends the command with code 1; the rest is written
    nonetheless. Comments of YAML are lost. Without `--to` the text of one file goes to the standard output.
    """
    paths, is_folder = _list_files(source), Path(source).is_dir()
    if to is None and is_folder:
        fail("a folder is converted into another one; expected --to DIR")
    root = Path(source) if is_folder else Path(source).parent
    has_failed = False
    for path in paths:
        text, has_errors = _convert_file(path, is_alone=not is_folder)
        has_failed = has_failed or has_errors
        if to is None:
            sys.stdout.write(text)
        elif text:
            name = "playbook.yaml" if path == STANDARD_INPUT else Path(path).relative_to(root)
            _write_file(to / name, text, path)
    if has_failed:
        raise typer.Exit(1)


def _convert_file(path: str, *, is_alone: bool) -> tuple[str, bool]:
    """The text of the converted playbook, empty if there is none, and whether there are errors, which are told. A
    document that is no playbook is an error where it is ``is_alone``.
    """
    from statewright.jsonval.codec import encode
    from statewright.playbooks import read_playbook
    from statewright.playbooks.convert import convert_playbook, is_playbook
    from statewright.playbooks.documents import write_document

    source = read_definition(path)
    conversion = convert_playbook(source)
    document = conversion.document
    if document and not is_playbook(document):
        typer.echo(f"{path}: is no playbook, and left out", err=True)
        return "", is_alone
    errors = read_playbook(document).errors if document else ()
    told = [(path, finding) for finding in (*conversion.errors, *conversion.warnings)]
    for place, finding in [*told, *((f"{path} (converted)", finding) for finding in errors)]:
        typer.echo(f"{place}: {finding.severity} {finding.path or '/'}: {finding.message}", err=True)
    has_errors = bool(conversion.errors or errors)
    if document and not conversion.changes:
        return source, has_errors
    if path.endswith(".json") and document:
        return encode(document).decode() + "\n", has_errors
    return (write_document(document) if document else ""), has_errors


def _write_file(target: Path, text: str, source: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and source != STANDARD_INPUT and target.samefile(source):
            fail(f"{target} is the file that is converted; expected another folder")
        target.write_text(text, encoding="utf-8")
    except OSError as unwritable:
        fail(f"{target} cannot be written: {unwritable.strerror or unwritable}")


def _list_files(source: str) -> list[str]:
    """The playbooks of a folder, those of folders in it included, in the order of their names; a file itself."""
    folder = Path(source)
    if source == STANDARD_INPUT or not folder.is_dir():
        return [source]
    found = sorted(str(path) for path in folder.rglob("*") if path.suffix in (".json", ".yaml", ".yml"))
    return found or fail(f"{source} has no files of YAML or JSON")


def _list_survey_lines(survey: "Survey") -> Iterator[str]:
    """The page that is shown of it: totals first."""
    totals = survey.totals
    for title, counts in (
        ("files", totals.files),
        ("kinds of tasks", totals.kinds),
        ("kinds that need a worker", totals.worker_kinds),
        ("older forms", totals.forms),
    ):
        told = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
        yield f"{title}: {told}{_offer_tools(counts) if counts is totals.worker_kinds else ''}"
    yield f"credentials: {', '.join(totals.credentials) or 'none'}"
    for file in survey.files:
        yield f"{file.file}: {file.state}"
        for title, names in (
            ("forms", [f"{name} {count}" for name, count in file.forms.items()]),
            ("credentials", file.credentials),
            ("bare names", file.bare_names),
        ):
            if names:
                yield f"  {title}: {', '.join(names)}"
        for finding in file.findings:
            mark = "template" if finding in file.templates else "error"
            yield f"  {mark} {finding.path or '/'}: {finding.message}"


@playbooks.command()
def run(
    file: PlaybookFile,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", help="Python file with functions for tasks.", metavar="FILE")
    ] = None,
    workload: Workload = "{}",
    ctx: Context = "{}",
    with_log: WithLog = False,
) -> None:
    """Run a playbook in this process, with tasks from a Python file, and print what it comes to.

    A function is named as the label of a task, or as its kind, `_` for `-`; or the file has a mapping KINDS. It is
    plain or async, and takes the fields of the task. An exception is an error of kind tool. HTTP tasks are really
    sent. Pauses and timeouts are passed over.
    """
    import asyncio

    from statewright.playbooks.policies import fail as report_error
    from statewright.playbooks.policies import succeed
    from statewright.playbooks.tasks import HTTP, WAIT, find_due
    from statewright.sdk.pipelines import send_http

    playbook = _read(file)
    functions = _find_functions(playbook, tasks)

    def implement(call: "ToolCall", dispatch: "Dispatch") -> "Outcome":
        function = functions.get((call.label, call.kind))
        if function is None and call.kind == WAIT:
            due = find_due(call.fields, 0)
            return report_error(WAIT, due) if isinstance(due, str) else succeed()
        if function is None and call.kind != HTTP:
            return report_error("no_handler", f"a task of kind {call.kind} is not done here")
        if function is None:
            return asyncio.run(send_http(call.fields, dispatch.keychain))
        try:
            return succeed(call_function(function, call.fields))
        except Exception as error:
            return report_error("tool", f"{type(error).__name__}: {error}", code=type(error).__name__)

    _finish(playbook, workload, ctx, implement, with_log=with_log)


@playbooks.command()
def simulate(
    file: PlaybookFile,
    workload: Workload = "{}",
    ctx: Context = "{}",
    stubs: Annotated[
        str, typer.Option("--stubs", help="JSON: what tasks answer, by label or kind; others null.", metavar="JSON")
    ] = "{}",
    with_log: WithLog = False,
) -> None:
    """Play a playbook with answers that are given, print what each task is asked, and what it comes to.

    `{"$fail": "reason"}` fails a task, `{"$fail": {"kind": "http", "status": 503}}` with that error, and
    `{"$each": [first, second]}` answers in turn. Pauses and timeouts are passed over.
    """
    from statewright.playbooks.policies import succeed

    playbook = _read(file)
    known = {name for step in playbook.steps for task in step.tasks for name in (task.label, task.kind)}
    answers = read_stubs(stubs, known, "task and no kind of the playbook")

    def implement(call: "ToolCall", dispatch: "Dispatch") -> "Outcome":
        typer.echo(f"{dispatch.step}.{call.label} <- {show(call.fields)}", err=True)
        answer = take_answer(answers.get(call.label, answers.get(call.kind)))
        if isinstance(answer, dict) and "$fail" in answer:
            return _build_error(answer["$fail"])
        return succeed(answer)

    _finish(playbook, workload, ctx, implement, with_log=with_log)


@command(playbooks)
def events(
    client: "Client",
    execution: Annotated[str, typer.Argument(help="Id of the execution.", metavar="EXECUTION")],
    after: Annotated[int, typer.Option(min=0, help="Number of the event to begin behind.", metavar="NUMBER")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for what comes, until the execution has ended.")
    ] = False,
    values: Annotated[
        bool, typer.Option("--values", help="Fetch values of more than 64 KiB, which are null in the log.")
    ] = False,
) -> None:
    """Print the event log of an execution, one JSON object a line.

    With `--follow` a service that restarts is waited for. An execution that has failed does not fail the command.
    """
    from statewright.sdk import RetryPolicy

    for event in client.playbooks.events(execution, after=after):
        _print_event(client, execution, event, with_values=values)
        after = event.number
    if follow:
        patient = client.with_retry(RetryPolicy(deadline_s=PATIENCE_S))
        for event in patient.playbooks.follow(execution, after=after):
            _print_event(patient, execution, event, with_values=values)


def _print_event(client: "Client", execution: str, event: "PlaybookEvent", *, with_values: bool) -> None:
    from statewright.jsonval.codec import encode

    details = event.details
    if with_values and event.references:
        names = sorted(set(event.references.values()))
        found = {name: client.playbooks.get_value(execution, name) for name in names}
        large = {member: found[name] for member, name in event.references.items()}
        details = {**details, "payload": {**event.payload, **large}}
    typer.echo(encode(details))


def _build_error(told: "JsonValue") -> "Outcome":
    """The outcome of a task that a stub fails."""
    from statewright.playbooks.policies import Outcome

    if not isinstance(told, dict):
        return Outcome(status="error", error={"kind": "stub", "message": str(told)})
    status = told.get("status")
    http: JsonObject | None = None if status is None else {"status": status, "headers": {}}
    return Outcome(status="error", error={"kind": "stub", **told}, http=http)


def _finish(playbook: "Playbook", workload: str, ctx: str, implement: "Tool", *, with_log: bool) -> None:
    """Run an execution as far as it goes, and print what it came to. Code 1: it has not ended well."""
    from statewright.ids import system_clock
    from statewright.jsonval.codec import encode
    from statewright.playbooks.compiling import compile_net
    from statewright.playbooks.events import event_to_document
    from statewright.playbooks.running import LocalExecution

    execution = LocalExecution(
        compile_net(playbook),
        parse_object(workload, "--workload"),
        ctx=parse_object(ctx, "--ctx"),
        clock=system_clock,
    )
    execution.run(implement, limit=MAX_RUNS)
    while execution.children:
        run_id = next(iter(execution.children))
        del execution.children[run_id]
        execution.end_child(run_id, error={"kind": "child", "message": "other playbooks are not run here"})
        execution.run(implement, limit=MAX_RUNS)
    if with_log:
        for seq, (event, at) in enumerate(zip(execution.log, execution.instants, strict=True), start=1):
            sys.stdout.write(encode(event_to_document(event, execution.execution_id, seq, at)).decode() + "\n")
    elif execution.result is None:
        print_json({"status": execution.status})
    else:
        print_json(execution.result)
    if execution.status not in _ENDED_WELL:
        fail(f"the execution is {execution.status}")


def _read(file: str) -> "Playbook":
    from statewright.playbooks.reading import restore_playbook

    reading = restore_playbook(read_definition(file))
    if reading.playbook is None:
        fail("; ".join(f"{finding.path or '/'}: {finding.message}" for finding in reading.errors))
    return reading.playbook


def _find_functions(playbook: "Playbook", file: Path | None) -> dict[tuple[str, ...], Callable[..., Any]]:
    """The functions of a file for all tasks, by label and kind; those of ``http`` and the like may be missing."""
    wanted = {(task.label, task.kind) for step in playbook.steps for task in step.tasks if task.kind != "noop"}
    found = find_functions(file, KINDS, wanted)
    if missing := sorted({kind for label, kind in wanted if (label, kind) not in found and kind not in _RESERVED}):
        fail(tell_missing(file, missing))
    return found


def _to_records(text: str, findings: "tuple[Finding, ...]") -> list[dict[str, str | int]]:
    """Findings with their places in the text. One about the text as a whole says itself where it is."""
    from statewright.playbooks.place import locate

    places = locate(text, [finding.path for finding in findings])
    return [
        {
            "line": places[finding.path].line,
            "column": places[finding.path].column,
            "path": finding.path,
            "message": finding.message,
        }
        for finding in findings
    ]
