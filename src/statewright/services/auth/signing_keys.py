"""Use cases of the key pairs that sign and verify tokens (docs/reference/authentication.md#keys). The pairs are common
to all tenants.
"""

import asyncio
from typing import Final

from msgspec import Struct

from statewright import logs
from statewright.auth.encryption import KeyCipher
from statewright.auth.key_pairs import KeyPair
from statewright.auth.keys import (
    DAY_US,
    Audience,
    encode_private_key,
    encode_public_key,
    make_key_id,
    make_private_key,
)
from statewright.failures import BadRequest, KeyPairNotFound, UnsupportedAlgorithm
from statewright.services.auth.acts import describe_act
from statewright.services.auth.identity import Administration, Identity, require_audience
from statewright.services.auth.windows import Window, check_grace, require_window, resolve_window
from statewright.services.runtime import Caller, Runtime
from statewright.storage.auth.signing_keys import MAX_KEY_PAIRS

_SECOND_US: Final = 1_000_000

log = logs.logger(__name__)


class NewKeyPair(Struct, frozen=True, kw_only=True):
    """What a caller asks for. Times in microseconds since 1970, the grace in seconds; None: the default."""

    algorithm: str | None
    audience: str | None
    window: Window
    ends_current: bool
    grace_s: int | None


async def issue_key_pair(runtime: Runtime, caller: Caller, wanted: NewKeyPair) -> KeyPair:
    """A new pair, which signs at once if it is for clients and its validity has begun. With ``ends_current`` the other
    active pairs of its audience end when the grace is over. Raises ``UnsupportedAlgorithm``, ``BadRequest``.
    """
    identity = require_access(runtime, caller)
    if wanted.algorithm != "RS256":
        raise UnsupportedAlgorithm("only RS256 supported in this version")
    audience = require_audience(wanted.audience)
    now = runtime.clock()
    valid_from, valid_to = resolve_window(wanted.window, now=now, default_us=identity.key_pair_days * DAY_US)
    grace_us = check_grace(wanted.grace_s) * _SECOND_US
    pair = await asyncio.to_thread(_make_pair, identity.cipher, audience, valid_from, valid_to)
    details = {"audience": audience, "ends_current": wanted.ends_current}
    act = describe_act(caller, "key_pair.issue", "KEY_PAIR", pair.kid, details)
    ends_at = now + grace_us if wanted.ends_current else None
    if not await identity.key_pairs.issue(pair, others_end_at=ends_at, act=act):
        raise BadRequest(f"there are {MAX_KEY_PAIRS} key pairs already, which is the most there may be; delete some")
    await identity.key_ring.refresh()
    _log("key_pair_issued", caller, pair.kid, audience=audience, ends_current=wanted.ends_current)
    return pair


async def get_current_pair(runtime: Runtime, caller: Caller, audience: str) -> KeyPair:
    """The active pair of an audience whose validity began last. Raises ``BadRequest``, ``KeyPairNotFound``."""
    identity = require_access(runtime, caller)
    current = await identity.key_pairs.find_current(require_audience(audience), now=runtime.clock())
    if current is None:
        raise KeyPairNotFound("no active key pair for audience")
    return current


async def invalidate_key_pair(runtime: Runtime, caller: Caller, kid: str, grace_s: int | None) -> None:
    """The pair signs no more; what it has signed counts until the grace is over. Raises ``BadRequest``,
    ``KeyPairNotFound``.
    """
    identity = require_access(runtime, caller)
    ends_at = runtime.clock() + check_grace(grace_s) * _SECOND_US
    act = describe_act(caller, "key_pair.invalidate", "KEY_PAIR", kid, {"grace_s": grace_s or 0})
    if not await identity.key_pairs.invalidate(kid, ends_at=ends_at, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_invalidated", caller, kid, grace_s=grace_s or 0)


async def reactivate_key_pair(runtime: Runtime, caller: Caller, kid: str, window: Window) -> KeyPair:
    """The pair is active again, or as before, in this window. Raises ``BadRequest``, ``KeyPairNotFound``."""
    identity = require_access(runtime, caller)
    valid_from, valid_to = require_window(window, now=runtime.clock())
    act = describe_act(caller, "key_pair.reactivate", "KEY_PAIR", kid)
    if not await identity.key_pairs.reactivate(kid, valid_from=valid_from, valid_to=valid_to, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_reactivated", caller, kid)
    pair = await identity.key_pairs.find(kid)
    if pair is None:  # deleted since
        raise KeyPairNotFound
    return pair


async def delete_key_pair(runtime: Runtime, caller: Caller, kid: str) -> None:
    """What the pair has signed counts no more. Raises ``KeyPairNotFound``."""
    identity = require_access(runtime, caller)
    act = describe_act(caller, "key_pair.delete", "KEY_PAIR", kid)
    if not await identity.key_pairs.delete(kid, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_deleted", caller, kid)


def require_access(runtime: Runtime, caller: Caller) -> Identity:
    """What key pairs are managed with. Raises ``Forbidden``, ``NotImplementedHere``: before a body is looked at."""
    administration = runtime.extensions.get(Administration)
    administration.require_platform_admin(caller.principal)
    return administration.require_identity("key")


def _make_pair(cipher: KeyCipher, audience: Audience, valid_from: int, valid_to: int) -> KeyPair:
    private = make_private_key()
    return KeyPair(
        kid=make_key_id(),
        audience=audience,
        public_key=encode_public_key(private.public_key()),
        private_key=cipher.encrypt(encode_private_key(private)),
        active=True,
        valid_from=valid_from,
        valid_to=valid_to,
    )


def _log(event: str, caller: Caller, kid: str, **keys: object) -> None:
    log.info(event, kid=kid, tenant=caller.tenant, by=caller.principal.id, **keys)
