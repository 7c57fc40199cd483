"""Answers about clients, keys and identity providers (docs/reference/authentication.md#keys). Their objects are closed,
as those of the entity API are.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from statewright.entity import READ_ONLY_ROLE
from statewright.operations.records import ADMIN, OPERATOR, Instant, Record, Uuid

ClientId: TypeAlias = Annotated[str, Meta(extra_json_schema={"examples": ["3F0KQ9V2B1C7TD5E"]})]
Roles: TypeAlias = Sequence[Annotated[str, Meta(extra_json_schema={"examples": ["ROLE_M2M"]})]]
Jwk: TypeAlias = Annotated[
    object,
    Meta(
        extra_json_schema={
            "type": "object",
            "additionalProperties": True,
            "description": "a public RSA key (RFC 7517)",
        }
    ),
]
DiscoveryUri: TypeAlias = Annotated[
    str,
    Meta(
        max_length=1000,
        extra_json_schema={"examples": ["https://login.example.org/.well-known/openid-configuration"]},
    ),
]
Algorithm: TypeAlias = Literal["RS256"]


class Grant(Struct, frozen=True, kw_only=True):
    """A role that a new machine client may have beside ``ROLE_M2M``, and the parameter that gives it."""

    parameter: str
    role: str
    says: str


GRANTS: Final = (
    Grant(parameter="withAdminRole", role=ADMIN, says=f"give it `{ADMIN}`, too, where a setting allows that"),
    Grant(parameter="withOperatorRole", role=OPERATOR, says=f"give it `{OPERATOR}`, too"),
    Grant(parameter="withReadOnlyRole", role=READ_ONLY_ROLE, says=f"make it `{READ_ONLY_ROLE}`: it changes nothing"),
)


class MachineClient(Record, frozen=True, kw_only=True):
    """A machine client, without its secret."""

    client_id: ClientId
    creation_date: Instant
    last_update_date: Instant
    roles: Roles


class ClientCredentials(Record, frozen=True, kw_only=True, rename={}):
    """A machine client and its secret, which is shown once."""

    client_id: ClientId
    client_secret: str
    grant_type: Literal["client_credentials"]
    client_secret_expires_at: Annotated[Literal[0], Meta(description="it does not expire")]
    roles: Roles


class DeletedClient(Record, frozen=True, kw_only=True):
    """A machine client that is no more."""

    message: str
    client_id: ClientId


class SigningKeyPair(Record, frozen=True, kw_only=True):
    """A key pair; of its private half nothing is shown."""

    active: bool
    algorithm: Algorithm
    key_id: str
    public_key: Annotated[str, Meta(description="base64 of the DER SubjectPublicKeyInfo")]
    valid_from: Instant
    valid_to: Instant


class RegisteredKey(Record, frozen=True, kw_only=True):
    """A key of others that a tenant trusts."""

    key_id: str
    legal_entity_id: Annotated[str, Meta(description="the tenant")]
    jwk: Jwk
    audience: Literal["client", "human"]
    active: bool
    valid_from: Instant
    valid_to: Instant
    issuers: Sequence[str] = ()


class FetchedKeys(Record, frozen=True, kw_only=True):
    """The keys of an identity provider, as a node has fetched them: the ``issuer`` that it publishes, and the
    ``problem`` of the last attempt, where it failed.
    """

    issuer: str | None = None
    fetched_at: Instant | None = None
    problem: str | None = None


class RegisteredProvider(Record, frozen=True, kw_only=True):
    """An identity provider whose tokens a tenant accepts. ``keys`` are told where they are asked for."""

    id: Uuid
    active: bool
    created_at: Instant
    well_known_config_uri: DiscoveryUri
    issuers: Sequence[str] = ()
    expected_audiences: Sequence[str] = ()
    roles_claim: str | None = None
    keys: FetchedKeys | None = None


IDENTITY_ANSWERS: Final[Mapping[str, object]] = {
    "Clients": tuple[MachineClient, ...],
    "ClientCredentials": ClientCredentials,
    "ClientDeletion": DeletedClient,
    "KeyPair": SigningKeyPair,
    "TrustedKey": RegisteredKey,
    "OidcProvider": RegisteredProvider,
}
"""By the names of their schemas."""
