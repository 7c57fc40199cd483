"""Failed work, and doing it again (docs/reference/operations.md#incidents)."""

from collections.abc import Mapping, Sequence

from statewright.jsonval.values import JsonValue
from statewright.operations import bulk_jobs, incidents, table
from statewright.sdk.exchange import Items, make_method
from statewright.sdk.operations.calls import Instant, Operation, Page, Script
from statewright.sdk.operations.ops.work import read_list, request


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
) -> Script[Page[incidents.Incident]]:
    """Incidents by when they happened last, newest first: open ones unless ``statuses`` says otherwise. ``since`` and
    ``until``, exclusive, are about the last time.
    """
    return read_list(
        table.LIST_INCIDENTS,
        query={
            "status": statuses,
            "kind": kinds,
            "severity": severities,
            "fingerprint": fingerprints,
            "model": models,
            "component": components,
            "code": codes,
            "entityId": entity_id,
            "instanceId": instance_id,
            "lastFrom": since,
            "lastTo": until,
        },
    )


def groups() -> Script[Page[incidents.IncidentGroup]]:
    """A line for each cause, that of most open incidents first."""
    return read_list(table.LIST_INCIDENT_GROUPS)


def get(incident_id: str) -> Operation[incidents.Incident]:
    """The incident."""
    return request(table.GET_INCIDENT, incident_id)


def retry(
    incident_id: str,
    *,
    document: Mapping[str, JsonValue] | None = None,
    variables: Mapping[str, JsonValue] | None = None,
    force: bool = False,
    idempotency_key: str | None = None,
) -> Operation[incidents.RetryResult]:
    """Do again what failed, with another ``document`` or other ``variables`` of a step if given; ``force`` overwrites
    an entity that was written since. For operators. What fails again raises what the request did.
    """
    body = incidents.Retry(
        document=None if document is None else dict(document),
        variables=None if variables is None else dict(variables),
        force=force,
    )
    return request(table.RETRY_INCIDENT, incident_id, body=body, key=idempotency_key)


def resolve(incident_id: str, reason: str, *, idempotency_key: str | None = None) -> Operation[incidents.Incident]:
    """Close an incident. For operators."""
    return request(
        table.RESOLVE_INCIDENT, incident_id, body=incidents.IncidentResolution(reason=reason), key=idempotency_key
    )


def retry_group(
    fingerprint: str, *, force: bool = False, idempotency_key: str | None = None
) -> Operation[bulk_jobs.BulkJob]:
    """Do again what failed by one cause, by a bulk job. For operators."""
    body = bulk_jobs.GroupRetry(force=force or None)
    return request(table.RETRY_INCIDENT_GROUP, fingerprint, body=body, key=idempotency_key)


def resolve_group(fingerprint: str, reason: str, *, idempotency_key: str | None = None) -> Operation[bulk_jobs.BulkJob]:
    """Close the incidents of one cause, by a bulk job. For operators."""
    body = incidents.IncidentResolution(reason=reason)
    return request(table.RESOLVE_INCIDENT_GROUP, fingerprint, body=body, key=idempotency_key)


class IncidentMethods:
    """The methods of ``Client.incidents``."""

    list = Items(list_all)
    groups = Items(groups)
    get = make_method(get)
    retry = make_method(retry)
    resolve = make_method(resolve)
    retry_group = make_method(retry_group)
    resolve_group = make_method(resolve_group)
