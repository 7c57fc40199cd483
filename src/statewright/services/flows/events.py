"""Events for tasks that wait for them, and the counters of flows (docs/reference/flows.md#events)."""

import asyncio
from functools import partial
from itertools import groupby
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.failures import InvalidMember, InvalidParameter, ProcessNotFound
from statewright.flows.advancing import Arrival, FlowEvent, hash_fields
from statewright.flows.builtin_tasks import MAX_NAME_CHARS, is_name
from statewright.flows.definition import FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.operations import receive_event, take_event
from statewright.ids import EntityId, parse_entity_id
from statewright.loop.turns import is_large
from statewright.net import uuid_to_ulid
from statewright.operations.records import ClosedRecord, Int32, Int64, Ulid
from statewright.services.core import Caller, Core
from statewright.services.flows.dialect import FLOW_DIALECT
from statewright.services.processes import advancing
from statewright.services.processes.advancing import AdvanceResult, refuse_joined
from statewright.services.processes.documents import refuse_unstorable
from statewright.services.processes.hosting import Processes, ProcessHost
from statewright.storage.processes import instances, timers
from statewright.storage.processes.timers import Waiter

MAX_TASKS: Final = 1_000
"""Waiting tasks that one request looks at."""
MAX_FIELDS: Final = 1_000
"""Values in the fields of an event, which are compared with the input of each task."""
MAX_CONCURRENT: Final = 16
"""Instances that one request changes at a time."""


class EventReceipt(ClosedRecord, frozen=True, kw_only=True):
    """A task that an event completed, in a flow that wants its sender to know."""

    instance_id: Ulid
    node: Int32
    element: Annotated[Int32, Meta(description="of an iteration")] | None = None


class Delivery(ClosedRecord, frozen=True, kw_only=True):
    """What an event came to."""

    tasks: Annotated[Int32, Meta(description="how many tasks the event completed")]
    receipts: tuple[EventReceipt, ...]
    next: Annotated[str, Meta(description="there when more tasks may wait than one request looks at")] | None = None
    kept: Annotated[bool, Meta(description="whether it waits with its instance for a task that will wait for it")] = (
        False
    )


class EventAddress(Struct, frozen=True, kw_only=True):
    """The instance that an event is for: by its id, or by its business key. All empty: the tasks that wait now."""

    instance_id: str = ""
    business_key: str = ""
    definition_id: str = ""
    """Where instances of several definitions have the key."""

    @property
    def is_given(self) -> bool:
        """Whether the event is for one instance."""
        return bool(self.instance_id or self.business_key or self.definition_id)


class Counter(ClosedRecord, frozen=True, kw_only=True):
    """A counter of ``wait:acquire`` and ``wait:release``."""

    name: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME_CHARS})]
    value: Int64


