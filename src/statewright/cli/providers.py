"""``statewright providers …``: identity providers of the tenant (docs/reference/oidc.md)."""

from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, print_document, print_table, with_client

if TYPE_CHECKING:
    from statewright.sdk import Client

Json = Any  # what a service answers is checked where it is used

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


@providers.command(name="list")
@with_client
def list_providers(
    client: "Client",
    active: Annotated[bool, typer.Option("--active", help="Leave out those that were invalidated.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the providers of the tenant."""
    found: Json = client.request("GET", PROVIDERS, query={"activeOnly": "true"} if active else {})
    if as_json:
        print_document(found)
        return
    rows = (
        (one["id"], one["active"], one["wellKnownConfigUri"], " ".join(one.get("expectedAudiences", ())))
        for one in found
    )
    print_table(("provider", "active", "discovery", "audiences"), rows)


@providers.command()
@with_client
def register(
    client: "Client",
    address: Annotated[str, typer.Argument(help="The issuer, or the URL of its discovery document.", metavar="URL")],
    issuer: Issuers = None,
    audience: Audiences = None,
    roles_claim: RolesClaim = None,
) -> None:
    """Accept the tokens of a provider."""
    uri = address if DISCOVERY in address else address.rstrip("/") + DISCOVERY
    wanted: Json = {"wellKnownConfigUri": uri, "issuers": issuer, "expectedAudiences": audience}
    print_document(client.request("POST", PROVIDERS, wanted | {"rolesClaim": roles_claim}))


@providers.command()
@with_client
def change(
    client: "Client",
    provider: ProviderId,
    issuer: Issuers = None,
    audience: Audiences = None,
    roles_claim: RolesClaim = None,
) -> None:
    """Change what is named, and fetch the keys again. An empty text clears."""
    wanted: Json = {"issuers": issuer, "expectedAudiences": audience, "rolesClaim": roles_claim}
    given = {name: value for name, value in wanted.items() if value is not None}
    cleared = {name: None if value in ("", [""]) else value for name, value in given.items()}
    print_document(client.request("PATCH", _build_path(provider), cleared))


@providers.command()
@with_client
def invalidate(client: "Client", provider: ProviderId) -> None:
    """Accept the tokens of a provider no more."""
    client.request("POST", _build_path(provider, "invalidate"))


@providers.command()
@with_client
def reactivate(client: "Client", provider: ProviderId) -> None:
    """Accept the tokens of a provider again."""
    print_document(client.request("POST", _build_path(provider, "reactivate")))


@providers.command()
@with_client
def delete(client: "Client", provider: ProviderId) -> None:
    """Forget a provider."""
    client.request("DELETE", _build_path(provider))


@providers.command()
@with_client
def reload(client: "Client") -> None:
    """Fetch the keys of all providers of the tenant again, on all nodes."""
    client.request("POST", f"{PROVIDERS}/reload")


def _build_path(provider: str, *rest: str) -> str:
    return "/".join((PROVIDERS, quote(provider, safe=""), *rest))
