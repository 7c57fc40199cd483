"""``statewright ops members``, ``drain``, ``queues``: who works, what waits (docs/reference/operations.md#queues).

``statewright ops nodes``, ``rates`` and ``settings``: the processes of the service, and how much they write
(docs/reference/operations.md#nodes).
"""

import time
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, print_document, print_table, with_client
from statewright.cli.ops.searches import get, list_all, post

if TYPE_CHECKING:
    from statewright.sdk import Client


WATCH_INTERVAL_S: Final = 2.0
"""As often as a node counts what waits."""


@with_client
def members(
    client: "Client",
    tag: Annotated[list[str] | None, typer.Option(help="Declares the tag; repeatable.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List calculation members, and workers that hold jobs."""
    wanted = {name.lower() for name in tag or ()}
    listed = [each for each in list_all(client, "/members", {}) if not wanted or wanted & {*each.get("tags", ())}]
    if as_json:
        print_document(listed)
        return
    numbers = ("inFlight", "succeeded", "failed", "timedOut")
    rows: list[list[object]] = []
    for each in listed:
        offered = ", ".join(each.get("tags") or each.get("jobTypes", ()))
        counted = [each.get(name, "") for name in numbers]
        rows.append([each["id"], each["kind"].lower(), offered, each.get("node", ""), *counted])
        if each["draining"]:
            rows[-1][1] = f"{each['kind'].lower()}, draining"
    print_table(("id", "kind", "tags or job types", "node", "in flight", "succeeded", "failed", "timed out"), rows)


@with_client
def drain(
    client: "Client",
    member: Annotated[str, typer.Argument(help="The id of the calculation member.", metavar="ID")],
    within: Annotated[int, typer.Option(min=0, max=86_400, help="Seconds until its stream ends in any case.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Send a calculation member nothing any more, and let it go when it is idle."""
    found = post(client, f"/members/{quote(member, safe='')}/drain?within=PT{within}S", {})
    if as_json:
        print_document(found)
    else:
        typer.echo(f"{found['id']}: draining, {found['inFlight']} in flight")


@with_client
def queues(
    client: "Client",
    without_worker: Annotated[bool, typer.Option("--without-worker", help="Only what nobody can take.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """List job types with unfinished jobs, and the tags that callouts need."""
    while True:
        listed = list_all(client, "/queues", {"withoutWorker": "true"} if without_worker else {})
        if as_json:
            print_document(listed)
        else:
            names = ("kind", "name", "depth", "inFlight", "delayed", "held", "oldestAgeSeconds", "workers", "wanted")
            headers = ("kind", "name", "waiting", "in flight", "delayed", "held", "oldest (s)", "workers", "wanted")
            print_table(headers, [["" if each[name] is None else each[name] for name in names] for each in listed])
        if not watch:
            return
        time.sleep(WATCH_INTERVAL_S)
        if not as_json:
            typer.echo()


@with_client
def nodes(client: "Client", as_json: AsJson = False) -> None:
    """List the service processes that are alive."""
    listed = list_all(client, "/nodes", {})
    if as_json:
        print_document(listed)
        return
    names = ("id", "name", "version", "draining", "startedAt", "leaseUntil", "members")
    headers = ("id", "name", "version", "draining", "started", "lease until", "members")
    print_table(headers, [[each[name] for name in names] for each in listed])


@with_client
def rates(client: "Client", as_json: AsJson = False) -> None:
    """Tell what was written in each minute of the last hour."""
    told = get(client, "/rates", {})
    if as_json:
        print_document(told)
        return
    names = ("at", "transactions", "versions")
    print_table(("minute", "transactions", "versions"), [[each[name] for name in names] for each in told["minutes"]])


@with_client
def settings(client: "Client", as_json: AsJson = False) -> None:
    """List the settings of the node that answers; secrets are not shown. For administrators."""
    listed = get(client, "/settings", {})["items"]
    if as_json:
        print_document(listed)
        return
    rows = [[each["name"], each["value"] or "", each["variable"] or "(default)"] for each in listed]
    print_table(("setting", "value", "from"), rows)
