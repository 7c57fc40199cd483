"""An entity that is played through workflows: the engine of the service runs, and asks functions of the node under
test. It is the machinery of simulations (docs/reference/operations.md#simulating-workflows), in this process.

Callouts as the server makes them, and what functions answer.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeAlias, TypedDict

import msgspec
from msgspec import UNSET, Struct

from statewright.compute.callout import Callout, CalloutResult
from statewright.engine.models import DocumentRules, Model
from statewright.engine.simulation import (
    Advance,
    Fire,
    Loopback,
    Scenario,
    SimulatedEvent,
    SimulationLimits,
    SimulationResult,
    Stubs,
    simulate,
)
from statewright.entity import ModelKey, Principal
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember
from statewright.ids import TenantId, model_id
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import apply_merge_patch
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import SimulationFinding
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.schema import flatten_fields, infer, merge
from statewright.sdk.functions import Caller, Kind, describe_error
from statewright.sdk.jobs import NonRetryable
from statewright.sdk.operations import Entity
from statewright.sdk.outcomes import Rejected, encode_json, to_schedule
from statewright.sdk.testing.handlers import build_meta
from statewright.sdk.testing.store import Request
from statewright.sdk.wire import KINDS
from statewright.workflow import find_violations, read_import
from statewright.workflow.structure import refuse_first


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


class _Error(Struct):
    code: str = ""
    message: str = ""
    retryable: bool = True


class _Payload(Struct):
    data: msgspec.Raw


class CalloutAnswer(Struct, rename="camel"):
    """The answer of a function, of whatever kind."""

    success: bool
    error: _Error = msgspec.field(default_factory=_Error)
    warnings: tuple[str, ...] = ()
    payload: _Payload | None = None
    matches: bool = False
    reason: str = ""
    result: msgspec.Raw = msgspec.Raw()


decode_response = msgspec.json.Decoder(CalloutAnswer).decode


class Common(TypedDict):
    """What the outcomes of all kinds have."""

    success: bool
    error: str
    error_code: str
    warnings: tuple[str, ...]
    requests: tuple[Request, ...]
    exception: Exception | None
    retryable: bool


class Invocation(Struct, frozen=True):
    """The answer of a function, its requests, and what it raised."""

    response: CalloutAnswer
    requests: tuple[Request, ...]
    exception: Exception | None

    @property
    def common(self) -> Common:
        """What the outcome of every kind tells."""
        response = self.response
        return Common(
            success=response.success,
            error=response.error.message,
            error_code=response.error.code,
            warnings=response.warnings,
            requests=self.requests,
            exception=self.exception,
            retryable=response.error.retryable,
        )


def build_request(kind: Kind, name: str, entity: Entity, at: Place, transaction_id: str) -> CloudEvent:
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


MODEL: Final = ModelKey("entity", 1)
TESTER: Final = Principal(id="tester", name="tester", kind="user", tenant=TenantId("tests"))
LIMITS: Final = SimulationLimits(cpu_s=30.0)
"""A test may take its time."""


class Save(Struct, frozen=True, kw_only=True):
    """The entity is written: with a ``document`` if one is given, firing a transition ``fire`` if one is named."""

    document: object = None
    fire: str = ""


Event: TypeAlias = str | timedelta | Save
"""A transition to fire, time that passes, or a write."""


class FunctionCall(Struct, frozen=True, kw_only=True):
    """An attempt of the engine to have a function judged or run. ``paused`` is how long runs have rested between
    attempts so far; ``error`` is empty when it succeeded.
    """

    kind: str
    name: str
    state: str
    transition: str
    paused: timedelta
    error: str = ""


class PlayedMove(Struct, frozen=True, kw_only=True):
    """A transition that was taken, or failed. ``event`` is the index of what was done, -1: the creation."""

    event: int
    at: str
    from_state: str
    transition: str
    to_state: str
    failure: str | None = None


class Played(Struct, frozen=True, kw_only=True):
    """What became of the entity. ``failure`` is why an event could not be carried out, which ends the play: state and
    document are what would be stored then. ``timers`` are the armed ones: transitions by when they fire. ``unanswered``
    names functions that neither the node nor a stub has: they counted as success without change.
    """

    state: str | None
    document: JsonValue
    moves: tuple[PlayedMove, ...]
    calls: tuple[FunctionCall, ...]
    timers: Mapping[str, datetime]
    unanswered: tuple[str, ...]
    failure: str | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """The states that the entity went through, the first one included."""
        taken = [move for move in self.moves if move.failure is None]
        if not taken:
            return () if self.state is None else (self.state,)
        return (taken[0].from_state, *(move.to_state for move in taken))


CallFunction: TypeAlias = Callable[[Kind, str, Entity, Place], Invocation]


class Calls:
    """Answers callouts of the engine: by stubs, else by the functions of the node."""

    def __init__(
        self, call: CallFunction, known: Collection[tuple[Kind, str]], stubs: Mapping[str, object] | None
    ) -> None:
        self._call = call
        self._known = known
        self._stubs = stubs or {}
        self._used: Counter[str] = Counter()
        self.made: list[FunctionCall] = []

    def answer(self, callout: Callout) -> CalloutResult | None:
        """The result; None when nobody answers. Raises what a member that does not answer leads to."""
        try:
            found = self._answer(callout)
        except Failure as failure:
            self._note(callout, failure.detail)
            raise
        if found is not None:
            self._note(callout, "" if found.success else found.error or "failed")
        return found

    def _answer(self, callout: Callout) -> CalloutResult | None:
        if callout.name in self._stubs:
            return _read_stub(callout, self._choose_stub(callout.name))
        if (callout.kind, callout.name) not in self._known:
            return None
        entity, place = _read_callout(callout)
        answer = self._call(callout.kind, callout.name, entity, place).response
        return CalloutResult(
            success=answer.success,
            error=answer.error.message or None,
            retryable=answer.error.retryable,
            warnings=answer.warnings,
            data=UNSET if answer.payload is None else bytes(answer.payload.data),
            matches=answer.matches,
            reason=answer.reason or None,
            result=decode(bytes(answer.result)) if answer.result else None,
            result_kind="Schedule" if answer.result else None,
        )

    def _choose_stub(self, name: str) -> object:
        given = self._stubs[name]
        answers = given if isinstance(given, list | tuple) and given else [given]
        number = self._used[name]
        self._used[name] += 1
        return answers[min(number, len(answers) - 1)]

    def _note(self, callout: Callout, error: str) -> None:
        self.made.append(
            FunctionCall(
                kind=callout.kind,
                name=callout.name,
                state=callout.state_from,
                transition=callout.transition,
                paused=timedelta(seconds=asyncio.get_running_loop().time()),
                error=error,
            )
        )


def play(
    workflows: Mapping[str, JsonValue] | Sequence[Mapping[str, JsonValue]],
    document: JsonValue,
    events: Sequence[Event],
    calls: Calls,
    *,
    sample: JsonValue,
    at: datetime | None,
) -> Played:
    """Play an entity from its creation on. Raises ``ValueError``."""
    began = at if at is not None else datetime.now(UTC)
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    try:
        scenario = Scenario(
            start=document,
            events=[_read_event(event) for event in events],
            stubs=Stubs(),
            principal=TESTER,
            at=round(began.timestamp() * 1_000_000),
            answer=calls.answer,
        )
        model = _build_model(workflows, document, sample)
        with ThreadPoolExecutor(max_workers=1) as pool:  # a loop of its own, also when the test has one
            result = pool.submit(partial(simulate, model, scenario, LIMITS)).result()
    except Failure as failure:
        raise ValueError(failure.detail) from failure
    return _describe(result, calls.made)


def _build_model(
    workflows: Mapping[str, JsonValue] | Sequence[Mapping[str, JsonValue]], document: JsonValue, sample: JsonValue
) -> Model:
    """A model that takes any document, and declares what the documents at hand have."""
    given = [dict(each) for each in ([workflows] if isinstance(workflows, Mapping) else workflows)]
    request = read_import({"workflows": [*given]})
    refuse_first(find_violations(request))
    schema = infer(document)
    if sample is not None:
        schema = merge(schema, infer(sample))
    id_ = model_id(MODEL.name, MODEL.version)
    rules = DocumentRules(model=id_, key=MODEL, schema=schema, validate=lambda _document: ())
    return Model(
        key=MODEL,
        id=id_,
        declared=flatten_fields(schema),
        documents=rules,
        workflows=request.workflows,
        workflows_revision=1,
    )


def _read_event(event: Event) -> SimulatedEvent:
    if isinstance(event, str):
        return Fire(event)
    if isinstance(event, timedelta):
        return Advance(event // timedelta(microseconds=1))
    document = None if event.document is None else decode(encode_json(event.document))
    return Fire(event.fire, document) if event.fire else Loopback(document)


def _read_callout(callout: Callout) -> tuple[Entity, Place]:
    """The entity that a callout is about, and where it is made."""
    payload = decode(callout.payload) if callout.payload is not None else {}
    members: JsonObject = payload if isinstance(payload, dict) else {}
    meta = members.get("meta")
    known: JsonObject = meta if isinstance(meta, dict) else {}
    entity = Entity(
        id=callout.entity_id,
        model=MODEL.name,
        model_version=MODEL.version,
        state=callout.state_from,
        data=members.get("data"),
        transaction_id=str(known.get("transactionId") or callout.transaction_id),
        created=str(known.get("creationDate", "")),
        updated=str(known.get("lastUpdateTime", "")),
    )
    principal = callout.principal
    place = Place(
        workflow=callout.workflow,
        transition=callout.transition,
        state_to=callout.state_to,
        parameters=callout.parameters,
        principal=Caller(id=principal.id, kind=principal.kind, roles=principal.roles),
        joins=callout.tx_token is not None,
        attached=callout.payload is not None,
    )
    return entity, place


def _read_stub(callout: Callout, stub: object) -> CalloutResult:
    """What a stub answers. Raises what a member that does not answer leads to."""
    if isinstance(stub, TimeoutError):
        raise DispatchTimeout(str(stub) or f"{callout.kind} dispatch timed out after {callout.timeout_ms}ms")
    if isinstance(stub, ConnectionError):
        raise ComputeMemberDisconnected(str(stub) or f"compute member disconnected during {callout.kind} dispatch")
    if isinstance(stub, LookupError):
        raise NoComputeMember(str(stub) or "no matching calculation member")
    if isinstance(stub, Exception):
        return CalloutResult(success=False, error=describe_error(stub), retryable=not isinstance(stub, NonRetryable))
    match callout.kind:
        case "processor":
            if stub is None or callout.payload is None:
                return CalloutResult(success=True)
            changed = apply_merge_patch(_read_callout(callout)[0].data, decode(encode_json(stub)))
            return CalloutResult(success=True, data=encode(changed))
        case "criteria":
            if isinstance(stub, Rejected):
                return CalloutResult(success=True, matches=False, reason=stub.reason)
            return CalloutResult(success=True, matches=bool(stub))
        case "function":
            schedule = decode(encode_json(to_schedule(stub)))
            return CalloutResult(success=True, result=schedule, result_kind="Schedule")


def _describe(result: SimulationResult, made: Sequence[FunctionCall]) -> Played:
    return Played(
        state=result.state,
        document=result.document,
        moves=msgspec.convert(result.path, tuple[PlayedMove, ...], from_attributes=True),
        calls=tuple(made),
        timers={
            key.transition: datetime.fromtimestamp(due / 1000, UTC)
            for key, due in sorted(result.timers.items(), key=lambda item: item[1])
        },
        unanswered=tuple(_name_missing(finding) for finding in result.findings if finding.code == "MISSING_STUB"),
        failure=result.failure,
    )


def _name_missing(finding: SimulationFinding) -> str:
    return finding.path.rpartition("/")[2]
