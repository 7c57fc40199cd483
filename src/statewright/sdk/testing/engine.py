"""A fake engine: calls the functions of a node as the server would."""

import asyncio
import uuid
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final, TypedDict, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.client import Client
from statewright.sdk.context import Caller
from statewright.sdk.functions import Function, Kind
from statewright.sdk.node import Node
from statewright.sdk.operations import Entity
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.handlers import build_meta
from statewright.sdk.testing.store import Request, Store
from statewright.sdk.testing.view import Lifecycle, get_initial_state, new_entity
from statewright.sdk.threads import DaemonThreadPool
from statewright.sdk.wire import KINDS, build_answer, read_request
from statewright.sdk.worker import Functions, build_error_answer, run_function

ResultT = TypeVar("ResultT")

BARE_MODEL: Final = ("entity", 1)
"""The model of a document that a test passes without an entity."""

MAX_THREADS: Final = 64
"""Threads for plain functions that run at once."""


class Place(Struct, frozen=True, kw_only=True):
    """What a callout says besides the entity.

    ``joins``: whether it carries a transaction token. Without one, as under a plain ``COMMIT_BEFORE_DISPATCH``, what
    the function writes stays even if it fails.
    """

    workflow: str = ""
    transition: str = ""
    state_to: str = ""
    parameters: str = ""
    principal: Caller = Caller(id="tester", kind="user")
    joins: bool = True
    attached: bool = True


class _CalloutOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a callout of any kind. ``exception`` is what the function raised, if it did."""

    success: bool
    error: str = ""
    error_code: str = ""
    warnings: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    exception: Exception | None = None


class Processed(_CalloutOutcome, frozen=True, kw_only=True):
    """What a processor did. ``document`` is the entity's afterwards, ``changed`` whether it returned one."""

    document: JsonValue = None
    changed: bool = False


class Judged(_CalloutOutcome, frozen=True, kw_only=True):
    """The result of a criterion; ``reason`` is its own when it does not match."""

    matches: bool = False
    reason: str = ""


class Scheduled(_CalloutOutcome, frozen=True, kw_only=True):
    """When a scheduled transition is to fire: the members of the answer."""

    result: JsonObject = msgspec.field(default_factory=dict)

    def fires(self, now: datetime) -> datetime:
        """The instant, if it was armed at ``now``. Raises ``ValueError`` for an answer the server would not take."""
        return _compute_instant(self.result, "fireAt", "fireAfterMs", now)

    def expires(self, now: datetime) -> datetime | None:
        """The last instant, None when it may be late for ever."""
        if self.result.get("expireAt") is None and self.result.get("expireAfterMs") is None:
            return None
        return _compute_instant(self.result, "expireAt", "expireAfterMs", self.fires(now))


class FakeEngine:
    """Calls the functions of a node on entities in memory.

    Writes of a function that join the transaction of its callout are kept when it succeeds and dropped when it fails;
    the document that a processor returns becomes that of the callout's entity. ``requests`` lists all requests of
    functions, in order.
    """

    def __init__(self, node: Node) -> None:
        self._functions = index_functions(node)
        self._store = Store()

    @property
    def requests(self) -> list[Request]:
        """The requests of functions to the server so far."""
        return self._store.requests

    @property
    def client(self) -> Client:
        """A client outside all transactions."""
        return Client.over(self._store)

    def lifecycle(self, model: str, version: int, workflow: "Lifecycle | JsonObject") -> None:
        """Let entities of a model have the states and transitions of a workflow."""
        known = workflow if isinstance(workflow, Lifecycle) else Lifecycle.of(workflow)
        self._store.lifecycles[model, version] = known

    def add(self, model: str, version: int, data: object, *, state: str = "", id: str = "") -> Entity:  # noqa: A002 - what it is called
        """Add an entity, for the test to begin with; in the initial state of its :meth:`lifecycle` unless ``state``
        says otherwise.
        """
        state = state or get_initial_state(self._store.lifecycles, model, version)
        entity = new_entity(model, version, _to_json(data), state=state, transaction_id=str(uuid.uuid1()), id=id)
        self._store.entities[entity.id] = entity
        return entity

    def entity(self, entity_id: str) -> Entity:
        """The entity as it is now. Raises ``KeyError``."""
        return self._store.entities[entity_id]

    def entities(self, model: str, version: int) -> list[Entity]:
        """The entities of a model, by id."""
        return self.client.page(model, version, size=len(self._store.entities))

    def process(self, name: str, subject: object, at: Place = Place()) -> Processed:  # noqa: B008 - frozen
        """Call a processor on an entity, or on a bare document."""
        entity = self._resolve_subject(subject)
        met = self._call("processor", name, entity, at)
        returned = met.response.payload
        if returned is not None:
            document = decode(bytes(returned.data))
            self._store.entities[entity.id] = replace(self._get_current(entity), data=document)
        return Processed(**met.common, document=self._get_current(entity).data, changed=returned is not None)

    def judge(self, name: str, subject: object, at: Place = Place()) -> Judged:  # noqa: B008 - frozen
        """Evaluate a criterion on an entity, or on a bare document."""
        met = self._call("criteria", name, self._resolve_subject(subject), at)
        return Judged(**met.common, matches=met.response.matches, reason=met.response.reason)

    def schedule(self, name: str, subject: object, at: Place = Place()) -> Scheduled:  # noqa: B008 - frozen
        """Call a schedule function for a transition of an entity, or of a bare document."""
        met = self._call("function", name, self._resolve_subject(subject), at)
        return Scheduled(**met.common, result=_decode_members(met.response.result))

    def _resolve_subject(self, subject: object) -> Entity:
        return self._get_current(subject) if isinstance(subject, Entity) else self.add(*BARE_MODEL, subject)

    def _get_current(self, entity: Entity) -> Entity:
        return self._store.entities.get(entity.id, entity)

    def _call(self, kind: Kind, name: str, entity: Entity, at: Place) -> "_Invocation":
        before = len(self.requests)
        if at.joins:
            self._store.begin()
        event, error = _run(self._run_function(_build_request(kind, name, entity, at, self._store.transaction_id)))
        if at.joins:
            self._store.end(commits=error is None)
        return _Invocation(_decode_response(event.text_data), tuple(self.requests[before:]), error)

    async def _run_function(self, event: CloudEvent) -> tuple[CloudEvent, Exception | None]:
        """The answer as it would go to the server, and what the function raised."""
        request = read_request(event)
        request = replace(request, context=replace(request.context, transport=self._store))
        threads = DaemonThreadPool(MAX_THREADS)
        try:
            return build_answer(request, await run_function(self._functions, request, threads)), None
        except Exception as error:  # as in a node: whatever a function raises is its answer
            return build_error_answer(request, error), error
        finally:
            threads.shutdown()


