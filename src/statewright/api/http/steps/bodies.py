"""Request and response bodies of the step dialect.

Requests are read as the public engine reads them: member names in any case, ``null`` like absent, unknown members
ignored, a wrong type refused (spec/step-engine.md §11). Responses keep the order of members.
"""

from decimal import Decimal
from typing import Final

import msgspec

from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BodyTooLarge, StepBadRequest
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.texts import json_type

TEXT: Final = "text/plain; charset=utf-8"
_INT64: Final = 2**63
_INT32_MAX: Final = 2**31 - 1
_encode = msgspec.json.Encoder(decimal_format="number").encode

NO_CONTENT: Final = Answer(b"", 204, "")


def reply(value: JsonValue, status: int = 200) -> Answer:
    """An answer with a JSON body."""
    return Answer(_encode(value) + b"\n", status)


async def read(exchange: Exchange) -> "Body":
    """The body of a request that needs one. Raises ``StepBadRequest``."""
    return Body(_decoded(await exchange.body(excess=BodyTooLarge)))


async def read_optional(exchange: Exchange) -> "Body":
    """The body of a request that may go without: no bytes are an empty object. Raises ``StepBadRequest``."""
    raw = await exchange.body(excess=BodyTooLarge)
    return Body(_decoded(raw)) if raw else Body(None)


async def read_lenient(exchange: Exchange) -> "Body":
    """The same, but what cannot be read counts as an empty object, too (§11.5)."""
    try:
        return await read_optional(exchange)
    except StepBadRequest:
        return Body(None)


class Body:
    """The members of a request's object."""

    def __init__(self, value: JsonValue) -> None:
        """Raises ``StepBadRequest`` for anything but an object or ``null``."""
        if value is not None and not isinstance(value, dict):
            raise _unfit(value, "the body", "object")
        self.whole: JsonObject = value or {}
        self._members = {name.lower(): member for name, member in self.whole.items()} | self.whole

    def text(self, name: str) -> str:
        """A string, empty when absent."""
        value = self._get(name)
        if value is None:
            return ""
        return value if isinstance(value, str) else _mismatch(value, name, "string")

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, empty when absent."""
        value = self._get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise _unfit(value, name, "array")
        return tuple(item if isinstance(item, str) else _mismatch(item, f"{name}[]", "string") for item in value)

    def number(self, name: str) -> int:
        """An integer, 0 when absent; beyond 32 bits the nearest one within."""
        value = self._get(name)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or not -_INT64 <= value < _INT64:
            raise _unfit(value, name, "int")
        return min(max(value, -_INT32_MAX), _INT32_MAX)

    def flag(self, name: str) -> bool:
        """A boolean, false when absent."""
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            raise _unfit(value, name, "bool")
        return bool(value)

    def object(self, name: str) -> "JsonObject | None":
        """An object; None when absent."""
        value = self._get(name)
        if value is not None and not isinstance(value, dict):
            raise _unfit(value, name, "object")
        return value

    def _get(self, name: str) -> JsonValue:
        exact = self._members.get(name)
        return self._members.get(name.lower()) if exact is None else exact


def _decoded(raw: bytes) -> JsonValue:
    if not raw.strip():
        raise StepBadRequest("invalid request body: EOF")
    try:
        return decode(raw)
    except MalformedJson as malformed:
        raise StepBadRequest(f"invalid request body: {malformed}") from None


def _mismatch(value: JsonValue, name: str, wanted: str) -> str:
    raise _unfit(value, name, wanted)


def _unfit(value: JsonValue, name: str, wanted: str) -> StepBadRequest:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    found = f"number {value}" if is_number else json_type(value)
    return StepBadRequest(f"invalid request body: json: cannot unmarshal {found} into {name} of type {wanted}")
