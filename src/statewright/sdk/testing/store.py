"""Entities in memory that answer the requests of a client as a server does.

What is left out: documents are not validated against a model, and no workflow runs by itself. A transition changes the
state as its lifecycle says: no criterion is evaluated, no processor runs, no automated transition follows.
"""

import threading
import uuid

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import Failure, NotImplementedHere
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.sdk.exchange import TX_TOKEN
from statewright.sdk.operations.calls import Call, HttpResponse
from statewright.sdk.operations.entities import Entity
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.handlers import HANDLERS, Handler
from statewright.sdk.testing.view import Lifecycle, View


class Request(Struct, frozen=True, kw_only=True):
    """A request of a function to the server: the operation of the client, its target, and the body.

    ``target`` is model and version, or the entity, with the transition if one was named.

    ``joined``: whether it was part of the callout's transaction; ``error_code`` is set when it was refused.
    """

    operation: str
    target: tuple[str, ...]
    body: JsonValue = None
    joined: bool = False
    error_code: str = ""


class Store:
    """The server for the clients of one fake engine. Safe for functions that use several threads."""

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.lifecycles: dict[tuple[str, int], Lifecycle] = {}
        self.requests: list[Request] = []
        self._lock = threading.RLock()
        self._overlay: dict[str, Entity | None] | None = None
        self.transaction_id = ""

    def begin(self) -> None:
        """Open a transaction, which joined requests are part of."""
        self._overlay, self.transaction_id = {}, str(uuid.uuid1())

    def end(self, *, commits: bool) -> None:
        """Keep or drop what joined requests wrote."""
        for entity_id, entity in (self._overlay or {}).items():
            if commits and entity is not None:
                self.entities[entity_id] = entity
            elif commits:
                self.entities.pop(entity_id, None)
        self._overlay, self.transaction_id = None, ""

    def send(self, call: Call) -> HttpResponse:
        """Answer a request at once."""
        with self._lock:
            body = decode(call.body) if call.body else None
            request = Request(operation=call.name, target=call.target, body=body, joined=TX_TOKEN in call.headers)
            try:
                answer = HttpResponse(200, _find_handler(call)(self._build_view(request), call, body))
            except Failure as failure:
                request = replace(request, error_code=failure.code)
                answer = HttpResponse(failure.status, _encode_problem(failure, call.path))
            self.requests.append(request)
            return answer

    async def send_async(self, call: Call) -> HttpResponse:
        """Answer a request at once, as :meth:`send`."""
        return self.send(call)

    def _build_view(self, request: Request) -> View:
        inside = request.joined and self._overlay is not None
        return View(
            self.entities,
            self._overlay if inside else None,
            self.lifecycles,
            transaction_id=self.transaction_id if inside else str(uuid.uuid1()),
        )


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
