"""What one step of an instance adds to the audit log (spec/step-engine.md §16)."""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.net.effects import ChangePhase, CloseHumanTask, Effect, FireTimer, RecordEntry, RecordExit
from statewright.steps.core.compiling import Process
from statewright.steps.core.instance import Instance
from statewright.steps.core.operations import Applied

Kind: TypeAlias = Literal[
    "instance-started",
    "instance-completed",
    "instance-failed",
    "instance-cancelled",
    "step-entered",
    "step-completed",
    "step-failed",
    "timer-fired",
    "user-task-completed",
    "signal-received",
    "step-retried",
]
"""The kinds that follow from effects; those about jobs, definitions and chains are the shell's."""


class AuditEntry(Struct, frozen=True):
    """An entry without time and actor, which the shell knows."""

    kind: Kind
    detail: JsonObject


_PHASES: Final[dict[str, Kind]] = {
    "COMPLETED": "instance-completed",
    "FAILED": "instance-failed",
    "CANCELLED": "instance-cancelled",
}


def audit_entries(process: Process, before: Instance | None, applied: Applied) -> tuple[AuditEntry, ...]:
    """The entries of an operation, in order; ``before`` ``None``: the instance is new."""
    started: list[AuditEntry] = []
    if before is None:
        started.append(AuditEntry("instance-started", {"businessKey": applied.instance.business_key}))
    return (*started, *(entry for effect in applied.effects for entry in _entries(process, effect)))


def _entries(process: Process, effect: Effect) -> Iterator[AuditEntry]:
    match effect:
        case RecordEntry(node=node, attempt=attempt):
            yield AuditEntry("step-entered", {"stepId": node, "attemptNumber": attempt})
        case RecordExit(status="FAILED", node=node, reason=reason):
            yield AuditEntry("step-failed", {"stepId": node, "failureReason": reason})
        case RecordExit(status="COMPLETED", node=node):
            if process.steps[node].type == "WAIT":
                yield AuditEntry("signal-received", {"stepId": node})
            yield AuditEntry("step-completed", {"stepId": node})
        case CloseHumanTask(status="COMPLETED", task=task, by=by):
            yield AuditEntry("user-task-completed", {"userTaskId": task, "completedBy": by})
        case FireTimer(timer=timer):
            yield AuditEntry("timer-fired", {"timerId": timer})
        case ChangePhase(phase="RUNNING"):
            yield AuditEntry("step-retried", {})
        case ChangePhase(phase=phase, reason=reason):
            yield AuditEntry(_PHASES[phase], {} if reason is None else {"failureReason": reason})
        case _:
            pass
