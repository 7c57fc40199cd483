"""``statewright ops …``: the operations API from the command line (docs/reference/operations.md)."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, format_document, print_document, print_table, read_document

if TYPE_CHECKING:
    from statewright.sdk import Client

EntityId = Annotated[str, typer.Argument(help="The id of the entity.", metavar="ID")]

Json = Any  # what a service answers is checked where it is used

ROOT: Final = "/ops/v1"
WATCH_INTERVAL_S: Final = 2.0
"""As often as a node counts what waits."""

SIGNS: Final = {True: "yes", False: "no", None: "unknown"}

ops = typer.Typer(
    help="Look into a running service: why something waits, who works, what was done.", no_args_is_help=True
)


incidents = typer.Typer(help="Look at failed work, do it again, close it.", no_args_is_help=True)
ops.add_typer(incidents, name="incidents")

IncidentId = Annotated[str, typer.Argument(help="The id of the incident.", metavar="ID")]


@ops.command()
@with_client
def explain(
    client: "Client",
    entity: EntityId,
    at: Annotated[
        str | None,
        typer.Option("--at", help="The instant to look at; now when absent.", metavar="RFC3339", show_default=False),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Have members judge the criteria that are theirs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say why an entity is where it is, and what would move it; of an instance, what it waits for."""
    if "-" not in entity:  # a ULID
        _explain_instance(_get(client, f"/instances/{quote(entity, safe='')}/explain", {}), as_json)
        return
    query = {"pointInTime": at, "evaluateFunctions": "true" if ask else None}
    found = _get(client, f"/entities/{quote(entity, safe='')}/explain", query)
    if as_json:
        print_document(found)
        return
    workflow = found["workflow"]
    typer.echo(f"{found['state']} since {found.get('since', '?')} ({workflow['name'] or 'no workflow'})")
    typer.echo(f"{found['verdict']}: {found['summary']}")
    rows = [
        (each["name"], each["next"], each["kind"].lower(), SIGNS[each["wouldFire"]], ", ".join(each["blockedBy"]))
        for each in found["transitions"]
    ]
    print_table(("transition", "next", "kind", "would fire", "blocked by"), rows)
    for each in found["transitions"]:
        if each["criterion"] is not None and each["criterion"]["result"] is not True:
            typer.echo(f"{each['name']}:")
            _print_criterion(each["criterion"], "  ")


