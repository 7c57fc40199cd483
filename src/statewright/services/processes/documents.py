"""Values as the JSON texts that tables and entities hold.

Documents of instances that leave parts out: putting these back in (docs/process-languages.md).

Large values of events, which are stored beside the log of their instance and named in it
(docs/reference/executions.md#event-log).

A value is a part of the instance, named after its digest: the same value in many events is stored once, and is gone
with the instance. The event has null in its place, and ``references`` beside the payload say which members are
elsewhere.

Pages as lists of processes count them (docs/reference/steps.md#rest).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Raw, Struct

from statewright.failures import InvalidMember, ProcessBadRequest
from statewright.ids import EntityId, TenantId
from statewright.jsonval.codec import decode_stored, encode, encode_large, is_nested_too_deep
from statewright.jsonval.pieces import encode_pieces
from statewright.jsonval.values import JsonObject, JsonValue, tidy_stored
from statewright.loop.background import free_in_parts, run_by_size, run_in_thread
from statewright.loop.turns import is_large
from statewright.services.processes.large_values import (
    PART_PREFIX,
    ApartValue,
    Place,
    get_at,
    list_places,
    name_text,
    put_back,
)
from statewright.storage.pool import Pool
from statewright.storage.processes import instances as stored
from statewright.storage.processes.instances import fetch_parts
from statewright.storage.processes.parts import LogValue

T = TypeVar("T")

_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def decode_text(text: str) -> JsonValue:
    """A stored JSON text as values, its numbers in the form in which they were taken in."""
    return tidy_stored(decode_stored(text), text)


def read_object(text: str | None) -> JsonObject:
    """A stored JSON object; anything else is empty."""
    value = None if text is None else decode_text(text)
    return value if isinstance(value, dict) else {}


async def read_texts(texts: Iterable[str | None], read: Callable[[], T]) -> T:
    """What ``read`` makes of stored texts, in a thread if they are large together; then a JSON value is freed in parts,
    too, as soon as it is not used any more.
    """
    size = sum(len(text or "") for text in texts)
    found = await run_by_size(size, read)
    free_in_parts(found, size)
    return found


def free_read(value: JsonValue, text: str | None) -> None:
    """Have what was read of a stored text freed in parts, if it is large, as soon as it is not used any more."""
    free_in_parts(value, len(text or ""))


async def read_object_by_size(text: str) -> JsonObject:
    """A stored JSON object, which a thread reads if it is large; anything else is empty."""
    return await read_texts([text], partial(read_object, text))


def encode_text(value: JsonValue, *, is_small: bool = False) -> str:
    """A value as JSON text. The core lets no expression make what PostgreSQL cannot hold.

    ``is_small``: what it was made of was within a turn of the event loop. To weigh it takes longer than to encode it.
    """
    return (encode(value) if is_small else encode_large(value)).decode()


KEPT_REASON_CHARS: Final = 65_536
"""Characters that are kept of why a job failed or an instance was cancelled: they stand in its document, its history
and its audit events.
"""


def cut_reason(text: str) -> str:
    """What is kept of a reason."""
    return text if len(text) <= KEPT_REASON_CHARS else f"{text[: KEPT_REASON_CHARS - 1]}…"


async def refuse_unstorable(variables: JsonValue) -> None:
    """Refuse what a document cannot hold. Raises ``ProcessBadRequest``."""
    if not variables:
        return
    if is_large(variables):
        await run_in_thread(lambda: _refuse_unstorable(variables, partial(encode_pieces, variables, encode)))
    else:
        _refuse_unstorable(variables, lambda: (encode(variables),))


def _refuse_unstorable(variables: JsonValue, encode_all: Callable[[], Iterable[bytes]]) -> None:
    if is_nested_too_deep([[variables]]):
        raise ProcessBadRequest("variables are nested too deeply")
    try:
        for text in encode_all():
            if b"\\u0000" in text and _NUL.search(text.decode()):
                raise ProcessBadRequest("variables must not contain the character U+0000")
    except (UnicodeError, ValueError, TypeError) as unusable:
        raise ProcessBadRequest(f"variables cannot be stored: {unusable}") from unusable


MAX_REASON_CHARS: Final = 4_096
"""Of the reason that a client gives for what it does to an instance."""


def check_reason(reason: str) -> None:
    """Raises ``ProcessBadRequest`` for one that is too long."""
    if len(reason) > MAX_REASON_CHARS:
        raise InvalidMember("reason", f"reason must be ≤ {MAX_REASON_CHARS} characters, got {len(reason)}")


PARTS: Final = "parts"
"""The member of a document that says what it leaves out: an array of ``{"at": path, "names": [...]}``. Before the array
at the path come those that the names are of; with ``chars`` beside them it is the value at the path.
"""


async def read_instance(
    pool: Pool,
    tenant: TenantId,
    entity: EntityId,
    text: str,
    read: Callable[[JsonObject], T],
    known: Collection[ApartValue] = (),
) -> tuple[T, Sequence[Place]]:
    """What ``read`` makes of the document of an entity with all its parts, and which of these are values. Those that
    are ``known`` are not read again.

    Raises ``StorageUnavailable``.
    """
    document = await read_object_by_size(text)
    places = list_places(document)
    here = {one.name: one.value for one in known} if places else {}
    names = {name for part in _read_parts(document.get(PARTS)) for name in part[1] if name not in here}
    if places or names:
        texts = await stored.fetch_parts(pool, tenant, entity, [*names]) if names else {}
        document = await read_texts(texts.values(), partial(_join, document, places, texts, here))
    return await read_texts([text], partial(read, document)), places


def _join(
    document: JsonObject, places: Sequence[Place], texts: Mapping[str, str], here: Mapping[str, JsonValue]
) -> JsonObject:
    values = {**here, **{name: decode_text(text) for name, text in texts.items()}}
    for place in places:
        if place.name not in values:
            raise ValueError(f"stored instance is damaged: it lacks its part {place.name}")
        put_back(document, place.at, values[place.name])
    apart = {place.at for place in places}
    for path, names in _read_parts(document.get(PARTS)):
        if tuple(path) in apart:
            continue
        whole: list[JsonValue] = []
        for name in names:
            value = values.get(name)
            if not isinstance(value, list):
                raise ValueError(f"stored instance is damaged: it lacks its part {name}")  # noqa: TRY004 - no slip of types
            whole += value
        _prepend(document, path, whole)
    return document


def _prepend(document: JsonObject, path: list[JsonValue], values: list[JsonValue]) -> None:
    rest = get_at(document, path)
    put_back(document, path, [*values, *(rest if isinstance(rest, list) else [])])


def _read_parts(listed: JsonValue) -> list[tuple[list[JsonValue], list[str]]]:
    found: list[tuple[list[JsonValue], list[str]]] = []
    for part in listed if isinstance(listed, list) else []:
        if isinstance(part, dict) and isinstance(part.get("at"), list) and isinstance(part.get("names"), list):
            at, names = part["at"], part["names"]
            assert isinstance(at, list) and isinstance(names, list)  # noqa: S101, PT018 - as just seen
            found.append((at, [str(name) for name in names]))
    return found


MAX_LOGGED_BYTES: Final = 64 * 1024
"""Of a member of a payload that is stored within its event, as JSON."""
REFERENCES: Final = "references"
"""The member of an event that says by name which members of its payload are stored elsewhere."""

_PAYLOAD: Final = "payload"
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


class EncodedEvent(Struct, frozen=True):
    """An event as it is stored, and the values that it names."""

    event: Raw
    values: tuple[LogValue, ...] = ()


def encode_event(event: JsonObject, encode_value: Callable[[JsonValue], str]) -> EncodedEvent:
    """The event with its large values apart."""
    encoded = encode_value(event).encode()
    payload = event.get(_PAYLOAD)
    if len(encoded) <= MAX_LOGGED_BYTES or not isinstance(payload, dict):
        return EncodedEvent(Raw(encoded))
    values: list[LogValue] = []
    references: JsonObject = {}
    for name, value in payload.items():
        text = encode_value(value).encode()
        if len(text) > MAX_LOGGED_BYTES:
            part = name_text(text)
            values.append(part)
            references[name] = {"value": part.name.removeprefix(PART_PREFIX), "bytes": len(text)}
    if not values:
        return EncodedEvent(Raw(encoded))
    kept: JsonObject = {name: None if name in references else value for name, value in payload.items()}
    return EncodedEvent(Raw(encode_value({**event, _PAYLOAD: kept, REFERENCES: references}).encode()), tuple(values))


class FoundValue(Struct, frozen=True):
    """A value that an event names."""

    value: JsonValue


async def fetch_value(pool: Pool, tenant: TenantId, instance: EntityId, digest: str) -> FoundValue | None:
    """The value of a reference in the log of an instance; None: there is none."""
    if _DIGEST.fullmatch(digest) is None:
        return None
    name = f"{PART_PREFIX}{digest}"
    text = (await fetch_parts(pool, tenant, instance, [name])).get(name)
    return None if text is None else FoundValue(await read_texts([text], partial(decode_text, text)))


DEFAULT_PAGE_SIZE: Final = 20
MAX_PAGE_SIZE: Final = 1_000
_MAX_OFFSET: Final = 2**31


class NumberedPage(Struct, frozen=True):
    """A page by its number, from zero, and its size."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """How many items come before it; an absurd number is as good as any beyond the end."""
        return min(self.number * self.size, _MAX_OFFSET)


def normalize_page(number: int, size: int) -> NumberedPage:
    """A negative number is 0; a size of 0 or less is 20, and none is above 1,000."""
    return NumberedPage(max(number, 0), DEFAULT_PAGE_SIZE if size <= 0 else min(size, MAX_PAGE_SIZE))
