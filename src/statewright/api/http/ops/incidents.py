"""Incidents: lists, groups, retry and resolve (docs/reference/operations.md#incidents)."""

from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from statewright.api.http.ops.paging import build_list_response, read_page_request, read_words, serve_list
from statewright.api.http.ops.route import ADMIN, OPERATOR, read_id, serve, serve_act
from statewright.api.http.request import Request, read_entity_id
from statewright.api.http.response import Response, encode_json
from statewright.operations.incidents import INCIDENT_KINDS, IncidentResolution, Retry, Severity
from statewright.operations.table import (
    GET_INCIDENT,
    LIST_INCIDENT_GROUPS,
    LIST_INCIDENTS,
    RESOLVE_INCIDENT,
    RETRY_INCIDENT,
)
from statewright.services.ops import incidents
from statewright.services.ops.incidents import GroupKey, IncidentFilter, IncidentKey

STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = get_args(Severity)


@serve(LIST_INCIDENTS)
async def list_incidents(request: Request) -> Response:
    """Failed work, the last first."""
    wanted = IncidentFilter(
        statuses=read_words(request, "status", STATUSES) or ("OPEN",),
        kinds=read_words(request, "kind", INCIDENT_KINDS),
        severities=read_words(request, "severity", SEVERITIES),
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


list_groups = serve_list(LIST_INCIDENT_GROUPS, GroupKey, incidents.list_groups)


@serve(GET_INCIDENT)
async def get_incident(request: Request) -> Response:
    """One incident, for operators with what was asked for."""
    found = await incidents.get_incident(request.runtime.core, request.caller, read_id(request, GET_INCIDENT))
    shown = found.incident
    if not {OPERATOR, ADMIN}.isdisjoint(request.principal.roles):
        shown = replace(shown, payload=None if found.payload is None else msgspec.Raw(found.payload.encode()))
    return Response(encode_json(shown))


retry = serve_act(
    RETRY_INCIDENT,
    Retry,
    lambda runtime, caller, id_, body: incidents.retry(runtime.processes, caller, id_, body),
)
resolve = serve_act(
    RESOLVE_INCIDENT,
    IncidentResolution,
    lambda runtime, caller, id_, body: incidents.resolve(runtime.processes, caller, id_, body.reason),
)
