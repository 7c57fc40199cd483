"""Use cases of machine clients (docs/reference/authentication.md#clients). Callers are administrators of a tenant, and
see and change the clients of that tenant.

What the administration of clients and keys needs of the running service.

What administrators of clients, keys and providers do, for the trail of operators
(docs/reference/operations.md#audit).
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.auth.clients import Client, hash_secret, make_client_id, make_secret
from statewright.auth.keys import Audience, KeyCipher, read_audience
from statewright.egress import Egress
from statewright.entity import Principal
from statewright.failures import BadRequest, ClientNotFound, FeatureDisabled, Forbidden, NotImplementedHere
from statewright.ids import Clock, TenantId
from statewright.operations.service import Act
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.services.auth.live_providers import LiveProviders
from statewright.services.core import Caller
from statewright.settings import Secret
from statewright.storage.auth.clients import MAX_CLIENTS, StoredAssertions, StoredClients, TenantAct
from statewright.storage.auth.keys import StoredKeyPairs, StoredTrustedKeys
from statewright.storage.auth.providers import StoredProviders
from statewright.storage.pool import Pool
from statewright.telemetry import logs


def describe_act(
    caller: Caller, action: str, target_kind: str, target_id: str, details: Mapping[str, object] | None = None
) -> TenantAct:
    """An act of the caller, in the trail of its tenant. ``details`` hold no secrets."""
    principal = caller.principal
    act = Act(action=action, target_kind=target_kind, target_id=target_id, details=details or {})
    return TenantAct(caller.tenant, principal.actor, act)


ADMIN: Final = "ROLE_ADMIN"


class TrustLimits(Struct, frozen=True, kw_only=True):
    """How many keys of a tenant may count, 0 for any number; for how many days unless it is said; how many members a
    JWK may have.
    """

    max_keys: int
    days: int
    max_jwk_members: int


class Identity(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a process that authenticates its callers itself. ``grants_admin``: a new client may have the role of
    administrators. ``key_pair_days``: how long a new key pair is valid unless its issuer says otherwise.
    ``discovery`` sends requests to identity providers.
    """

    clients: StoredClients
    key_pairs: StoredKeyPairs
    key_ring: LiveKeyRing
    cipher: KeyCipher
    grants_admin: bool
    key_pair_days: int
    trusted_keys: StoredTrustedKeys
    trust_limits: TrustLimits
    assertions: StoredAssertions
    providers: StoredProviders
    live_providers: LiveProviders
    discovery: Egress


class Administration(Struct, frozen=True, kw_only=True, eq=False):
    """Who administers what. ``identity`` is None in mock mode, in which there are neither clients nor keys;
    ``trusts_keys``: keys of others may be registered; ``platform_tenant`` is the one whose administrators change what
    all tenants have in common, None for every tenant.
    """

    identity: Identity | None
    clock: Clock
    trusts_keys: bool = False
    platform_tenant: TenantId | None = None

    def within(self, pool: Pool) -> "Administration":
        """The same, whose changes go over this pool."""
        identity = self.identity
        if identity is None:
            return self
        on_pool = replace(
            identity,
            clients=identity.clients.within(pool),
            key_pairs=identity.key_pairs.within(pool),
            trusted_keys=identity.trusted_keys.within(pool),
            providers=identity.providers.within(pool),
        )
        return replace(self, identity=on_pool)

    def require_identity(self, subject: str) -> Identity:
        """Raises ``NotImplementedHere`` in mock mode; ``subject`` is what would be managed."""
        if self.identity is None:
            raise NotImplementedHere(f"{subject} management requires JWT IAM mode")
        return self.identity

    def require_platform_admin(self, principal: Principal) -> None:
        """Raises ``Forbidden`` for a principal that may not change what all tenants have in common."""
        require_admin(principal)
        if self.platform_tenant not in (None, principal.tenant):
            raise Forbidden("only administrators of the tenant in STATEWRIGHT_IAM_PLATFORM_TENANT may")


