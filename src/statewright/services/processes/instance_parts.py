"""Documents of instances that leave parts out: putting these back in (docs/process-languages.md)."""

from collections.abc import Mapping
from typing import Final

from statewright.background import run_by_size
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.processes.documents import decode_text
from statewright.storage.pool import Pool
from statewright.storage.processes import instance_parts as stored

PARTS: Final = "parts"
"""The member of a document that says what it leaves out: an array of ``{"at": path, "names": [...]}``. Before the array
at the path come those that the names are of.
"""


async def restore_parts(pool: Pool, tenant: TenantId, instance: EntityId, document: JsonObject) -> JsonObject:
    """The document with all its parts; one without any as it is. Raises ``StorageUnavailable``."""
    listed = document.get(PARTS)
    names = [name for part in _read_parts(listed) for name in part[1]]
    if not names:
        return document
    texts = await stored.fetch_parts(pool, tenant, instance, names)
    size = sum(map(len, texts.values()))
    return await run_by_size(size, lambda: _join(document, {name: decode_text(text) for name, text in texts.items()}))


def _join(document: JsonObject, values: Mapping[str, JsonValue]) -> JsonObject:
    for path, names in _read_parts(document.get(PARTS)):
        whole: list[JsonValue] = []
        for name in names:
            value = values.get(name)
            if not isinstance(value, list):
                raise ValueError(f"stored instance is damaged: it lacks its part {name}")  # noqa: TRY004 - no slip of types
            whole += value
        _prepend(document, path, whole)
    return document


def _prepend(document: JsonValue, path: list[JsonValue], values: list[JsonValue]) -> None:
    *parents, last = path
    place = document
    for key in parents:
        if isinstance(place, dict) and isinstance(key, str):
            place = place.get(key)
        elif isinstance(place, list) and isinstance(key, int) and key < len(place):
            place = place[key]
        else:
            place = None
    if not isinstance(place, dict) or not isinstance(last, str):
        raise ValueError("stored instance is damaged: a part belongs nowhere")  # noqa: TRY004 - as above
    rest = place.get(last)
    place[last] = [*values, *(rest if isinstance(rest, list) else [])]


def _read_parts(listed: JsonValue) -> list[tuple[list[JsonValue], list[str]]]:
    found: list[tuple[list[JsonValue], list[str]]] = []
    for part in listed if isinstance(listed, list) else []:
        if isinstance(part, dict) and isinstance(part.get("at"), list) and isinstance(part.get("names"), list):
            at, names = part["at"], part["names"]
            assert isinstance(at, list) and isinstance(names, list)  # noqa: S101, PT018 - as just seen
            found.append((at, [str(name) for name in names]))
    return found
