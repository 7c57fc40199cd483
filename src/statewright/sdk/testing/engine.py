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
from statewright.sdk.outcomes import encode
from statewright.sdk.testing.answers import meta_of
from statewright.sdk.testing.store import Request, Store
from statewright.sdk.testing.view import Lifecycle, new_entity
from statewright.sdk.threads import DaemonThreads
from statewright.sdk.wire import KINDS, answer, read_request
from statewright.sdk.worker import Functions, failed, result

ResultT = TypeVar("ResultT")

SUBJECT = ("entity", 1)
"""The model of a bare document that a test hands in."""

THREADS = 64


class Place(Struct, frozen=True, kw_only=True):
    """The surroundings of a callout.

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


class _Answered(Struct, frozen=True, kw_only=True):
    """What every kind of callout comes to. ``exception`` is what the function raised, if it did."""

    success: bool
    error: str = ""
    error_code: str = ""
    warnings: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    exception: Exception | None = None


class Processed(_Answered, frozen=True, kw_only=True):
    """What a processor did. ``document`` is the entity's afterwards, ``changed`` whether it returned one."""

    document: JsonValue = None
    changed: bool = False


class Judged(_Answered, frozen=True, kw_only=True):
    """What a criterion said; ``reason`` when it does not match."""

    matches: bool = False
    reason: str = ""


class Scheduled(_Answered, frozen=True, kw_only=True):
    """When a scheduled transition is to fire: the members of the answer."""

    result: JsonObject = msgspec.field(default_factory=dict)

    def fires(self, now: datetime) -> datetime:
        """The instant, if it was armed at ``now``. Raises ``ValueError`` for an answer the server would not take."""
        return _instant(self.result, "fireAt", "fireAfterMs", now)

    def expires(self, now: datetime) -> datetime | None:
        """The last instant, None when it may be late for ever."""
        if self.result.get("expireAt") is None and self.result.get("expireAfterMs") is None:
            return None
        return _instant(self.result, "expireAt", "expireAfterMs", self.fires(now))


class FakeEngine:
    """Calls the functions of a node on entities in memory.

    Writes of a function that its callout's transaction is joined by are kept when it succeeds and dropped when it
    fails; the entity of the callout takes over the document a processor returns. ``requests`` lists everything that was
    asked of the server, in order.
    """

    def __init__(self, node: Node) -> None:
        self._functions = functions_of(node)
        self._store = Store()

    @property
    def requests(self) -> list[Request]:
        """What functions asked of the server so far."""
        return self._store.requests

    @property
    def client(self) -> Client:
        """The server as somebody outside all transactions sees it."""
        return Client(self._store)

    def lifecycle(self, model: str, version: int, workflow: "Lifecycle | JsonObject") -> None:
        """Let entities of a model have the states and transitions of a workflow."""
        known = workflow if isinstance(workflow, Lifecycle) else Lifecycle.of(workflow)
        self._store.lifecycles[model, version] = known

    def add(self, model: str, version: int, data: object, *, state: str = "CREATED", id: str = "") -> Entity:  # noqa: A002 - what it is called
        """An entity that is there before the test begins."""
        entity = new_entity(model, version, _plain(data), state=state, transaction_id=str(uuid.uuid1()), id=id)
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
        entity = self._known(subject)
        met = self._call("processor", name, entity, at)
        returned = met.response.payload
        if returned is not None:
            document = decode(bytes(returned.data))
            self._store.entities[entity.id] = replace(self._current(entity), data=document)
        return Processed(**met.common, document=self._current(entity).data, changed=returned is not None)

    def judge(self, name: str, subject: object, at: Place = Place()) -> Judged:  # noqa: B008 - frozen
        """Ask a criterion about an entity, or about a bare document."""
        met = self._call("criteria", name, self._known(subject), at)
        return Judged(**met.common, matches=met.response.matches, reason=met.response.reason)

    def schedule(self, name: str, subject: object, at: Place = Place()) -> Scheduled:  # noqa: B008 - frozen
        """Ask a schedule function when a transition of an entity, or of a bare document, is to fire."""
        met = self._call("function", name, self._known(subject), at)
        return Scheduled(**met.common, result=_members(met.response.result))

    def _known(self, subject: object) -> Entity:
        return self._current(subject) if isinstance(subject, Entity) else self.add(*SUBJECT, subject)

    def _current(self, entity: Entity) -> Entity:
        return self._store.entities.get(entity.id, entity)

    def _call(self, kind: Kind, name: str, entity: Entity, at: Place) -> "_Met":
        before = len(self.requests)
        if at.joins:
            self._store.begin()
        event, error = _run(self._answer(_request(kind, name, entity, at, self._store.transaction_id)))
        if at.joins:
            self._store.end(commits=error is None)
        return _Met(_decoded(event.text_data), tuple(self.requests[before:]), error)

    async def _answer(self, event: CloudEvent) -> tuple[CloudEvent, Exception | None]:
        """The answer as it would go to the server, and what the function raised."""
        request = read_request(event)
        request = replace(request, context=replace(request.context, transport=self._store))
        threads = DaemonThreads(THREADS)
        try:
            return answer(request, await result(self._functions, request, threads)), None
        except Exception as error:  # as in a node: whatever a function raises is its answer
            return failed(request, error), error
        finally:
            threads.shutdown()


