"""``statewright entities …``, ``transitions …`` and ``audit`` (docs/reference/entities.md).

``statewright tasks …`` (docs/reference/steps.md#user-tasks-and-signals).

``statewright prune`` and ``statewright steps purge``.
"""

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from statewright.cli.client import (
    AsJson,
    At,
    Condition,
    DocumentFile,
    EntityId,
    Json,
    Model,
    Sort,
    build_model_path,
    command,
    print_answer,
    print_table,
    read_document,
    read_object,
    shorten_document,
    show_table,
    split_model,
    with_client,
)

if TYPE_CHECKING:
    from statewright.sdk import Client, WriteResult


entities = typer.Typer(help="Entities: documents with a state.", no_args_is_help=True)
transitions = typer.Typer(help="Transitions of entities.", no_args_is_help=True)
tasks = typer.Typer(help="User tasks: what processes wait for people to do.", no_args_is_help=True)

IfMatch = Annotated[
    str | None,
    typer.Option(help="Transaction of the version that may be replaced.", metavar="TRANSACTION", show_default=False),
]
AUDIT_COLUMNS: Final = "time | event: type | state | what: text | why: data.reason"
Fire = Annotated[
    str | None, typer.Option("--fire", "--transition", help="A transition to fire.", metavar="NAME", show_default=False)
]
Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]


@command(entities)
def create(client: "Client", model: Model, file: DocumentFile) -> str:
    """Create an entity, or those of an array; print the ids."""
    name, version = split_model(model)
    document = read_document(file)
    if isinstance(document, list):
        made = client.create_many(name, version, document)
    else:
        made = client.create(name, version, document)
    return "\n".join(_tell(made).entity_ids)


@command(entities)
def get(
    client: "Client",
    entity: EntityId,
    at: At = None,
    transaction: Annotated[
        str | None, typer.Option(help="The version that a transaction wrote.", metavar="ID", show_default=False)
    ] = None,
) -> Json:
    """Print an entity: its document and what is known of it."""
    return client.get(entity, at=at, transaction_id=transaction)


def _show_entities(found: Json) -> None:
    rows = ((entity.id, entity.state, entity.updated, shorten_document(entity.data)) for entity in found)
    print_table(("id", "state", "updated", "document"), rows)


@command(entities, _show_entities, name="list")
def list_(client: "Client", model: Model, limit: Limit = 20, at: At = None) -> Json:
    """List entities of a model, by id."""
    name, version = split_model(model)
    return list(islice(client.iterate(name, version, at=at, size=min(limit, 1000)), limit))


@command(entities, _show_entities)
def search(
    client: "Client",
    model: Model,
    condition: Condition,
    sort: Sort = None,
    limit: Limit = 20,
    at: At = None,
) -> Json:
    """Find the entities that satisfy a condition; the first ones when there are more."""
    name, version = split_model(model)
    wanted = read_object(condition)
    return list(islice(client.search_all(name, version, wanted, sort=sort or (), at=at, size=min(limit, 1000)), limit))


@command(entities)
def count(client: "Client", model: Model, at: At = None, as_json: AsJson = False) -> None:
    """Count the entities of a model, by state."""
    found = client.count_states(*split_model(model), at=at)
    if as_json:
        print_answer({one.state: one.count for one in found})
    else:
        print_table(("state", "entities"), ((one.state, one.count) for one in found))


def _tell(written: "WriteResult") -> "WriteResult":
    """Print what the run has warned of."""
    for warning in written.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return written


@command(entities)
def update(client: "Client", entity: EntityId, file: DocumentFile, fire: Fire = None, if_match: IfMatch = None) -> str:
    """Replace the document of an entity; print the transaction."""
    return _tell(client.update(entity, read_document(file), transition=fire, if_match=if_match)).transaction_id


@command(entities)
def patch(client: "Client", entity: EntityId, file: DocumentFile, fire: Fire = None, if_match: IfMatch = None) -> str:
    """Merge a change into the document of an entity (RFC 7386); print the transaction."""
    return _tell(client.patch(entity, read_document(file), transition=fire, if_match=if_match or "*")).transaction_id


@command(entities)
def delete(client: "Client", entity: EntityId) -> str:
    """Delete an entity; its history stays."""
    client.delete(entity)
    return f"{entity} deleted"


@command(entities, show_table("time: time_of_change | change: change_type | by: user | transaction: transaction_id"))
def history(client: "Client", entity: EntityId) -> Json:
    """List the versions of an entity, newest first."""
    return client.history(entity)


@command(transitions, name="list")
def list_transitions(client: "Client", entity: EntityId, at: At = None) -> None:
    """List the transitions of the state an entity is in."""
    for name in client.transitions(entity, at=at):
        typer.echo(name)


