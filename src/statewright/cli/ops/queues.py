"""``statewright ops members``, ``drain``, ``queues``: who works, what waits (docs/reference/operations.md#queues)."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import AsJson, Json, print_answer, print_table, show_by, show_table, with_client
from statewright.cli.ops.calls import ask, list_all
from statewright.operations.table import DRAIN_MEMBER, LIST_MEMBERS, LIST_QUEUES

if TYPE_CHECKING:
    from statewright.sdk import Client


WATCH_INTERVAL_S: Final = 2.0
"""As often as a node counts what waits."""


def _show_members(members: Json) -> None:
    numbers = ("inFlight", "succeeded", "failed", "timedOut")
    rows: list[list[object]] = []
    for each in members:
        kind = f"{each['kind'].lower()}{', draining' if each['draining'] else ''}"
        offered = ", ".join(each.get("tags") or each.get("jobTypes", ()))
        by = each.get("principal", {}).get("id", "")
        rows.append([each["id"], kind, offered, by, each.get("node", ""), *(each.get(name, "") for name in numbers)])
    print_table(
        ("id", "kind", "tags or job types", "by", "node", "in flight", "succeeded", "failed", "timed out"), rows
    )


@show_by(_show_members)
def members(
    client: "Client",
    tag: Annotated[list[str] | None, typer.Option(help="Declares the tag; repeatable.", show_default=False)] = None,
) -> Json:
    """List calculation members, and workers that hold jobs."""
    return list_all(client, LIST_MEMBERS, query={"tag": tag})


@show_by(lambda found: typer.echo(f"{found['id']}: draining, {found['inFlight']} in flight"))
def drain(
    client: "Client",
    member: Annotated[str, typer.Argument(help="The id of the calculation member.", metavar="ID")],
    within: Annotated[int, typer.Option(min=0, max=86_400, help="Seconds until its stream ends in any case.")] = 300,
) -> Json:
    """Send a calculation member nothing any more, and let it go when it is idle."""
    return ask(client, DRAIN_MEMBER, member, query={"within": f"PT{within}S"}, body={})


_show_queues = show_table(
    "kind | name | waiting: depth | inFlight | delayed | held | oldest (s): oldestAgeSeconds | workers | wanted"
)


@with_client
def queues(
    client: "Client",
    without_worker: Annotated[bool, typer.Option("--without-worker", help="Only what nobody can take.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """List job types with unfinished jobs, and the tags that callouts need."""
    while True:
        listed = list_all(client, LIST_QUEUES, query={"withoutWorker": "true"} if without_worker else None)
        print_answer(listed, None if as_json else _show_queues)
        if not watch:
            return
        time.sleep(WATCH_INTERVAL_S)
        if not as_json:
            typer.echo()