async def deliver(processes: Processes, caller: Caller, event: FlowEvent, *, after: str = "") -> Delivery:
    """Complete the tasks that wait for an event now, from the one ``after`` on. One that nothing waits for has no
    effect.

    Once this has returned, all it tells of is durable. After a failure it can be sent again: tasks that it completed
    wait no longer. Raises ``ProcessBadRequest``.
    """
    refuse_joined(caller)
    caller = replace(caller, around=())  # many commits: a record of the request is written after all of them
    await _check_event(event)
    host = FLOW_DIALECT.find_host(processes)
    position = parse_entity_id(after)
    if after and position is None:
        raise InvalidMember("after", "after must be what an earlier answer has as next")
    waiting = await timers.fetch_waiters(
        processes.core.pool,
        caller.tenant,
        host.language.name,
        event.kind,
        matched=hash_fields(event.fields),
        after=position,
        limit=MAX_TASKS,
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


async def deliver_to_one(processes: Processes, caller: Caller, event: FlowEvent, address: EventAddress) -> Delivery:
    """Complete the tasks of one instance that wait for an event; where none does, keep it with the instance.

    It is durable then. Raises ``ProcessBadRequest``, ``ProcessNotFound``, and ``ProcessConflict`` where the instance
    has ended or keeps as many events as it may.
    """
    await _check_event(event)
    host = FLOW_DIALECT.find_host(processes)
    instance = await _find_instance(processes.core, caller, host.language.name, address)
    advanced = await advancing.advance(
        host,
        caller,
        instance,
        partial(take_event, event=event),
        kind="flow.event",
        unknown=ProcessNotFound("there is no such instance"),
        given={"fields": event.fields, "output": event.output},
    )
    return to_delivery(advanced)


def to_delivery(advanced: AdvanceResult[FlowInstance]) -> Delivery:
    """What an event for one instance came to."""
    tasks, receipts = _list_receipts(advanced)
    return Delivery(tasks=tasks, receipts=receipts, kept=not tasks)


async def _find_instance(core: Core, caller: Caller, language: str, address: EventAddress) -> EntityId:
    if address.instance_id:
        found = parse_entity_id(address.instance_id)
        if found is None or address.business_key or address.definition_id:
            told = "instanceId must be the id of an instance, without businessKey and definitionId"
            raise InvalidMember("instanceId", told)
        return found
    if not address.business_key:
        raise InvalidMember("businessKey", "businessKey is required beside definitionId")
    await refuse_unstorable({"businessKey": address.business_key, "definitionId": address.definition_id})
    known = await instances.find_by_key(
        core.pool,
        caller.tenant,
        language,
        address.business_key,
        definition_id=address.definition_id,
        ended=("COMPLETED", "CANCELLED"),
    )
    if not known:
        raise ProcessNotFound("no instance in flight has this business key")
    if len(known) > 1:
        told = "instances of several definitions have this business key: give the definitionId"
        raise InvalidMember("definitionId", told)
    return known[0]


async def get_counter(core: Core, caller: Caller, name: str) -> Counter:
    """A counter; its value is zero where no flow has changed it. Raises ``InvalidParameter``."""
    if not is_name(name):
        raise InvalidParameter("name", f"must have 1 to {MAX_NAME_CHARS} characters, and not U+0000")
    return Counter(name=name, value=await timers.fetch_counter(core.pool, caller.tenant, name))


async def _check_event(event: FlowEvent) -> None:
    """Refuse what cannot be an event. Raises ``ProcessBadRequest``."""
    if not is_name(event.kind):
        raise InvalidMember("event", f"event must have 1 to {MAX_NAME_CHARS} characters, and not U+0000")
    if is_large(event.fields, MAX_FIELDS):
        raise InvalidMember("fields", f"fields must have at most {MAX_FIELDS} values")
    if not isinstance(event.output, dict | list | None):
        raise InvalidMember("output", "output must be an object or an array")
    await refuse_unstorable({"fields": event.fields, "output": event.output})


async def _deliver_to(
    host: ProcessHost[FlowProcess, FlowInstance],
    caller: Caller,
    instance: EntityId,
    waiters: list[Waiter],
    event: FlowEvent,
    limiter: asyncio.Semaphore,
) -> tuple[int, tuple[EventReceipt, ...]]:
    waits = [uuid_to_ulid(waiter.id) for waiter in waiters]
    operation = partial(receive_event, waits=waits, event=event)
    gone = ProcessNotFound("instance of a task is gone")
    async with limiter:
        try:
            advanced = await advancing.advance(
                host, caller, instance, operation, kind="flow.event", unknown=gone, given=event.output
            )
        except ProcessNotFound:
            return 0, ()
    return _list_receipts(advanced)


def _list_receipts(advanced: AdvanceResult[FlowInstance]) -> tuple[int, tuple[EventReceipt, ...]]:
    arrival = advanced.answer
    assert isinstance(arrival, Arrival)  # noqa: S101 - as receive_event has it
    id_ = advanced.instance.id
    return arrival.tasks, tuple(
        EventReceipt(instance_id=id_, node=int(token.node), element=token.element) for token in arrival.receipts
    )
