"""The incident of an instance that fails, which commits with the advance that fails it
(docs/reference/operations.md#incidents).
"""

from statewright.ids import EntityId, make_uuid7
from statewright.incidents import IncidentKind, IncidentRow, build_title, compute_fingerprint, trim_message
from statewright.net.effects import ChangePhase, CloseTask, RecordExit
from statewright.processes.language import Applied, I, P, ProcessLanguage
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.tracing import get_trace_id


def build_incidents(
    unit: UnitOfWork, language: ProcessLanguage[P, I], applied: Applied[I], instance_id: EntityId, at: int
) -> tuple[IncidentRow, ...]:
    """The incident of an operation that failed the instance; none of any other."""
    failed = next((each for each in applied.effects if isinstance(each, ChangePhase) and each.phase == "FAILED"), None)
    if failed is None:
        return ()
    exits = (each for each in reversed(applied.effects) if isinstance(each, RecordExit) and each.status == "FAILED")
    step = next((str(each.node) for each in exits), None)
    is_job = any(isinstance(each, CloseTask) and each.status == "FAILED" for each in applied.effects)
    key, definition = language.models.instance.key, applied.instance.definition_id
    kind: IncidentKind = "JOB_FAILED" if is_job else "INSTANCE_FAILED"
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
    return (row,)
