"""``statewright providers …``: identity providers of the tenant (docs/reference/oidc.md)."""

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from statewright.cli.client import Json, command, show_table

if TYPE_CHECKING:
    from statewright.sdk import Client

PROVIDERS: Final = "/oauth/oidc/providers"
DISCOVERY: Final = "/.well-known/openid-configuration"

ProviderId = Annotated[str, typer.Argument(help="The `id`.", metavar="PROVIDER")]
Issuers = Annotated[
    list[str] | None, typer.Option("--issuer", help="What its tokens may name as `iss`; else what it publishes.")
]
Audiences = Annotated[
    list[str] | None, typer.Option("--audience", help="One of these must be an audience of its tokens; else any is.")
]
RolesClaim = Annotated[str | None, typer.Option(help="The claim with the roles.", metavar="CLAIM")]

providers = typer.Typer(help="Identity providers whose tokens the tenant accepts.", no_args_is_help=True)


@command(
    providers,
    show_table("provider: id | active | discovery: wellKnownConfigUri | audiences: expectedAudiences"),
    name="list",
)
def list_providers(
    client: "Client",
    active: Annotated[bool, typer.Option("--active", help="Leave out those that were invalidated.")] = False,
) -> Json:
    """List the providers of the tenant."""
    return client.request("GET", PROVIDERS, query={"activeOnly": "true"} if active else {})


@command(providers)
def register(
    client: "Client",
    address: Annotated[str, typer.Argument(help="The issuer, or the URL of its discovery document.", metavar="URL")],
    issuer: Issuers = None,
    audience: Audiences = None,
    roles_claim: RolesClaim = None,
) -> Json:
    """Accept the tokens of a provider."""
    uri = address if DISCOVERY in address else address.rstrip("/") + DISCOVERY
    wanted: Json = {"wellKnownConfigUri": uri, "issuers": issuer, "expectedAudiences": audience}
    return client.request("POST", PROVIDERS, wanted | {"rolesClaim": roles_claim})


@command(providers)
def change(
    client: "Client",
    provider: ProviderId,
    issuer: Issuers = None,
    audience: Audiences = None,
    roles_claim: RolesClaim = None,
) -> Json:
    """Change what is named, and fetch the keys again. An empty text clears."""
    wanted: Json = {"issuers": issuer, "expectedAudiences": audience, "rolesClaim": roles_claim}
    given = {name: value for name, value in wanted.items() if value is not None}
    cleared = {name: None if value in ("", [""]) else value for name, value in given.items()}
    return client.request("PATCH", _build_path(provider), cleared)


@command(providers)
def invalidate(client: "Client", provider: ProviderId) -> None:
    """Accept the tokens of a provider no more."""
    client.request("POST", _build_path(provider, "invalidate"))


@command(providers)
def reactivate(client: "Client", provider: ProviderId) -> Json:
    """Accept the tokens of a provider again."""
    return client.request("POST", _build_path(provider, "reactivate"))


@command(providers)
def delete(client: "Client", provider: ProviderId) -> None:
    """Forget a provider."""
    client.request("DELETE", _build_path(provider))


@command(providers)
def reload(client: "Client") -> None:
    """Fetch the keys of all providers of the tenant again, on all nodes."""
    client.request("POST", f"{PROVIDERS}/reload")


def _build_path(provider: str, *rest: str) -> str:
    return "/".join((PROVIDERS, quote(provider, safe=""), *rest))
