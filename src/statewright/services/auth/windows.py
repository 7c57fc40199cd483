"""When keys are valid, and how long they may be used after they were invalidated."""

from typing import Final

from msgspec import Struct

from statewright.failures import BadRequest

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
