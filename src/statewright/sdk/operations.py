"""What a function may ask the server, as values: the request, and how its answer is read (spec/entities.md).

Pure: the clients of ``client`` send what is made here, each in its own way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.sdk.outcomes import encode
from statewright.sdk.refusals import refused_item

ResultT = TypeVar("ResultT")
ViewT = TypeVar("ViewT")

MOST_AT_ONCE: Final = 1000
"""Documents that are created in one transaction (spec/entities.md §1.6)."""

PAGE: Final = 20
MOST_MATCHES: Final = 1000


class Call(Struct, frozen=True, kw_only=True):
    """A request. ``path`` starts below the base URL; ``name`` and ``target`` say what it means: the operation, and
    whatever it is about (model and version, or entity and transition).
    """

    name: str
    target: tuple[str, ...]
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class Operation(Struct, Generic[ResultT], frozen=True):
    """A request, and what a successful answer to it means."""

    call: Call
    read: Callable[[bytes], ResultT]


class Written(Struct, frozen=True, kw_only=True):
    """What a write did. In a joined transaction it is provisional until the owner commits."""

    transaction_id: str
    entity_ids: tuple[str, ...]

    @property
    def id(self) -> str:
        """The only entity."""
        [entity_id] = self.entity_ids
        return entity_id


class Entity(Struct, frozen=True, kw_only=True):
    """A version of an entity. Times are RFC 3339 texts; ``transition`` is the last one asked for by name."""

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
        return msgspec.json.decode(encode(self.data), type=as_type)


def create(model: str, version: int, data: object) -> Operation[Written]:
    """Create an entity and let its workflow run. ``data`` is a JSON object or a ``msgspec.Struct``."""
    call = Call(
        name="create",
        target=(model, str(version)),
        method="POST",
        path=f"/entity/JSON/{_part(model)}/{version}",
        body=encode(data),
    )
    return Operation(call, _created)


def create_many(model: str, version: int, documents: Sequence[object]) -> Operation[Written]:
    """Create up to a thousand entities, all or none. Raises ``ValueError`` for more of them."""
    if len(documents) > MOST_AT_ONCE:
        raise ValueError(f"{len(documents)} documents are too many for one transaction, which takes {MOST_AT_ONCE}")
    call = Call(
        name="create_many",
        target=(model, str(version)),
        method="POST",
        path=f"/entity/JSON/{_part(model)}/{version}",
        query=(("transactionWindow", str(MOST_AT_ONCE)),),
        body=encode(list(documents)),
    )
    return Operation(call, _created)


def get(entity_id: str, *, at: str | None = None) -> Operation[Entity]:
    """The entity as the transaction sees it; ``at`` (RFC 3339) asks for the version of an instant."""
    query = (("pointInTime", at),) if at else ()
    return Operation(
        Call(name="get", target=(entity_id,), method="GET", path=f"/entity/{_part(entity_id)}", query=query), _entity
    )


def page(model: str, version: int, *, size: int = PAGE, number: int = 0) -> Operation[list[Entity]]:
    """A page of the model's entities, by ascending id."""
    query = (("pageSize", str(size)), ("pageNumber", str(number)))
    path = f"/entity/{_part(model)}/{version}"
    return Operation(Call(name="page", target=(model, str(version)), method="GET", path=path, query=query), _entities)


def update(
    entity_id: str, data: object, *, transition: str | None = None, if_match: str | None = None
) -> Operation[Written]:
    """Replace the document, and fire the transition if one is named. ``if_match`` is a transaction id."""
    call = Call(
        name="update",
        target=_named(entity_id, transition),
        method="PUT",
        path=f"/entity/JSON/{_part(entity_id)}{_suffix(transition)}",
        headers=_if_match(if_match),
        body=encode(data),
    )
    return Operation(call, _written)


def patch(entity_id: str, change: object, *, transition: str | None = None, if_match: str = "*") -> Operation[Written]:
    """Merge a change into the document (RFC 7386), and fire the transition if one is named."""
    headers = {**_if_match(if_match), "Content-Type": "application/merge-patch+json"}
    path = f"/entity/JSON/{_part(entity_id)}{_suffix(transition)}"
    return Operation(
        Call(
            name="patch",
            target=_named(entity_id, transition),
            method="PATCH",
            path=path,
            headers=headers,
            body=encode(change),
        ),
        _written,
    )


def transition(entity_id: str, name: str) -> Operation[Written]:
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
        _written,
    )


def delete(entity_id: str) -> Operation[Written]:
    """Delete the entity; its history stays."""
    return Operation(
        Call(name="delete", target=(entity_id,), method="DELETE", path=f"/entity/{_part(entity_id)}"), _deleted
    )


def transitions(entity_id: str) -> Operation[list[str]]:
    """The names of all transitions declared in the entity's state."""
    path = f"/entity/{_part(entity_id)}/transitions"
    return Operation(Call(name="transitions", target=(entity_id,), method="GET", path=path), _names)


def search(
    model: str,
    version: int,
    condition: Mapping[str, JsonValue],
    *,
    sort: Sequence[str] = (),
    limit: int = MOST_MATCHES,
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
        path=f"/search/direct/{_part(model)}/{version}",
        query=(*query, ("trackingRead", "true")) if tracking else tuple(query),
        body=encode(condition),
    )
    return Operation(call, _lines)


def count(model: str, version: int) -> Operation[int]:
    """How many entities the model has."""
    path = f"/entity/stats/{_part(model)}/{version}"
    return Operation(Call(name="count", target=(model, str(version)), method="GET", path=path), _count)


def _part(segment: str) -> str:
    return quote(segment, safe="")


def _named(entity_id: str, transition: str | None) -> tuple[str, ...]:
    return (entity_id, transition) if transition else (entity_id,)


def _suffix(transition: str | None) -> str:
    return f"/{_part(transition)}" if transition else ""


def _if_match(version: str | None) -> dict[str, str]:
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


_result = msgspec.json.Decoder(_Result).decode
_results = msgspec.json.Decoder(list[_Result]).decode
_envelope = msgspec.json.Decoder(_Envelope).decode
_envelopes = msgspec.json.Decoder(list[_Envelope]).decode
_deletion = msgspec.json.Decoder(_Deleted).decode
_names = msgspec.json.Decoder(list[str]).decode
_counted = msgspec.json.Decoder(_Count).decode


def _created(body: bytes) -> Written:
    results = _results(body)
    for result in results:
        if result.error is not None:
            raise refused_item(result.error)
    ids = tuple(entity_id for result in results for entity_id in result.entity_ids)
    return Written(transaction_id=results[-1].transaction_id, entity_ids=ids)


def _written(body: bytes) -> Written:
    result = _result(body)
    return Written(transaction_id=result.transaction_id, entity_ids=result.entity_ids)


def _deleted(body: bytes) -> Written:
    deletion = _deletion(body)
    return Written(transaction_id=deletion.transaction_id, entity_ids=(deletion.id,))


def _entity(body: bytes) -> Entity:
    return _from_envelope(_envelope(body))


def _entities(body: bytes) -> list[Entity]:
    return [_from_envelope(envelope) for envelope in _envelopes(body)]


def _lines(body: bytes) -> list[Entity]:
    return [_entity(line) for line in body.splitlines() if line]


def _count(body: bytes) -> int:
    return _counted(body).count


def _from_envelope(envelope: _Envelope) -> Entity:
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
