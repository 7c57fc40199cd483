"""A fake engine: calls the functions of a node as the server would."""

import asyncio
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.changes import Backoff
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.client import Client
from statewright.sdk.functions import WORK_KINDS, Function, Kind
from statewright.sdk.jobs import DaemonThreadPool
from statewright.sdk.node import Node
from statewright.sdk.operations import Entity
from statewright.sdk.operations.calls import to_object
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.jobs import Done, do_job
from statewright.sdk.testing.playing import (
    Calls,
    Event,
    Invocation,
    Place,
    Played,
    build_request,
    decode_response,
    play,
)
from statewright.sdk.testing.store import Request, Store
from statewright.sdk.testing.view import Lifecycle, get_initial_state, new_entity
from statewright.sdk.wire import build_answer, read_request
from statewright.sdk.worker import Functions, build_error_answer, run_function

ResultT = TypeVar("ResultT")

BARE_MODEL: Final = ("entity", 1)
"""The model of a document that a test passes without an entity."""

MAX_THREADS: Final = 64
"""Threads for plain functions that run at once."""


class _CalloutOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a callout of any kind. ``exception`` is what the function raised, if it did; ``retryable`` is
    False when the service is told that another attempt would fail, too (``NonRetryable``).
    """

    success: bool
    error: str = ""
    error_code: str = ""
    warnings: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    exception: Exception | None = None
    retryable: bool = True


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
        self._handlers = {each.name: each for each in node.functions if each.kind in WORK_KINDS}
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
        return Scheduled(**met.common, result=to_object(met.response.result))

    def do(
        self,
        job_type: str,
        variables: Mapping[str, JsonValue] | None = None,
        *,
        retries: int = 0,
        backoff: Backoff | None = None,
        task: Mapping[str, JsonValue] | None = None,
    ) -> Done:
        """Have a job done, or a task of a flow (``task``: its ``input``, ``parameters``, …), until it is done or given
        up: with so many ``retries``, as the step of a definition says. Time between attempts passes at once: see
        ``attempts``.
        """
        return _run(do_job(self._handlers, job_type, variables or {}, task=task, retries=retries, backoff=backoff))

    def play(
        self,
        workflow: Mapping[str, JsonValue] | Sequence[Mapping[str, JsonValue]],
        document: object,
        *events: Event,
        stubs: Mapping[str, object] | None = None,
        sample: object = None,
        at: datetime | None = None,
    ) -> Played:
        """Play an entity through workflows, as the service would: the engine itself runs, and asks the functions of the
        node; the clock jumps, also over the pauses between attempts.

        An event is the name of a transition to fire, a ``timedelta`` that passes, or a ``Save``. ``stubs`` answer in
        place of functions, by name, one answer or a list of them whose last one stays: a document to merge, a bool of a
        criterion, a schedule, or an exception (``TimeoutError``, ``ConnectionError``, ``LookupError``: the member does
        not answer, is lost, is not there). ``sample`` has all members that documents will ever have, if ``document``
        has not. Raises ``ValueError`` for workflows that cannot be imported.
        """
        calls = Calls(self._call_for, frozenset((each.kind, each.name) for each in self._functions.values()), stubs)
        return play(workflow, _to_json(document), events, calls, sample=_to_json(sample), at=at)

    def suspend(self, entity_id: str, reason: str = "suspended by a test") -> None:
        """Refuse writes to an entity (409 ``SUSPENDED``), but for its deletion, until :meth:`resume`."""
        self._store.suspended[entity_id] = reason

    def resume(self, entity_id: str) -> None:
        """Let an entity be written again."""
        self._store.suspended.pop(entity_id, None)

    def _call_for(self, kind: Kind, name: str, entity: Entity, at: Place) -> Invocation:
        """Of an entity that is being played; what the function writes elsewhere is kept if it succeeds."""
        self._store.entities[entity.id] = entity
        return self._call(kind, name, entity, at)

    def _resolve_subject(self, subject: object) -> Entity:
        return self._get_current(subject) if isinstance(subject, Entity) else self.add(*BARE_MODEL, subject)

    def _get_current(self, entity: Entity) -> Entity:
        return self._store.entities.get(entity.id, entity)

    def _call(self, kind: Kind, name: str, entity: Entity, at: Place) -> Invocation:
        before = len(self.requests)
        if at.joins:
            self._store.begin()
        event, error = _run(self._run_function(build_request(kind, name, entity, at, self._store.transaction_id)))
        if at.joins:
            self._store.end(commits=error is None)
        return Invocation(decode_response(event.text_data), tuple(self.requests[before:]), error)

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


def _run(work: Coroutine[object, object, ResultT]) -> ResultT:
    """Run a coroutine on an event loop of its own, also when the test has one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


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