def index_functions(node: Node) -> Functions:
    """The functions of a node by kind and name."""
    found: dict[tuple[Kind, str], Function] = {}
    for function in node.functions:
        found[function.kind, function.name] = function
    return found


class _Error(Struct):
    code: str = ""
    message: str = ""


class _Payload(Struct):
    data: msgspec.Raw


class _Response(Struct, rename="camel"):
    success: bool
    error: _Error = msgspec.field(default_factory=_Error)
    warnings: tuple[str, ...] = ()
    payload: _Payload | None = None
    matches: bool = False
    reason: str = ""
    result: msgspec.Raw = msgspec.Raw()


_decode_response = msgspec.json.Decoder(_Response).decode


class _Common(TypedDict):
    success: bool
    error: str
    error_code: str
    warnings: tuple[str, ...]
    requests: tuple[Request, ...]
    exception: Exception | None


class _Invocation(Struct, frozen=True):
    """The answer of a function, its requests, and what it raised."""

    response: _Response
    requests: tuple[Request, ...]
    exception: Exception | None

    @property
    def common(self) -> _Common:
        response = self.response
        return _Common(
            success=response.success,
            error=response.error.message,
            error_code=response.error.code,
            warnings=response.warnings,
            requests=self.requests,
            exception=self.exception,
        )


def _build_request(kind: Kind, name: str, entity: Entity, at: Place, transaction_id: str) -> CloudEvent:
    """The callout as the server sends it (docs/reference/grpc.md#callouts)."""
    request_id = str(uuid.uuid1())
    members: dict[str, object] = {
        "id": request_id,
        "requestId": request_id,
        "entityId": entity.id,
        NAME_MEMBERS[kind]: name,
        "workflow": {"id": at.workflow, "name": at.workflow},
        "transition": {"name": at.transition, "stateFrom": entity.state, "stateTo": at.state_to},
        "transactionId": transaction_id if at.joins else "",
        "parameters": at.parameters,
    }
    if at.attached:
        members["payload"] = {"type": "JSON", "data": entity.data, "meta": build_meta(entity)}
    event = CloudEvent(id=request_id, source="cyoda", spec_version="1.0", type=EVENT_TYPES[kind])
    event.text_data = encode_json(members).decode()
    attributes = {"authid": at.principal.id, "authtype": at.principal.kind, "authclaims": ",".join(at.principal.roles)}
    for attribute, text in attributes.items():
        event.attributes[attribute].ce_string = text
    if at.joins:
        event.attributes["cyodatxtoken"].ce_string = transaction_id
    return event


NAME_MEMBERS: Final[dict[Kind, str]] = {
    "processor": "processorName",
    "criteria": "criteriaName",
    "function": "functionName",
}
EVENT_TYPES: Final = {kind: event_type for event_type, kind in KINDS.items()}


def _run(work: Coroutine[object, object, ResultT]) -> ResultT:
    """Run a coroutine on an event loop of its own, also when the test has one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _decode_members(text: msgspec.Raw) -> JsonObject:
    value = decode(bytes(text)) if text else None
    return value if isinstance(value, dict) else {}


def _to_json(data: object) -> JsonValue:
    return decode(encode_json(data))


def _compute_instant(members: JsonObject, absolute: str, relative: str, since: datetime) -> datetime:
    """The instant that one of two members gives. Raises ``ValueError`` unless exactly one of them is there, as a whole
    number of milliseconds.
    """
    given = [(name, members[name]) for name in (absolute, relative) if members.get(name) is not None]
    if len(given) != 1 or isinstance(given[0][1], bool) or not isinstance(given[0][1], int):
        raise ValueError(f"not a schedule: {members}")
    [(name, milliseconds)] = given
    assert isinstance(milliseconds, int)  # noqa: S101 - was just checked
    delay = timedelta(milliseconds=milliseconds)
    return since + delay if name == relative else datetime.fromtimestamp(0, UTC) + delay
