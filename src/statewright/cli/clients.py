"""``statewright clients …``: machine clients of a tenant (docs/reference/authentication.md#clients)."""

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from statewright.cli.client import Json, command, show_table

if TYPE_CHECKING:
    from statewright.sdk import Client

ClientName = Annotated[str, typer.Argument(help="As `list` shows it.", metavar="ID")]

PATH: Final = "/clients"

clients = typer.Typer(help="Machine clients, which get tokens by a secret.", no_args_is_help=True)


@command(clients, show_table("id: clientId | roles | created: creationDate | changed: lastUpdateDate"), name="list")
def list_(client: "Client") -> Json:
    """List the clients of the tenant."""
    return client.request("GET", PATH)


def _show_credentials(credentials: Json) -> None:
    """In the form of the variables that nodes and commands read."""
    typer.echo(f"STATEWRIGHT_CLIENT_ID={credentials['client_id']}")
    typer.echo(f"STATEWRIGHT_CLIENT_SECRET={credentials['client_secret']}")


@command(clients, _show_credentials)
def create(
    client: "Client", admin: Annotated[bool, typer.Option("--admin", help="Give it ROLE_ADMIN, too.")] = False
) -> Json:
    """Create a client. Its secret is shown this once."""
    return client.request("POST", PATH, query={"withAdminRole": "true"} if admin else {})


@command(clients, _show_credentials)
def rotate(client: "Client", id_: ClientName) -> Json:
    """Give a client another secret, which is shown this once; the old one is of no use any more."""
    return client.request("PUT", f"{PATH}/{quote(id_, safe='')}/secret")


@command(clients)
def delete(client: "Client", id_: ClientName) -> None:
    """Delete a client: it gets no more tokens."""
    client.request("DELETE", f"{PATH}/{quote(id_, safe='')}")
