"""Incidents: lists, groups, retry and resolve (docs/reference/operations.md#incidents)."""

from typing import Annotated, Final, get_args

import msgspec
from msgspec import Meta, Struct

from statewright.api.http.ops.bodies import read_body, read_json_body, refuse_member
from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import ADMIN, OPERATOR, OpsRoute
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter
from statewright.incidents import INCIDENT_KINDS, Severity
from statewright.instants import to_rfc3339
from statewright.services.ops import incidents
from statewright.services.ops.incidents import (
    GroupKey,
    Incident,
    IncidentFilter,
    IncidentGroup,
    IncidentKey,
    RetryRequest,
    RetryResult,
)

STATUSES: Final = ("OPEN", "RESOLVED")
SEVERITIES: Final = get_args(Severity)

FILTERS: Final = (
    Query("status", "string", "OPEN when absent, or RESOLVED", repeatable=True),
    Query("kind", "string", ", ".join(INCIDENT_KINDS), repeatable=True),
    Query("severity", "string", "ERROR, WARNING", repeatable=True),
    Query("fingerprint", "string", "equal for incidents of one cause", repeatable=True),
    Query("model", "string", "name, or name/version", repeatable=True),
    Query("entityId", "string", "of this entity", "uuid"),
    Query("instanceId", "string", "of this instance, as a UUID", "uuid"),
    Query("component", "string", "the processor, function or type of jobs", repeatable=True),
    Query("code", "string", "such as `WORKFLOW_FAILED`", repeatable=True),
    Query("firstFrom", "string", "inclusive", "date-time"),
    Query("firstTo", "string", "exclusive", "date-time"),
    Query("lastFrom", "string", "inclusive", "date-time"),
    Query("lastTo", "string", "exclusive", "date-time"),
)


class ResolutionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why an incident needs nobody any more."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)]


async def list_incidents(request: Request) -> Response:
    """Failed work, the last first."""
    wanted = IncidentFilter(
        statuses=_read_words(request, "status", STATUSES) or ("OPEN",),
        kinds=_read_words(request, "kind", INCIDENT_KINDS),
        severities=_read_words(request, "severity", SEVERITIES),
        fingerprints=request.query_all("fingerprint") or None,
        models=request.query_all("model") or None,
        subjects=[uuid_text(name, id_) for name in ("entityId", "instanceId") if (id_ := request.query(name))] or None,
        components=request.query_all("component") or None,
        codes=request.query_all("code") or None,
        first_from=request.query_instant("firstFrom"),
        first_to=request.query_instant("firstTo"),
        last_from=request.query_instant("lastFrom"),
        last_to=request.query_instant("lastTo"),
    )
    page = read_page_request(request, FILTERS, IncidentKey)
    found = await incidents.list_incidents(request.runtime, request.caller, wanted, page)
    return build_list_response(request, FILTERS, found, _describe)


async def list_groups(request: Request) -> Response:
    """Open incidents by their cause."""
    page = read_page_request(request, (), GroupKey)
    found = await incidents.list_groups(request.runtime, request.caller, page)
    return build_list_response(request, (), found, _describe_group)


async def get_incident(request: Request) -> Response:
    """One incident, for operators with what was asked for."""
    incident = await incidents.get_incident(request.runtime, request.caller, _read_id(request))
    shown = _describe(incident)
    if not {OPERATOR, ADMIN}.isdisjoint(request.principal.roles):
        shown["payload"] = None if incident.payload is None else msgspec.Raw(incident.payload.encode())
    return Response(encode_json(shown))


async def retry_incident(request: Request) -> Response:
    """Do again what failed."""
    body = await read_json_body(request)
    unknown = next((name for name in body if name not in ("document", "variables", "force")), None)
    if unknown is not None:
        raise refuse_member(f"/{unknown}", "unknown")
    force, variables = body.get("force", False), body.get("variables")
    if not isinstance(force, bool):
        raise refuse_member("/force", "not true or false")
    if variables is not None and not isinstance(variables, dict):
        raise refuse_member("/variables", "not an object")
    wanted = RetryRequest(document=body.get("document"), variables=variables, force=force)

    async def respond(done: RetryResult) -> Response:
        return Response(encode_json({"incident": _describe(done.incident), "result": done.result}))

    caller = request.answer_with(respond)
    return await respond(await incidents.retry(request.runtime, caller, _read_id(request), wanted))


