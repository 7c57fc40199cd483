"""Large values of events, which are stored beside the log of their instance and named in it
(docs/reference/executions.md#event-log).

A value is a part of the instance, named after its digest: the same value in many events is stored once, and is gone
with the instance. The event has null in its place, and ``references`` beside the payload say which members are
elsewhere.
"""

import re
from hashlib import blake2b
from typing import Final

from msgspec import Raw, Struct

from statewright.background import run_by_size
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.processes.documents import decode_text, encode_text
from statewright.storage.pool import Pool
from statewright.storage.processes.instance_parts import fetch_parts
from statewright.storage.processes.parts import LogValue

MAX_LOGGED_BYTES: Final = 64 * 1024
"""Of a member of a payload that is stored within its event, as JSON."""
REFERENCES: Final = "references"
"""The member of an event that says by name which members of its payload are stored elsewhere."""

_PAYLOAD: Final = "payload"
_PART_PREFIX: Final = "log/"
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


class EncodedEvent(Struct, frozen=True):
    """An event as it is stored, and the values that it names."""

    event: Raw
    values: tuple[LogValue, ...] = ()


def encode_event(event: JsonObject) -> EncodedEvent:
    """The event with its large values apart."""
    encoded = encode_text(event).encode()
    payload = event.get(_PAYLOAD)
    if len(encoded) <= MAX_LOGGED_BYTES or not isinstance(payload, dict):
        return EncodedEvent(Raw(encoded))
    values: list[LogValue] = []
    references: JsonObject = {}
    for name, value in payload.items():
        text = encode_text(value).encode()
        if len(text) > MAX_LOGGED_BYTES:
            digest = blake2b(text, digest_size=16).hexdigest()
            values.append(LogValue(name=f"{_PART_PREFIX}{digest}", value=Raw(text)))
            references[name] = {"value": digest, "bytes": len(text)}
    if not values:
        return EncodedEvent(Raw(encoded))
    kept: JsonObject = {name: None if name in references else value for name, value in payload.items()}
    return EncodedEvent(Raw(encode_text({**event, _PAYLOAD: kept, REFERENCES: references}).encode()), tuple(values))


class FoundValue(Struct, frozen=True):
    """A value that an event names."""

    value: JsonValue


async def fetch_value(pool: Pool, tenant: TenantId, instance: EntityId, digest: str) -> FoundValue | None:
    """The value of a reference in the log of an instance; None: there is none."""
    if _DIGEST.fullmatch(digest) is None:
        return None
    name = f"{_PART_PREFIX}{digest}"
    text = (await fetch_parts(pool, tenant, instance, [name])).get(name)
    return None if text is None else FoundValue(await run_by_size(len(text), lambda: decode_text(text)))
