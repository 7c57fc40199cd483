"""Instances of the step language: histories that are streamed (docs/reference/steps.md#operations).

User tasks: their records, and completing them (docs/reference/steps.md#user-tasks-and-signals).
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.failures import ProcessNotFound
from statewright.ids import EntityId
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.processes.changes import NodeExecution
from statewright.services.core import Caller
from statewright.services.processes import advancing, definitions
from statewright.services.processes import instances as hosted
from statewright.services.processes import tasks as inbox
from statewright.services.processes.advancing import AdvanceResult, parse_instance_id
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.processes.hosting import Processes, find_host
from statewright.services.processes.tasks import UserTask
from statewright.steps import Instance, Process, complete_user_task_by_id
from statewright.steps.operations import NO_TASK
from statewright.steps.process_language import STEPS

INSTANCE_NOT_FOUND: Final = "workflow instance not found"
"""What tasks, signals and retries say of an unknown instance."""


class StreamedHistory(Struct, frozen=True, kw_only=True):
    """A history whose lines are read while they are asked for."""

    process: Process
    portions: AsyncIterator[tuple[NodeExecution, ...]]


async def stream_history(processes: Processes, caller: Caller, instance_id: str) -> StreamedHistory:
    """One line per entry into a step, by start time, then id. Render each with ``steps.render_history_item``.

    Raises ``ProcessNotFound``.
    """
    host = find_host(processes, STEPS)
    found = await hosted.get_instance(host, caller, instance_id)
    published = await definitions.get_version(host, caller.tenant, found.definition_id, found.definition_version)
    portions = hosted.stream_history(host, caller, instance_id)
    return StreamedHistory(process=published.process, portions=portions)


def to_task_record(task: UserTask) -> JsonObject:
    """The record clients read; members that are not set are left out."""
    record: JsonObject = {
        "id": task.id,
        "instanceId": task.instance_id,
        "stepId": task.node_id,
        "stepExecutionId": task.execution_id,
        "definitionId": task.definition_id,
        "definitionVersion": task.definition_version,
        "status": "OPEN",
        "payload": task.payload,
        "createdAt": to_rfc3339(task.created_at),
    }
    if task.job_type:
        record["jobType"] = task.job_type
    if task.business_key is not None:
        record["businessKey"] = task.business_key
    return record


async def complete_by_id(
    processes: Processes, caller: Caller, task_id: str, variables: "JsonObject | None" = None, *, completed_by: str = ""
) -> None:
    """A person's result for a task named by its own id. Raises ``ProcessNotFound`` (``user task not found``)."""
    await refuse_unstorable(variables)
    await refuse_unstorable({"completedBy": completed_by})
    unknown = ProcessNotFound(NO_TASK)
    task = parse_instance_id(task_id, unknown)
    instance = await inbox.find_instance_of_task(find_host(processes, STEPS), caller, task)
    if instance is None:
        raise unknown
    await complete_open_task(processes, caller, instance, task, variables, completed_by=completed_by, unknown=unknown)


async def complete_open_task(
    processes: Processes,
    caller: Caller,
    instance: EntityId,
    task: EntityId,
    variables: "JsonObject | None",
    *,
    completed_by: str,
    unknown: ProcessNotFound,
) -> AdvanceResult[Instance]:
    """A person's result for a task of an instance. Raises ``unknown`` when there is no such instance."""
    name = uuid_to_ulid(task)
    return await advancing.advance(
        find_host(processes, STEPS),
        caller,
        instance,
        partial(complete_user_task_by_id, task=name, variables=variables, by=completed_by),
        kind="instance.complete_user_task",
        given=variables,
        unknown=unknown,
    )
