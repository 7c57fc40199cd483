"""The payloads of requests: the types of their members, and the errors about them
(docs/reference/grpc.md#how-requests-are-read).

*Required* means that the name is there: null passes for empty text or an empty object, though not for a choice.
Members that are not declared are ignored, ``error``, ``warnings`` and ``success`` among them. Documents, patches and
conditions stay raw JSON: their digits and their defects are left to the use case.
"""

import json
import re
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from statewright.entity import ModelKey
from statewright.failures import EntityNotFound
from statewright.ids import EntityId
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import MalformedJson, decode

Text = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""A text without NUL characters, which PostgreSQL cannot store, so that no name contains one."""

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
DataFormat = Literal["JSON", "XML"]

RequestT = TypeVar("RequestT")

NULL: Final = Raw(b"null")

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_SPACE: Final = " \t\r\n"
_TOKENS: Final = json.JSONDecoder(parse_int=str, parse_float=str)


class InvalidPayload(ValueError):
    """A payload that is not of the shape its event type calls for."""


class Instant:
    """A date-time of a request, in epoch microseconds. No struct: those come from JSON objects."""

    __slots__ = ("micros",)

    def __init__(self, micros: int) -> None:
        self.micros = micros


class Payload(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all requests have: an ``id``, whose value is not read."""

    id: str | None


class ModelSpec(Struct, frozen=True):
    """A model by name and version."""

    name: Text | None
    version: Int32 | None

    @property
    def key(self) -> ModelKey:
        """The model that is meant."""
        return ModelKey(self.name or "", self.version or 0)


NO_MODEL: Final = ModelSpec("", 0)


def make_decoder(request: type[RequestT]) -> msgspec.json.Decoder[RequestT]:
    """The decoder for payloads of a request type."""
    return msgspec.json.Decoder(request, dec_hook=_decode_instant)


def read(decoder: msgspec.json.Decoder[RequestT], data: str | bytes) -> RequestT:
    """The request that the payload holds, and nothing else. Raises :class:`InvalidPayload`."""
    try:
        return decoder.decode(data)
    except RecursionError as error:
        raise InvalidPayload("nested too deep") from error
    except msgspec.ValidationError as error:
        raise InvalidPayload(str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidPayload(_find_defect(data) or str(error)) from error


def read_first(decoder: msgspec.json.Decoder[RequestT], data: str | bytes) -> RequestT:
    """The request at the beginning of the payload; what follows it is ignored. Raises :class:`InvalidPayload`."""
    try:
        return read(decoder, data)
    except InvalidPayload:
        first = _cut_first_value(data)
        if first is None:
            raise
        return read(decoder, first)


def parse_entity_id(text: str | None) -> EntityId:
    """The id of an entity that may exist. Raises ``EntityNotFound`` for a text that is no UUID
    (docs/reference/grpc.md#ids-and-instants).
    """
    canonical = parse_uuid(text or "")
    if canonical is None:
        raise EntityNotFound(f"entity id={text or ''} not found")
    return EntityId(canonical)


def parse_uuid(text: str) -> str | None:
    """A UUID in lower case; None for any other text."""
    return text.lower() if _UUID.fullmatch(text) else None


def document_bytes(data: Raw, media: DataFormat) -> bytes:
    """A document in its format: XML is the text in a JSON string, and any other JSON is taken as it is."""
    if media == "JSON":
        return bytes(data)
    try:
        return msgspec.json.decode(data, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):
        return bytes(data)


def _decode_instant(kind: type, value: object) -> object:
    """The decoder hook for :class:`Instant`: lenient about blanks and missing offsets (decision S10)."""
    assert kind is Instant, kind  # noqa: S101 - the only type of ours that JSON does not know
    if not isinstance(value, str):
        raise TypeError("Expected a date-time")
    micros = from_rfc3339(value)
    if micros is None:
        raise ValueError("Expected a date-time of RFC 3339")
    return Instant(micros)


def _find_defect(data: str | bytes) -> str | None:
    """What is wrong with the JSON, and where; a better text than that of the fast decoder."""
    try:
        decode(data)
    except MalformedJson as malformed:
        return str(malformed)
    return None


def _cut_first_value(data: str | bytes) -> bytes | None:
    """The first JSON value alone; None when there is nothing behind it, or when it is no JSON."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    try:
        _, end = _TOKENS.raw_decode(text, len(text) - len(text.lstrip(_SPACE)))
    except (ValueError, RecursionError):
        return None
    return text[:end].encode("utf-8", "surrogateescape") if text[end:].strip(_SPACE) else None
