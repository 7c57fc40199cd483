"""What functions return, as it goes into answers."""

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import UNSET, Struct

from statewright.jsonval.values import JsonValue


class No(Struct, frozen=True):
    """A criterion's refusal with a reason: ``return No("no laureates yet")``. It is false."""

    reason: str

    def __bool__(self) -> bool:
        return False


class Schedule(Struct, frozen=True, kw_only=True):
    """When a scheduled transition fires, and until when it may be late (spec/workflows.md §13.3).

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
        return {name: _milliseconds(delay) for name, delay in delays.items() if delay is not None} | {
            name: _epoch_milliseconds(instant) for name, instant in instants.items() if instant is not None
        }


def _milliseconds(delay: timedelta) -> int:
    return delay // timedelta(milliseconds=1)


def _epoch_milliseconds(instant: datetime) -> int:
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class NotJson(ValueError):
    """What a function returned cannot be written as JSON."""


def encode(value: object) -> bytes:
    """JSON without loss: decimals as numbers, structs and dates as msgspec writes them. Raises :class:`NotJson`."""
    try:
        text = _ENCODER.encode(value)
        if b"NaN" in text or b"Infinity" in text:  # either in a string, or a Decimal that JSON has no number for
            msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"the result is not JSON: {error}") from error
    return text


def overlaid(document: JsonValue, view: object) -> object:
    """The document with the members that ``view`` declares replaced by its values.

    A struct that names three of twenty members is a view of a document, not the whole of it: the other seventeen
    stay, inside nested structs too.
    """
    if not isinstance(view, Struct) or not isinstance(document, dict):
        return view
    names = view.__struct_encode_fields__
    kept: dict[str, object] = {name: value for name, value in document.items() if name not in names}
    values = zip(names, (getattr(view, field) for field in view.__struct_fields__), strict=True)
    return kept | {name: overlaid(document.get(name), value) for name, value in values if value is not UNSET}


def schedule(value: object) -> object:
    """A function's result as the server reads it: from a schedule, a delay, an instant (without an offset: UTC), or
    the result itself.

    Shape: spec/grpc.md §14.
    """
    if isinstance(value, timedelta):
        return Schedule(after=value).members()
    if isinstance(value, datetime):
        return Schedule(at=value).members()
    if isinstance(value, Schedule):
        return value.members()
    return value


_ENCODER = msgspec.json.Encoder(decimal_format="number")
