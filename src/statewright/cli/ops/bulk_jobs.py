"""``statewright ops bulk …`` (docs/reference/operations.md#bulk-jobs)."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    AsJson,
    Json,
    add_command,
    print_answer,
    read_document,
    show_by,
    split_model,
    with_client,
)
from statewright.cli.ops.calls import add_operation, ask, drop_none
from statewright.operations import table
from statewright.operations.bulk_jobs import OPERATIONS

if TYPE_CHECKING:
    from statewright.sdk import Client

bulk = typer.Typer(help="Do one thing to many entities, instances or incidents.", no_args_is_help=True)

LOOK_S: Final = 1.0
"""Between two looks of ``watch``."""

WIDTH: Final = 40
"""Of the progress bar."""

WORKING: Final = ("FREEZING", "RUNNING")
NOT_DONE: Final = ("STOPPED", "CANCELLED")


def _show_job(job: Json) -> None:
    totals = job["totals"]
    counts = ", ".join(f"{totals[each]} {each}" for each in ("succeeded", "skipped", "failed", "pending", "cancelled"))
    typer.echo(f"{job['id']} {job['operation']} {job['status']}")
    typer.echo(f"{_draw_bar(totals)}: {counts}")
    if "failure" in job:
        typer.echo(job["failure"])


def _draw_bar(totals: Json) -> str:
    done = totals["succeeded"] + totals["skipped"] + totals["failed"]
    filled = WIDTH * done // max(totals["total"], 1)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done} of {totals['total']}"


def _read_json(text: str | None) -> Json:
    return None if text is None else read_document(text)


def _end(job: Json, as_json: bool) -> None:
    """Shows a job. It is a failure, to scripts, where the job has ended otherwise than it should, or items have."""
    print_answer(job, None if as_json else _show_job)
    if job["status"] in NOT_DONE or job["totals"]["failed"]:
        raise typer.Exit(1)


@with_client
def create(
    client: "Client",
    operation: Annotated[str, typer.Argument(help=f"One of {', '.join(OPERATIONS)}.")],
    model: Annotated[str | None, typer.Option(help="Such as `prize/1`.", show_default=False)] = None,
    condition: Annotated[str | None, typer.Option(help="JSON, or @FILE.", show_default=False)] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="In place of a model.", show_default=False)] = None,
    incidents: Annotated[
        str | None, typer.Option(help="Filters of open incidents: JSON, or @FILE.", show_default=False)
    ] = None,
    transition: Annotated[str | None, typer.Option(help="The one to fire.", show_default=False)] = None,
    merge_patch: Annotated[str | None, typer.Option(help="JSON, or @FILE.", show_default=False)] = None,
    json_patch: Annotated[str | None, typer.Option(help="JSON, or @FILE.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Retry also where the entity was written since.")] = False,
    recheck: Annotated[bool, typer.Option("--recheck", help="Judge the condition again before each item.")] = False,
    rate: Annotated[int, typer.Option(help="Items in a second.")] = 50,
    concurrency: Annotated[int, typer.Option(help="Items at once.")] = 4,
    stop_after: Annotated[int | None, typer.Option(help="Failures after which it stops.", show_default=False)] = None,
    reason: Annotated[str | None, typer.Option(help="Why; others read it.", show_default=False)] = None,
    yes: Annotated[
        int | None,
        typer.Option(help="Start at once, if so many entities are found.", metavar="COUNT", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze and judge a set of entities, instances or incidents; start with it by `start`, or at once with `--yes`."""
    body: dict[str, Json] = {
        "operation": operation.upper(),
        "condition": _read_json(condition),
        "ids": ids or None,
        "incidents": _read_json(incidents),
        "arguments": drop_none(
            {
                "transition": transition,
                "mergePatch": _read_json(merge_patch),
                "jsonPatch": _read_json(json_patch),
                "force": force or None,
            }
        ),
        "dryRun": True,
        "recheck": recheck,
        "ratePerSecond": rate,
        "concurrency": concurrency,
        "stopAfterFailures": stop_after,
        "reason": reason,
    }
    if model is not None:
        name, version = split_model(model)
        body["model"] = {"name": name, "version": version}
    job = ask(client, table.CREATE_BULK_JOB, body=drop_none(body))
    while job["status"] == "FREEZING":
        time.sleep(LOOK_S / 5)
        job = ask(client, table.GET_BULK_JOB, job["id"])
    if yes is not None and job["status"] == "READY":
        job = ask(client, table.START_BULK_JOB, job["id"], body={"expectedCount": yes})
    _end(job, as_json)


@show_by(_show_job)
def start(
    client: "Client",
    job: Annotated[str, typer.Argument(help="The id of the job.", metavar="ID")],
    yes: Annotated[
        int | None, typer.Option(help="Only if it has so many items.", metavar="COUNT", show_default=False)
    ] = None,
) -> Json:
    """Start a bulk job that was judged."""
    return ask(client, table.START_BULK_JOB, job, body=drop_none({"expectedCount": yes}))


@with_client
def watch(
    client: "Client",
    job: Annotated[str, typer.Argument(help="The id of the job.", metavar="ID")],
    as_json: AsJson = False,
) -> None:
    """Follow a bulk job until it works no more."""
    _end(follow(client, ask(client, table.GET_BULK_JOB, job)), as_json)


def follow(client: "Client", job: Json) -> Json:
    """A job when it works no more. Meanwhile a terminal shows its bar, and anything else a line for each look."""
    is_terminal = sys.stderr.isatty()
    while job["status"] in WORKING:
        line = f"{job['status']} {_draw_bar(job['totals'])}"
        typer.echo(f"\r\x1b[K{line}" if is_terminal else line, err=True, nl=not is_terminal)
        time.sleep(LOOK_S)
        job = ask(client, table.GET_BULK_JOB, job["id"])
    if is_terminal:
        typer.echo("\r\x1b[K", err=True, nl=False)
    return job


for run in (create, start, watch):
    add_command(bulk, run)
for operation in table.OPERATIONS:
    if operation.command is not None and operation.command.words.startswith("bulk "):
        add_operation(bulk, operation)