def functions_of(node: Node) -> Functions:
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


_decoded = msgspec.json.Decoder(_Response).decode


class _Common(TypedDict):
    success: bool
    error: str
    error_code: str
    warnings: tuple[str, ...]
    requests: tuple[Request, ...]
    exception: Exception | None


class _Met(Struct, frozen=True):
    """An answer, and what happened on the way to it."""

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


def _request(kind: Kind, name: str, entity: Entity, at: Place, transaction_id: str) -> CloudEvent:
    """The callout as the server sends it (spec/grpc.md §14)."""
    request_id = str(uuid.uuid1())
    members: dict[str, object] = {
        "id": request_id,
        "requestId": request_id,
        "entityId": entity.id,
        NAMES[kind]: name,
        "workflow": {"id": at.workflow, "name": at.workflow},
        "transition": {"name": at.transition, "stateFrom": entity.state, "stateTo": at.state_to},
        "transactionId": transaction_id if at.joins else "",
        "parameters": at.parameters,
    }
    if at.attached:
        members["payload"] = {"type": "JSON", "data": entity.data, "meta": meta_of(entity)}
    event = CloudEvent(id=request_id, source="cyoda", spec_version="1.0", type=TYPES[kind])
    event.text_data = encode(members).decode()
    attributes = {"authid": at.principal.id, "authtype": at.principal.kind, "authclaims": ",".join(at.principal.roles)}
    for attribute, text in attributes.items():
        event.attributes[attribute].ce_string = text
    if at.joins:
        event.attributes["cyodatxtoken"].ce_string = transaction_id
    return event


NAMES: Final[dict[Kind, str]] = {
    "processor": "processorName",
    "criteria": "criteriaName",
    "function": "functionName",
}
TYPES: Final = {kind: event_type for event_type, kind in KINDS.items()}


def _run(work: Coroutine[object, object, ResultT]) -> ResultT:
    """Run it on a loop of its own, also when the test has one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _members(text: msgspec.Raw) -> JsonObject:
    value = decode(bytes(text)) if text else None
    return value if isinstance(value, dict) else {}


def _plain(data: object) -> JsonValue:
    return decode(encode(data))


def _instant(members: JsonObject, absolute: str, relative: str, since: datetime) -> datetime:
    """Raises ``ValueError`` unless exactly one of the two is there, a whole number of milliseconds."""
    given = [(name, members[name]) for name in (absolute, relative) if members.get(name) is not None]
    if len(given) != 1 or isinstance(given[0][1], bool) or not isinstance(given[0][1], int):
        raise ValueError(f"not a schedule: {members}")
    [(name, milliseconds)] = given
    assert isinstance(milliseconds, int)  # noqa: S101 - was just checked
    delay = timedelta(milliseconds=milliseconds)
    return since + delay if name == relative else datetime.fromtimestamp(0, UTC) + delay
