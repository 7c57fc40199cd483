"""Checks of workflows as clients read them (docs/reference/operations.md#checking-workflows), and simulations as they
ask for them (docs/reference/operations.md#simulating-workflows); revisions of workflows
(docs/reference/operations.md#revisions-of-workflows).
"""

from typing import Annotated, Final, TypeVar

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from statewright.api.http.ops.paging import build_list_response, read_page_request
from statewright.api.http.ops.route import MAX_BYTES, decode_body, read_body, refuse_member, serve
from statewright.api.http.request import Request, int32, read_entity_id, uuid_text
from statewright.api.http.response import Response, encode_json, encode_json_in_order
from statewright.engine.simulation import (
    Advance,
    Fire,
    FunctionStub,
    Loopback,
    ProcessorStub,
    SimulatedEvent,
    SimulationResult,
    Stubs,
)
from statewright.entity import Principal, PrincipalKind
from statewright.failures import InvalidParameter
from statewright.ids import TenantId, TransactionId
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.durations import parse_delay
from statewright.operations.checks import Activation, SimulatedTimer, Simulation
from statewright.operations.table import (
    ACTIVATE_WORKFLOW_REVISION,
    CHECK_WORKFLOWS,
    COMPARE_WORKFLOW_REVISIONS,
    COUNT_POPULATION,
    COUNT_REVISION_ENTITIES,
    GET_WORKFLOW_REVISION,
    LIST_WORKFLOW_REVISIONS,
    SIMULATE_WORKFLOWS,
)
from statewright.services.ops import checks, revisions
from statewright.services.ops.checks import SimulationRequest
from statewright.services.ops.revisions import RevisionKey
from statewright.workflow import MAX_IMPORT_BYTES

MAX_EVENTS: Final = 1_000

ValueT = TypeVar("ValueT")


