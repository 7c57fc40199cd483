"""Use cases of trusted keys (docs/reference/authentication.md#trusted-keys). Callers are administrators of a tenant,
and see and change the keys of that tenant.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.auth.keys import DAY_US, JwkMembers, OtherKeyType, TrustedKey, UnusableJwk, read_jwk
from statewright.failures import (
    BadRequest,
    KeyOwnedByDifferentTenant,
    TrustedKeyCapReached,
    TrustedKeyNotFound,
    UnsupportedKeyType,
)
from statewright.services.auth.clients import (
    Administration,
    Identity,
    describe_act,
    require_admin,
    require_audience,
    require_feature,
)
from statewright.services.auth.signing_keys import Window, check_grace, require_window, resolve_window
from statewright.services.core import Caller
from statewright.telemetry import logs

MAX_JWK_BYTES: Final = 65_536
MAX_ISSUERS: Final = 100
MAX_ISSUER_BYTES: Final = 1000

_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SECOND_US: Final = 1_000_000

log = logs.logger(__name__)


class NewTrustedKey(Struct, frozen=True, kw_only=True):
    """What a caller wants to have trusted; the grace in seconds, None: the default."""

    kid: str
    jwk: JwkMembers | None
    audience: str | None
    issuers: Sequence[str]
    window: Window
    ends_previous: bool
    grace_s: int | None


async def list_trusted_keys(administration: Administration, caller: Caller) -> list[TrustedKey]:
    """The keys of the tenant, the oldest first."""
    identity = require_access(administration, caller)
    return await identity.trusted_keys.list_for_tenant(caller.tenant)


async def register_trusted_key(administration: Administration, caller: Caller, wanted: NewTrustedKey) -> TrustedKey:
    """Trust a key, or another one under the same id. With ``ends_previous`` the others of the tenant are inactive from
    then on. Raises ``BadRequest``, ``UnsupportedKeyType``, ``KeyOwnedByDifferentTenant``, ``TrustedKeyCapReached``.
    """
    identity = require_access(administration, caller)
    limits = identity.trust_limits
    now = administration.clock()
    key = _read_key(wanted, caller, max_members=limits.max_jwk_members, default_us=limits.days * DAY_US, now=now)
    grace_us = check_grace(wanted.grace_s) * _SECOND_US
    ends_at = now + grace_us if wanted.ends_previous else None
    details = {"audience": key.audience, "invalidatePrevious": wanted.ends_previous}
    act = describe_act(caller, "trusted_key.register", "TRUSTED_KEY", key.kid, details)
    match await identity.trusted_keys.register(key, now=now, most=limits.max_keys, others_end_at=ends_at, act=act):
        case "owned by another":
            raise KeyOwnedByDifferentTenant
        case "too many":
            raise TrustedKeyCapReached
        case "registered":
            _log("trusted_key_registered", caller, key.kid, audience=key.audience, ends_previous=wanted.ends_previous)
            return key


async def invalidate_trusted_key(administration: Administration, caller: Caller, kid: str, grace_s: int | None) -> None:
    """The key is trusted no more, whatever the grace. Raises ``BadRequest``, ``TrustedKeyNotFound``."""
    identity = require_access(administration, caller)
    _check_id(kid)
    ends_at = administration.clock() + check_grace(grace_s) * _SECOND_US
    act = describe_act(caller, "trusted_key.invalidate", "TRUSTED_KEY", kid)
    if not await identity.trusted_keys.invalidate(caller.tenant, kid, ends_at=ends_at, act=act):
        raise TrustedKeyNotFound
    _log("trusted_key_invalidated", caller, kid)


async def reactivate_trusted_key(
    administration: Administration, caller: Caller, kid: str, window: Window
) -> TrustedKey:
    """The key is trusted again, or as before, in this window. Raises ``BadRequest``, ``TrustedKeyNotFound``."""
    identity = require_access(administration, caller)
    _check_id(kid)
    valid_from, valid_to = require_window(window, now=administration.clock())
    act = describe_act(caller, "trusted_key.reactivate", "TRUSTED_KEY", kid)
    key = await identity.trusted_keys.reactivate(caller.tenant, kid, valid_from=valid_from, valid_to=valid_to, act=act)
    if key is None:
        raise TrustedKeyNotFound
    _log("trusted_key_reactivated", caller, kid)
    return key


async def delete_trusted_key(administration: Administration, caller: Caller, kid: str) -> None:
    """The key is not known any more. Raises ``BadRequest``, ``TrustedKeyNotFound``."""
    identity = require_access(administration, caller)
    _check_id(kid)
    act = describe_act(caller, "trusted_key.delete", "TRUSTED_KEY", kid)
    if not await identity.trusted_keys.delete(caller.tenant, kid, act=act):
        raise TrustedKeyNotFound
    _log("trusted_key_deleted", caller, kid)


def require_access(administration: Administration, caller: Caller) -> Identity:
    """What trusted keys are managed with. Raises ``Forbidden``, ``FeatureDisabled``, ``NotImplementedHere``: before a
    body is looked at.
    """
    require_admin(caller.principal)
    require_feature(
        is_enabled=administration.trusts_keys,
        message="trusted-key registration is disabled",
        setting="IAM_TRUSTED_KEY_REGISTRATION_ENABLED",
    )
    return administration.require_identity("trusted-key")


def _read_key(wanted: NewTrustedKey, caller: Caller, *, max_members: int, default_us: int, now: int) -> TrustedKey:
    _check_id(wanted.kid)
    jwk = wanted.jwk
    if jwk is None:
        raise BadRequest("jwk is required")
    if len(jwk) > max_members:
        raise BadRequest(f"jwk has more than {max_members} members")
    if len(msgspec.json.encode(jwk)) > MAX_JWK_BYTES:
        raise BadRequest(f"jwk is longer than {MAX_JWK_BYTES} bytes")
    try:
        public = read_jwk(jwk, wanted.kid)
    except OtherKeyType as other:
        raise UnsupportedKeyType(str(other)) from None
    except UnusableJwk as unusable:
        raise BadRequest(str(unusable)) from None
    audience = require_audience(wanted.audience)
    valid_from, valid_to = resolve_window(wanted.window, now=now, default_us=default_us)
    return TrustedKey(
        kid=wanted.kid,
        tenant=caller.tenant,
        public=public,
        jwk=jwk,
        audience=audience,
        active=True,
        valid_from=valid_from,
        valid_to=valid_to,
        issuers=_read_issuers(wanted.issuers),
    )


def _read_issuers(issuers: Sequence[str]) -> tuple[str, ...]:
    if len(issuers) > MAX_ISSUERS:
        raise BadRequest(f"issuers has more than {MAX_ISSUERS} entries")
    for issuer in issuers:
        if not issuer or "\0" in issuer or len(issuer.encode("utf-8", "surrogatepass")) > MAX_ISSUER_BYTES:
            raise BadRequest(f"an entry of issuers is empty, or longer than {MAX_ISSUER_BYTES} bytes")
    return tuple(issuers)


def _check_id(kid: str) -> None:
    if not _KEY_ID.fullmatch(kid):
        raise BadRequest("invalid keyId format")


def _log(event: str, caller: Caller, kid: str, **keys: object) -> None:
    log.info(event, kid=kid, tenant=caller.tenant, by=caller.principal.id, **keys)
