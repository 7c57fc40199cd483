"""The operations that functions have on the server, as values: the request, and how its answer is read
(docs/reference/entities.md#entities-and-messages).

Pure: the clients of ``client`` send what is made here, each in its own way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.sdk.errors import build_item_error
from statewright.sdk.outcomes import encode_json

ResultT = TypeVar("ResultT")
ViewT = TypeVar("ViewT")

MAX_BATCH: Final = 1000
"""Documents that are created in one transaction (docs/reference/entities.md#limits)."""

DEFAULT_PAGE_SIZE: Final = 20
MAX_MATCHES: Final = 1000


class Call(Struct, frozen=True, kw_only=True):
    """A request. ``path`` starts below the base URL; ``name`` is the operation, ``target`` what it is about (model and
    version, or entity and transition).
    """

    name: str
    target: tuple[str, ...]
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class Operation(Struct, Generic[ResultT], frozen=True):
    """A request, and how the body of a successful answer is read."""

    call: Call
    read: Callable[[bytes], ResultT]


class WriteResult(Struct, frozen=True, kw_only=True):
    """The transaction and entities of a write. In a joined transaction it is provisional until the owner commits."""

    transaction_id: str
    entity_ids: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the only entity."""
        [entity_id] = self.entity_ids
        return entity_id


class Entity(Struct, frozen=True, kw_only=True):
    """A version of an entity. Times are RFC 3339 texts; ``transition`` is the last one that was requested by name."""

    id: str
    model: str
    model_version: int
    state: str
    data: JsonValue
    transaction_id: str
    created: str
    updated: str
    transition: str = ""

    def view(self, as_type: type[ViewT]) -> ViewT:
        """The document as a ``msgspec.Struct``, or any type msgspec knows. Raises ``msgspec.ValidationError``."""
        return msgspec.json.decode(encode_json(self.data), type=as_type)


def create(model: str, version: int, data: object) -> Operation[WriteResult]:
    """Create an entity and let its workflow run. ``data`` is a JSON object or a ``msgspec.Struct``."""
    call = Call(
        name="create",
        target=(model, str(version)),
        method="POST",
        path=f"/entity/JSON/{_quote_segment(model)}/{version}",
        body=encode_json(data),
    )
    return Operation(call, _read_creation)


def create_many(model: str, version: int, documents: Sequence[object]) -> Operation[WriteResult]:
    """Create up to a thousand entities, all or none. Raises ``ValueError`` for more of them."""
    if len(documents) > MAX_BATCH:
        raise ValueError(f"{len(documents)} documents are too many for one transaction, which takes {MAX_BATCH}")
    call = Call(
        name="create_many",
        target=(model, str(version)),
        method="POST",
        path=f"/entity/JSON/{_quote_segment(model)}/{version}",
        query=(("transactionWindow", str(MAX_BATCH)),),
        body=encode_json(list(documents)),
    )
    return Operation(call, _read_creation)


def get(entity_id: str, *, at: str | None = None) -> Operation[Entity]:
    """The entity as the transaction sees it; ``at`` (RFC 3339) asks for the version of an instant."""
    query = (("pointInTime", at),) if at else ()
    return Operation(
        Call(name="get", target=(entity_id,), method="GET", path=f"/entity/{_quote_segment(entity_id)}", query=query),
        _read_entity,
    )


def page(model: str, version: int, *, size: int = DEFAULT_PAGE_SIZE, number: int = 0) -> Operation[list[Entity]]:
    """A page of the model's entities, by ascending id."""
    query = (("pageSize", str(size)), ("pageNumber", str(number)))
    path = f"/entity/{_quote_segment(model)}/{version}"
    return Operation(
        Call(name="page", target=(model, str(version)), method="GET", path=path, query=query), _read_entities
    )


def update(
    entity_id: str, data: object, *, transition: str | None = None, if_match: str | None = None
) -> Operation[WriteResult]:
    """Replace the document, and fire the transition if one is named. ``if_match`` is a transaction id."""
    call = Call(
        name="update",
        target=_build_target(entity_id, transition),
        method="PUT",
        path=f"/entity/JSON/{_quote_segment(entity_id)}{_build_suffix(transition)}",
        headers=_build_if_match(if_match),
        body=encode_json(data),
    )
    return Operation(call, _read_write)


def patch(
    entity_id: str, change: object, *, transition: str | None = None, if_match: str = "*"
) -> Operation[WriteResult]:
    """Merge a change into the document (RFC 7386), and fire the transition if one is named."""
    headers = {**_build_if_match(if_match), "Content-Type": "application/merge-patch+json"}
    path = f"/entity/JSON/{_quote_segment(entity_id)}{_build_suffix(transition)}"
    return Operation(
        Call(
            name="patch",
            target=_build_target(entity_id, transition),
            method="PATCH",
            path=path,
            headers=headers,
            body=encode_json(change),
        ),
        _read_write,
    )


def transition(entity_id: str, name: str) -> Operation[WriteResult]:
    """Fire a transition; the document stays."""
    query = (("entityId", entity_id), ("transitionName", name))
    return Operation(
        Call(
            name="transition",
            target=(entity_id, name),
            method="PUT",
            path="/platform-api/entity/transition",
            query=query,
        ),
        _read_write,
    )


def delete(entity_id: str) -> Operation[WriteResult]:
    """Delete the entity; its history stays."""
    return Operation(
        Call(name="delete", target=(entity_id,), method="DELETE", path=f"/entity/{_quote_segment(entity_id)}"),
        _read_deletion,
    )


def transitions(entity_id: str) -> Operation[list[str]]:
    """The names of all transitions declared in the entity's state."""
    path = f"/entity/{_quote_segment(entity_id)}/transitions"
    return Operation(Call(name="transitions", target=(entity_id,), method="GET", path=path), _decode_names)


def search(
    model: str,
    version: int,
    condition: Mapping[str, JsonValue],
    *,
    sort: Sequence[str] = (),
    limit: int = MAX_MATCHES,
    tracking: bool = False,
) -> Operation[list[Entity]]:
    """All entities that match; more than ``limit`` of them are refused.

    ``sort`` holds texts like ``price:desc``. ``tracking`` makes a joined transaction rely on what was found.
    """
    query = [("limit", str(limit)), *(("sort", key) for key in sort)]
    call = Call(
        name="search",
        target=(model, str(version)),
        method="POST",
        path=f"/search/direct/{_quote_segment(model)}/{version}",
        query=(*query, ("trackingRead", "true")) if tracking else tuple(query),
        body=encode_json(condition),
    )
    return Operation(call, _read_lines)


def count(model: str, version: int) -> Operation[int]:
    """The number of entities of the model."""
    path = f"/entity/stats/{_quote_segment(model)}/{version}"
    return Operation(Call(name="count", target=(model, str(version)), method="GET", path=path), _read_count)


def _quote_segment(segment: str) -> str:
    return quote(segment, safe="")


def _build_target(entity_id: str, transition: str | None) -> tuple[str, ...]:
    return (entity_id, transition) if transition else (entity_id,)


def _build_suffix(transition: str | None) -> str:
    return f"/{_quote_segment(transition)}" if transition else ""


def _build_if_match(version: str | None) -> dict[str, str]:
    return {"If-Match": version} if version else {}


class _Result(Struct, frozen=True, rename="camel"):
    transaction_id: str = ""
    entity_ids: tuple[str, ...] = ()
    error: dict[str, object] | None = None


class _Key(Struct, frozen=True):
    name: str
    version: int


class _Meta(Struct, frozen=True, rename="camel"):
    id: str
    model_key: _Key
    state: str
    transaction_id: str
    creation_date: str
    last_update_time: str
    transition_for_latest_save: str = ""


class _Envelope(Struct, frozen=True):
    data: msgspec.Raw
    meta: _Meta


class _Deleted(Struct, frozen=True, rename="camel"):
    id: str
    transaction_id: str


class _Count(Struct, frozen=True):
    count: int


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_results = msgspec.json.Decoder(list[_Result]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_envelopes = msgspec.json.Decoder(list[_Envelope]).decode
_decode_deletion = msgspec.json.Decoder(_Deleted).decode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_count = msgspec.json.Decoder(_Count).decode


def _read_creation(body: bytes) -> WriteResult:
    results = _decode_results(body)
    for result in results:
        if result.error is not None:
            raise build_item_error(result.error)
    ids = tuple(entity_id for result in results for entity_id in result.entity_ids)
    return WriteResult(transaction_id=results[-1].transaction_id, entity_ids=ids)


def _read_write(body: bytes) -> WriteResult:
    result = _decode_result(body)
    return WriteResult(transaction_id=result.transaction_id, entity_ids=result.entity_ids)


def _read_deletion(body: bytes) -> WriteResult:
    deletion = _decode_deletion(body)
    return WriteResult(transaction_id=deletion.transaction_id, entity_ids=(deletion.id,))


def _read_entity(body: bytes) -> Entity:
    return _to_entity(_decode_envelope(body))


def _read_entities(body: bytes) -> list[Entity]:
    return [_to_entity(envelope) for envelope in _decode_envelopes(body)]


def _read_lines(body: bytes) -> list[Entity]:
    return [_read_entity(line) for line in body.splitlines() if line]


def _read_count(body: bytes) -> int:
    return _decode_count(body).count


def _to_entity(envelope: _Envelope) -> Entity:
    meta = envelope.meta
    return Entity(
        id=meta.id,
        model=meta.model_key.name,
        model_version=meta.model_key.version,
        state=meta.state,
        data=decode(bytes(envelope.data)),
        transaction_id=meta.transaction_id,
        created=meta.creation_date,
        updated=meta.last_update_time,
        transition=meta.transition_for_latest_save,
    )
