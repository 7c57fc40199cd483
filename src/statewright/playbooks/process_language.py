"""Playbooks as the host of processes knows them (``statewright.processes.language``)."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net import Moment
from statewright.net.effects import ChangePhase, CloseHumanTask, Effect, RecordExit
from statewright.playbooks import operations
from statewright.playbooks import source as process
from statewright.playbooks.compiling import read_policy
from statewright.playbooks.dispatch import JOB_PREFIX
from statewright.playbooks.events import list_events, list_start_events, store_event
from statewright.playbooks.execution import (
    DEFINITION,
    EXECUTION,
    SHARED,
    Execution,
    execution_from_document,
    execution_to_document,
)
from statewright.playbooks.source import PlaybookProcess, PlaybookSource
from statewright.processes.changes import JobPolicy
from statewright.processes.language import (
    Applied,
    AuditEntry,
    ChildOutcome,
    InstancePayloads,
    LanguageModels,
    LeaseLosses,
    ProcessLanguage,
    Rejection,
    source_from_text,
)
from statewright.processes.user_tasks import ASK, USER_TASK

_PHASES: Final = {
    "RUNNING": "execution-resumed",
    "WAITING": "execution-waiting",
    "COMPLETED": "execution-completed",
    "FAILED": "execution-failed",
    "CANCELLED": "execution-cancelled",
}
"""What the audit log says of an execution that has come to a phase."""


class PlaybookChildren:
    """Executions that wait for others."""

    def describe_outcome(self, process: PlaybookProcess, instance: Execution) -> ChildOutcome:
        """The result of one that ended well, in part at least."""
        if instance.outcome in ("success", "partial"):
            concluded = instance.marking.result
            return ChildOutcome(output=concluded.get("result") if isinstance(concluded, dict) else None)
        return ChildOutcome(reason=f"{instance.definition_id} {instance.outcome}: {instance.marking.reason or ''}")

    def end_child(
        self, process: PlaybookProcess, instance: Execution, execution: str, outcome: ChildOutcome, moment: Moment
    ) -> Applied[Execution]:
        """A playbook that a step waits for has ended."""
        return operations.end_child(process, instance, execution, outcome, moment)

    def cancel(self, process: PlaybookProcess, instance: Execution, moment: Moment) -> Applied[Execution] | Rejection:
        """No step waits for a playbook any more. One that has failed stays so."""
        if instance.status == "FAILED":
            return Rejection("conflict", "the execution has failed")
        return operations.cancel_execution(process, instance, "the execution that started it does not wait", moment)


class PlaybookLog:
    """The event log (docs/reference/executions.md#event-log)."""

    def list_events(
        self, process: PlaybookProcess, before: Execution | None, applied: Applied[Execution]
    ) -> Sequence[JsonObject]:
        """The events of an operation, without what the host adds."""
        after = applied.instance.marking
        if before is None:
            begun = replace(after, phase="RUNNING")
            started = list_start_events(process.compiled, after.data)
            found = [*started, *list_events(process.compiled, begun, after, applied.effects)]
        else:
            found = list_events(process.compiled, before.marking, after, applied.effects)
        return [store_event(event) for event in found]

    def find_labels(self, event: JsonObject) -> tuple[str, str]:
        """As the event says itself."""
        return str(event["event_type"]), str(event["status"])


class PlaybookReports:
    """Runs of pipelines whose patches take effect before their end."""

    take_report = staticmethod(operations.report_progress)

    def describe_taken(self, instance: Execution, job: str) -> JsonObject:
        """How many patches of a run, and entries of its log, need not be reported again."""
        progress = instance.progress.get(job)
        return {"patches": len(progress.patches), "log": progress.logged} if progress else {"patches": 0, "log": 0}


class PlaybookProcesses:
    """The operations that the host calls; those of clients alone are in ``operations``."""

    name = "playbooks"
    merges_results = True
    children = PlaybookChildren()
    log = PlaybookLog()
    run_reports = PlaybookReports()
    lease_losses = LeaseLosses(limit=operations.MAX_LOSSES, fail=operations.fail_lost_job)
    payloads = InstancePayloads(operations.build_payload)
    models = LanguageModels(
        instance=EXECUTION,
        definition=DEFINITION,
        user_task=USER_TASK,
        task_types=(ASK,),
        namespace="playbooks/",
        value_paths=(
            *((name,) for name in (*SHARED, "data", "result", "conclusion")),
            ("marking", "tokens", "*", "input"),
            ("marking", "tokens", "*", "payloads", "*"),
        ),
    )

    def compile_source(self, source: str, version: int) -> PlaybookProcess:
        """A definition that was stored by an upload."""
        return process.compile_source(source_from_text(source, PlaybookSource), version)

    def limit_to_turn(self, process: PlaybookProcess) -> PlaybookProcess:
        """The same, but operations whose templates look at much give up."""
        return replace(process, is_limited_to_turn=True)

    def count_nodes(self, process: PlaybookProcess) -> int:
        """Steps and their tasks."""
        return sum(1 + len(step.tasks) for step in process.playbook.steps)

    start_instance = staticmethod(operations.start_execution)
    complete_job = staticmethod(operations.complete_job)
    fail_job = staticmethod(operations.fail_job)
    fire_timer = staticmethod(operations.fire_timer)
    instance_to_document = staticmethod(execution_to_document)
    instance_from_document = staticmethod(execution_from_document)
    complete_task = staticmethod(operations.complete_task)

    def list_audit_entries(
        self, process: PlaybookProcess, before: Execution | None, applied: Applied[Execution]
    ) -> Sequence[AuditEntry]:
        """Start, failures and phases; all else is in the event log."""
        started = [_describe_start(process, applied.instance)] if before is None else []
        return [*started, *(entry for effect in applied.effects for entry in _describe_effect(effect))]

    def get_definition_name(self, process: PlaybookProcess) -> str:
        """The name of the playbook."""
        return process.playbook.name

    def get_node_type(self, process: PlaybookProcess, node: str) -> str:
        """``ask``, ``loop``, ``step``, or ``route`` for one without tasks."""
        step = process.playbook.by_name[node]
        if node in process.asking:
            return ASK
        return "loop" if step.loop is not None else "step" if step.tasks else "route"

    def find_member_tags(self, process: PlaybookProcess, job_type: str) -> str | None:
        """The kind that a member must offer: the job type without its prefix."""
        return job_type.removeprefix(JOB_PREFIX)

    def find_policy(self, process: PlaybookProcess, node: str) -> JobPolicy:
        """Time alone is limited: tasks are tried again by the rules of their pipelines, within a run."""
        return read_policy(process.playbook.by_name[node])


def _describe_start(process: PlaybookProcess, execution: Execution) -> AuditEntry:
    return AuditEntry(
        "execution-started",
        {
            "definitionId": process.playbook.path,
            "definitionName": process.playbook.name,
            "definitionVersion": process.version,
            "businessKey": execution.business_key,
        },
    )


def _describe_effect(effect: Effect) -> Iterator[AuditEntry]:
    match effect:
        case CloseHumanTask(status="COMPLETED", task=task, by=by):
            yield AuditEntry("user-task-completed", {"userTaskId": task, "completedBy": by})
        case RecordExit(status="FAILED", node=node, reason=reason):
            yield AuditEntry("step-failed", {"stepId": node, "failureReason": reason})
        case ChangePhase(phase=phase, reason=reason):
            yield AuditEntry(_PHASES[phase], {} if reason is None else {"failureReason": reason})
        case _:
            pass


PLAYBOOKS: Final[ProcessLanguage[PlaybookProcess, Execution]] = PlaybookProcesses()