async def resolve_incident(request: Request) -> Response:
    """Close an incident."""
    body = await read_body(request, ResolutionBody)
    incident = await incidents.resolve(request.runtime, request.caller, _read_id(request), body.reason)
    return Response(encode_json(_describe(incident)))


def _read_id(request: Request) -> str:
    return uuid_text("incidentId", request.path_params["incidentId"])


def _read_words(request: Request, name: str, known: tuple[str, ...]) -> tuple[str, ...] | None:
    given = request.query_all(name)
    if any(word not in known for word in given):
        raise InvalidParameter(name)
    return given or None


def _describe(incident: Incident) -> dict[str, object]:
    subject: dict[str, object] = {"kind": incident.subject_kind, "id": incident.subject_id, "model": incident.model}
    subject |= {"state": incident.state, "transactionId": incident.entity_transaction}
    optional: dict[str, object] = {
        name: getattr(incident, name) for name in ("workflow", "transition", "step", "component", "cause")
    }
    optional["traceId"] = incident.trace_id
    shown: dict[str, object] = {
        "id": incident.id,
        "kind": incident.kind,
        "severity": incident.severity,
        "status": incident.status,
        "fingerprint": incident.fingerprint,
        "title": incident.title,
        "firstAt": to_rfc3339(incident.first_at),
        "lastAt": to_rfc3339(incident.last_at),
        "occurrences": incident.occurrences,
        "subject": subject,
        "code": incident.code,
        "message": incident.message,
        "attempts": msgspec.Raw(incident.attempts.encode()),
        "principal": {"id": incident.principal_id, "kind": incident.principal_kind},
        "payloadOmitted": incident.payload_omitted,
    }
    if incident.resolved_at is not None:
        shown["resolution"] = {
            "by": {"id": incident.resolved_by_id, "kind": incident.resolved_by_kind},
            "at": to_rfc3339(incident.resolved_at),
            "how": incident.resolution,
            "reason": incident.resolution_reason,
        }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _describe_group(group: IncidentGroup) -> dict[str, object]:
    return {
        "fingerprint": group.fingerprint,
        "title": group.title,
        "kind": group.kind,
        "open": group.open,
        "occurrences": group.occurrences,
        "firstAt": to_rfc3339(group.first_at),
        "lastAt": to_rfc3339(group.last_at),
        "sampleIds": group.sample_ids,
    }


_BASE: Final = "/ops/v1/incidents/{incidentId}"

INCIDENTS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/incidents",
        endpoint=list_incidents,
        id="listIncidents",
        summary="Failed work, the last first",
        query=(*FILTERS, *PAGING),
        reply="OpsIncidents",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/incident-groups",
        endpoint=list_groups,
        id="listIncidentGroups",
        summary="Open incidents by their cause, that of most of them first",
        query=PAGING,
        reply="OpsIncidentGroups",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path=_BASE,
        endpoint=get_incident,
        id="getIncident",
        summary="One incident, for operators with what was asked for",
        reply="OpsIncident",
        problems=("BAD_REQUEST", "INCIDENT_NOT_FOUND"),
    ),
    OpsRoute(
        method="POST",
        path=f"{_BASE}/retry",
        endpoint=retry_incident,
        id="retryIncident",
        summary="Do again what failed, as the caller",
        role=OPERATOR,
        recording="commit",
        body="OpsRetry",
        body_required=False,
        reply="OpsRetryResult",
        problems=(
            "BAD_REQUEST",
            "FORBIDDEN",
            "INCIDENT_NOT_FOUND",
            "INCIDENT_CLOSED",
            "INCIDENT_STALE",
            "INCIDENT_NOT_RETRYABLE",
        ),
    ),
    OpsRoute(
        method="POST",
        path=f"{_BASE}/resolve",
        endpoint=resolve_incident,
        id="resolveIncident",
        summary="Close an incident that needs nobody any more",
        role=OPERATOR,
        body="OpsIncidentResolution",
        reply="OpsIncident",
        problems=("BAD_REQUEST", "FORBIDDEN", "INCIDENT_NOT_FOUND", "INCIDENT_CLOSED"),
    ),
)
