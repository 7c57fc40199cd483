"""Failed work, and doing it again (docs/reference/operations.md#incidents)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from statewright.jsonval.values import JsonValue
from statewright.sdk.operations.calls import (
    Instant,
    Operation,
    Page,
    Script,
    build_key_header,
    build_query,
    quote_segment,
)
from statewright.sdk.operations.ops.answers import (
    Actor,
    Members,
    Value,
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
)


class IncidentSubject(Struct, frozen=True, rename="camel", kw_only=True):
    """What an incident is about: an ENTITY, a NEW_ENTITY that could not be created, an INSTANCE or a QUEUE."""

    kind: str
    id: str
    model: str | None = None
    state: str | None = None
    transaction_id: str | None = None


class Resolution(Struct, frozen=True, kw_only=True):
    """Who closed an incident, and how: RETRIED, RESOLVED, SUCCEEDED, MOVED or GONE."""

    by: Actor
    at: str
    how: str
    reason: str | None = None


class Incident(Struct, frozen=True, rename="camel", kw_only=True):
    """Work that failed, ``occurrences`` times. ``payload`` is what was asked for, told to operators who ask for one
    incident.
    """

    id: str
    kind: str
    severity: str
    status: str
    fingerprint: str
    title: str
    first_at: str
    last_at: str
    occurrences: int
    subject: IncidentSubject
    code: str
    message: str
    attempts: tuple[Members, ...] = ()
    principal: Actor | None = None
    workflow: str | None = None
    transition: str | None = None
    step: str | None = None
    component: str | None = None
    cause: str | None = None
    trace_id: str | None = None
    payload: Value = None
    payload_omitted: bool = False
    resolution: Resolution | None = None


class IncidentGroup(Struct, frozen=True, rename="camel", kw_only=True):
    """The open incidents of one cause."""

    fingerprint: str
    title: str
    kind: str
    open: int
    occurrences: int
    first_at: str
    last_at: str
    sample_ids: tuple[str, ...]


class RetryResult(Struct, frozen=True):
    """The incident, which is resolved, and what the work that was done again was answered with."""

    incident: Incident
    result: Value


def list_all(
    *,
    statuses: Sequence[str] = (),
    kinds: Sequence[str] = (),
    severities: Sequence[str] = (),
    fingerprints: Sequence[str] = (),
    models: Sequence[str] = (),
    entity_id: str | None = None,
    instance_id: str | None = None,
    components: Sequence[str] = (),
    codes: Sequence[str] = (),
    since: Instant | None = None,
    until: Instant | None = None,
) -> Script[Page[Incident]]:
    """Incidents by when they happened last, newest first: open ones unless ``statuses`` says otherwise. ``since`` and
    ``until``, exclusive, are about the last time.
    """
    repeated = {
        "status": statuses,
        "kind": kinds,
        "severity": severities,
        "fingerprint": fingerprints,
        "model": models,
        "component": components,
        "code": codes,
    }
    query = (
        *(pair for name, values in repeated.items() for pair in repeat_parameter(name, values)),
        *build_query(entityId=entity_id, instanceId=instance_id, lastFrom=since, lastTo=until),
    )
    return (yield from read_list("incidents", "/incidents", Incident, query))


def groups() -> Script[Page[IncidentGroup]]:
    """A line for each cause, that of most open incidents first."""
    return (yield from read_list("incident_groups", "/incident-groups", IncidentGroup, ()))


def get(incident_id: str) -> Operation[Incident]:
    """The incident."""
    path = f"/incidents/{quote_segment(incident_id)}"
    return Operation(build_call("incident", "GET", path, target=(incident_id,)), _read_incident)


def retry(
    incident_id: str,
    *,
    document: Mapping[str, JsonValue] | None = None,
    variables: Mapping[str, JsonValue] | None = None,
    force: bool = False,
    idempotency_key: str | None = None,
) -> Operation[RetryResult]:
    """Do again what failed, with another ``document`` or other ``variables`` of a step if given; ``force`` overwrites
    an entity that was written since. For operators. What fails again raises what the request did.
    """
    body: dict[str, object] = {"force": force}
    if document is not None:
        body["document"] = dict(document)
    if variables is not None:
        body["variables"] = dict(variables)
    call = build_call(
        "retry_incident",
        "POST",
        f"/incidents/{quote_segment(incident_id)}/retry",
        target=(incident_id,),
        headers=build_key_header(idempotency_key),
        body=body,
    )
    return Operation(call, _read_retry)


def resolve(incident_id: str, reason: str, *, idempotency_key: str | None = None) -> Operation[Incident]:
    """Close an incident. For operators."""
    call = build_call(
        "resolve_incident",
        "POST",
        f"/incidents/{quote_segment(incident_id)}/resolve",
        target=(incident_id,),
        headers=build_key_header(idempotency_key),
        body={"reason": reason},
    )
    return Operation(call, _read_incident)


_read_incident = build_reader(Incident)
_read_retry = build_reader(RetryResult)
