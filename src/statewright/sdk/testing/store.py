"""Entities in memory that answer the requests of a client as a server does.

What is left out: documents are not validated against a model, and no workflow runs by itself. A transition changes the
state as its lifecycle says: no criterion is evaluated, no processor runs, no automated transition follows.
"""

import threading
import uuid

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import Failure, IdempotencyConflict, NotImplementedHere
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.sdk.exchange import TX_TOKEN
from statewright.sdk.operations.calls import KEY_HEADER, Call, HttpResponse
from statewright.sdk.operations.entities import Entity
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.handlers import HANDLERS, Handler
from statewright.sdk.testing.view import Lifecycle, View


class Request(Struct, frozen=True, kw_only=True):
    """A request of a function to the server: the operation of the client, its target, and the body.

    ``target`` is model and version, or the entity, with the transition if one was named.

    ``joined``: whether it was part of the callout's transaction; ``error_code`` is set when it was refused.
    ``idempotency_key`` is the one that came with it, ``replayed``: it was answered as the first one with that key.
    """

    operation: str
    target: tuple[str, ...]
    body: JsonValue = None
    joined: bool = False
    error_code: str = ""
    idempotency_key: str = ""
    replayed: bool = False


class Store:
    """The server for the clients of one fake engine. Safe for functions that use several threads."""

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.lifecycles: dict[tuple[str, int], Lifecycle] = {}
        self.requests: list[Request] = []
        self.suspended: dict[str, str] = {}
        """Reasons by the id of the entity."""
        self._lock = threading.RLock()
        self._overlay: dict[str, Entity | None] | None = None
        self._keys: dict[str, _KeptAnswer] = {}
        self._overlay_keys: dict[str, _KeptAnswer] = {}
        self.transaction_id = ""

    def begin(self) -> None:
        """Open a transaction, which joined requests are part of."""
        self._overlay, self._overlay_keys, self.transaction_id = {}, {}, str(uuid.uuid1())

    def end(self, *, commits: bool) -> None:
        """Keep or drop what joined requests wrote."""
        for entity_id, entity in (self._overlay or {}).items():
            if commits and entity is not None:
                self.entities[entity_id] = entity
            elif commits:
                self.entities.pop(entity_id, None)
        if commits:
            self._keys |= self._overlay_keys
        self._overlay, self._overlay_keys, self.transaction_id = None, {}, ""

    def send(self, call: Call) -> HttpResponse:
        """Answer a request at once."""
        with self._lock:
            body = decode(call.body) if call.body else None
            request = Request(
                operation=call.name,
                target=call.target,
                body=body,
                joined=TX_TOKEN in call.headers,
                idempotency_key=call.headers.get(KEY_HEADER, ""),
            )
            try:
                request, answer = self._answer(request, call, body)
            except Failure as failure:
                request = replace(request, error_code=failure.code)
                answer = HttpResponse(failure.status, _encode_problem(failure, call.path))
            self.requests.append(request)
            return answer

    async def send_async(self, call: Call) -> HttpResponse:
        """Answer a request at once, as :meth:`send`."""
        return self.send(call)

    def _answer(self, request: Request, call: Call, body: JsonValue) -> tuple[Request, HttpResponse]:
        """As a server does with keys: a request with one that is known is answered as the first one was."""
        key, asked = request.idempotency_key, (call.method, call.path, call.query, call.body)
        kept = (self._keys | self._overlay_keys).get(key) if key else None
        if kept is not None and kept.asked != asked:
            raise IdempotencyConflict
        if kept is not None:
            return replace(request, replayed=True), kept.answer
        answer = HttpResponse(200, _find_handler(call)(self._build_view(request), call, body))
        if key:
            keys = self._overlay_keys if self._is_inside(request) else self._keys
            keys[key] = _KeptAnswer(asked, answer)
        return request, answer

    def _is_inside(self, request: Request) -> bool:
        return request.joined and self._overlay is not None

    def _build_view(self, request: Request) -> View:
        inside = self._is_inside(request)
        return View(
            self.entities,
            self._overlay if inside else None,
            self.lifecycles,
            transaction_id=self.transaction_id if inside else str(uuid.uuid1()),
            suspended=self.suspended,
        )


class _KeptAnswer(Struct, frozen=True):
    """What a request with a key was answered with, and what it was."""

    asked: tuple[object, ...]
    answer: HttpResponse


def _find_handler(call: Call) -> Handler:
    """Raises ``NotImplementedHere`` for what concerns no entities, or is not worth a fake."""
    try:
        return HANDLERS[call.name]
    except KeyError:
        raise NotImplementedHere(f"the fake engine does not offer {call.name}: {call.method} {call.path}") from None


def _encode_problem(failure: Failure, path: str) -> bytes:
    properties: dict[str, object] = {"errorCode": failure.code, **failure.properties}
    if failure.retryable:
        properties["retryable"] = True
    return encode_json({"status": failure.status, "detail": failure.detail, "instance": path, "properties": properties})
