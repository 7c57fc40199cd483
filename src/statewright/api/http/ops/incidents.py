"""Incidents: lists, groups, retry and resolve (docs/reference/operations.md#incidents).

Bodies of the operations API: JSON objects without unknown members (docs/reference/operations.md#requests).

Records of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests).
"""

import re
from typing import Final, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.api.http.ops.lists import build_list_response, read_page_request
from statewright.api.http.ops.route import ADMIN, OPERATOR, serve
from statewright.api.http.request import Request, read_entity_id, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.failures import BadRequest, Forbidden, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject
from statewright.operations.incidents import INCIDENT_KINDS, IncidentResolution, Retry, RetryResult, Severity
from statewright.operations.service import IdempotencyRecord
from statewright.operations.table import (
    GET_IDEMPOTENCY_RECORD,
    GET_INCIDENT,
    LIST_INCIDENT_GROUPS,
    LIST_INCIDENTS,
    RESOLVE_INCIDENT,
    RETRY_INCIDENT,
)
from statewright.services.ops import incidents
from statewright.services.ops.incidents import GroupKey, IncidentFilter, IncidentKey

MAX_BYTES: Final = 10 * 1024 * 1024

Body = TypeVar("Body", bound=Struct)

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_PATH: Final = re.compile(r" - at `\$([^`]*)`")


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body as ``kind``, which forbids unknown members. Raises ``BadRequest`` with the pointer of what is wrong."""
    return decode_body(await request.body(MAX_BYTES), kind)


async def read_exact_body(request: Request, kind: type[Body]) -> Body:
    """The same with numbers that keep their digits. Raises ``BadRequest``."""
    value = await read_json_body(request)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as misfit:
        raise _refuse_misfit(misfit) from misfit


def decode_body(raw: bytes, kind: type[Body]) -> Body:
    """The same from what was read already."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as misfit:
        raise _refuse_misfit(misfit) from misfit
    except (ValueError, RecursionError) as malformed:
        raise BadRequest("the body is not JSON") from malformed


def refuse_member(pointer: str, wrong: str) -> BadRequest:
    """The refusal of a member of a body."""
    return BadRequest(f"invalid body: {pointer or '/'}: {wrong}", {"parameter": pointer or "/"})


def _refuse_misfit(misfit: msgspec.ValidationError) -> BadRequest:
    return refuse_member(_find_pointer(str(misfit)), _PATH.sub("", str(misfit)))


def _find_pointer(text: str) -> str:
    """``/model/version`` from what msgspec says."""
    path = _PATH.search(text)
    pointer = re.sub(r"\.|\[", "/", path[1].replace("]", "")) if path else ""
    named = _UNKNOWN.search(text) or _MISSING.search(text)
    return f"{pointer}/{named[1]}" if named else pointer


async def read_json_body(request: Request) -> JsonObject:
    """The body as an object whose numbers keep their digits; none is an empty one. Raises ``BadRequest``."""
    try:
        value = await request.read(lambda raw: decode(raw) if raw else {}, MAX_BYTES)
    except MalformedJson as malformed:
        raise BadRequest(f"the body is not JSON: {malformed}") from malformed
    if not isinstance(value, dict):
        raise refuse_member("", "not an object")
    return value


STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = get_args(Severity)


@serve(LIST_INCIDENTS)
async def list_incidents(request: Request) -> Response:
    """Failed work, the last first."""
    wanted = IncidentFilter(
        statuses=_read_words(request, "status", STATUSES) or ("OPEN",),
        kinds=_read_words(request, "kind", INCIDENT_KINDS),
        severities=_read_words(request, "severity", SEVERITIES),
        fingerprints=request.query_all("fingerprint") or None,
        models=request.query_all("model") or None,
        subjects=[read_entity_id(name, id_) for name in ("entityId", "instanceId") if (id_ := request.query(name))]
        or None,
        components=request.query_all("component") or None,
        codes=request.query_all("code") or None,
        first_from=request.query_instant("firstFrom"),
        first_to=request.query_instant("firstTo"),
        last_from=request.query_instant("lastFrom"),
        last_to=request.query_instant("lastTo"),
    )
    page = read_page_request(request, LIST_INCIDENTS, IncidentKey)
    found = await incidents.list_incidents(request.runtime.core, request.caller, wanted, page)
    return build_list_response(request, LIST_INCIDENTS, found)


@serve(LIST_INCIDENT_GROUPS)
async def list_groups(request: Request) -> Response:
    """Open incidents by their cause."""
    page = read_page_request(request, LIST_INCIDENT_GROUPS, GroupKey)
    found = await incidents.list_groups(request.runtime.core, request.caller, page)
    return build_list_response(request, LIST_INCIDENT_GROUPS, found)


@serve(GET_INCIDENT)
async def get_incident(request: Request) -> Response:
    """One incident, for operators with what was asked for."""
    found = await incidents.get_incident(request.runtime.core, request.caller, _read_id(request))
    shown = found.incident
    if not {OPERATOR, ADMIN}.isdisjoint(request.principal.roles):
        shown = replace(shown, payload=None if found.payload is None else msgspec.Raw(found.payload.encode()))
    return Response(encode_json(shown))


@serve(RETRY_INCIDENT)
async def retry_incident(request: Request) -> Response:
    """Do again what failed."""
    body = await read_exact_body(request, Retry)

    async def respond(done: RetryResult) -> Response:
        return Response(encode_json(done))

    caller = request.answer_with(respond)
    return await respond(await incidents.retry(request.runtime.processes, caller, _read_id(request), body))


@serve(RESOLVE_INCIDENT)
async def resolve_incident(request: Request) -> Response:
    """Close an incident."""
    body = await read_body(request, IncidentResolution)
    return Response(
        encode_json(await incidents.resolve(request.runtime.processes, request.caller, _read_id(request), body.reason))
    )


def _read_id(request: Request) -> str:
    return uuid_text("incidentId", request.path_params["incidentId"])


def _read_words(request: Request, name: str, known: tuple[str, ...]) -> tuple[str, ...] | None:
    given = request.query_all(name)
    if any(word not in known for word in given):
        raise InvalidParameter(name)
    return given or None


@serve(GET_IDEMPOTENCY_RECORD)
async def get_record(request: Request) -> Response:
    """What became of a request with a key; never what it was answered."""
    wanted = request.query("principal")
    principal = request.principal
    if wanted not in (None, principal.id) and {OPERATOR, ADMIN}.isdisjoint(principal.roles):
        raise Forbidden("keys of others are shown to operators")
    requests = request.runtime.core.requests
    found = await requests.get_record(principal.tenant, wanted or principal.id, request.path_params["key"])
    record = IdempotencyRecord(
        status=found.status,
        transaction_id=found.transaction_id,
        entity_ids=found.entities,
        answer_status=None if found.answer is None else found.answer.status,
        created_at=to_rfc3339(found.created_at),
        expires_at=to_rfc3339(found.expires_at),
    )
    return Response(encode_json(record))
