"""Explanations as clients read them (docs/reference/operations.md#explain)."""

from msgspec.structs import replace

from statewright.api.http.ops.route import ADMIN, OPERATOR, build_unknown_instance, read_instance_id, serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.engine.explanation import TransitionOutlook
from statewright.entity import Principal, ScheduledTask
from statewright.failures import Forbidden, InvalidParameter, ReadOnly
from statewright.instants import to_rfc3339
from statewright.net import uuid_to_ulid
from statewright.net.arrivals import OpenJoin
from statewright.operations.active_suspensions import Suspension
from statewright.operations.explanations import (
    ArmedTimer,
    AwaitedBranch,
    AwaitedThing,
    BlockingSuspension,
    ExplainedEntity,
    ExplainedInstance,
    ExplainedTransition,
    GoverningWorkflow,
    InstanceTimer,
    OpenIncident,
    Permission,
    Refusal,
)
from statewright.operations.incidents import Incident
from statewright.operations.table import EXPLAIN_ENTITY, EXPLAIN_INSTANCE
from statewright.services.ops import explanations
from statewright.services.ops.explanations import EntityExplanation, InstanceExplanation, Place


@serve(EXPLAIN_ENTITY)
async def explain_entity(request: Request) -> Response:
    """Why an entity is where it is, and what would move it."""
    instant = request.query_instant("pointInTime")
    asks_members = request.query_flag("evaluateFunctions")
    if asks_members and {OPERATOR, ADMIN}.isdisjoint(request.principal.roles):
        raise Forbidden(f"asking members needs {OPERATOR}")
    if asks_members and instant is not None:
        raise InvalidParameter("evaluateFunctions", "members are not asked about an instant of the past")
    found = await explanations.explain(
        request.runtime.operations, request.caller, request.entity_id(), instant=instant, asks_members=asks_members
    )
    return Response(encode_json(_show_entity(found, request.principal)))


def _show_entity(found: EntityExplanation, principal: Principal) -> ExplainedEntity:
    entity, explanation = found.entity, found.explanation
    permission, obstacles = _show_permission(principal), found.obstacles
    return ExplainedEntity(
        entity_id=entity.id,
        model=found.model,
        state=entity.state,
        since=None if found.since is None else to_rfc3339(found.since),
        transaction_id=entity.transaction_id,
        workflow=GoverningWorkflow(
            name=explanation.workflow,
            revision=found.revision,
            rule=explanation.rule,
            passed_over=explanation.passed_over,
        ),
        verdict=explanation.verdict,
        summary=explanation.summary,
        transitions=tuple(_show_transition(each, permission) for each in explanation.transitions),
        suspensions=None if obstacles is None else tuple(map(_show_suspension, obstacles.suspensions)),
        incidents=None if obstacles is None else tuple(map(_show_incident, obstacles.incidents)),
        timers=None if found.timers is None else tuple(_show_timer(each, each.key.transition) for each in found.timers),
    )


def _show_transition(transition: TransitionOutlook, permission: Permission) -> ExplainedTransition:
    return ExplainedTransition(
        name=transition.name,
        next=transition.next,
        kind=transition.kind,
        disabled=transition.disabled,
        would_fire=transition.would_fire,
        blocked_by=transition.blocked_by,
        criterion=transition.criterion,
        processors=transition.processors,
        permission=permission,
        timer=None if transition.timer is None else _show_timer(transition.timer),
    )


def _show_permission(principal: Principal) -> Permission:
    refusals = [ReadOnly()] if principal.is_read_only else []
    return Permission(
        allowed=not refusals, why_not=tuple(Refusal(code=each.code, message=each.message) for each in refusals)
    )


def _show_timer(task: ScheduledTask, transition: str | None = None) -> ArmedTimer:
    return ArmedTimer(transition=transition, due_at=to_rfc3339(task.arming.fire_at * 1000), attempts=task.attempts)


@serve(EXPLAIN_INSTANCE)
async def explain_instance(request: Request) -> Response:
    """What an instance waits for."""
    name = request.path_params["instanceId"]
    found = await explanations.explain_instance(
        request.runtime.operations, request.caller, read_instance_id(name), build_unknown_instance(name)
    )
    return Response(encode_json(_show_instance(found)))


def _show_instance(found: InstanceExplanation) -> ExplainedInstance:
    observed = found.observed
    return ExplainedInstance(
        instance_id=uuid_to_ulid(found.id),
        language=observed.language,
        definition_id=observed.definition_id,
        status=observed.status,
        business_key=observed.business_key,
        verdict=found.verdict,
        summary=found.summary,
        suspensions=tuple(map(_show_suspension, found.obstacles.suspensions)),
        incidents=tuple(map(_show_incident, found.obstacles.incidents)),
        failure={"stepId": observed.failed_node, "reason": observed.failure} if observed.status == "FAILED" else None,
        tokens=(*map(_show_place, found.places), *map(_show_join, found.joins)),
        timers=tuple(
            InstanceTimer(timer_id=uuid_to_ulid(each.id), due_at=to_rfc3339(each.fire_at)) for each in observed.timers
        ),
    )


def _show_join(join: OpenJoin) -> AwaitedThing:
    missing = tuple(AwaitedBranch(branch=each.index + 1, at=tuple(each.nodes)) for each in join.missing)
    return AwaitedThing(step_id=join.node, waits_for="JOIN", arrived=join.arrived, missing=missing)


def _show_place(place: Place) -> AwaitedThing:
    execution, job = place.execution, place.execution.job
    shown = AwaitedThing(
        step_id=execution.node,
        step_type=execution.node_type,
        attempt=execution.attempt,
        since=to_rfc3339(execution.started_at),
        waits_for=place.waits_for,
        user_task_id=None if execution.task is None else uuid_to_ulid(execution.task),
    )
    if job is None:
        return shown
    until = None if job.kept or job.lock_expires_at is None else to_rfc3339(job.lock_expires_at)
    return replace(
        shown,
        job_id=uuid_to_ulid(job.id),
        job_type=job.type,
        phase=place.phase,
        retries_remaining=job.retries,
        workers=place.workers,
        worker=job.worker or None,
        lease_until=until if place.phase == "LEASED" else None,
        available_at=until if place.phase == "DELAYED" else None,
    )


def _show_suspension(suspension: Suspension) -> BlockingSuspension:
    since = to_rfc3339(suspension.since)
    return BlockingSuspension(id=suspension.id, scope=suspension.scope, reason=suspension.reason, since=since)


def _show_incident(incident: Incident) -> OpenIncident:
    return OpenIncident(id=incident.id, kind=incident.kind, last_at=incident.last_at, message=incident.message)
