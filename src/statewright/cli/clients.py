"""``statewright clients …``: machine clients of a tenant (docs/reference/authentication.md#clients)."""

from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, print_document, print_table, with_client

if TYPE_CHECKING:
    from statewright.sdk import Client

Json = Any  # what a service answers is checked where it is used

ClientName = Annotated[str, typer.Argument(help="As `list` shows it.", metavar="ID")]

PATH: Final = "/clients"

clients = typer.Typer(help="Machine clients, which get tokens by a secret.", no_args_is_help=True)


@clients.command(name="list")
@with_client
def list_(client: "Client", as_json: AsJson = False) -> None:
    """List the clients of the tenant."""
    found: Json = client.request("GET", PATH)
    if as_json:
        print_document(found)
        return
    rows = ((one["clientId"], " ".join(one["roles"]), one["creationDate"], one["lastUpdateDate"]) for one in found)
    print_table(("id", "roles", "created", "changed"), rows)


@clients.command()
@with_client
def create(
    client: "Client",
    admin: Annotated[bool, typer.Option("--admin", help="Give it ROLE_ADMIN, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a client. Its secret is shown this once."""
    _print_credentials(client.request("POST", PATH, query={"withAdminRole": "true"} if admin else {}), as_json)


@clients.command()
@with_client
def rotate(client: "Client", id_: ClientName, as_json: AsJson = False) -> None:
    """Give a client another secret, which is shown this once; the old one is of no use any more."""
    _print_credentials(client.request("PUT", f"{PATH}/{quote(id_, safe='')}/secret"), as_json)


@clients.command()
@with_client
def delete(client: "Client", id_: ClientName) -> None:
    """Delete a client: it gets no more tokens."""
    client.request("DELETE", f"{PATH}/{quote(id_, safe='')}")


def _print_credentials(credentials: Json, as_json: bool) -> None:
    """In the form of the variables that nodes and commands read."""
    if as_json:
        print_document(credentials)
        return
    typer.echo(f"STATEWRIGHT_CLIENT_ID={credentials['client_id']}")
    typer.echo(f"STATEWRIGHT_CLIENT_SECRET={credentials['client_secret']}")
