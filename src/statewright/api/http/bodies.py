"""Response bodies, byte by byte: compact JSON, keys ascending, one trailing newline (spec/entities.md §1.2)."""

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from statewright.entity import EntityView, ModelKey
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.services.collections import Refused
from statewright.services.writing import Saved

_sorted = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
_stored = msgspec.json.Decoder(float_hook=Decimal).decode
_in_order = msgspec.json.Encoder(decimal_format="number").encode
_text = msgspec.json.Encoder().encode


def json_body(value: object) -> bytes:
    """Any value of structs, dicts and scalars."""
    return _sorted(value) + b"\n"


def json_in_order(value: object) -> bytes:
    """Any value, with the members of its objects in the order they are in."""
    return _in_order(value) + b"\n"


def envelope(entity: EntityView, model: ModelKey, *, instant: int | None = None) -> bytes:
    """An entity with its metadata (spec/entities.md §3); ``instant`` only on a list of the past.

    No trailing newline.
    """
    moment = f'"pointInTime":"{to_rfc3339(instant)}",' if instant is not None else ""
    transition = f',"transitionForLatestSave":{_quoted(entity.transition)}' if entity.transition else ""
    meta = (
        f'"creationDate":"{to_rfc3339(entity.created_at)}","id":"{entity.id}",'
        f'"lastUpdateTime":"{to_rfc3339(entity.updated_at)}",'
        f'"modelKey":{{"name":{_quoted(model.name)},"version":{model.version}}},{moment}"state":{_quoted(entity.state)},'
        f'"transactionId":"{entity.transaction_id}"{transition}'
    )
    return b'{"data":%b,"meta":{%b},"type":"ENTITY"}' % (_document(entity.document), meta.encode())


def entity_body(entity: EntityView, model: ModelKey) -> bytes:
    """One entity."""
    return envelope(entity, model) + b"\n"


def entities_body(entities: Iterable[EntityView], model: ModelKey, *, instant: int | None = None) -> bytes:
    """A list of entities of one model."""
    return b"[" + b",".join(envelope(entity, model, instant=instant) for entity in entities) + b"]\n"


def saved_body(saved: Saved) -> bytes:
    """A transaction result (spec/entities.md §5.1)."""
    ids = ",".join(f'"{entity_id}"' for entity_id in saved.entity_ids)
    return f'{{"entityIds":[{ids}],"transactionId":"{saved.transaction_id}"}}\n'.encode()


def results_body(results: Iterable[Saved | Refused]) -> bytes:
    """What became of the chunks of a collection (spec/entities.md §5.5, §7.2)."""
    return json_body([_committed(each) if isinstance(each, Saved) else _refused(each) for each in results])


def _committed(saved: Saved) -> dict[str, object]:
    result: dict[str, object] = {"transactionId": saved.transaction_id, "entityIds": saved.entity_ids}
    if saved.failed:
        message = "entity changed since the given transaction"
        result["failed"] = [
            {
                "entityId": item.entity_id,
                "error": {"code": "ENTITY_MODIFIED", "message": message, "itemIndex": item.index},
            }
            for item in saved.failed
        ]
    return result


def _refused(refused: Refused) -> dict[str, object]:
    error = {"code": refused.code, "message": refused.message, "chunkIndex": refused.chunk}
    return {"entityIds": [], "error": error}


def _document(stored: str) -> bytes:
    """A stored document with its keys in order. The database holds only what was examined on its way in."""
    try:
        return encode(_stored(stored))
    except msgspec.DecodeError:  # an integer of thousands of digits: msgspec reads none, the codec does
        return encode(decode(stored))


def _quoted(text: str) -> str:
    return _text(text).decode()
