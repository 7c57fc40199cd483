"""Checking workflows before they are imported (docs/reference/operations.md#checking-workflows)."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from statewright.background import run_in_thread
from statewright.conditions import KnownFields
from statewright.entity import ModelKey
from statewright.ids import TenantId, model_id
from statewright.jsonval.codec import decode
from statewright.schema import flatten_fields, schema_from_stored
from statewright.services.models import build_not_found
from statewright.services.ops.members import ConnectedMembers
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.runtime import Caller, Runtime
from statewright.storage import models
from statewright.storage.ops.presence import list_seen_tags
from statewright.storage.ops.workflow_use import StateCount, count_use
from statewright.suspensions import ActiveSuspensions
from statewright.workflow import Workflow, decode_json, find_governing, workflows_from_stored
from statewright.workflow.checking import CheckResult, check_import
from statewright.workflow.review import StateUse, Surroundings


class CheckConfig(Struct, frozen=True):
    """How often timers are looked at."""

    scan_interval: timedelta


class AffectedState(Struct, frozen=True, kw_only=True):
    """Entities that follow a workflow and are in a state; ``issue`` is what the import would do to them, None:
    nothing.
    """

    workflow: str
    state: str
    count: int
    issue: str | None


class WorkflowCheck(Struct, frozen=True, kw_only=True):
    """The result with whom it concerns; None where counting would take too long."""

    result: CheckResult
    affected: Sequence[AffectedState] | None
    armed_timers: int | None


async def check_workflows(runtime: Runtime, caller: Caller, key: ModelKey, body: bytes) -> WorkflowCheck:
    """Check the document of an import against a model; nothing is saved.

    Raises ``BadRequest`` for what is no JSON, ``ModelNotFound``, ``Forbidden`` for a built-in model.
    """
    runtime.builtin.refuse_model(key)
    model = model_id(key.name, key.version)
    found = await models.fetch_model_definitions(runtime.pool, caller.tenant, model)
    if found is None:
        raise build_not_found(key)
    use = await count_use(runtime.pool, caller.tenant, model)
    members = runtime.extensions.get(ConnectedMembers)
    tags = [frozenset(member.tags) for member in members.iterate(caller.tenant)]
    seen = await list_seen_tags(runtime.pool, caller.tenant)
    around = Surroundings(
        has_member=lambda needed: any({tag.lower() for tag in needed} <= declared for declared in tags),
        uses=None if use is None else _to_uses(use[0]),
        timers=None if use is None else _to_uses(use[1]),
        scan_interval_ms=runtime.extensions.get(CheckConfig).scan_interval // timedelta(milliseconds=1),
        suspends=partial(_is_suspended, runtime.suspensions, caller.tenant, key),
        suspends_tags=lambda needed: runtime.suspensions.find_tags(caller.tenant, needed) is not None,
        has_seen=lambda tag: tag.lower() in seen,
    )
    stored_text = found.workflows.text if found.workflows else "[]"
    result = await run_in_thread(partial(_check, body, key, found.model.schema, stored_text, around))
    runtime.extensions.get(OpsMetrics).checks["importable" if result.is_importable else "refused"] += 1
    return WorkflowCheck(
        result=result,
        affected=None if use is None else _judge(use[0], result.merged),
        armed_timers=None if use is None else sum(timer.count for timer in use[1]),
    )


def _check(body: bytes, key: ModelKey, schema: str, stored_text: str, around: Surroundings) -> CheckResult:
    fields = KnownFields(flatten_fields(schema_from_stored(decode(schema))))
    stored = workflows_from_stored(stored_text.encode())
    return check_import(decode_json(body), key, stored, replace(around, fields=fields))


def _is_suspended(
    suspensions: ActiveSuspensions, tenant: TenantId, key: ModelKey, workflow: str, transition: str
) -> bool:
    if transition:
        return suspensions.find_transition(tenant, key, workflow, transition) is not None
    return bool(suspensions.list_entity(tenant, "", key, workflow))


def _to_uses(counts: Sequence[StateCount]) -> tuple[StateUse, ...]:
    return tuple(
        StateUse(workflow=each.workflow, state=each.state, transition=each.transition, count=each.count)
        for each in counts
    )


def _judge(counts: Sequence[StateCount], merged: Sequence[Workflow] | None) -> tuple[AffectedState, ...]:
    return tuple(
        AffectedState(
            workflow=each.workflow,
            state=each.state,
            count=each.count,
            issue=None if merged is None or find_governing(merged, each.state, each.workflow) else "STATE_REMOVED",
        )
        for each in counts
    )
