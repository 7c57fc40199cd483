"""Use cases of the key pairs that sign and verify tokens (docs/reference/authentication.md#keys). The pairs are common
to all tenants.

When keys are valid, and how long they may be used after they were invalidated.
"""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.auth.keys import (
    DAY_US,
    Audience,
    KeyCipher,
    KeyPair,
    encode_private_key,
    encode_public_key,
    make_key_id,
    make_private_key,
)
from statewright.failures import BadRequest, KeyPairNotFound, UnsupportedAlgorithm
from statewright.services.auth.clients import Administration, Identity, describe_act, require_audience
from statewright.services.core import Caller
from statewright.storage.auth.keys import MAX_KEY_PAIRS
from statewright.telemetry import logs

MAX_GRACE_S: Final = 31_622_400
"""Seconds of 366 days."""


class Window(Struct, frozen=True, kw_only=True):
    """From when to when a key is to be valid, in microseconds since 1970; None: not said."""

    valid_from: int | None = None
    valid_to: int | None = None


def resolve_window(window: Window, *, now: int, default_us: int) -> tuple[int, int]:
    """Beginning and end of the validity of a new key: from ``now`` on and ``default_us`` long where nothing is said.

    Raises ``BadRequest`` for one that ends before it begins.
    """
    valid_from = now if window.valid_from is None else window.valid_from
    valid_to = valid_from + default_us if window.valid_to is None else window.valid_to
    _require_order(valid_from, valid_to)
    return valid_from, valid_to


def require_window(window: Window, *, now: int) -> tuple[int, int]:
    """Beginning and end of the validity of a key that is to be active again: the end has to be said, and to lie in the
    future. Raises ``BadRequest``.
    """
    if window.valid_to is None:
        raise BadRequest("validTo required")
    if window.valid_to <= now:
        raise BadRequest("validTo must be in the future")
    valid_from = now if window.valid_from is None else window.valid_from
    _require_order(valid_from, window.valid_to)
    return valid_from, window.valid_to


def check_grace(seconds: int | None) -> int:
    """The grace in seconds, none where nothing is said. Raises ``BadRequest`` for one that is out of range."""
    if seconds is None:
        return 0
    if seconds < 0:
        raise BadRequest("gracePeriodSec must be >= 0")
    if seconds > MAX_GRACE_S:
        raise BadRequest(f"gracePeriodSec must be <= {MAX_GRACE_S} (366 days = 1 leap year)")
    return seconds


def _require_order(valid_from: int, valid_to: int) -> None:
    if valid_to <= valid_from:
        raise BadRequest("validTo must be > validFrom")


_SECOND_US: Final = 1_000_000

log = logs.logger(__name__)


class NewKeyPair(Struct, frozen=True, kw_only=True):
    """What a caller asks for. Times in microseconds since 1970, the grace in seconds; None: the default."""

    algorithm: str | None
    audience: str | None
    window: Window
    ends_current: bool
    grace_s: int | None


async def issue_key_pair(administration: Administration, caller: Caller, wanted: NewKeyPair) -> KeyPair:
    """A new pair, which signs at once if it is for clients and its validity has begun. With ``ends_current`` the other
    active pairs of its audience end when the grace is over. Raises ``UnsupportedAlgorithm``, ``BadRequest``.
    """
    identity = require_access(administration, caller)
    if wanted.algorithm != "RS256":
        raise UnsupportedAlgorithm("only RS256 supported in this version")
    audience = require_audience(wanted.audience)
    now = administration.clock()
    valid_from, valid_to = resolve_window(wanted.window, now=now, default_us=identity.key_pair_days * DAY_US)
    grace_us = check_grace(wanted.grace_s) * _SECOND_US
    pair = await asyncio.to_thread(_make_pair, identity.cipher, audience, valid_from, valid_to)
    details = {"audience": audience, "invalidateCurrent": wanted.ends_current}
    act = describe_act(caller, "key_pair.issue", "KEY_PAIR", pair.kid, details)
    ends_at = now + grace_us if wanted.ends_current else None
    if not await identity.key_pairs.issue(pair, others_end_at=ends_at, act=act):
        raise BadRequest(f"there are {MAX_KEY_PAIRS} key pairs already, which is the most there may be; delete some")
    await identity.key_ring.refresh()
    _log("key_pair_issued", caller, pair.kid, audience=audience, ends_current=wanted.ends_current)
    return pair


async def get_current_pair(administration: Administration, caller: Caller, audience: str) -> KeyPair:
    """The active pair of an audience whose validity began last. Raises ``BadRequest``, ``KeyPairNotFound``."""
    identity = require_access(administration, caller)
    current = await identity.key_pairs.find_current(require_audience(audience), now=administration.clock())
    if current is None:
        raise KeyPairNotFound("no active key pair for audience")
    return current


async def invalidate_key_pair(administration: Administration, caller: Caller, kid: str, grace_s: int | None) -> None:
    """The pair signs no more; what it has signed counts until the grace is over. Raises ``BadRequest``,
    ``KeyPairNotFound``.
    """
    identity = require_access(administration, caller)
    _check_id(kid)
    ends_at = administration.clock() + check_grace(grace_s) * _SECOND_US
    act = describe_act(caller, "key_pair.invalidate", "KEY_PAIR", kid, {"gracePeriodSec": grace_s or 0})
    if not await identity.key_pairs.invalidate(kid, ends_at=ends_at, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_invalidated", caller, kid, grace_s=grace_s or 0)


async def reactivate_key_pair(administration: Administration, caller: Caller, kid: str, window: Window) -> KeyPair:
    """The pair is active again, or as before, in this window. Raises ``BadRequest``, ``KeyPairNotFound``."""
    identity = require_access(administration, caller)
    _check_id(kid)
    valid_from, valid_to = require_window(window, now=administration.clock())
    act = describe_act(caller, "key_pair.reactivate", "KEY_PAIR", kid)
    if not await identity.key_pairs.reactivate(kid, valid_from=valid_from, valid_to=valid_to, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_reactivated", caller, kid)
    pair = await identity.key_pairs.find(kid)
    if pair is None:  # deleted since
        raise KeyPairNotFound
    return pair


async def delete_key_pair(administration: Administration, caller: Caller, kid: str) -> None:
    """What the pair has signed counts no more. Raises ``KeyPairNotFound``."""
    identity = require_access(administration, caller)
    _check_id(kid)
    act = describe_act(caller, "key_pair.delete", "KEY_PAIR", kid)
    if not await identity.key_pairs.delete(kid, act=act):
        raise KeyPairNotFound
    await identity.key_ring.refresh()
    _log("key_pair_deleted", caller, kid)


def require_access(administration: Administration, caller: Caller) -> Identity:
    """What key pairs are managed with. Raises ``Forbidden``, ``NotImplementedHere``: before a body is looked at."""
    administration.require_platform_admin(caller.principal)
    return administration.require_identity("key")


def _check_id(kid: str) -> None:
    """Raises ``KeyPairNotFound`` for what PostgreSQL takes for no text."""
    if "\0" in kid:
        raise KeyPairNotFound


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