@command(transitions)
def fire(
    client: "Client",
    entity: EntityId,
    name: Annotated[str, typer.Argument(help="The transition.", metavar="NAME")],
    file: Annotated[
        str | None,
        typer.Argument(help="File with a new document; else it stays.", metavar="FILE", show_default=False),
    ] = None,
    if_match: IfMatch = None,
) -> str:
    """Fire a transition; print the state that comes of it."""
    if file is None and if_match is None:
        _tell(client.transition(entity, name))
    elif file is None:
        raise ValueError("--if-match needs a document")
    else:
        _tell(client.update(entity, read_document(file), transition=name, if_match=if_match))
    return client.get(entity).state


TaskId = Annotated[str, typer.Argument(help="The id of the user task.", metavar="TASK")]


_TASK_COLUMNS: Final = (
    "id | title | step: step_id | language | definition: definition_id | assignee | groups | since: created"
)


@command(tasks, show_table(_TASK_COLUMNS), name="list")
def list_tasks(
    client: "Client",
    language: Annotated[str | None, typer.Option(help="`steps`, `flows` or `playbooks`.", show_default=False)] = None,
    definition: Annotated[str | None, typer.Option(help="Id of a definition.", show_default=False)] = None,
    assignee: Annotated[str | None, typer.Option(help="For this person.", show_default=False)] = None,
    group: Annotated[str | None, typer.Option(help="For this group.", show_default=False)] = None,
    limit: Limit = 20,
) -> Json:
    """List open user tasks, the oldest first."""
    found = client.tasks.list(
        language=language, definition_id=definition, assignee=assignee, group=group, size=min(limit, 1000)
    )
    return list(islice(found, limit))


@command(tasks, name="show")
def show_task(client: "Client", task: TaskId) -> Json:
    """Print a user task, open or not: what it is about, and what was answered."""
    return client.get(task).data


@command(tasks)
def complete(
    client: "Client",
    task: TaskId,
    result: DocumentFile = "{}",
    by: Annotated[str, typer.Option(help="Who did it.", show_default=False)] = "",
) -> None:
    """Complete a user task: with variables for an instance of steps, of other languages with the output of the task."""
    document = read_document(result)
    if not isinstance(document, dict | list):
        raise ValueError("the result is neither a JSON object nor an array")  # noqa: TRY004 - of a file
    client.tasks.complete(task, document, completed_by=by)


@with_client
def audit(
    client: "Client",
    entity: EntityId,
    transaction: Annotated[
        str | None, typer.Option(help="Only what belongs to this transaction.", metavar="ID", show_default=False)
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show what happened to an entity, newest first: its versions, and every step of every run."""
    found = list(islice(client.audit(entity, transaction_id=transaction, size=min(limit, 1000)), limit))
    if as_json:
        print_answer([event.details for event in found])
    else:
        show_table(AUDIT_COLUMNS)(found)


@with_client
def prune(
    client: "Client",
    model: Model,
    older_than: Annotated[
        str, typer.Option(help="Remove what was superseded longer ago: `90d`, `12h`.", metavar="PERIOD")
    ],
) -> None:
    """Remove superseded versions of a model's entities; writers are not stopped. Can be interrupted and repeated."""
    path = f"/model/{build_model_path(model)}/history/prune"
    removed, answer = _repeat_until_complete(
        lambda: client.request("POST", path, query={"olderThan": older_than}), "removed", "versions"
    )
    typer.echo(f"{removed} versions removed; complete from {answer['keptFrom']} on")


@with_client
def purge(
    client: "Client",
    older_than: Annotated[str, typer.Option(help="Remove what finished longer ago: `90d`, `12h`.", metavar="PERIOD")],
) -> None:
    """Remove completed and cancelled instances for good; failed ones stay. Can be interrupted and repeated."""
    wanted = {"olderThan": _to_iso_8601(older_than)}
    removed, _ = _repeat_until_complete(
        lambda: client.request("POST", "/v1/instances/purge", wanted, at_root=True), "purged", "instances"
    )
    typer.echo(f"{removed} instances removed")


def _repeat_until_complete(ask: Callable[[], Json], member: str, things: str) -> tuple[int, Json]:
    """Ask again and again; how many there were in all, by a member of the answers, and the last answer."""
    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,.0f}} {things} removed"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        removed = 0
        while True:
            answer = ask()
            removed += answer[member]
            progress.update(task, completed=removed)
            if answer["complete"]:
                return removed, answer


def _to_iso_8601(period: str) -> str:
    """A period as ``90d`` or ``12h`` in the notation of the step engine. Raises ``ValueError``."""
    from statewright.settings import read_period

    try:
        return f"PT{read_period(period).total_seconds():f}S"
    except (ValueError, OverflowError) as malformed:
        raise ValueError(f'--older-than: "{period}" {malformed}') from malformed
