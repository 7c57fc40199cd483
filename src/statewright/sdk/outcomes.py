"""The values that functions return, and their form in answers to the server."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue


class Rejected(Struct, frozen=True):
    """A criterion's refusal with a reason: ``return Rejected("no laureates yet")``. It is false."""

    reason: str

    def __bool__(self) -> bool:
        return False


No = Rejected
"""Deprecated alias of ``Rejected``, to be removed in 0.3."""


class Schedule(Struct, frozen=True, kw_only=True):
    """When a scheduled transition fires, and until when it may be late
    (docs/reference/workflows.md#schedule-functions).

    Exactly one of ``after`` (from the arming) and ``at``; at most one of ``expire_after`` (from the fire time) and
    ``expire_at``. An expiry that is not after the fire time means not to fire at all. Instants without an offset are
    UTC. Raises ``ValueError``.
    """

    after: timedelta | None = None
    at: datetime | None = None
    expire_after: timedelta | None = None
    expire_at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.after is None) == (self.at is None):
            raise ValueError("a schedule has either after or at")
        if self.expire_after is not None and self.expire_at is not None:
            raise ValueError("a schedule has at most one of expire_after and expire_at")

    def members(self) -> dict[str, int]:
        """The result as the server reads it."""
        delays = {"fireAfterMs": self.after, "expireAfterMs": self.expire_after}
        instants = {"fireAt": self.at, "expireAt": self.expire_at}
        return {name: _to_milliseconds(delay) for name, delay in delays.items() if delay is not None} | {
            name: _to_epoch_milliseconds(instant) for name, instant in instants.items() if instant is not None
        }


def _to_milliseconds(delay: timedelta) -> int:
    return delay // timedelta(milliseconds=1)


def _to_epoch_milliseconds(instant: datetime) -> int:
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class NotJson(ValueError):
    """What a function returned cannot be written as JSON."""


def encode_json(value: object) -> bytes:
    """JSON without loss: decimals as numbers, structs and dates as msgspec writes them. Raises :class:`NotJson`, also
    for what would be lost on the way: a float that is no number, which msgspec writes as null.
    """
    try:
        text = _ENCODER.encode(value)
        if b"NaN" in text or b"Infinity" in text:  # either in a string, or a Decimal that JSON has no number for
            msgspec.json.decode(text)
        if b"null" in text:
            _refuse_infinite(msgspec.to_builtins(value, builtin_types=_SCALARS, str_keys=True, enc_hook=repr))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"the result is not JSON: {error}") from error
    return text


def encode_document(value: object) -> bytes:
    """The document that a processor returned. Raises :class:`NotJson` for what the service would not take as one: no
    object, or a NUL character in it (decision W13).
    """
    text = encode_json(value)
    if not text.startswith(b"{"):
        raise NotJson(f"a processor returns an object or nothing, not {type(value).__name__}")
    if b"\\u0000" in text:  # a NUL, or the text of its escape
        try:
            decode(text)
        except MalformedJson as error:
            raise NotJson(f"the result is not a document: {error}") from error
    return text


class NotAnOutcome(ValueError):
    """A function returned a value of a type that means nothing in its place."""


def to_match(value: object) -> bool:
    """Whether a criterion holds. Raises :class:`NotAnOutcome` for objects and texts, which are true whatever they say:
    ``{"matches": False}``, ``"no"``.
    """
    if isinstance(value, Mapping | str | bytes | Struct) and not isinstance(value, Rejected):
        raise NotAnOutcome(f"a criterion returns True, False or Rejected(reason), not {type(value).__name__}")
    return bool(value)


def _refuse_infinite(value: object) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
        case dict():
            for item in value.values():
                _refuse_infinite(item)
        case list() | tuple():
            for item in value:
                _refuse_infinite(item)
        case _:
            pass


def overlay(document: JsonValue, view: object) -> object:
    """The document with the members that ``view`` declares replaced by its values.

    A struct that names three of twenty members is a view of a document, not the whole of it: the other seventeen
    stay, inside nested structs too.
    """
    if not isinstance(view, Struct) or not isinstance(document, dict):
        return view
    names = view.__struct_encode_fields__
    others: dict[str, object] = {name: value for name, value in document.items() if name not in names}
    values = zip(names, (getattr(view, field) for field in view.__struct_fields__), strict=True)
    return others | {name: overlay(document.get(name), value) for name, value in values if value is not UNSET}


def to_schedule(value: object) -> object:
    """A function's result as the server reads it: from a schedule, a delay, an instant (without an offset: UTC), or
    the result itself, a mapping. Raises :class:`NotAnOutcome` for anything else.

    Shape: docs/reference/grpc.md#callouts.
    """
    if isinstance(value, timedelta):
        return Schedule(after=value).members()
    if isinstance(value, datetime):
        return Schedule(at=value).members()
    if isinstance(value, Schedule):
        return value.members()
    if isinstance(value, Mapping):
        return value
    kind = type(value).__name__
    raise NotAnOutcome(f"a schedule function returns a Schedule, a timedelta or a datetime, not {kind}")


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_SCALARS: Final = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)
"""What is not taken apart when floats are looked for."""
