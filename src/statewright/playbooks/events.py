"""The event log of an execution: what the kernel decided, in the words of playbooks
(docs/reference/executions.md#event-log).

It is complete: the state of an execution can be made from it, and nothing else but the playbook.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue, is_whole
from statewright.net import Marking, WorkId
from statewright.net.effects import (
    ArmTimer,
    ChangePhase,
    Effect,
    EnqueueTask,
    RecordEntry,
    RecordExit,
    RecordPatch,
    StartChild,
    Trace,
)
from statewright.operations.records import ClosedRecord, Instant, Int32, Int64, Members, Ulid, name_words
from statewright.playbooks.compiling import CompiledPlaybook
from statewright.playbooks.context import WORKLOAD, get_member
from statewright.playbooks.graph import Status, describe_error, get_result
from statewright.playbooks.language import ARGS, get_args
from statewright.playbooks.pipeline import TASK_ENDED

EntityType: TypeAlias = Literal["playbook", "workflow", "token", "step", "task", "loop", "next", "policy", "ctx"]
EventSource: TypeAlias = Literal["server", "worker"]
EventStatus: TypeAlias = Literal["in_progress", "success", "error", "skipped", "paused"]


class LargeValue(ClosedRecord, frozen=True, kw_only=True):
    """Where a large member of a payload is."""

    value: str
    """The name by which it is read."""
    bytes: Int32


class EventRecord(ClosedRecord, frozen=True, kw_only=True, rename=None):
    """An entry of the log as clients read it (:func:`render_event`)."""

    event_id: str
    event_type: str
    timestamp: Instant
    execution_id: Ulid
    seq: Annotated[Int64, Meta(description="from 1, without gaps")]
    source: Annotated[EventSource, name_words(EventSource)]
    entity_type: Annotated[EntityType, name_words(EntityType)]
    entity_id: str
    status: Annotated[EventStatus, name_words(EventStatus)]
    references: (
        Annotated[
            Mapping[str, LargeValue],
            Meta(description="members of the payload that are null here since they have more than 64 KiB, by name"),
        ]
        | None
    ) = None
    step: str | None = None
    step_run_id: str | None = None
    task_run_id: str | None = None
    iteration: Int32 | None = None
    attempt: Int32 | None = None
    duration_ms: Int32 | None = None
    parent_id: str | None = None
    payload: Members


WORKER_EVENT: Final = "worker.event"
"""The trace of what a worker reports of a run: its details are the entry."""


UNDEFINED_NAME: Final = "UNDEFINED_NAME"
"""The code of the entry that a bare name of a template has no value."""
REQUEST: Final = "request"
"""The trace of who asked for an operation and why, before all that it led to."""


class LogEvent(Struct, frozen=True, kw_only=True):
    """An entry of the log, without the execution, its number and the instant, which are those of the advance."""

    type: str
    entity_type: EntityType
    entity_id: str = ""
    """The token, the run, the task; empty: the execution."""
    status: EventStatus = "success"
    source: EventSource = "server"
    step: str | None = None
    step_run_id: str | None = None
    task_run_id: str | None = None
    """All attempts of a task until another one is next; the same when the pipeline begins again."""
    iteration: int | None = None
    attempt: int | None = None
    duration_ms: int | None = None
    payload: JsonObject = {}

    @property
    def parent_id(self) -> str | None:
        """What it is part of: of a task the run, of a run its token, of the run of an element that of the loop."""
        if self.step_run_id is not None and self.step_run_id != self.entity_id:
            return self.step_run_id
        parent = self.payload.get("loop") or self.payload.get("token")
        return parent if isinstance(parent, str) and parent != self.entity_id else None


def store_event(event: LogEvent) -> JsonObject:
    """The entry as it is stored."""
    optional: JsonObject = {
        "step": event.step,
        "step_run_id": event.step_run_id,
        "task_run_id": event.task_run_id,
        "iteration": event.iteration,
        "attempt": event.attempt,
        "duration_ms": event.duration_ms,
        "parent_id": event.parent_id,
    }
    return {
        "event_type": event.type,
        "source": event.source,
        "entity_type": event.entity_type,
        "entity_id": event.entity_id,
        "status": event.status,
        **{name: value for name, value in optional.items() if value is not None},
        "payload": event.payload,
    }


def render_event(stored: JsonObject, execution_id: str, seq: int, at: int) -> JsonObject:
    """The entry as clients read it. ``seq``: from 1, without gaps; ``at``: microseconds of the epoch."""
    known: JsonObject = {"event_id": f"{execution_id}-{seq}", "timestamp": to_rfc3339(at)}
    identity: JsonObject = {"execution_id": execution_id, "seq": seq, "entity_id": stored["entity_id"] or execution_id}
    return {**known, **stored, **identity}


def event_to_document(event: LogEvent, execution_id: str, seq: int, at: int) -> JsonObject:
    """The entry as clients read it."""
    return render_event(store_event(event), execution_id, seq, at)


def list_start_events(compiled: CompiledPlaybook, data: JsonObject) -> list[LogEvent]:
    """The entries before those of the first advance; ``data``: with which it began."""
    playbook = compiled.playbook
    known: JsonObject = {"path": playbook.path, "version": playbook.version}
    return [
        LogEvent(type="playbook.execution.requested", entity_type="playbook", payload=known),
        LogEvent(type="playbook.request.evaluated", entity_type="playbook", payload=known),
        LogEvent(
            type="playbook.started", entity_type="playbook", status="in_progress", payload={**known, "data": data}
        ),
        LogEvent(
            type="workflow.started", entity_type="workflow", status="in_progress", payload={"entry": playbook.entry}
        ),
    ]


def list_events(
    compiled: CompiledPlaybook, before: Marking, after: Marking, effects: Sequence[Effect]
) -> list[LogEvent]:
    """The entries of one advance, in order."""
    return list(_Writer(compiled, before, after, effects).write())


class _Writer:
    def __init__(self, compiled: CompiledPlaybook, before: Marking, after: Marking, effects: Sequence[Effect]) -> None:
        self._compiled = compiled
        self._phase = before.phase
        self._after = after
        self._effects = effects
        self._jobs: dict[str, WorkId] = {each.execution: each.task for each in effects if isinstance(each, EnqueueTask)}
        self._timers: dict[str, str] = {each.execution: each.timer for each in effects if isinstance(each, ArmTimer)}
        self._by: JsonObject = {}
        self._children = {each.awaited_by for each in effects if isinstance(each, StartChild)}

    def write(self) -> Iterator[LogEvent]:
        for effect in self._effects:
            match effect:
                case Trace():
                    yield from self._write_trace(effect)
                case RecordEntry():
                    yield self._write_entry(effect)
                    yield from self._write_undefined(effect)
                case RecordExit():
                    yield self._write_exit(effect)
                case RecordPatch():
                    yield self._write_patch(effect)
                case ChangePhase():
                    yield from self._write_phase(effect)
                case _:
                    pass

    def _write_trace(self, trace: Trace) -> Iterator[LogEvent]:
        if trace.kind == REQUEST:
            self._by = {"by": trace.details}
            return
        if trace.kind == TASK_ENDED:
            yield from _write_task(trace)
            return
        if trace.kind == WORKER_EVENT:
            yield _write_worker_event(trace)
            return
        event_type, entity_type = _TRACES[trace.kind]
        timer = self._timers.get(trace.token or "") if trace.kind == "admission.evaluated" else None
        payload: JsonObject = {**trace.details, "token": trace.token, **({} if timer is None else {"timer": timer})}
        if trace.kind == "token.created":
            payloads = trace.details["payloads"]
            payload["args"] = get_args(payloads if isinstance(payloads, list) else ())
        if trace.kind == "admission.requested" or trace.details.get("cause") == "inject":
            payload |= self._by
        yield LogEvent(
            type=event_type,
            entity_type=entity_type,
            entity_id=trace.token or "",
            status=_find_trace_status(trace),
            step=trace.node,
            payload=payload,
        )

    def _write_entry(self, entry: RecordEntry) -> LogEvent:
        known: JsonObject = {
            "job": self._jobs.get(entry.execution),
            "timer": self._timers.get(entry.execution),
            "child": True if entry.execution in self._children else None,
        }
        optional = {name: value for name, value in known.items() if value is not None}
        if entry.element is not None:
            payload: JsonObject = {"loop": entry.token, "input": entry.input, **optional}
            return _write_run("loop.iteration.scheduled", entry, "in_progress", payload)
        payload = {"token": entry.token, "run": entry.attempt, "input": entry.input, **optional}
        return _write_run("step.scheduled", entry, "in_progress", payload)

    def _write_undefined(self, entry: RecordEntry) -> Iterator[LogEvent]:
        """The names of its step that have no value, once for each place: with the first run of the step."""
        names = self._compiled.doubtful.get(entry.node, ()) if entry.element is None and entry.attempt == 1 else ()
        if not names:
            return
        args = get_member(entry.input if isinstance(entry.input, dict) else {}, ARGS)
        known = {*args, *get_member(self._after.data, WORKLOAD)}
        for doubtful in names:
            if doubtful.name not in known:
                payload: JsonObject = {"code": UNDEFINED_NAME, "name": doubtful.name, "path": doubtful.path}
                yield _write_run("template.undefined_name", entry, "error", payload)

    def _write_exit(self, ended: RecordExit) -> LogEvent:
        is_element = ended.element is not None
        outcomes = _ELEMENT_ENDS if is_element else _STEP_ENDS
        event_type, status = outcomes[ended.status]
        step = self._compiled.rules[ended.node].step
        payload: JsonObject = {"output": ended.output, "reason": ended.reason}
        if ended.status == "FAILED":
            payload["error"] = describe_error(ended.reason if ended.output is None else ended.output)
        elif ended.status == "COMPLETED" and not is_element:
            payload["result"] = get_result(step, ended.output)
            event_type = "loop.done" if step.loop is not None else event_type
        return _write_run(event_type, ended, status, payload)

    def _write_patch(self, patch: RecordPatch) -> LogEvent:
        by = self._by if patch.execution is None else {}
        return LogEvent(
            type="ctx.patch.held" if patch.is_held else "ctx.patched",
            entity_type="ctx",
            entity_id=patch.execution or "",
            step_run_id=patch.execution,
            payload={"changes": patch.changes, "origin": patch.execution, **by},
        )

    def _write_phase(self, change: ChangePhase) -> Iterator[LogEvent]:
        before, self._phase = self._phase, change.phase
        match change.phase:
            case "WAITING":
                pending: list[JsonValue] = [token.id for token in self._after.tokens if token.stage == "PENDING"]
                yield LogEvent(
                    type="workflow.waiting", entity_type="workflow", status="paused", payload={"tokens": pending}
                )
            case "RUNNING":
                event_type = "workflow.resumed" if before == "WAITING" else "execution.restarted"
                by = self._by if event_type == "execution.restarted" else {}
                yield LogEvent(type=event_type, entity_type="workflow", status="in_progress", payload=by)
            case "CANCELLED":
                reason: JsonObject = {"reason": change.reason, **self._by}
                yield LogEvent(type="execution.cancelled", entity_type="playbook", status="skipped", payload=reason)
            case "COMPLETED" | "FAILED":
                yield from self._write_end(change)
            case _:
                pass

    def _write_end(self, change: ChangePhase) -> Iterator[LogEvent]:
        status: EventStatus = "success" if change.phase == "COMPLETED" else "error"
        payload: JsonObject = {"phase": change.phase, "reason": change.reason, "summary": self._after.result}
        yield LogEvent(type="workflow.finished", entity_type="workflow", status=status, payload=payload)
        yield LogEvent(type="playbook.finished", entity_type="playbook", status=status)
        yield LogEvent(type="playbook.processed", entity_type="playbook", status=status)


def _write_run(event_type: str, record: RecordEntry | RecordExit, status: EventStatus, payload: JsonObject) -> LogEvent:
    """An entry about a run of a step, or of an element of its loop."""
    return LogEvent(
        type=event_type,
        entity_type="step" if record.element is None else "loop",
        entity_id=record.execution,
        status=status,
        step=record.node,
        step_run_id=record.execution,
        iteration=record.element,
        payload=payload,
    )


_TRACES: Final[Mapping[str, tuple[str, EntityType]]] = {
    "token.created": ("token.created", "token"),
    "token.discarded": ("token.discarded", "token"),
    "admission.evaluated": ("policy.admit.evaluated", "policy"),
    "admission.requested": ("policy.admit.requested", "policy"),
    "join.fired": ("join.fired", "token"),
    "join.absorbed": ("join.absorbed", "token"),
    "join.incomplete": ("join.incomplete", "token"),
    "join.closed": ("join.closed", "token"),
    "loop.started": ("loop.started", "loop"),
    "task.paused": ("run.paused", "step"),
    "task.resumed": ("run.resumed", "step"),
    "arcs.evaluated": ("next.evaluated", "next"),
    "deadline.armed": ("workflow.limited", "workflow"),
    "deadline.passed": ("workflow.timed_out", "workflow"),
    "branch.done": ("branch.done", "workflow"),
    "branch.failed": ("branch.failed", "workflow"),
}
_STEP_ENDS: Final[Mapping[str, tuple[str, EventStatus]]] = {
    "COMPLETED": ("step.done", "success"),
    "FAILED": ("step.failed", "error"),
    "SKIPPED": ("step.cancelled", "skipped"),
    "BYPASSED": ("step.done", "skipped"),
}
_ELEMENT_ENDS: Final[Mapping[str, tuple[str, EventStatus]]] = {
    "COMPLETED": ("loop.iteration.done", "success"),
    "FAILED": ("loop.iteration.failed", "error"),
    "SKIPPED": ("loop.iteration.cancelled", "skipped"),
    "BYPASSED": ("loop.iteration.done", "skipped"),
}


def _find_trace_status(trace: Trace) -> EventStatus:
    match trace.kind:
        case "branch.failed" | "join.incomplete":
            return "error"
        case "token.discarded" | "join.absorbed":
            return "skipped"
        case "admission.evaluated":
            return "success" if trace.details.get("allow") else "paused"
        case "loop.started" | "task.resumed":
            return "in_progress"
        case "task.paused":
            return "paused"
        case _:
            return "success"


def _write_task(trace: Trace) -> tuple[LogEvent, LogEvent]:
    """The end of a task that was done at once, and what its policy made of it."""
    task = trace.details.get("task")
    done = LogEvent(
        type="task.done",
        entity_type="task",
        entity_id=str(task),
        step=trace.node,
        step_run_id=trace.token,
        task_run_id=_name_task_run(trace.token, task, 1),
        payload={"task": task},
    )
    decision: JsonObject = {"rule": trace.details.get("rule"), "action": trace.details.get("action")}
    return tell_task(done, decision, is_ok=trace.details.get("status") == "ok")


def tell_task(done: LogEvent, decision: JsonObject, *, is_ok: bool) -> tuple[LogEvent, LogEvent]:
    """The end of a task, which is ``done`` unless it failed, and what its policy made of it."""
    ended = done if is_ok else replace(done, type="task.failed", status="error")
    payload = {**done.payload, **decision}
    return ended, replace(done, type="policy.task.evaluated", entity_type="policy", payload=payload)


def _write_worker_event(trace: Trace) -> LogEvent:
    known = dict(trace.details)
    event_type, task = str(known.pop("event", "")), known.pop("task", None)
    iteration, attempt = known.pop("iteration", None), known.pop("attempt", None)
    visit = known.pop("visit", None)
    entity_type = _WORKER_ENTITIES.get(event_type, "task")
    return LogEvent(
        type=event_type,
        entity_type=entity_type,
        entity_id=str(task or "") if entity_type in ("task", "policy") else trace.token or "",
        status=_find_worker_status(event_type),
        source="worker",
        step=trace.node,
        step_run_id=trace.token,
        task_run_id=_name_task_run(trace.token, task, visit),
        iteration=iteration if isinstance(iteration, int) else None,
        attempt=attempt if isinstance(attempt, int) else None,
        duration_ms=_find_duration_ms(known.get("outcome")),
        payload=known if task is None else {"task": task, **known},
    )


def _name_task_run(run: str | None, task: JsonValue, visit: JsonValue) -> str | None:
    """Workers count how often a task has been next (``visit``); those that do not have one run of each task."""
    if not isinstance(task, str):
        return None
    count = visit if is_whole(visit) else 1
    return f"{run}/{task}/{count}"


_WORKER_ENTITIES: Final[Mapping[str, EntityType]] = {
    "policy.task.evaluated": "policy",
    "step.started": "step",
    "loop.iteration.started": "loop",
}


def _find_worker_status(event_type: str) -> EventStatus:
    if event_type.endswith("failed"):
        return "error"
    return "in_progress" if event_type.endswith("started") else "success"


def _find_duration_ms(outcome: JsonValue) -> int | None:
    """What a worker has measured of an attempt."""
    meta = outcome.get("meta") if isinstance(outcome, dict) else None
    measured = meta.get("duration_ms") if isinstance(meta, dict) else None
    return measured if is_whole(measured) else None


def find_execution_status(marking: Marking) -> Status:
    """The status of an execution in the words of playbooks."""
    match marking.phase:
        case "COMPLETED" | "FAILED":
            found = marking.result.get("status") if isinstance(marking.result, dict) else None
            return "partial" if found == "partial" else "success" if found == "success" else "failed"
        case "CANCELLED":
            return "cancelled"
        case "WAITING":
            return "waiting"
        case _:
            return "running"
