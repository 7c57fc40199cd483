"""The engine's values as messages of ``workflow.v1`` and back (docs/reference/steps.md#messages)."""

from collections.abc import Iterable, Mapping
from typing import Final

from statewright.api.grpc.steps.values import (
    fill_struct,
    to_json_object,
    to_json_value,
    to_proto_struct,
    to_proto_value,
    to_timestamp,
)
from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.changes import Execution
from statewright.proto.workflow.v1 import engine_pb2 as pb
from statewright.services.processes.definitions import Summary
from statewright.services.processes.jobs import ClaimedJob
from statewright.steps import Definition, Instance, Process, Step
from statewright.steps.definition import BoundaryEvent, DecisionTable
from statewright.steps.documents import definition_from_document
from statewright.steps.members import UnreadableDefinition

STEP_TYPE: Final = "STEP_TYPE_"
INSTANCE_STATUS: Final = "INSTANCE_STATUS_"
EXECUTION_STATUS: Final = "STEP_EXECUTION_STATUS_"
EVENT_TYPE: Final = "BOUNDARY_EVENT_TYPE_"
UNSPECIFIED: Final = "UNSPECIFIED"


def read_status_filter(number: int) -> str:
    """The status that an enum value stands for; empty when unspecified, a name that no status has when unknown."""
    return _read_enum_name(pb.InstanceStatus.DESCRIPTOR.values_by_number, number, INSTANCE_STATUS)


def read_definition(message: pb.WorkflowDefinition) -> Definition:
    """The definition in a message. Raises ``ProcessBadRequest``."""
    document: JsonObject = {
        "id": message.id,
        "name": message.name,
        "description": message.description,
        "autoStartNextWorkflow": message.auto_start_next_workflow,
        "nextWorkflowId": message.next_workflow_id,
        "steps": [_step_document(step) for step in message.steps],
        "metadata": to_json_object(message.metadata),
    }
    try:
        return definition_from_document(document)
    except UnreadableDefinition as defect:  # a decision table, the only part without a shape of its own
        raise ProcessBadRequest(f"parse error: parse: {defect}") from None


def definition_message(definition: Definition, version: int) -> pb.WorkflowDefinition:
    """The whole definition."""
    return pb.WorkflowDefinition(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        auto_start_next_workflow=definition.auto_start_next_workflow,
        next_workflow_id=definition.next_workflow_id,
        steps=[_step_message(step) for step in definition.steps],
        metadata=None if definition.metadata is None else to_proto_struct(definition.metadata),
    )


def summary_message(summary: Summary) -> pb.WorkflowDefinition:
    """A definition as lists show it."""
    return pb.WorkflowDefinition(id=summary.id, version=summary.version, name=summary.name)


def fill_instance(message: pb.WorkflowInstance, instance: Instance) -> None:
    """Put an instance into a message, which may take long when its variables are many."""
    known = pb.WorkflowInstance(
        id=instance.id,
        definition_id=instance.definition_id,
        definition_version=instance.definition_version,
        status=f"{INSTANCE_STATUS}{instance.status}",
        current_step_ids=list(instance.current_step_ids),
        started_at=to_timestamp(instance.started_at),
        completed_at=to_timestamp(instance.completed_at),
        failure_reason=instance.failure_reason or "",
        business_key=instance.business_key or "",
    )
    message.MergeFrom(known)
    message.variables.SetInParent()
    fill_struct(message.variables, instance.variables)


def execution_message(line: Execution, process: Process) -> pb.StepExecution:
    """A line of the history."""
    return pb.StepExecution(
        id=line.id,
        instance_id=line.instance_id,
        step_id=line.node_id,
        step_type=f"{STEP_TYPE}{line.node_type}",
        attempt_number=line.attempt_number,
        status=f"{EXECUTION_STATUS}{line.status}",
        started_at=to_timestamp(line.started_at),
        ended_at=to_timestamp(line.ended_at),
        failure_reason=line.failure_reason or "",
        step_name=process.steps[line.node_id].name,
        definition_id=process.definition.id,
        definition_name=process.definition.name,
    )


