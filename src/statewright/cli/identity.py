"""Who may call: ``statewright clients …``, machine clients of a tenant (docs/reference/authentication.md#clients),
``statewright keys …``, key pairs of the service, and keys of others that a tenant trusts
(docs/reference/authentication.md#keys), and ``statewright providers …``, identity providers of the tenant
(docs/reference/oidc.md).
"""

import base64
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from statewright.cli.client import Json, command, parse_object, read_source, show_table

if TYPE_CHECKING:
    from statewright.sdk import Client

CLIENTS: Final = "/clients"
PAIRS: Final = "/oauth/keys/keypair"
TRUSTED: Final = "/oauth/keys/trusted"
PUBLISHED: Final = "/.well-known/jwks.json"
PROVIDERS: Final = "/oauth/oidc/providers"
WITH_KEYS: Final = {"withKeys": "true"}
DISCOVERY: Final = "/.well-known/openid-configuration"


class Audience(StrEnum):
    """What a key is for."""

    CLIENT = "client"
    HUMAN = "human"


ClientName = Annotated[str, typer.Argument(help="As `list` shows it.", metavar="ID")]
KeyId = Annotated[str, typer.Argument(help="The `kid`.", metavar="KEY")]
For = Annotated[Audience, typer.Option("--audience", help="Tokens of this service's clients, or of external tools.")]
Grace = Annotated[int, typer.Option(help="For so long what it has signed still counts.", min=0, metavar="SECONDS")]
Until = Annotated[str, typer.Option(help="The end of its validity.", metavar="RFC3339")]
ProviderId = Annotated[str, typer.Argument(help="The `id`.", metavar="PROVIDER")]
Issuers = Annotated[
    list[str] | None, typer.Option("--issuer", help="What its tokens may name as `iss`; else what it publishes.")
]
Audiences = Annotated[
    list[str] | None, typer.Option("--audience", help="One of these must be an audience of its tokens; else any is.")
]
RolesClaim = Annotated[str | None, typer.Option(help="The claim with the roles.", metavar="CLAIM")]

clients = typer.Typer(help="Machine clients, which get tokens by a secret.", no_args_is_help=True)


@command(clients, show_table("id: clientId | roles | created: creationDate | changed: lastUpdateDate"), name="list")
def list_clients(client: "Client") -> Json:
    """List the clients of the tenant."""
    return client.request("GET", CLIENTS)


def _show_credentials(credentials: Json) -> None:
    """In the form of the variables that nodes and commands read."""
    typer.echo(f"STATEWRIGHT_CLIENT_ID={credentials['client_id']}")
    typer.echo(f"STATEWRIGHT_CLIENT_SECRET={credentials['client_secret']}")


@command(clients, _show_credentials, name="create")
def create_client(
    client: "Client",
    admin: Annotated[bool, typer.Option("--admin", help="Give it ROLE_ADMIN, too.")] = False,
    operator: Annotated[bool, typer.Option("--operator", help="Give it ROLE_OPERATOR, too.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Give it ROLE_READ_ONLY: it changes nothing.")] = False,
) -> Json:
    """Create a client. Its secret is shown this once."""
    granted = {"withAdminRole": admin, "withOperatorRole": operator, "withReadOnlyRole": read_only}
    return client.request("POST", CLIENTS, query={name: "true" for name, is_given in granted.items() if is_given})


@command(clients, _show_credentials, name="rotate")
def rotate_secret(client: "Client", id_: ClientName) -> Json:
    """Give a client another secret, which is shown this once; the old one is of no use any more."""
    return client.request("PUT", _build_path(CLIENTS, id_, "secret"))


@command(clients, name="delete")
def delete_client(client: "Client", id_: ClientName) -> None:
    """Delete a client: it gets no more tokens."""
    client.request("DELETE", _build_path(CLIENTS, id_))


keys = typer.Typer(help="Keys that sign and verify tokens.", no_args_is_help=True)
trusted = typer.Typer(help="Public keys of others that the tenant trusts.", no_args_is_help=True)
keys.add_typer(trusted, name="trusted")


@command(keys, show_table("key: kid | algorithm: alg", "keys"), name="list")
def list_published(client: "Client") -> Json:
    """List the published keys: those whose validity has not ended."""
    return client.request("GET", PUBLISHED)


@command(keys)
def current(client: "Client", audience: For = Audience.CLIENT) -> Json:
    """Show the active pair whose validity began last: for clients, the one that signs."""
    return client.request("GET", f"{PAIRS}/current", query={"audience": audience.value})


@command(keys)
def issue(client: "Client", audience: For = Audience.CLIENT) -> Json:
    """Issue a key pair; for clients it signs from now on. The others stay as they are."""
    return client.request("POST", PAIRS, {"algorithm": "RS256", "audience": audience.value})


@command(keys, name="rotate")
def rotate_pairs(client: "Client", audience: For = Audience.CLIENT, grace: Grace = 3600) -> Json:
    """Issue a key pair that takes the place of all others of its audience."""
    wanted = {"algorithm": "RS256", "audience": audience.value, "invalidateCurrent": True}
    return client.request("POST", PAIRS, {**wanted, "invalidateGracePeriodSec": grace})


@command(keys, name="invalidate")
def invalidate_pair(client: "Client", key: KeyId, grace: Grace = 0) -> None:
    """Have a key pair sign no more."""
    client.request("POST", _build_path(PAIRS, key, "invalidate"), {"gracePeriodSec": grace})


@command(keys, name="reactivate")
def reactivate_pair(client: "Client", key: KeyId, until: Until) -> Json:
    """Make a key pair active again, from now on."""
    return client.request("POST", _build_path(PAIRS, key, "reactivate"), {"validTo": until})