def require_admin(principal: Principal) -> None:
    """Raises ``Forbidden`` for a principal that is no administrator."""
    if ADMIN not in principal.roles:
        raise Forbidden


def require_audience(text: str | None) -> Audience:
    """The audience of that name. Raises ``BadRequest``."""
    audience = read_audience(text)
    if audience is None:
        raise BadRequest("invalid audience")
    return audience


def require_feature(*, is_enabled: bool, message: str, setting: str) -> None:
    """Raises ``FeatureDisabled`` with the message for what a setting has not switched on."""
    if not is_enabled:
        raise FeatureDisabled(f"{message}; STATEWRIGHT_{setting}=true permits it")


_ROLE: Final = "ROLE_M2M"
_ID: Final = re.compile(r"[A-Za-z0-9]{1,100}")

log = logs.logger(__name__)


class IssuedSecret(Struct, frozen=True):
    """A client, and its secret, which is known at this moment only."""

    client: Client
    secret: Secret


async def list_clients(administration: Administration, caller: Caller) -> list[Client]:
    """The clients of the tenant, the oldest first."""
    identity = _open(administration, caller)
    return await identity.clients.list_for_tenant(caller.tenant)


async def create_client(administration: Administration, caller: Caller, granted: Sequence[str]) -> IssuedSecret:
    """A new client of the tenant, with these roles beside its own. Raises ``FeatureDisabled`` for an administrator
    where none may be made, ``BadRequest`` when the tenant has too many clients.
    """
    identity = _open(administration, caller)
    if ADMIN in granted:
        require_feature(
            is_enabled=identity.grants_admin,
            message="M2M admin-role grants are disabled",
            setting="IAM_M2M_ADMIN_ROLE_ENABLED",
        )
    client_id, secret, now = make_client_id(), make_secret(), administration.clock()
    client = Client(
        id=client_id,
        tenant=caller.tenant,
        user_id=client_id,
        roles=(_ROLE, *granted),
        secret_hash=await asyncio.to_thread(hash_secret, secret.reveal()),
        created_at=now,
        updated_at=now,
    )
    act = describe_act(caller, "client.create", "CLIENT", client.id, {"roles": client.roles})
    if not await identity.clients.create(client, act=act):
        raise BadRequest(f"the tenant has {MAX_CLIENTS} clients already, which is the most it may have")
    _log("client_created", caller, client.id, roles=client.roles)
    return IssuedSecret(client, secret)


async def delete_client(administration: Administration, caller: Caller, client_id: str) -> None:
    """From now on the client gets no token; those that it has live on. Raises ``ClientNotFound``."""
    identity = _open(administration, caller)
    _check_id(client_id)
    act = describe_act(caller, "client.delete", "CLIENT", client_id)
    if not await identity.clients.delete(caller.tenant, client_id, act=act):
        raise ClientNotFound
    _log("client_deleted", caller, client_id)


async def rotate_secret(administration: Administration, caller: Caller, client_id: str) -> IssuedSecret:
    """Give the client another secret; the old one is of no use from now on. Raises ``ClientNotFound``."""
    identity = _open(administration, caller)
    _check_id(client_id)
    secret = make_secret()
    hashed = await asyncio.to_thread(hash_secret, secret.reveal())
    act = describe_act(caller, "client.rotate_secret", "CLIENT", client_id)
    client = await identity.clients.replace_secret(
        caller.tenant, client_id, hashed, now=administration.clock(), act=act
    )
    if client is None:
        raise ClientNotFound
    _log("client_secret_rotated", caller, client_id)
    return IssuedSecret(client, secret)


def _open(administration: Administration, caller: Caller) -> Identity:
    require_admin(caller.principal)
    return administration.require_identity("M2M client")


def _check_id(client_id: str) -> None:
    """Ids of the settings may have other characters: such a client is changed there."""
    if not _ID.fullmatch(client_id):
        raise BadRequest("invalid clientId")


def _log(event: str, caller: Caller, client_id: str, **keys: object) -> None:
    log.info(event, tenant=caller.tenant, client=client_id, by=caller.principal.id, **keys)