@ops.command()
@with_client
def members(
    client: "Client",
    tag: Annotated[list[str] | None, typer.Option(help="Declares the tag; repeatable.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List calculation members, and workers that hold jobs."""
    wanted = {name.lower() for name in tag or ()}
    listed = [each for each in _list(client, "/members", {}) if not wanted or wanted & {*each.get("tags", ())}]
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


@ops.command()
@with_client
def drain(
    client: "Client",
    member: Annotated[str, typer.Argument(help="The id of the calculation member.", metavar="ID")],
    within: Annotated[int, typer.Option(min=0, max=86_400, help="Seconds until its stream ends in any case.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Send a calculation member nothing any more, and let it go when it is idle."""
    found = _post(client, f"/members/{quote(member, safe='')}/drain?within=PT{within}S", {})
    if as_json:
        print_document(found)
    else:
        typer.echo(f"{found['id']}: draining, {found['inFlight']} in flight")


@ops.command()
@with_client
def idle(
    client: "Client",
    model: Annotated[str | None, typer.Option(help="Name of the model.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the entities that could move and were written the longest time ago."""
    found: list[Json] = []
    query = {"model": model, "limit": str(limit)}
    while True:
        page = _get(client, "/idle-entities", query)
        found = sorted([*found, *page["items"]], key=lambda each: each["writtenAt"])[:limit]
        if "nextCursor" not in page:
            break
        query["cursor"] = page["nextCursor"]
    if as_json:
        print_document(found)
        return
    rows = [
        (each["writtenAt"], each.get("since", ""), each["entityId"], f"{name['name']}/{name['version']}", each["state"])
        for each in found
        for name in (each["model"],)
    ]
    print_table(("written", "since", "entity", "model", "state"), rows)


@ops.command()
@with_client
def nodes(client: "Client", as_json: AsJson = False) -> None:
    """List the service processes that are alive."""
    listed = _list(client, "/nodes", {})
    if as_json:
        print_document(listed)
        return
    names = ("id", "name", "version", "draining", "startedAt", "leaseUntil", "members")
    headers = ("id", "name", "version", "draining", "started", "lease until", "members")
    print_table(headers, [[each[name] for name in names] for each in listed])


@ops.command()
@with_client
def rates(client: "Client", as_json: AsJson = False) -> None:
    """Tell what was written in each minute of the last hour."""
    told = _get(client, "/rates", {})
    if as_json:
        print_document(told)
        return
    names = ("at", "transactions", "versions")
    print_table(("minute", "transactions", "versions"), [[each[name] for name in names] for each in told["minutes"]])


@ops.command()
@with_client
def queues(
    client: "Client",
    without_worker: Annotated[bool, typer.Option("--without-worker", help="Only what nobody can take.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every two seconds, until interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """List job types with unfinished jobs, and the tags that callouts need."""
    while True:
        listed = _list(client, "/queues", {"withoutWorker": "true"} if without_worker else {})
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


@ops.command()
@with_client
def versions(client: "Client", entity: EntityId, as_json: AsJson = False) -> None:
    """List the versions of an entity, newest first."""
    listed = _list(client, f"/entities/{quote(entity, safe='')}/versions", {})
    if as_json:
        print_document(listed)
        return
    rows = [
        (each["at"], each["transactionId"], each["state"], each["transition"], each["attributedTo"]["id"])
        for each in listed
    ]
    print_table(("at", "transaction", "state", "transition", "by"), rows)


@ops.command()
@with_client
def diff(
    client: "Client",
    entity: EntityId,
    older: Annotated[
        str | None,
        typer.Option("--from", help="A transaction, an instant, or `previous`.", metavar="VERSION", show_default=False),
    ] = None,
    newer: Annotated[
        str | None,
        typer.Option("--to", help="A transaction, an instant, or `current`.", metavar="VERSION", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions of an entity; without options, by the last one."""
    found = _get(client, f"/entities/{quote(entity, safe='')}/diff", {"from": older, "to": newer})
    if as_json:
        print_document(found)
        return
    typer.echo(f"{found['state']['from'] or '(nothing)'} -> {found['state']['to']}")
    _print_patch(found["patch"])


def _print_patch(patch: list[Json]) -> None:
    for operation in patch:
        value = f" {format_document(operation['value'])}" if "value" in operation else ""
        typer.echo(f"{operation['op']} {operation['path']}{value}")


@ops.command()
@with_client
def restore(
    client: "Client",
    entity: EntityId,
    version: Annotated[str, typer.Argument(help="A transaction, an instant, or `previous`.")],
    reason: Annotated[str, typer.Option(help="Why; it is on record.", show_default=False)],
    path: Annotated[
        list[str] | None, typer.Option(help="Only what is at this JSON Pointer; repeatable.", show_default=False)
    ] = None,
    transition: Annotated[str | None, typer.Option(help="Fire it with the change.", show_default=False)] = None,
    if_match: Annotated[
        str | None, typer.Option(help="Only if the entity is still at this transaction.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a former document of an entity as its next version."""
    body: dict[str, Json] = {"version": version, "reason": reason, "transition": transition, "ifMatch": if_match}
    body["paths"] = path or None
    given = {key: each for key, each in body.items() if each is not None}
    done = _post(client, f"/entities/{quote(entity, safe='')}/restore", given)
    if as_json:
        print_document(done)
        return
    if not done["restored"]:
        typer.echo("The document is the same: nothing was written.")
    _print_patch(done["patch"])


@ops.command()
@with_client
def wait(
    client: "Client",
    entity: EntityId,
    state: Annotated[list[str] | None, typer.Option(help="Awaited; repeatable.", show_default=False)] = None,
    after: Annotated[str | None, typer.Option(help="Only what came after it counts.", show_default=False)] = None,
    timeout: Annotated[int, typer.Option(min=0, max=50, help="Seconds.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Wait until an entity is in a state; without one, until no transition leads out of its state."""
    states = "".join(f"&state={quote(each, safe='')}" for each in state or ())
    later = f"&after={quote(after, safe='')}" if after else ""
    path = f"/entities/{quote(entity, safe='')}/wait?timeout=PT{timeout}S{states}{later}"
    found: Json = _get(client, path, {})
    if as_json:
        print_document(found)
    else:
        outcome = "reached" if found["reached"] else "deleted" if found["deleted"] else "not reached"
        typer.echo(f"{outcome}: {found.get('state', '')} after {found['waitedMs']} ms")
    if not found["reached"]:
        raise typer.Exit(1)


@ops.command()
@with_client
def idempotency(
    client: "Client",
    key: Annotated[str, typer.Argument(help="The `Idempotency-Key` of the request.", show_default=False)],
    principal: Annotated[str | None, typer.Option(help="Whose key it is; for operators.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of a request with an idempotency key."""
    found = _get(client, f"/idempotency/{quote(key, safe='')}", {"principal": principal})
    if as_json:
        print_document(found)
        return
    names = ("status", "transactionId", "answerStatus", "createdAt", "expiresAt")
    print_table(("status", "transaction", "answer", "since", "until"), [[found.get(name, "") for name in names]])
    for entity in found["entityIds"]:
        typer.echo(f"entity {entity}")


@ops.command()
@with_client
def audit(
    client: "Client",
    action: Annotated[str | None, typer.Option(help="Such as `entity.restore`.", show_default=False)] = None,
    target: Annotated[str | None, typer.Option(help="Id of what it was done to.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what operators have done, newest first."""
    items = _get(client, "/audit", {"action": action, "targetId": target, "limit": str(limit)})["items"]
    if as_json:
        print_document(items)
        return
    rows = [(act["at"], act["actor"]["id"], act["action"], act["target"]["id"], act.get("reason", "")) for act in items]
    print_table(("at", "actor", "action", "target", "reason"), rows)


@ops.command()
@with_client
def suspend(
    client: "Client",
    scope: Annotated[
        str, typer.Argument(help="ENTITY, INSTANCE, MODEL, WORKFLOW, TRANSITION, DEFINITION, JOB_TYPE, TAG, TENANT.")
    ],
    reason: Annotated[str, typer.Option(help="Why; others read it.", show_default=False)],
    entity: Annotated[str | None, typer.Option(help="Id of the entity.", show_default=False)] = None,
    instance: Annotated[str | None, typer.Option(help="Id of the instance.", show_default=False)] = None,
    definition: Annotated[str | None, typer.Option(help="Id of the definition.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Such as `prize/1`.", show_default=False)] = None,
    workflow: Annotated[str | None, typer.Option(help="Name of the workflow.", show_default=False)] = None,
    transition: Annotated[str | None, typer.Option(help="Name of the transition.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(help="The type of jobs, or the tag.", show_default=False)] = None,
    until: Annotated[
        str | None, typer.Option(help="Ends by itself then.", metavar="RFC3339", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Stop movement at a chosen place, on every node."""
    body: dict[str, Json] = {"scope": scope.upper(), "reason": reason, "id": entity or instance, "until": until}
    body |= {"workflow": workflow, "transition": transition, "definitionId": definition, "name": name}
    if model is not None:
        model_name, _, version = model.rpartition("/")
        if not model_name or not version.isdigit():
            raise typer.BadParameter("a model is written name/version", param_hint="--model")
        body["model"] = {"name": model_name, "version": int(version)}
    given = {key: each for key, each in body.items() if each is not None}
    _print_suspension(_post(client, "/suspensions", given), as_json)


@ops.command()
@with_client
def resume(
    client: "Client",
    suspension: Annotated[str, typer.Argument(help="The id of the suspension.", metavar="ID")],
    timers: Annotated[str, typer.Option(help="FIRE: what came due fires; SHIFT: all timers move on.")] = "FIRE",
    reason: Annotated[str | None, typer.Option(help="Why.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Let movement go on."""
    body = {"timers": timers.upper()} | ({} if reason is None else {"reason": reason})
    _print_suspension(_post(client, f"/suspensions/{quote(suspension, safe='')}/resume", body), as_json)


@ops.command()
@with_client
def suspensions(
    client: "Client",
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what is suspended."""
    found = _list(client, "/suspensions", {} if everything else {"active": "true"})
    if as_json:
        print_document(found)
        return
    rows = [
        (each["id"], each["scope"], _name_target(each), each["since"], each["by"]["id"], each["reason"])
        for each in found
    ]
    print_table(("id", "scope", "target", "since", "by", "reason"), rows)


@incidents.command("list")
@with_client
def list_incidents(
    client: "Client",
    kind: Annotated[str | None, typer.Option(help="Such as RUN_FAILED.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Name, or name/version.", show_default=False)] = None,
    groups: Annotated[bool, typer.Option("--groups", help="One line for each cause.")] = False,
    as_json: AsJson = False,
) -> None:
    """List failed work that is open, the last first."""
    if groups:
        found = _list(client, "/incident-groups", {})
        rows = [[each[name] for name in ("open", "occurrences", "lastAt", "title")] for each in found]
        headers: tuple[str, ...] = ("open", "occurrences", "last", "what")
    else:
        found = _list(client, "/incidents", {"kind": kind, "model": model})
        rows = [[each[name] for name in ("id", "kind", "occurrences", "lastAt", "title")] for each in found]
        headers = ("id", "kind", "occurrences", "last", "what")
    if as_json:
        print_document(found)
    else:
        print_table(headers, rows)


@incidents.command("show")
@with_client
def show_incident(client: "Client", incident: IncidentId) -> None:
    """Show an incident, with what was asked for."""
    print_document(_get(client, f"/incidents/{quote(incident, safe='')}", {}))


Group = Annotated[
    str | None,
    typer.Option("--group", help="All open ones of this fingerprint.", metavar="FINGERPRINT", show_default=False),
]
OneIncident = Annotated[str | None, typer.Argument(help="The id of the incident.", metavar="[ID]", show_default=False)]


@incidents.command("retry")
@with_client
def retry_incident(
    client: "Client",
    incident: OneIncident = None,
    group: Group = None,
    document: Annotated[
        str | None, typer.Option(help="JSON to use in place of what was kept.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when the entity was written since.")] = False,
) -> None:
    """Do again what failed; of a group one after the other, whatever becomes of each."""
    body: dict[str, Json] = {"force": force} | ({} if document is None else {"document": read_document(document)})
    if _require_one(incident, group) is None:
        _act_on_group(client, group, "retry", body)
    else:
        print_document(_post(client, f"/incidents/{quote(incident or '', safe='')}/retry", body)["result"])


@incidents.command("resolve")
@with_client
def resolve_incident(
    client: "Client",
    reason: Annotated[str, typer.Option(help="Why it needs nobody any more.", show_default=False)],
    incident: OneIncident = None,
    group: Group = None,
) -> None:
    """Close an incident, or a group of them."""
    if _require_one(incident, group) is None:
        _act_on_group(client, group, "resolve", {"reason": reason})
    else:
        typer.echo(_post(client, f"/incidents/{quote(incident or '', safe='')}/resolve", {"reason": reason})["status"])


def _require_one(incident: str | None, group: str | None) -> str | None:
    """The incident; None for a group."""
    if (incident is None) == (group is None):
        raise typer.BadParameter("name an incident, or a group by --group")
    return incident


def _act_on_group(client: "Client", fingerprint: str | None, act: str, body: dict[str, Json]) -> None:
    """One after the other; a line for each, and exit code 1 where one was refused."""
    from statewright.sdk.errors import Refused

    refused = 0
    for each in _list(client, "/incidents", {"fingerprint": fingerprint}):
        try:
            _post(client, f"/incidents/{each['id']}/{act}", body)
            typer.echo(f"{each['id']}: done")
        except Refused as failure:
            refused += 1
            typer.echo(f"{each['id']}: {failure}")
    if refused:
        raise typer.Exit(1)


def _print_suspension(suspension: Json, as_json: bool) -> None:
    if as_json:
        print_document(suspension)
        return
    state = "suspended" if suspension["active"] else "resumed"
    typer.echo(f"{suspension['id']} {suspension['scope']} {_name_target(suspension)}: {state}")
    if not suspension["effective"]:
        typer.echo(f"not heard of yet by: {', '.join(suspension['pendingNodes'])}")
    if suspension["underWay"]:
        typer.echo(f"begun before, and coming to an end: {suspension['underWay']}")


def _name_target(suspension: Json) -> str:
    model = suspension.get("model")
    parts = [f"{model['name']}/{model['version']}"] if model else []
    parts += [
        suspension[name]
        for name in ("entityId", "instanceId", "workflow", "transition", "definitionId", "name")
        if name in suspension
    ]
    return " ".join(parts)


def _explain_instance(found: Json, as_json: bool) -> None:
    if as_json:
        print_document(found)
        return
    typer.echo(f"{found['status']} ({found['definitionId']})")
    typer.echo(f"{found['verdict']}: {found['summary']}")
    names = ("stepId", "waitsFor", "since", "jobType", "phase", "worker")
    print_table(
        ("step", "waits for", "since", "job type", "phase", "worker"),
        [[each.get(name, "") for name in names] for each in found["tokens"]],
    )


def _post(client: "Client", path: str, body: dict[str, Json]) -> Json:
    return client.request("POST", f"{ROOT}{path}", body, at_root=True)


def _get(client: "Client", path: str, query: dict[str, str | None]) -> Json:
    given = {name: value for name, value in query.items() if value is not None}
    return client.request("GET", f"{ROOT}{path}", query=given, at_root=True, only_asks=True)


def _list(client: "Client", path: str, query: dict[str, str | None]) -> list[Json]:
    """All items of a list."""
    page = _get(client, path, {**query, "limit": "1000"})
    items: list[Json] = list(page["items"])
    while "nextCursor" in page:
        page = _get(client, path, {**query, "limit": "1000", "cursor": page["nextCursor"]})
        items += page["items"]
    return items


def _print_criterion(criterion: Json, indent: str) -> None:
    """The parts that do not hold, each with what was found."""
    if criterion.get("type") == "group":
        typer.echo(f"{indent}{criterion['operator']}: {SIGNS[criterion['result']]}")
        for child in criterion["conditions"]:
            _print_criterion(child, indent + "  ")
        return
    place = criterion.get("path") or criterion.get("field") or criterion.get("name", "")
    found = criterion.get("value", criterion.get("values", "absent" if criterion.get("absent") else ""))
    parts = (place, criterion.get("operator", ""), criterion.get("operand", ""), f"found {format_document(found)}")
    why = criterion.get("error") or SIGNS[criterion["result"]]
    typer.echo(f"{indent}{' '.join(str(part) for part in parts if part != '')}: {why}")