@command(keys, name="delete")
def delete_pair(client: "Client", key: KeyId) -> None:
    """Delete a key pair: what it has signed counts no more."""
    client.request("DELETE", _build_path(PAIRS, key))


@command(trusted, show_table("key: keyId | audience | active | until: validTo | issuers"), name="list")
def list_trusted(client: "Client") -> Json:
    """List the keys that the tenant trusts."""
    return client.request("GET", TRUSTED)


@command(trusted, name="register")
def register_trusted(
    client: "Client",
    key: KeyId,
    file: Annotated[str, typer.Argument(help="The public key: a JWK, or PEM; `-` for standard input.", metavar="FILE")],
    audience: For = Audience.CLIENT,
    issuer: Annotated[
        list[str] | None,
        typer.Option(help="Whom its tokens may name as `iss`: a client that is to sign, or an identity provider."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="The end of its validity.", metavar="RFC3339")] = None,
) -> Json:
    """Trust a key, or another one under the same id."""
    wanted = {"keyId": key, "audience": audience.value, "jwk": _read_jwk(file), "issuers": issuer or []}
    return client.request("POST", TRUSTED, wanted | ({"validTo": until} if until else {}))


@command(trusted, name="invalidate")
def invalidate_trusted(client: "Client", key: KeyId) -> None:
    """Trust a key no more."""
    client.request("POST", _build_path(TRUSTED, key, "invalidate"))


@command(trusted, name="reactivate")
def reactivate_trusted(client: "Client", key: KeyId, until: Until) -> Json:
    """Trust a key again, from now on."""
    return client.request("POST", _build_path(TRUSTED, key, "reactivate"), {"validTo": until})


@command(trusted, name="delete")
def delete_trusted(client: "Client", key: KeyId) -> None:
    """Forget a key."""
    client.request("DELETE", _build_path(TRUSTED, key))


providers = typer.Typer(help="Identity providers whose tokens the tenant accepts.", no_args_is_help=True)


@command(
    providers,
    show_table(
        "provider: id | active | discovery: wellKnownConfigUri | audiences: expectedAudiences | problem: keys.problem"
    ),
    name="list",
)
def list_providers(
    client: "Client",
    active: Annotated[bool, typer.Option("--active", help="Leave out those that were invalidated.")] = False,
) -> Json:
    """List the providers of the tenant."""
    return client.request("GET", PROVIDERS, query={**WITH_KEYS, **({"activeOnly": "true"} if active else {})})


@command(providers, name="register")
def register_provider(
    client: "Client",
    address: Annotated[str, typer.Argument(help="The issuer, or the URL of its discovery document.", metavar="URL")],
    issuer: Issuers = None,
    audience: Audiences = None,
    roles_claim: RolesClaim = None,
) -> Json:
    """Accept the tokens of a provider."""
    uri = address if DISCOVERY in address else address.rstrip("/") + DISCOVERY
    wanted: Json = {"wellKnownConfigUri": uri, "issuers": issuer, "expectedAudiences": audience}
    return _warn(client.request("POST", PROVIDERS, wanted | {"rolesClaim": roles_claim}, query=WITH_KEYS))


@command(providers, name="change")
def change_provider(
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
    return _warn(client.request("PATCH", _build_path(PROVIDERS, provider), cleared, query=WITH_KEYS))


def _warn(provider: Json) -> Json:
    """Tells that the provider could not be asked for its keys: it is registered all the same."""
    if problem := provider.get("keys", {}).get("problem"):
        typer.echo(f"its tokens do not count: {problem}", err=True)
    return provider


@command(providers, name="invalidate")
def invalidate_provider(client: "Client", provider: ProviderId) -> None:
    """Accept the tokens of a provider no more."""
    client.request("POST", _build_path(PROVIDERS, provider, "invalidate"))


@command(providers, name="reactivate")
def reactivate_provider(client: "Client", provider: ProviderId) -> Json:
    """Accept the tokens of a provider again."""
    return client.request("POST", _build_path(PROVIDERS, provider, "reactivate"))


@command(providers, name="delete")
def delete_provider(client: "Client", provider: ProviderId) -> None:
    """Forget a provider."""
    client.request("DELETE", _build_path(PROVIDERS, provider))


@command(providers, name="reload")
def reload_keys(client: "Client") -> None:
    """Fetch the keys of all providers of the tenant again, on all nodes."""
    client.request("POST", f"{PROVIDERS}/reload")


def _build_path(base: str, key: str, *rest: str) -> str:
    return "/".join((base, quote(key, safe=""), *rest))


def _read_jwk(file: str) -> Json:
    """A public key as a JWK. Raises ``OSError``, ``ValueError``."""
    raw = read_source(file)
    return _convert_pem(raw) if raw.lstrip().startswith(b"-----BEGIN") else parse_object(raw, file)


def _convert_pem(pem: bytes) -> Json:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ModuleNotFoundError:
        raise ValueError('reading PEM needs pip install "statewright[server]"; a JWK does not') from None
    try:
        key = load_pem_public_key(pem)
    except ValueError:
        raise ValueError("this PEM holds no public key") from None
    if not isinstance(key, RSAPublicKey):
        raise ValueError("this is no RSA key")  # noqa: TRY004 - of the file, not of a type
    numbers = key.public_numbers()
    return {"kty": "RSA", "n": _encode(numbers.n), "e": _encode(numbers.e)}


def _encode(number: int) -> str:
    """RFC 7518 §2."""
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
