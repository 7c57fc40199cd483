"""The inbox of user tasks, of all definitions of a language."""

from datetime import timedelta

from msgspec import Struct

from statewright.ids import EntityId
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.processes.language import I, P
from statewright.services.core import Caller
from statewright.services.processes.documents import normalize_page, read_object
from statewright.services.processes.hosting import ProcessHost
from statewright.storage.processes import instances, jobs
from statewright.storage.processes.instances import OpenTask, TaskFilter


class UserTask(Struct, frozen=True, kw_only=True):
    """An open task. Instants are epoch microseconds; its language renders it."""

    id: str
    instance_id: str
    node_id: str
    execution_id: str
    definition_id: str
    definition_version: int
    job_type: str
    """Empty when the node has none."""
    business_key: str | None
    payload: JsonObject
    """All variables as they were when the task was opened."""
    created_at: int


class Inbox(Struct, frozen=True, kw_only=True):
    """A page of open tasks, the oldest first. ``total`` counts all that match."""

    items: tuple[UserTask, ...]
    page: int
    page_size: int
    total: int


async def list_open_tasks(
    host: ProcessHost[P, I],
    caller: Caller,
    *,
    job_type: str = "",
    definition_id: str = "",
    older_than: timedelta = timedelta(0),
    page: int = 0,
    page_size: int = 0,
) -> Inbox:
    """Open user tasks that match all filters; an empty filter matches all. Pages are as in ``definitions.listing``."""
    asked = normalize_page(page, page_size)
    age = older_than // timedelta(microseconds=1)
    matching = TaskFilter(
        job_type=job_type,
        definition_id=definition_id,
        opened_before=max(host.core.clock() - age, 0) if age > 0 else None,
    )
    found, total = await instances.fetch_open_tasks(
        host.core.pool, caller.tenant, host.language.name, matching, offset=asked.offset, limit=asked.size
    )
    return Inbox(items=tuple(map(_to_user_task, found)), page=asked.number, page_size=asked.size, total=total)


async def find_instance_of_task(host: ProcessHost[P, I], caller: Caller, task: EntityId) -> EntityId | None:
    """The instance that a user task is or was of; None when there never was one of this id."""
    owner = await jobs.fetch_owner_of_work(host.core.pool, caller.tenant, [host.language.name], task)
    return None if owner is None else owner.instance


def _to_user_task(task: OpenTask) -> UserTask:
    return UserTask(
        id=uuid_to_ulid(task.id),
        instance_id=uuid_to_ulid(task.instance),
        node_id=task.node_id,
        execution_id=uuid_to_ulid(task.execution),
        definition_id=task.definition_id,
        definition_version=task.definition_version,
        job_type=task.job_type,
        business_key=task.business_key,
        payload=read_object(task.input),
        created_at=task.created_at,
    )
