"""Entities: writing, reading, history, counts (docs/reference/entities.md#operations)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.errors import build_item_error
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    HttpResponse,
    Instant,
    Operation,
    Page,
    Script,
    ask,
    build_call,
    build_key_header,
    build_query,
    read_warnings,
)
from statewright.sdk.outcomes import encode_json

ViewT = TypeVar("ViewT")

MAX_BATCH: Final = 1000
"""Documents that are created in one transaction (docs/reference/entities.md#limits)."""

DEFAULT_PAGE_SIZE: Final = 20
MAX_MATCHES: Final = 1000

_COLLECTION: Final = "/entity/JSON/{}/{}"


class WriteResult(Struct, frozen=True, kw_only=True):
    """The transaction and entities of a write. In a joined transaction it is provisional until the owner commits.

    ``warnings`` are those of the run (docs/reference/workflows.md#warnings): what functions of nodes said by
    ``context.warn``, say.
    """

    transaction_id: str
    entity_ids: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id of the only entity."""
        [entity_id] = self.entity_ids
        return entity_id


class Entity(Struct, frozen=True, kw_only=True):
    """A version of an entity. Times are RFC 3339 texts; ``transition`` is the last one that was requested by name.

    ``transaction_id`` wrote this version; it is what ``if_match`` takes.
    """

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


class Principal(Struct, frozen=True):
    """Who did something; ``kind`` is ``user``, ``service`` or ``system``."""

    id: str = ""
    kind: str = ""


class Change(Struct, frozen=True, kw_only=True, rename="camel"):
    """A version in the history of an entity: ``change_type`` is CREATE, UPDATE or DELETE. ``user`` is whom the change
    is attributed to, ``executed_by`` who carried it out. A deletion has no transaction.
    """

    change_type: str
    time_of_change: str
    user: str = ""
    attributed_kind: str = ""
    executed_by: Principal = Principal()
    transaction_id: str = ""


class Deletion(Struct, frozen=True, kw_only=True):
    """How many entities a deletion by model has found and deleted, and the ids if they were asked for."""

    found: int
    deleted: int
    ids: tuple[str, ...] = ()


# Writes take an ``idempotency_key``: sent again with the same one they have their effect once.


def create(model: str, version: int, data: object, *, idempotency_key: str | None = None) -> Operation[WriteResult]:
    """Create an entity and let its workflow run. ``data`` is a JSON object or a ``msgspec.Struct``."""
    key, body = build_key_header(idempotency_key), encode_json(data)
    call = build_call("create", "POST", _COLLECTION, model, version, headers=key, body=body, creates=True)
    return _Write(call, _read_creation)


def create_many(
    model: str, version: int, documents: Sequence[object], *, idempotency_key: str | None = None
) -> Operation[WriteResult]:
    """Create up to a thousand entities, all or none. Raises ``ValueError`` for more of them."""
    if len(documents) > MAX_BATCH:
        raise ValueError(f"{len(documents)} documents are too many for one transaction, which takes {MAX_BATCH}")
    call = build_call(
        "create_many",
        "POST",
        _COLLECTION,
        model,
        version,
        query=build_query(transactionWindow=MAX_BATCH),
        headers=build_key_header(idempotency_key),
        body=encode_json(list(documents)),
        creates=True,
    )
    return _Write(call, _read_creation)


def get(entity_id: str, *, at: Instant | None = None, transaction_id: str | None = None) -> Operation[Entity]:
    """The entity as it is now, or as the transaction sees it; ``at`` asks for the version of an instant,
    ``transaction_id`` for the one that a transaction wrote last.
    """
    query = build_query(pointInTime=at, transactionId=transaction_id)
    return Operation(build_call("get", "GET", "/entity/{}", entity_id, query=query), read_entity)


def page(
    model: str, version: int, *, size: int = DEFAULT_PAGE_SIZE, number: int = 0, at: Instant | None = None
) -> Operation[list[Entity]]:
    """A page of the model's entities, by ascending id; ``iterate`` reads all of them."""
    query = build_query(pageSize=size, pageNumber=number, pointInTime=at)
    return Operation(build_call("page", "GET", "/entity/{}/{}", model, version, query=query), read_entities)


def update(
    entity_id: str,
    data: object,
    *,
    transition: str | None = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[WriteResult]:
    """Replace the document, and fire the transition if one is named. ``if_match`` is a transaction id."""
    headers = {**_build_if_match(if_match), **build_key_header(idempotency_key)}
    return _write("update", "PUT", entity_id, data, transition, headers)


def patch(
    entity_id: str,
    change: object,
    *,
    transition: str | None = None,
    if_match: str = "*",
    idempotency_key: str | None = None,
) -> Operation[WriteResult]:
    """Merge a change into the document (RFC 7386), and fire the transition if one is named."""
    headers = {**_build_if_match(if_match), "Content-Type": "application/merge-patch+json"}
    return _write("patch", "PATCH", entity_id, change, transition, headers | build_key_header(idempotency_key))


def transition(entity_id: str, name: str, *, idempotency_key: str | None = None) -> Operation[WriteResult]:
    """Fire a transition; the document stays."""
    query = (("entityId", entity_id), ("transitionName", name))
    key, path = build_key_header(idempotency_key), "/platform-api/entity/transition"
    return _Write(build_call("transition", "PUT", path, entity_id, name, query=query, headers=key), _read_write)


def delete(entity_id: str, *, idempotency_key: str | None = None) -> Operation[WriteResult]:
    """Delete the entity; its history stays."""
    headers = build_key_header(idempotency_key)
    return Operation(build_call("delete", "DELETE", "/entity/{}", entity_id, headers=headers), _read_deletion)


def transitions(entity_id: str, *, at: Instant | None = None) -> Operation[list[str]]:
    """The names of all transitions declared in the entity's state."""
    query = build_query(pointInTime=at)
    return Operation(build_call("transitions", "GET", "/entity/{}/transitions", entity_id, query=query), _decode_names)


def history(entity_id: str, *, at: Instant | None = None, transaction: str | None = None) -> Operation[list[Change]]:
    """The newest thousand versions, newest first; with ``at`` those up to an instant, with ``transaction`` those of the
    run that was answered with this id. ``get`` with the time of a change reads its version.
    """
    query = build_query(pointInTime=at, transactionId=transaction)
    return Operation(build_call("history", "GET", "/entity/{}/changes", entity_id, query=query), _decode_changes)


def iterate(
    model: str, version: int, *, at: Instant | None = None, size: int = MAX_PAGE_SIZE, after: str | None = None
) -> Script[Page[Entity]]:
    """All entities of the model, by ascending id, ``size`` to a request; ``after`` an entity id, exclusive.

    With ``at`` they are those of one instant, whatever is written meanwhile.
    """
    query = build_query(pageSize=size, pointInTime=at, afterId=after)
    call = build_call("iterate", "GET", "/entity/{}/{}", model, version, query=query)
    found = yield from ask(Operation(call, read_entities))
    if not found:  # a page may be shorter than was asked for
        return Page(found)
    return Page(found, partial(iterate, model, version, at=at, size=size, after=found[-1].id))


def delete_matching(
    model: str,
    version: int,
    condition: Condition | Mapping[str, JsonValue] | None = None,
    *,
    at: Instant | None = None,
    verbose: bool = False,
) -> Operation[Deletion]:
    """Delete the entities that match, all of the model without a condition, in one transaction.

    With ``at`` the condition is held against the versions of that instant; ``verbose`` asks for the ids.
    """
    query = build_query(pointInTime=at, verbose=verbose or None)
    body = None if condition is None else encode_json(to_condition(condition))
    call = build_call("delete_matching", "DELETE", "/entity/{}/{}", model, version, query=query, body=body)
    return Operation(call, _read_model_deletion)


class _Write(Operation[WriteResult], frozen=True):
    """An operation whose run may have warnings."""

    def interpret(self, response: HttpResponse) -> WriteResult:
        return replace(self.read(response.body), warnings=read_warnings(response))


def _write(
    name: str, method: str, entity_id: str, document: object, transition: str | None, headers: Mapping[str, str]
) -> _Write:
    """A new document, and a transition if one is named."""
    target = (entity_id, transition) if transition else (entity_id,)
    path = "/entity/JSON" + "/{}" * len(target)
    return _Write(build_call(name, method, path, *target, headers=headers, body=encode_json(document)), _read_write)


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


class Envelope(Struct, frozen=True):
    """An entity as the service writes it."""

    data: msgspec.Raw
    meta: _Meta


class _Deleted(Struct, frozen=True, rename="camel"):
    id: str
    transaction_id: str


class _DeleteResult(Struct, frozen=True):
    found: int = msgspec.field(name="numberOfEntitites")
    deleted: int = msgspec.field(name="numberOfEntititesRemoved")


class _ModelDeletion(Struct, frozen=True):
    result: _DeleteResult = msgspec.field(name="deleteResult")
    ids: tuple[str, ...] = ()


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_results = msgspec.json.Decoder(list[_Result]).decode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_envelopes = msgspec.json.Decoder(list[Envelope]).decode
_decode_deletion = msgspec.json.Decoder(_Deleted).decode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_changes = msgspec.json.Decoder(list[Change]).decode
_decode_model_deletion = msgspec.json.Decoder(_ModelDeletion).decode


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


def read_entity(body: bytes) -> Entity:
    """An envelope (docs/reference/entities.md#the-envelope)."""
    return to_entity(_decode_envelope(body))


def read_entities(body: bytes) -> list[Entity]:
    """An array of envelopes."""
    return [to_entity(envelope) for envelope in _decode_envelopes(body)]


def _read_model_deletion(body: bytes) -> Deletion:
    done = _decode_model_deletion(body)
    return Deletion(found=done.result.found, deleted=done.result.deleted, ids=done.ids)


def to_entity(envelope: Envelope) -> Entity:
    """The entity of an envelope."""
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
