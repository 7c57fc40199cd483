"""Explanations as clients read them (docs/reference/operations.md#explain)."""

from typing import Final

from statewright.api.http.ops.route import ADMIN, OPERATOR, OpsRoute
from statewright.api.http.ops.wait import read_instance_id
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import POINT_IN_TIME, Query
from statewright.engine.explanation import ProcessorOutlook, TransitionOutlook
from statewright.entity import Principal, ScheduledTask
from statewright.failures import Forbidden, InvalidParameter, ProcessNotFound, ReadOnly
from statewright.instants import to_rfc3339
from statewright.jsonval.quoting import quote
from statewright.net import uuid_to_ulid
from statewright.net.open_joins import OpenJoin
from statewright.services.ops import explaining, instances
from statewright.services.ops.explaining import EntityExplanation
from statewright.services.ops.incidents import Incident
from statewright.services.ops.instances import InstanceExplanation, Place
from statewright.suspensions import Suspension

EVALUATE: Final = Query("evaluateFunctions", "boolean", "have members judge the criteria that are theirs (*operator*)")


async def explain_entity(request: Request) -> Response:
    """Why an entity is where it is, and what would move it."""
    instant = request.query_instant("pointInTime")
    asks_members = request.query_flag(EVALUATE.name)
    if asks_members and {OPERATOR, ADMIN}.isdisjoint(request.principal.roles):
        raise Forbidden(f"asking members needs {OPERATOR}")
    if asks_members and instant is not None:
        raise InvalidParameter(EVALUATE.name, "members are not asked about an instant of the past")
    found = await explaining.explain(
        request.runtime, request.caller, request.entity_id(), instant=instant, asks_members=asks_members
    )
    return Response(encode_json(_describe(found, request.principal)))


def _describe(found: EntityExplanation, principal: Principal) -> dict[str, object]:
    entity, explanation = found.entity, found.explanation
    shown: dict[str, object] = {
        "entityId": entity.id,
        "model": {"name": found.model.name, "version": found.model.version},
        "state": entity.state,
        "transactionId": entity.transaction_id,
        "workflow": {
            "name": explanation.workflow,
            "revision": found.revision,
            "rule": explanation.rule,
            "passedOver": explanation.passed_over,
        },
        "verdict": explanation.verdict,
        "summary": explanation.summary,
        "transitions": [_describe_transition(each, principal) for each in explanation.transitions],
    }
    if found.since is not None:
        shown["since"] = to_rfc3339(found.since)
    if found.suspensions is not None:
        shown["suspensions"] = [_describe_suspension(each) for each in found.suspensions]
    if found.incidents is not None:
        shown["incidents"] = [_describe_incident(each) for each in found.incidents]
    if found.timers is not None:
        shown["timers"] = [{"transition": each.key.transition} | _describe_timer(each) for each in found.timers]
    return shown


def _describe_transition(transition: TransitionOutlook, principal: Principal) -> dict[str, object]:
    return {
        "name": transition.name,
        "next": transition.next,
        "kind": transition.kind,
        "disabled": transition.disabled,
        "wouldFire": transition.would_fire,
        "blockedBy": transition.blocked_by,
        "criterion": transition.criterion,
        "processors": [_describe_processor(each) for each in transition.processors],
        "permission": _describe_permission(principal),
        "timer": None if transition.timer is None else _describe_timer(transition.timer),
    }


def _describe_permission(principal: Principal) -> dict[str, object]:
    """Whether who asks may fire a transition, and why not."""
    refusals = [ReadOnly()] if principal.is_read_only else []
    return {
        "allowed": not refusals,
        "whyNot": [{"code": each.code, "message": each.message} for each in refusals],
    }


def _describe_processor(processor: ProcessorOutlook) -> dict[str, object]:
    shown: dict[str, object] = {"name": processor.name, "mode": processor.mode, "tags": processor.tags}
    return shown if processor.members is None else shown | {"members": processor.members}


