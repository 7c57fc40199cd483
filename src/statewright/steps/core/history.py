"""The history of an instance: one line per entry into a step (spec/step-engine.md §16, decision J7)."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import Effect, RecordEntry, RecordExit
from statewright.steps.core.compiling import Process
from statewright.steps.core.times import instant_text

ExecutionStatus: TypeAlias = Literal["RUNNING", "COMPLETED", "FAILED", "SKIPPED"]


class Execution(Struct, frozen=True, kw_only=True):
    """A line of the history. Instants are microseconds of the epoch."""

    id: str
    instance_id: str
    step_id: str
    step_type: str
    attempt_number: int
    status: ExecutionStatus
    started_at: int
    ended_at: int | None = None
    input_snapshot: JsonValue = None
    output_snapshot: JsonValue = None
    failure_reason: str | None = None


class Ended(Struct, frozen=True, kw_only=True):
    """What changes in a line that was written before."""

    id: str
    status: ExecutionStatus
    ended_at: int
    output_snapshot: JsonValue
    failure_reason: str | None


class HistoryChanges(Struct, frozen=True):
    """What one step adds to the history: new lines, maybe ended already, and the ends of earlier ones."""

    new: tuple[Execution, ...]
    ended: tuple[Ended, ...]


def history_changes(process: Process, instance_id: str, effects: tuple[Effect, ...], at: int) -> HistoryChanges:
    """The lines that effects amount to; those of one step share its instant."""
    new: dict[str, Execution] = {}
    ended: list[Ended] = []
    for effect in effects:
        if isinstance(effect, RecordEntry):
            new[effect.execution] = _entered(process, instance_id, effect, at)
        elif isinstance(effect, RecordExit):
            end = _ended(effect, at)
            known = new.get(effect.execution)
            if known is None:
                ended.append(end)
            else:
                new[effect.execution] = with_end(known, end)
    return HistoryChanges(tuple(new.values()), tuple(ended))


def with_end(execution: Execution, end: Ended) -> Execution:
    """The line after its end is known."""
    return replace(
        execution,
        status=end.status,
        ended_at=end.ended_at,
        output_snapshot=end.output_snapshot,
        failure_reason=end.failure_reason,
    )


def history_item(execution: Execution) -> JsonObject:
    """The line as clients read it: every member in camel case, and its capitalised twin."""
    ended_at = None if execution.ended_at is None else instant_text(execution.ended_at)
    started_at = instant_text(execution.started_at)
    members: list[tuple[str, str, JsonValue]] = [
        ("id", "ID", execution.id),
        ("instanceId", "InstanceID", execution.instance_id),
        ("stepId", "StepID", execution.step_id),
        ("stepType", "StepType", execution.step_type),
        ("attemptNumber", "AttemptNumber", execution.attempt_number),
        ("status", "Status", execution.status),
        ("startedAt", "StartedAt", started_at),
        ("endedAt", "EndedAt", ended_at),
        ("inputSnapshot", "InputSnapshot", execution.input_snapshot),
        ("outputSnapshot", "OutputSnapshot", execution.output_snapshot),
        ("failureReason", "FailureReason", execution.failure_reason),
    ]
    return {camel: value for camel, _, value in members} | {capital: value for _, capital, value in members}


def _entered(process: Process, instance_id: str, entry: RecordEntry, at: int) -> Execution:
    return Execution(
        id=entry.execution,
        instance_id=instance_id,
        step_id=entry.node,
        step_type=process.steps[entry.node].type,
        attempt_number=entry.attempt,
        status="RUNNING",
        started_at=at,
        input_snapshot=entry.input,
    )


def _ended(end: RecordExit, at: int) -> Ended:
    return Ended(
        id=end.execution,
        status=end.status,
        ended_at=at,
        output_snapshot=end.output,
        failure_reason=end.reason,
    )
