"""Acts of operators that commit with what they do to an entity."""

from typing import Final

from statewright.entity import Actor
from statewright.ids import TenantId, make_uuid7, system_clock
from statewright.operations.service import Act
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.commit.submission import StagedPart
from statewright.storage.ops.audit import encode_details


class StagedAct(StagedPart, frozen=True, kw_only=True):
    """An act as it is recorded."""

    tenant: TenantId
    id: str
    actor_id: str
    actor_kind: str
    action: str
    target_kind: str
    target_id: str
    details: str
    reason: str | None = None
    trace_id: str | None = None


ACTS: Final = build_staged_part("acts", read_sections("statewright.storage.ops", "acts.sql"))


def build_staged_act(tenant: TenantId, actor: Actor, act: Act) -> StagedAct:
    """What a transaction stages that carries the act out."""
    return StagedAct(
        tenant=tenant,
        id=make_uuid7(system_clock()),
        actor_id=actor.id,
        actor_kind=actor.kind,
        action=act.action,
        target_kind=act.target_kind,
        target_id=act.target_id,
        details=encode_details(act.details),
        reason=act.reason,
        trace_id=act.trace_id,
    )
