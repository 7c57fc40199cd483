"""``statewright entities …``, ``transitions …`` and ``audit`` (docs/reference/entities.md)."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import Model, ModelCommand, split_model, with_client
from statewright.cli.documents import (
    AsJson,
    DocumentFile,
    print_document,
    print_table,
    read_document,
    read_object,
    shorten_document,
)

if TYPE_CHECKING:
    from statewright.sdk import Client
    from statewright.sdk.operations import Entity

entities = typer.Typer(help="Entities: documents with a state.", no_args_is_help=True)
transitions = typer.Typer(help="Transitions of entities.", no_args_is_help=True)

EntityId = Annotated[str, typer.Argument(help="The id of the entity.", metavar="ID")]
At = Annotated[
    str | None,
    typer.Option("--at", help="The instant to look at; now when absent.", metavar="RFC3339", show_default=False),
]
IfMatch = Annotated[
    str | None,
    typer.Option(help="Transaction of the version that may be replaced.", metavar="TRANSACTION", show_default=False),
]
Fire = Annotated[str | None, typer.Option("--fire", help="A transition to fire.", metavar="NAME", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]


@entities.command(cls=ModelCommand)
@with_client
def create(client: "Client", model: Model, file: DocumentFile) -> None:
    """Create an entity, or those of an array; print the ids."""
    name, version = split_model(model)
    document = read_document(file)
    if isinstance(document, list):
        made = client.create_many(name, version, document)
    else:
        made = client.create(name, version, document)
    for entity_id in made.entity_ids:
        typer.echo(entity_id)


@entities.command()
@with_client
def get(
    client: "Client",
    entity: EntityId,
    at: At = None,
    transaction: Annotated[
        str | None, typer.Option(help="The version that a transaction wrote.", metavar="ID", show_default=False)
    ] = None,
) -> None:
    """Print an entity: its document and what is known of it."""
    print_document(client.get(entity, at=at, transaction_id=transaction))


@entities.command(name="list", cls=ModelCommand)
@with_client
def list_(client: "Client", model: Model, limit: Limit = 20, at: At = None, as_json: AsJson = False) -> None:
    """List entities of a model, by id."""
    name, version = split_model(model)
    _show(list(islice(client.iterate(name, version, at=at, size=min(limit, 1000)), limit)), as_json=as_json)


@entities.command(cls=ModelCommand)
@with_client
def search(
    client: "Client",
    model: Model,
    condition: Annotated[str, typer.Argument(help="The condition: JSON, or a file with it; `-` for standard input.")],
    sort: Annotated[
        list[str] | None, typer.Option(help="A key such as `total:desc` or `@state`; repeatable.", metavar="KEY")
    ] = None,
    limit: Limit = 20,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Find the entities that satisfy a condition; the first ones when there are more."""
    name, version = split_model(model)
    wanted = read_object(condition)
    found = client.search_all(name, version, wanted, sort=sort or (), at=at, size=min(limit, 1000))
    _show(list(islice(found, limit)), as_json=as_json)


@entities.command(cls=ModelCommand)
@with_client
def count(client: "Client", model: Model, at: At = None, as_json: AsJson = False) -> None:
    """Count the entities of a model, by state."""
    found = client.count_states(*split_model(model), at=at)
    if as_json:
        print_document({one.state: one.count for one in found})
    else:
        print_table(("state", "entities"), ((one.state, one.count) for one in found))


@entities.command()
@with_client
def update(client: "Client", entity: EntityId, file: DocumentFile, fire: Fire = None, if_match: IfMatch = None) -> None:
    """Replace the document of an entity; print the transaction."""
    done = client.update(entity, read_document(file), transition=fire, if_match=if_match)
    typer.echo(done.transaction_id)


@entities.command()
@with_client
def patch(client: "Client", entity: EntityId, file: DocumentFile, fire: Fire = None, if_match: IfMatch = None) -> None:
    """Merge a change into the document of an entity (RFC 7386); print the transaction."""
    done = client.patch(entity, read_document(file), transition=fire, if_match=if_match or "*")
    typer.echo(done.transaction_id)


@entities.command()
@with_client
def delete(client: "Client", entity: EntityId) -> None:
    """Delete an entity; its history stays."""
    client.delete(entity)
    typer.echo(f"{entity} deleted")


@entities.command()
@with_client
def history(client: "Client", entity: EntityId, as_json: AsJson = False) -> None:
    """List the versions of an entity, newest first."""
    found = client.history(entity)
    if as_json:
        print_document(found)
        return
    rows = ((one.time_of_change, one.change_type, one.user, one.transaction_id) for one in found)
    print_table(("time", "change", "by", "transaction"), rows)


@transitions.command(name="list")
@with_client
def list_transitions(client: "Client", entity: EntityId, at: At = None) -> None:
    """List the transitions of the state an entity is in."""
    for name in client.transitions(entity, at=at):
        typer.echo(name)


@transitions.command()
@with_client
def fire(
    client: "Client",
    entity: EntityId,
    name: Annotated[str, typer.Argument(help="The transition.", metavar="NAME")],
    file: Annotated[
        str | None,
        typer.Argument(help="File with a new document; else it stays.", metavar="FILE", show_default=False),
    ] = None,
    if_match: IfMatch = None,
) -> None:
    """Fire a transition; print the state that comes of it."""
    if file is None and if_match is None:
        client.transition(entity, name)
    elif file is None:
        raise ValueError("--if-match needs a document")
    else:
        client.update(entity, read_document(file), transition=name, if_match=if_match)
    typer.echo(client.get(entity).state)


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
        print_document([event.details for event in found])
        return
    rows = ((event.time, event.type, event.state, event.text) for event in found)
    print_table(("time", "event", "state", "what"), rows)


def _show(found: "list[Entity]", *, as_json: bool) -> None:
    if as_json:
        print_document(found)
        return
    rows = ((entity.id, entity.state, entity.updated, shorten_document(entity.data)) for entity in found)
    print_table(("id", "state", "updated", "document"), rows)
