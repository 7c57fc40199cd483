"""What the administration of clients and keys needs of the running service."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.auth.encryption import KeyCipher
from statewright.auth.keys import Audience, read_audience
from statewright.egress import Egress
from statewright.entity import Principal
from statewright.failures import BadRequest, FeatureDisabled, Forbidden, NotImplementedHere
from statewright.ids import TenantId
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.services.auth.live_providers import LiveProviders
from statewright.storage.auth.assertions import StoredAssertions
from statewright.storage.auth.clients import StoredClients
from statewright.storage.auth.providers import StoredProviders
from statewright.storage.auth.signing_keys import StoredKeyPairs
from statewright.storage.auth.trusted_keys import StoredTrustedKeys
from statewright.storage.pool import Pool

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

    def require_platform_admin(self, principal: Principal, message: str = "forbidden") -> None:
        """Raises ``Forbidden`` for a principal that may not change what all tenants have in common."""
        if ADMIN not in principal.roles or self.platform_tenant not in (None, principal.tenant):
            raise Forbidden(message)


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


def require_feature(*, is_enabled: bool, message: str) -> None:
    """Raises ``FeatureDisabled`` with the message for what a setting has not switched on."""
    if not is_enabled:
        raise FeatureDisabled(message)
