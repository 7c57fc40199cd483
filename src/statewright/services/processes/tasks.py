"""The inbox of user tasks, of all definitions in all languages, and answers to them."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.failures import ProcessBadRequest, ProcessNotFound
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.instants import to_rfc3339, to_us
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import uuid_to_ulid
from statewright.processes.language import CompleteTask, I, P
from statewright.processes.user_tasks import to_payload
from statewright.services.builtin import FireRequest
from statewright.services.core import Caller
from statewright.services.processes import advancing
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.dialects import RequestReader, TransitionMembers
from statewright.services.processes.documents import (
    decode_text,
    free_read,
    normalize_page,
    read_object,
    read_texts,
    refuse_unstorable,
)
from statewright.services.processes.hosting import Processes, ProcessHost
from statewright.services.processes.instances import StreamedPage
from statewright.storage.pool import Pool
from statewright.storage.processes import instances, jobs
from statewright.storage.processes.instances import OpenTask, TaskFilter

NO_TASK: Final = "user task not found"


class TaskQuery(Struct, frozen=True, kw_only=True):
    """Which open tasks are wanted: those that match all that is given, a page of them."""

    language: str = ""
    job_type: str = ""
    definition_id: str = ""
    assignee: str = ""
    group: str = ""
    older_than: timedelta = timedelta(0)
    page: int = 0
    page_size: int = 0


async def stream_open_tasks(processes: Processes, caller: Caller, wanted: TaskQuery) -> StreamedPage[JsonObject]:
    """Open user tasks as clients read them, the oldest first, a few megabytes at a time; one that was closed meanwhile
    is left out. Pages are as in ``definitions.list_definitions``. Raises ``ProcessBadRequest`` for a language that
    there is not.
    """
    core = processes.core
    known = [hosted.name for hosted in processes.hosts.hosted if hosted.complete_task is not None]
    if wanted.language and wanted.language not in known:
        raise ProcessBadRequest(f"language must be one of {', '.join(known)}")
    asked = normalize_page(wanted.page, wanted.page_size)
    age = to_us(wanted.older_than)
    matching = TaskFilter(
        language=wanted.language,
        job_type=wanted.job_type,
        definition_id=wanted.definition_id,
        assignee=wanted.assignee,
        group=wanted.group,
        opened_before=max(core.clock() - age, 0) if age > 0 else None,
    )
    ids, total = await instances.list_open_tasks(
        core.pool, caller.tenant, matching, offset=asked.offset, limit=asked.size
    )
    found, later = await instances.fetch_open_tasks(core.pool, caller.tenant, ids) if ids else ([], [])
    return StreamedPage(
        portions=_iterate_portions(core.pool, caller.tenant, found, later),
        is_small=not later,
        page=asked.number,
        page_size=asked.size,
        total=total,
    )


async def _iterate_portions(
    pool: Pool, tenant: TenantId, found: Sequence[OpenTask], later: Sequence[str]
) -> AsyncGenerator[tuple[JsonObject, ...]]:
    while found:
        items = await read_texts([one.input for one in found], partial(_render_tasks, found))
        for one, item in zip(found, items, strict=True):
            free_read(item["payload"], one.input)
        yield items
        found, later = await instances.fetch_open_tasks(pool, tenant, later) if later else ([], [])


def _render_tasks(tasks: Iterable[OpenTask]) -> tuple[JsonObject, ...]:
    return tuple(map(_render_task, tasks))


def _render_task(task: OpenTask) -> JsonObject:
    """The record clients read; members that are not set are left out."""
    record: JsonObject = {
        "id": uuid_to_ulid(task.id),
        "language": task.language,
        "instanceId": uuid_to_ulid(task.instance),
        "stepId": task.node_id,
        "stepExecutionId": uuid_to_ulid(task.execution),
        "definitionId": task.definition_id,
        "definitionVersion": task.definition_version,
        "status": "OPEN",
        "payload": to_payload(decode_text(task.input)),
        "createdAt": to_rfc3339(task.created_at),
        **read_object(task.about),
    }
    if task.job_type:
        record["jobType"] = task.job_type
    if task.business_key is not None:
        record["businessKey"] = task.business_key
    return record


async def complete_task(
    processes: Processes, caller: Caller, task_id: str, result: JsonValue = None, *, completed_by: str = ""
) -> TransactionId:
    """A person's answer to a task; the transaction that wrote its instance. Raises ``ProcessNotFound`` (``user task not
    found``), ``ProcessConflict`` where its instance has ended, ``ProcessBadRequest`` for an answer that its language
    does not take.
    """
    await refuse_unstorable(result)
    await refuse_unstorable({"completedBy": completed_by})
    unknown = ProcessNotFound(NO_TASK)
    task = parse_instance_id(task_id, unknown)
    owner = await jobs.fetch_owner_of_work(processes.core.pool, caller.tenant, processes.hosts.names, task)
    complete = None if owner is None else processes.hosts.get_hosted(owner.language).complete_task
    if owner is None or complete is None:
        raise unknown
    return await complete(caller, owner.instance, uuid_to_ulid(task), result, completed_by, unknown)


async def answer_task(
    host: ProcessHost[P, I],
    operation: CompleteTask[P, I],
    caller: Caller,
    instance: EntityId,
    task: str,
    result: JsonValue,
    by: str,
    unknown: ProcessNotFound,
) -> TransactionId:
    """As ``complete_task``, for one whose instance and language are known."""
    done = await advancing.advance(
        host,
        caller,
        instance,
        partial(operation, task=task, result=result, by=by),
        kind="instance.complete_user_task",
        given=result,
        unknown=unknown,
    )
    return done.transaction_id


async def fire_completion(processes: Processes, caller: Caller, request: FireRequest) -> TransactionId:
    """What the transition ``complete`` of a user task does; without ``completedBy`` it was the caller."""
    await refuse_unstorable(request.document)
    members = TransitionMembers(request.document)
    result = members.object("variables") or read_answer(members)
    by = members.text("completedBy") or caller.principal.id
    return await complete_task(processes, caller, request.entity.id, result, completed_by=by)


def read_answer(body: RequestReader) -> JsonValue:
    """The member ``result`` of what a person brought. Raises what the reader raises."""
    result = body.get("result")
    if not isinstance(result, dict | list | None):
        raise body.build_refusal("result", "result must be an object or an array")
    return result
