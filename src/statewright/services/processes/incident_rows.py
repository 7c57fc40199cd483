"""The incidents of processes, which commit with what they tell of: an instance that fails, a successor that is given up
(docs/reference/operations.md#incidents).
"""

from collections.abc import Mapping

from statewright.ids import EntityId, make_uuid7
from statewright.net.effects import ChangePhase, CloseTask, RecordExit
from statewright.operations.incidents import IncidentKind, IncidentRow, build_title, compute_fingerprint, trim_message
from statewright.processes.language import Applied, I, P, ProcessLanguage
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.ops.incidents import INCIDENTS, StagedIncidents
from statewright.storage.processes.children import DueChild
from statewright.telemetry.tracing import get_trace_id


def build_failed_parts(
    unit: UnitOfWork,
    language: ProcessLanguage[P, I],
    applied: Applied[I],
    failed: ChangePhase,
    instance_id: EntityId,
    at: int,
) -> Mapping[str, StagedPart]:
    """What tells of an operation that ``failed`` the instance."""
    is_job = any(isinstance(each, CloseTask) and each.status == "FAILED" for each in applied.effects)
    kind: IncidentKind = "JOB_FAILED" if is_job else "INSTANCE_FAILED"
    exits = (each for each in reversed(applied.effects) if isinstance(each, RecordExit) and each.status == "FAILED")
    step = next((str(each.node) for each in exits), None)
    key, definition = language.models.instance.key, applied.instance.definition_id
    model, message = f"{key.name}/{key.version}", failed.reason or "failed"
    row = IncidentRow(
        tenant=unit.tenant,
        id=make_uuid7(at),
        kind=kind,
        severity="ERROR",
        fingerprint=compute_fingerprint(kind, model, definition, step, message=message),
        title=build_title(" ".join(part for part in (definition, step) if part), message),
        at=at,
        occurrences=1,
        subject_kind="INSTANCE",
        subject_id=instance_id,
        model=model,
        state=applied.instance.status,
        code=kind,
        message=trim_message(message),
        principal_id=unit.principal.id,
        principal_kind=unit.principal.kind,
        language=language.name,
        workflow=definition,
        step=step,
        trace_id=get_trace_id(),
    )
    return {INCIDENTS.name: StagedIncidents(rows=(row,))}


def build_given_up_parts(
    unit: UnitOfWork, language: ProcessLanguage[P, I], child: DueChild, reason: str
) -> Mapping[str, StagedPart]:
    """What tells of an instance that has ended, and whose successor cannot be started."""
    kind: IncidentKind = "CHAIN_FAILED"
    key = language.models.instance.key
    model, message = f"{key.name}/{key.version}", reason
    row = IncidentRow(
        tenant=unit.tenant,
        id=make_uuid7(unit.started_at),
        kind=kind,
        severity="ERROR",
        fingerprint=compute_fingerprint(kind, model, child.definition_id, message=message),
        title=build_title(f"successor {child.definition_id}", message),
        at=unit.started_at,
        occurrences=1,
        subject_kind="INSTANCE",
        subject_id=child.parent,
        model=model,
        state="",
        code=kind,
        message=trim_message(message),
        principal_id=unit.principal.id,
        principal_kind=unit.principal.kind,
        language=language.name,
        workflow=child.definition_id,
        trace_id=get_trace_id(),
    )
    return {INCIDENTS.name: StagedIncidents(rows=(row,))}