def _describe_timer(task: ScheduledTask) -> dict[str, object]:
    return {"dueAt": to_rfc3339(task.arming.fire_at * 1000), "attempts": task.attempts}


async def explain_instance(request: Request) -> Response:
    """What an instance waits for."""
    name = request.path_params["instanceId"]
    unknown = ProcessNotFound(f"instance {quote(name)} not found")
    found = await instances.explain_instance(request.runtime, request.caller, read_instance_id(name), unknown)
    return Response(encode_json(_describe_instance(found)))


def _describe_instance(found: InstanceExplanation) -> dict[str, object]:
    observed = found.observed
    shown: dict[str, object] = {
        "instanceId": uuid_to_ulid(found.id),
        "language": observed.language,
        "definitionId": observed.definition_id,
        "status": observed.status,
        "verdict": found.verdict,
        "summary": found.summary,
        "suspensions": [_describe_suspension(each) for each in found.suspensions],
        "incidents": [_describe_incident(each) for each in found.incidents],
        "tokens": [*map(_describe_place, found.places), *map(_describe_join, found.joins)],
        "timers": [{"timerId": uuid_to_ulid(each.id), "dueAt": to_rfc3339(each.fire_at)} for each in observed.timers],
    }
    optional: dict[str, object] = {"businessKey": observed.business_key}
    if observed.status == "FAILED":
        optional["failure"] = {"stepId": observed.failed_node, "reason": observed.failure}
    return shown | {name: value for name, value in optional.items() if value is not None}


def _describe_join(join: OpenJoin) -> dict[str, object]:
    missing = [{"branch": each.index + 1, "at": each.nodes} for each in join.missing]
    return {"stepId": join.node, "waitsFor": "JOIN", "arrived": join.arrived, "missing": missing}


def _describe_place(place: Place) -> dict[str, object]:
    execution, job = place.execution, place.execution.job
    shown: dict[str, object] = {
        "stepId": execution.node,
        "stepType": execution.node_type,
        "attempt": execution.attempt,
        "since": to_rfc3339(execution.started_at),
        "waitsFor": place.waits_for,
    }
    if execution.task is not None:
        shown["userTaskId"] = uuid_to_ulid(execution.task)
    if job is None:
        return shown
    until = None if job.kept or job.lock_expires_at is None else to_rfc3339(job.lock_expires_at)
    optional: dict[str, object | None] = {
        "worker": job.worker or None,
        "leaseUntil": until if place.phase == "LEASED" else None,
        "availableAt": until if place.phase == "DELAYED" else None,
    }
    return (
        shown
        | {
            "jobId": uuid_to_ulid(job.id),
            "jobType": job.type,
            "phase": place.phase,
            "retriesRemaining": job.retries,
            "workers": place.workers,
        }
        | {name: value for name, value in optional.items() if value is not None}
    )


def _describe_suspension(suspension: Suspension) -> dict[str, object]:
    return {
        "id": suspension.id,
        "scope": suspension.scope,
        "reason": suspension.reason,
        "since": to_rfc3339(suspension.since),
    }


def _describe_incident(incident: Incident) -> dict[str, object]:
    return {
        "id": incident.id,
        "kind": incident.kind,
        "lastAt": to_rfc3339(incident.last_at),
        "message": incident.message,
    }


EXPLAIN: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/instances/{instanceId}/explain",
        endpoint=explain_instance,
        id="explainInstance",
        summary="What an instance of a process waits for",
        reply="OpsInstanceExplanation",
        problems=("BAD_REQUEST", "STEP_NOT_FOUND"),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/entities/{entityId}/explain",
        endpoint=explain_entity,
        id="explainEntity",
        summary="Why an entity is where it is, and what would move it",
        query=(POINT_IN_TIME, EVALUATE),
        reply="OpsExplanation",
        problems=("BAD_REQUEST", "FORBIDDEN", "ENTITY_NOT_FOUND", "HISTORY_PRUNED"),
    ),
)
