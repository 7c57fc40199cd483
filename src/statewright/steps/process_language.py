"""The step language as the host of processes knows it (``statewright.processes.language``), and what one step of an
instance adds to the audit log (docs/reference/steps.md#recording).
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue, json_type
from statewright.loop.turns import MAX_TURN_ELEMENTS
from statewright.net import Moment, NodeId
from statewright.net.effects import (
    ChangePhase,
    CloseHumanTask,
    Effect,
    FireTimer,
    RecordEntry,
    RecordExit,
)
from statewright.processes.changes import JobPolicy
from statewright.processes.language import (
    Applied,
    AuditEntry,
    InputPayloads,
    JobPlace,
    LanguageModels,
    LeaseLosses,
    ProcessLanguage,
    Rejection,
)
from statewright.processes.user_tasks import USER_TASK
from statewright.steps import operations
from statewright.steps.definition import find_member_tags
from statewright.steps.documents import read_definition
from statewright.steps.instance import (
    DEFINITION,
    INSTANCE,
    Instance,
    instance_from_document,
    instance_to_document,
)
from statewright.steps.language import Process, compile_definition

AuditKind: TypeAlias = Literal[
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


_PHASES: Final[dict[str, AuditKind]] = {
    "FAILED": "instance-failed",
    "CANCELLED": "instance-cancelled",
}


def list_audit_entries(process: Process, before: Instance | None, applied: Applied[Instance]) -> tuple[AuditEntry, ...]:
    """The entries of an operation, in order; ``before`` ``None``: the instance is new."""
    started = [_describe_start(process, applied.instance)] if before is None else []
    return (*started, *(entry for effect in applied.effects for entry in _describe_effect(process, applied, effect)))


def _describe_start(process: Process, instance: Instance) -> AuditEntry:
    """What was started, and at which of its ENDs it will start the next one."""
    definition = process.definition
    detail: JsonObject = {"definitionId": definition.id, "definitionName": definition.name}
    detail["businessKey"] = instance.business_key
    if definition.successor is not None:
        detail |= {"nextDefinitionId": definition.successor, "chainsAtEnds": ", ".join(definition.chaining_ends)}
    return AuditEntry("instance-started", detail)


def _describe_effect(process: Process, applied: Applied[Instance], effect: Effect) -> Iterator[AuditEntry]:
    match effect:
        case RecordEntry(node=node, attempt=attempt):
            yield AuditEntry("step-entered", {**_name_step(process, node), "attemptNumber": attempt})
        case RecordExit(status="FAILED", node=node, reason=reason):
            yield AuditEntry("step-failed", {**_name_step(process, node), "failureReason": reason})
        case RecordExit(status="COMPLETED", node=node):
            if process.steps[node].type == "WAIT":
                yield AuditEntry("signal-received", _name_step(process, node))
            yield AuditEntry("step-completed", _name_step(process, node))
        case CloseHumanTask(status="COMPLETED", task=task, by=by):
            yield AuditEntry("user-task-completed", {"userTaskId": task, "completedBy": by})
        case FireTimer(timer=timer):
            yield AuditEntry("timer-fired", {"timerId": timer})
        case ChangePhase(phase="RUNNING"):
            yield AuditEntry("step-retried", {})
        case ChangePhase(phase="COMPLETED"):
            yield AuditEntry("instance-completed", _describe_end(process, applied))
        case ChangePhase(phase=phase, reason=reason):
            yield AuditEntry(_PHASES[phase], {} if reason is None else {"failureReason": reason})
        case _:
            pass


def _name_step(process: Process, step_id: str) -> JsonObject:
    return {"stepId": step_id, "stepName": process.steps[step_id].name}


def _describe_end(process: Process, applied: Applied[Instance]) -> JsonObject:
    """At which END it completed, and whether that started the next one."""
    entries = (effect.node for effect in reversed(applied.effects) if isinstance(effect, RecordEntry))
    end = next((node for node in entries if process.steps[node].type == "END"), None)
    if end is None:
        return {}
    detail: JsonObject = {"endStepId": end, "endStepName": process.steps[end].name}
    if process.definition.successor is not None:
        detail |= {"nextDefinitionId": process.definition.successor, "chained": end in process.definition.chaining_ends}
    return detail


def _get_variables(process: Process, job: JobPlace, value: JsonValue) -> JsonObject:
    """All variables, as they were when the job was made."""
    return value if isinstance(value, dict) else {}


class StepProcesses:
    """The operations that the host calls; those of ``/v1`` alone are in ``operations``."""

    name = "steps"
    merges_results = False
    """Each result is a version of its own."""
    children = None
    log = None
    run_reports = None
    lease_losses: LeaseLosses[Process, Instance] = LeaseLosses()
    """Only a definition can limit them (docs/reference/steps.md#deliveries)."""
    payloads = InputPayloads(_get_variables)
    models = LanguageModels(
        instance=INSTANCE,
        definition=DEFINITION,
        user_task=USER_TASK,
        task_types=("USER_TASK",),
        namespace="",
        value_paths=(("variables",), ("tokens", "*", "input")),
    )

    def compile_source(self, source: str, version: int) -> Process:
        """A definition that was stored by an upload."""
        return compile_definition(read_definition(source), version)

    def limit_to_turn(self, process: Process) -> Process:
        """The same, but operations that build or visit too many elements give up."""
        return replace(process, turn_elements=MAX_TURN_ELEMENTS)

    def count_nodes(self, process: Process) -> int:
        """Its steps."""
        return len(process.steps)

    start_instance = staticmethod(operations.start_instance)

    def complete_job(
        self, process: Process, instance: Instance, job: str, result: JsonValue, moment: Moment
    ) -> Applied[Instance] | Rejection:
        """A worker's result, which is merged into the variables and so must be an object."""
        if result is not None and not isinstance(result, dict):
            return _refuse_result(result)
        return operations.complete_job(process, instance, job, result, moment)

    def complete_task(
        self, process: Process, instance: Instance, /, *, task: str, result: JsonValue, by: str, moment: Moment
    ) -> Applied[Instance] | Rejection:
        """A person's result, which is merged into the variables, too."""
        if result is not None and not isinstance(result, dict):
            return _refuse_result(result)
        return operations.complete_user_task_by_id(process, instance, task, result, moment, by=by)

    fail_job = staticmethod(operations.fail_job)
    fire_timer = staticmethod(operations.fire_timer)
    instance_to_document = staticmethod(instance_to_document)
    instance_from_document = staticmethod(instance_from_document)

    list_audit_entries = staticmethod(list_audit_entries)

    def get_definition_name(self, process: Process) -> str:
        """The name of the definition."""
        return process.definition.name

    def get_node_type(self, process: Process, node: str) -> str:
        """The type of a step."""
        return process.steps[node].type

    def find_member_tags(self, process: Process, job_type: str) -> str | None:
        """What the definition names for a job type."""
        return find_member_tags(process.definition, job_type)

    def find_policy(self, process: Process, node: str) -> JobPolicy:
        """What the definition says for the type of a step's jobs."""
        return process.policies[NodeId(node)]


def _refuse_result(result: JsonValue) -> Rejection:
    reason = f"the result of a step is an object of variables, not of type {json_type(result)}"
    return Rejection("bad-request", reason)


STEPS: Final[ProcessLanguage[Process, Instance]] = StepProcesses()
