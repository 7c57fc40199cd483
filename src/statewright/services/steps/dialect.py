"""The step language as its clients know it (docs/reference/steps.md#operations,
docs/reference/steps.md#writes-through-the-entity-api). Histories are streamed.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.ids import ModelId, model_id
from statewright.jsonval.values import JsonObject
from statewright.net import Moment
from statewright.operations.process_nouns import STEP_NOUNS
from statewright.processes.changes import NodeExecution
from statewright.processes.language import Rejection
from statewright.processes.user_tasks import USER_TASK
from statewright.services.core import Caller
from statewright.services.processes import definitions as hosted_definitions
from statewright.services.processes import instances as hosted_instances
from statewright.services.processes.dialects import (
    DefinitionIntake,
    Demand,
    ProcessDialect,
    RequestReader,
    Verb,
    build_transitions,
)
from statewright.services.processes.documents import cut_reason
from statewright.services.processes.hosting import HostedTransition, Processes
from statewright.services.processes.tasks import fire_completion
from statewright.services.steps import definitions
from statewright.services.steps.definitions import StepSource
from statewright.steps import (
    Applied,
    Instance,
    Process,
    cancel_instance,
    complete_user_task,
    draw_process,
    draw_process_instance,
    render_instance,
    retry_step,
    signal_step,
)
from statewright.steps.documents import definition_to_document
from statewright.steps.process_language import STEPS

INSTANCE_NOT_FOUND: Final = "workflow instance not found"
"""What tasks, signals and retries say of an unknown instance."""


def _read_cancel(body: RequestReader, _: Mapping[str, str]) -> Demand[Process, Instance]:
    reason = cut_reason(body.text("reason"))
    return Demand(operation=partial(cancel_instance, reason=reason), stored=({"reason": reason},))


def _read_retry(body: RequestReader, segments: Mapping[str, str]) -> Demand[Process, Instance]:
    variables = body.object("variables")
    step = segments["stepId"] if "stepId" in segments else body.text("stepId") or None
    operation = _retry_failed_step if step is None else partial(retry_step, step_id=step)
    return Demand(operation=partial(operation, variables=variables), given=variables, stored=(variables,))


def _retry_failed_step(
    process: Process, instance: Instance, *, variables: "JsonObject | None", moment: Moment
) -> Applied | Rejection:
    failed = next((str(token.node) for token in instance.marking.tokens if token.stage == "FAILED"), "")
    return retry_step(process, instance, step_id=failed, variables=variables, moment=moment)


def _read_signal(body: RequestReader, segments: Mapping[str, str]) -> Demand[Process, Instance]:
    variables = body.document
    operation = partial(signal_step, step_id=segments["stepId"], variables=variables)
    return Demand(operation=operation, given=variables, stored=(variables,))


def _read_task(body: RequestReader, segments: Mapping[str, str]) -> Demand[Process, Instance]:
    variables = body.object("variables")
    variables = body.object("result") if variables is None else variables
    by = body.text("completedBy") or body.text("workerId")
    operation = partial(complete_user_task, step_id=segments["stepId"], variables=variables, by=by)
    return Demand(operation=operation, given=variables, stored=(variables, {"completedBy": by}))


def _render_definition(process: Process) -> JsonObject:
    return definition_to_document(process.definition, process.version)


STEP_DIALECT: Final[ProcessDialect[StepSource, Process, Instance]] = ProcessDialect(
    language=STEPS,
    nouns=STEP_NOUNS,
    verbs=(
        Verb(
            name="cancel",
            id="cancelInstance",
            summary="Stop an instance and all it has going on",
            read=_read_cancel,
            kind="instance.cancel",
            body="StepCancel",
            use="optional",
            forgives=True,
            ends=True,
        ),
        Verb(
            name="retry",
            id="retryStep",
            summary="Run the step again that failed the instance, after a shallow merge of variables",
            read=_read_retry,
            kind="instance.retry_step",
            path="steps/{stepId}/retry",
            body="StepVariables",
            use="optional",
            unknown=INSTANCE_NOT_FOUND,
        ),
        Verb(
            name="signal",
            id="signalWait",
            summary="Resume a WAIT step; the body is the variables to merge, without a wrapper",
            read=_read_signal,
            kind="instance.signal_wait",
            path="signals/{stepId}",
            body="StepVariableMap",
            use="optional",
            answers=False,
            unknown=INSTANCE_NOT_FOUND,
        ),
        Verb(
            name="complete",
            id="completeUserTask",
            summary="A person's result for the task at a step, the oldest one if there are several",
            read=_read_task,
            kind="instance.complete_user_task",
            path="user-tasks/{stepId}/complete",
            tag="Step user tasks",
            body="StepTaskResult",
            use="optional",
            answers=False,
            unknown=INSTANCE_NOT_FOUND,
        ),
    ),
    intake=DefinitionIntake(accept=definitions.accept),
    render_definition=_render_definition,
    render_instance=render_instance,
    draw=draw_process,
    draw_instance=draw_process_instance,
)


TRANSITIONS: Final[Mapping[ModelId, HostedTransition]] = {
    **build_transitions(STEP_DIALECT),
    model_id(USER_TASK.key.name, USER_TASK.key.version): fire_completion,
}


class StreamedHistory(Struct, frozen=True, kw_only=True):
    """A history whose lines are read while they are asked for."""

    process: Process
    portions: AsyncIterator[tuple[NodeExecution, ...]]


async def stream_history(processes: Processes, caller: Caller, instance_id: str) -> StreamedHistory:
    """One line per entry into a step, by start time, then id. Render each with ``steps.render_history_item``.

    Raises ``ProcessNotFound``.
    """
    host = processes.hosts.get(STEPS)
    found = await hosted_instances.get_instance(host, caller, instance_id)
    published = await hosted_definitions.get_version(host, caller.tenant, found.definition_id, found.definition_version)
    portions = hosted_instances.stream_history(host, caller, instance_id)
    return StreamedHistory(process=published.process, portions=portions)