class _Body(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class StartBody(_Body, frozen=True):
    """A document, or an entity that there is."""

    document: Raw = Raw()
    entity_id: str | None = None
    transaction_id: str | None = None


class EventBody(_Body, frozen=True):
    """One of ``fire``, ``loopback`` and ``advance``; the first two maybe with a ``document``."""

    fire: str | None = None
    loopback: dict[str, bool] | None = None
    advance: str | None = None
    document: Raw = Raw()


class ProcessorStubBody(_Body, frozen=True):
    """What a processor answers."""

    error: str | None = None
    merge_patch: Raw = Raw()


class StubsBody(_Body, frozen=True):
    """Answers by name; where there is one only, it need not be in an array."""

    processors: dict[str, ProcessorStubBody | list[ProcessorStubBody]] = {}
    criteria: dict[str, bool | list[bool]] = {}
    functions: dict[str, Raw] = {}


class PrincipalBody(_Body, frozen=True):
    """For whom everything is done."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    kind: PrincipalKind = "user"
    roles: list[str] = []


class SimulationBody(_Body, frozen=True):
    """A scenario."""

    start: StartBody
    workflows: Raw = Raw()
    events: Annotated[list[EventBody], Meta(max_length=MAX_EVENTS)] = []
    stubs: StubsBody = StubsBody()
    principal: PrincipalBody | None = None
    at: str | None = None


@serve(SIMULATE_WORKFLOWS)
async def simulate_workflows(request: Request) -> Response:
    """What would become of an entity."""
    key = request.model_key()
    wanted = read_scenario(await request.body(MAX_BYTES), request.principal.tenant)
    found = await checks.simulate_workflows(request.runtime.operations, request.caller, key, wanted)
    return Response(encode_json(show_simulation(found)))


def read_scenario(raw: bytes, tenant: TenantId) -> SimulationRequest:
    """The scenario in a body. Raises ``BadRequest`` with the pointer of what is wrong."""
    body = decode_body(raw, SimulationBody)
    start, document = body.start, _read_json(body.start.document, "/start/document")
    if (start.entity_id is None) == (document is None):
        raise refuse_member("/start", "either document or entityId is needed")
    if start.transaction_id is not None and start.entity_id is None:
        raise refuse_member("/start/transactionId", "it goes with entityId")
    if document is not None and not isinstance(document, dict):
        raise refuse_member("/start/document", "it must be an object")
    at = None if body.at is None else from_rfc3339(body.at)
    if body.at is not None and at is None:
        raise refuse_member("/at", "it must be an instant (RFC 3339)")
    return SimulationRequest(
        workflows=_read_json(body.workflows, "/workflows"),
        document=document,
        entity_id=None if start.entity_id is None else read_entity_id("entityId", start.entity_id),
        transaction_id=None
        if start.transaction_id is None
        else TransactionId(uuid_text("transactionId", start.transaction_id)),
        events=[_read_event(event, f"/events/{index}") for index, event in enumerate(body.events)],
        stubs=_read_stubs(body.stubs),
        principal=None if body.principal is None else _read_principal(body.principal, tenant),
        at=at,
    )


def _read_event(event: EventBody, at: str) -> SimulatedEvent:
    named = [event.fire is not None, event.loopback is not None, event.advance is not None]
    if sum(named) != 1:
        raise refuse_member(at, "one of fire, loopback and advance is needed")
    document = _read_json(event.document, f"{at}/document")
    if document is not None and not isinstance(document, dict):
        raise refuse_member(f"{at}/document", "it must be an object")
    if event.fire is not None:
        return Fire(event.fire, document)
    if event.advance is None:
        if event.loopback:
            raise refuse_member(f"{at}/loopback", "it has no members")
        return Loopback(document)
    delay = parse_delay(event.advance)
    if delay is None or delay.months:
        raise refuse_member(f"{at}/advance", "it must be a duration (ISO 8601) without months and years")
    if document is not None:
        raise refuse_member(f"{at}/document", "it goes with fire or loopback")
    return Advance(delay.microseconds)  # however far: the clock of a simulation stops at the end of the calendar


def _read_stubs(body: StubsBody) -> Stubs:
    return Stubs(
        processors={name: _read_processors(name, _to_list(given)) for name, given in body.processors.items()},
        criteria={name: _to_list(given) for name, given in body.criteria.items()},
        functions={name: _read_functions(name, raw) for name, raw in body.functions.items()},
    )


def _to_list(given: "ValueT | list[ValueT]") -> "list[ValueT]":
    return given if isinstance(given, list) else [given]


def _read_processors(name: str, answers: list[ProcessorStubBody]) -> list[ProcessorStub]:
    at = f"/stubs/processors/{name}"
    return [
        ProcessorStub(error=each.error, merge_patch=_read_object(each.merge_patch, f"{at}/{index}/mergePatch"))
        for index, each in enumerate(answers)
    ]


def _read_functions(name: str, raw: Raw) -> list[FunctionStub]:
    at = f"/stubs/functions/{name}"
    given = _read_json(raw, at)
    answers = given if isinstance(given, list) else [given]
    found = [each for each in answers if isinstance(each, dict)]
    if len(found) < len(answers):
        raise refuse_member(at, "it must be an object, or an array of objects")
    return [FunctionStub(result=each) for each in found]


def _read_object(raw: Raw, at: str) -> "JsonObject | None":
    value = _read_json(raw, at)
    if value is not None and not isinstance(value, dict):
        raise refuse_member(at, "it must be an object")
    return value


def _read_json(raw: Raw, at: str) -> JsonValue:
    """A part of the body, with every digit; None when it is absent."""
    try:
        return decode(bytes(raw)) if raw else None
    except MalformedJson as malformed:
        raise refuse_member(at, str(malformed)) from malformed


def _read_principal(body: PrincipalBody, tenant: TenantId) -> Principal:
    return Principal(id=body.id, name=body.id, kind=body.kind, tenant=tenant, roles=tuple(body.roles))


def show_simulation(found: SimulationResult) -> Simulation:
    """As clients are told of it."""
    timers = sorted(found.timers.items(), key=lambda item: (item[1], item[0].transition))
    return Simulation(
        outcome=found.outcome,
        state=found.state,
        document=found.document,
        path=found.path,
        timers=tuple(
            SimulatedTimer(state=key.state, transition=key.transition, due_at=to_rfc3339(due * 1000))
            for key, due in timers
        ),
        findings=found.findings,
        failure=found.failure,
    )


@serve(CHECK_WORKFLOWS)
async def check_workflows(request: Request) -> Response:
    """What an import would come to; nothing is saved."""
    body = await request.body(MAX_IMPORT_BYTES)
    found = await checks.check_workflows(request.runtime.operations, request.caller, request.model_key(), body)
    return Response(encode_json(found.check))


@serve(LIST_WORKFLOW_REVISIONS)
async def list_revisions(request: Request) -> Response:
    """The workflows that a model has and has had, newest first."""
    page = read_page_request(request, LIST_WORKFLOW_REVISIONS, RevisionKey)
    found = await revisions.list_revisions(request.runtime.core, request.caller, request.model_key(), page)
    return build_list_response(request, LIST_WORKFLOW_REVISIONS, found)


@serve(GET_WORKFLOW_REVISION)
async def get_revision(request: Request) -> Response:
    """One revision, with its export document."""
    number = _read_number(request)
    found = await revisions.get_revision(request.runtime.core, request.caller, request.model_key(), number)
    return Response(encode_json_in_order(found))


@serve(COMPARE_WORKFLOW_REVISIONS)
async def compare_revisions(request: Request) -> Response:
    """What changed between two revisions."""
    number, to = _read_number(request), request.query("to")
    found = await revisions.compare_revisions(
        request.runtime.core, request.caller, request.model_key(), number, to=None if to is None else int32("to", to)
    )
    return Response(encode_json_in_order(found))


@serve(ACTIVATE_WORKFLOW_REVISION)
async def activate_revision(request: Request) -> Response:
    """Bring workflows back, as a new revision."""
    number, body = _read_number(request), await read_body(request, Activation)
    expected = request.read_if_match(takes_any=True)
    if expected is not None:
        if body.if_match not in (None, expected):
            raise InvalidParameter("If-Match", "another revision than that of ifMatch")
        body = replace(body, if_match=expected)
    found = await revisions.activate_revision(request.runtime.core, request.caller, request.model_key(), number, body)
    return Response(encode_json(found))


@serve(COUNT_REVISION_ENTITIES)
async def count_revision_entities(request: Request) -> Response:
    """Who was moved last under a revision."""
    return await _count(request, _read_number(request))


@serve(COUNT_POPULATION)
async def count_population(request: Request) -> Response:
    """Where the entities of a model are."""
    return await _count(request, None)


async def _count(request: Request, number: int | None) -> Response:
    key = request.model_key()
    found = await revisions.count_population(request.runtime.core, request.caller, key, number)
    return Response(encode_json(found))


def _read_number(request: Request) -> int:
    return int32("revision", request.path_params["revision"])
