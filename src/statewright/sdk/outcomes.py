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
    """A function's result as the server reads it: from a delay, an instant (without an offset: UTC), or the result
    itself.

    Shape: spec/grpc.md §14.
    """
    if isinstance(value, timedelta):
        return {"fireAfterMs": value // timedelta(milliseconds=1)}
    if isinstance(value, datetime):
        instant = value if value.tzinfo else value.replace(tzinfo=UTC)
        return {"fireAt": round(instant.timestamp() * 1000)}
    return value


_ENCODER = msgspec.json.Encoder(decimal_format="number")
