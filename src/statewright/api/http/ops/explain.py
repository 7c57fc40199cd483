"""Explanations as clients read them (docs/reference/operations.md#explain)."""

from typing import Final

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import POINT_IN_TIME
from statewright.engine.explanation import ProcessorOutlook, TransitionOutlook
from statewright.entity import ScheduledTask
from statewright.instants import to_rfc3339
from statewright.services.ops import explaining
from statewright.services.ops.explaining import EntityExplanation


async def explain_entity(request: Request) -> Response:
    """Why an entity is where it is, and what would move it."""
    instant = request.query_instant("pointInTime")
    found = await explaining.explain(request.runtime, request.caller, request.entity_id(), instant=instant)
    return Response(encode_json(_describe(found)))


def _describe(found: EntityExplanation) -> dict[str, object]:
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
        "transitions": [_describe_transition(each) for each in explanation.transitions],
    }
    if found.since is not None:
        shown["since"] = to_rfc3339(found.since)
    if found.suspensions is not None:
        shown["suspensions"] = [
            {"id": each.id, "scope": each.scope, "reason": each.reason, "since": to_rfc3339(each.since)}
            for each in found.suspensions
        ]
    if found.incidents is not None:
        shown["incidents"] = [
            {"id": each.id, "kind": each.kind, "lastAt": to_rfc3339(each.last_at), "message": each.message}
            for each in found.incidents
        ]
    if found.timers is not None:
        shown["timers"] = [{"transition": each.key.transition} | _describe_timer(each) for each in found.timers]
    return shown


def _describe_transition(transition: TransitionOutlook) -> dict[str, object]:
    return {
        "name": transition.name,
        "next": transition.next,
        "kind": transition.kind,
        "disabled": transition.disabled,
        "wouldFire": transition.would_fire,
        "blockedBy": transition.blocked_by,
        "criterion": transition.criterion,
        "processors": [_describe_processor(each) for each in transition.processors],
        "timer": None if transition.timer is None else _describe_timer(transition.timer),
    }


def _describe_processor(processor: ProcessorOutlook) -> dict[str, object]:
    shown: dict[str, object] = {"name": processor.name, "mode": processor.mode, "tags": processor.tags}
    return shown if processor.members is None else shown | {"members": processor.members}


def _describe_timer(task: ScheduledTask) -> dict[str, object]:
    return {"dueAt": to_rfc3339(task.arming.fire_at * 1000), "attempts": task.attempts}


EXPLAIN: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/entities/{entityId}/explain",
        endpoint=explain_entity,
        id="explainEntity",
        summary="Why an entity is where it is, and what would move it",
        query=(POINT_IN_TIME,),
        reply="OpsExplanation",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "HISTORY_PRUNED"),
    ),
)