def fill_job(message: pb.Job, job: ClaimedJob) -> None:
    """Put a job into a message, as :func:`fill_instance` does."""
    known = pb.Job(
        id=job.id,
        job_type=job.job_type,
        instance_id=job.instance_id,
        step_id=job.node_id,
        step_execution_id=job.execution_id,
        retries_remaining=job.retries_remaining,
        lock_expires_at=to_timestamp(job.lock_expires_at),
    )
    message.MergeFrom(known)
    message.variables.SetInParent()
    fill_struct(message.variables, job.variables)


def _step_document(step: pb.WorkflowStep) -> JsonObject:
    """A step as a document. Maps have no order; their entries are taken in byte order of the keys
    (docs/reference/steps.md#differences-from-rest).
    """
    branches, settings = step.conditional_next_steps, step.transformations
    targets: list[JsonValue] = list(step.parallel_next_steps)
    return {
        "id": step.id,
        "name": step.name,
        "type": _read_enum_name(pb.StepType.DESCRIPTOR.values_by_number, step.type, STEP_TYPE),
        "description": step.description,
        "nextStep": step.next_step,
        "parallelNextSteps": targets,
        "joinStep": step.join_step,
        "conditionalNextSteps": {key: branches[key] for key in _sort_by_bytes(branches)},
        "transformations": {key: to_json_value(settings[key]) for key in _sort_by_bytes(settings)},
        "jobType": step.job_type,
        "delegateClass": step.delegate_class,
        "retryCount": step.retry_count,
        "boundaryEvents": [_event_document(event) for event in step.boundary_events],
        "hitPolicy": step.hit_policy,
        "decisionTable": _table_document(step.decision_table) if step.HasField("decision_table") else None,
    }


def _event_document(event: pb.BoundaryEvent) -> JsonObject:
    return {
        "type": _read_enum_name(pb.BoundaryEventType.DESCRIPTOR.values_by_number, event.type, EVENT_TYPE),
        "duration": event.duration,
        "interrupting": event.interrupting,
        "targetStepId": event.target_step_id,
    }


def _step_message(step: Step) -> pb.WorkflowStep:
    return pb.WorkflowStep(
        id=step.id,
        name=step.name,
        type=f"{STEP_TYPE}{step.type}",
        description=step.description,
        next_step=step.next_step,
        parallel_next_steps=list(step.parallel_next_steps),
        join_step=step.join_step,
        conditional_next_steps=dict(step.conditional_next_steps),
        transformations={name: to_proto_value(value) for name, value in step.transformations.items()},
        job_type=step.job_type,
        delegate_class=step.delegate_class,
        retry_count=_clamp_int32(step.retry_count),
        boundary_events=[_event_message(event) for event in step.boundary_events],
        hit_policy=step.hit_policy,
        decision_table=None if step.decision_table is None else _table_message(step.decision_table),
    )


def _event_message(event: BoundaryEvent) -> pb.BoundaryEvent:
    return pb.BoundaryEvent(
        type=pb.BOUNDARY_EVENT_TYPE_TIMER,
        duration=event.duration,
        interrupting=event.interrupting,
        target_step_id=event.target_step_id,
    )


def _table_document(table: pb.DecisionTable) -> JsonObject:
    return {
        "rules": [
            {
                "when": {key: rule.when[key] for key in _sort_by_bytes(rule.when)},
                "then": rule.then or None,
                "outputs": {key: to_json_value(rule.outputs[key]) for key in _sort_by_bytes(rule.outputs)},
            }
            for rule in table.rules
        ],
        "defaultNextStep": table.default_next_step or None,
    }


def _table_message(table: DecisionTable) -> pb.DecisionTable:
    rules = [
        pb.DecisionTableRule(
            when=dict(rule.when), outputs={name: to_proto_value(value) for name, value in rule.outputs.items()}
        )
        for rule in table.rules
    ]
    return pb.DecisionTable(rules=rules)


def _read_enum_name(known: Mapping[int, object], number: int, prefix: str) -> str:
    """The name of an enum value without its prefix; its number when it is unknown, empty when it is unspecified."""
    value = known.get(number)
    name = str(number) if value is None else str(getattr(value, "name", number)).removeprefix(prefix)
    return "" if name == UNSPECIFIED else name


def _sort_by_bytes(keys: Iterable[str]) -> list[str]:
    return sorted(keys, key=str.encode)


def _clamp_int32(value: int) -> int:
    return min(max(value, -(2**31)), 2**31 - 1)
