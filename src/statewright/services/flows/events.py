"""Events for tasks that wait for them, and the counters of flows (docs/reference/flows.md#events)."""

import asyncio
from itertools import groupby
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import ProcessBadRequest, ProcessNotFound
from statewright.flows.builtin_tasks import MAX_NAME_CHARS
from statewright.flows.definition import FlowProcess
from statewright.flows.events import FlowEvent
from statewright.flows.instance import FlowInstance
from statewright.flows.operations import Applied, receive_event
from statewright.ids import EntityId
from statewright.net import Moment, uuid_to_ulid
from statewright.services.flows import FlowHost, find_flows
from statewright.services.processes import advancing
from statewright.services.processes.advancing import refuse_joined
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.processes.writing import parse_entity_id
from statewright.services.runtime import Caller, Runtime
from statewright.storage.processes import topics
from statewright.storage.processes.topics import Waiter
from statewright.turns import is_large

MAX_TASKS: Final = 1_000
"""Waiting tasks that one request looks at."""
MAX_FIELDS: Final = 1_000
"""Values in the fields of an event, which are compared with the input of each task."""
MAX_CONCURRENT: Final = 16
"""Instances that one request changes at a time."""


class Receipt(Struct, frozen=True, kw_only=True):
    """A task that an event completed, in a flow that wants its sender to know."""

    instance_id: str
    node: int
    element: int | None


class Delivery(Struct, frozen=True, kw_only=True):
    """What an event came to."""

    tasks: int
    """How many it completed."""
    receipts: tuple[Receipt, ...]
    next: str | None
    """Where to go on, when more tasks wait for the kind than one request looks at."""


async def deliver(runtime: Runtime, caller: Caller, event: FlowEvent, *, after: str = "") -> Delivery:
    """Complete the tasks that wait for an event now, from the one ``after`` on. One that nothing waits for has no
    effect.

    Once this has returned, all it tells of is durable. After a failure it can be sent again: tasks that it completed
    wait no longer. Raises ``ProcessBadRequest``.
    """
    refuse_joined(caller)
    caller = replace(caller, keyed=None)  # many commits: a record of the request is written after all of them
    check_name("event", event.kind)
    if is_large(event.fields, MAX_FIELDS):
        raise ProcessBadRequest(f"fields must have at most {MAX_FIELDS} values")
    if not isinstance(event.output, dict | list | None):
        raise ProcessBadRequest("output must be an object or an array")
    await refuse_unstorable({"fields": event.fields, "output": event.output})
    host = find_flows(runtime)
    position = parse_entity_id(after)
    if after and position is None:
        raise ProcessBadRequest("after must be what an earlier answer has as next")
    waiting = await topics.fetch_waiters(
        runtime.pool, caller.tenant, host.language.name, event.kind, after=position, limit=MAX_TASKS
    )
    limiter = asyncio.Semaphore(MAX_CONCURRENT)
    by_instance = groupby(sorted(waiting, key=lambda one: one.instance), key=lambda one: one.instance)
    deliveries = [
        _deliver_to(host, caller, instance, list(waiters), event, limiter) for instance, waiters in by_instance
    ]
    found = await asyncio.gather(*deliveries)
    return Delivery(
        tasks=sum(tasks for tasks, _ in found),
        receipts=tuple(receipt for _, receipts in found for receipt in receipts),
        next=uuid_to_ulid(waiting[-1].id) if len(waiting) == MAX_TASKS else None,
    )


async def get_counter(runtime: Runtime, caller: Caller, name: str) -> int:
    """The value of a counter; zero for one that no flow has changed. Raises ``ProcessBadRequest``."""
    check_name("name", name)
    return await topics.fetch_counter(runtime.pool, caller.tenant, name)


def check_name(member: str, name: str) -> None:
    """Refuse what cannot be the name of an event or of a counter. Raises ``ProcessBadRequest``."""
    if not 0 < len(name) <= MAX_NAME_CHARS or "\0" in name:
        raise ProcessBadRequest(f"{member} must have 1 to {MAX_NAME_CHARS} characters, and not U+0000")


async def _deliver_to(
    host: FlowHost,
    caller: Caller,
    instance: EntityId,
    waiters: list[Waiter],
    event: FlowEvent,
    limiter: asyncio.Semaphore,
) -> tuple[int, tuple[Receipt, ...]]:
    waits = [uuid_to_ulid(waiter.id) for waiter in waiters]
    tasks, receipts = 0, tuple[Receipt, ...]()

    def operation(process: FlowProcess, current: FlowInstance, moment: Moment) -> Applied:
        nonlocal tasks, receipts  # it may be computed again
        applied, arrival = receive_event(process, current, waits, event, moment)
        tasks = arrival.tasks
        receipts = tuple(
            Receipt(instance_id=current.id, node=int(token.node), element=token.element) for token in arrival.receipts
        )
        return applied

    gone = ProcessNotFound("instance of a task is gone")
    async with limiter:
        try:
            await advancing.advance(
                host, caller, instance, operation, kind="flow.event", unknown=gone, given=event.output
            )
        except ProcessNotFound:
            return 0, ()
    return tasks, receipts
