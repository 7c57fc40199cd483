"""Starting instances that follow others (docs/reference/steps.md#chaining), or that others wait for, by an outbox.

The transaction that ends an instance writes a row for its successor, and one that enters a node that waits for another
instance writes a row for that; the one that creates the instance, under the id of the row, removes it.

Telling instances that others have ended for which they wait, by an outbox.

The transaction that ends a child writes a row; the advance of its parent removes it. Of a child that nobody waits for
any more the row is dropped.

Rows about instances and their children that a commit leaves behind for something to be done after it: durable,
exactly once, whatever becomes of a node.

The transaction that does it removes the row. The node that wrote the row tries at once; a row that is still there after
a while is taken by any node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from statewright.entity import system_principal
from statewright.failures import BusinessKeyInUse, Conflict, Failure, ProcessConflict, ProcessNotFound
from statewright.ids import Clock, EntityId, TenantId
from statewright.jsonval.values import JsonObject
from statewright.loop.background import log_failures, repeat
from statewright.net import uuid_to_ulid
from statewright.processes.language import ChildOutcome, I, NewInstance, P
from statewright.services.core import Caller
from statewright.services.processes import advancing, definitions
from statewright.services.processes.advancing import InstanceChange, InstanceSuspended
from statewright.services.processes.documents import read_object_by_size
from statewright.services.processes.hosting import Processes, ProcessHost
from statewright.services.processes.incident_rows import build_given_up_parts
from statewright.services.processes.wakeups import DueRows
from statewright.services.processes.writing import OUTBOX_DELAY_US, build_entry_event, encode_outcome
from statewright.services.takings import Round, Takings
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.processes import children
from statewright.storage.processes.children import DueChild, DueEnd
from statewright.storage.processes.parts import WAITS, ChildEndRow, Waits
from statewright.storage.work import ENDS, STARTS, Work
from statewright.telemetry import logs

SUSPENDED_INTERVAL_US: Final = 10_000_000
"""Between looks at a row that waits for the end of a suspension, which makes it due."""
MAX_BATCH_SIZE: Final = 20
"""Rows that are taken together: each may have megabytes, and one that waits its turn too long is taken by others."""
MAX_CONCURRENT: Final = 8
"""Rows that one process carries out at a time."""


class OutboxRow(Protocol):
    """A row by the id of the child it is about."""

    @property
    def tenant(self) -> TenantId: ...

    @property
    def id(self) -> EntityId: ...


R = TypeVar("R", bound=OutboxRow)

log = logs.logger(__name__)


class OutboxKind(Struct, Generic[R], frozen=True, kw_only=True):
    """One kind of rows."""

    name: str
    """Of its tasks."""
    failure: str
    """What the log says of a row that could not be carried out."""
    scan_failure: str
    """What the log says when no rows could be taken."""
    due: DueRows
    """What this process has just written."""
    wake: asyncio.Event | None = None
    """Set when others than those of ``due`` are there to be taken."""
    work: Work[R]
    languages: Sequence[str]
    """Those that the node knows."""
    fetch: Callable[[TenantId, EntityId], Awaitable[R | None]]
    """One row; ``None``: it was carried out."""
    carry_out: Callable[[R], Awaitable[None]]
    """Do what the row says, at most once. After a ``Failure`` the row is still there."""


class OutboxWorker(Generic[R]):
    """Carries out the rows of an outbox in one process. A background service."""

    def __init__(self, outbox: OutboxKind[R], takings: Takings, clock: Clock, *, scan_interval: timedelta) -> None:
        self._outbox = outbox
        self._takings = takings
        self._clock = clock
        self._interval = scan_interval

    async def run(self) -> None:
        """Carry out what this process has written at once, and look for what was left behind, until cancelled."""
        name = self._outbox.name
        async with asyncio.TaskGroup() as loops:
            for _ in range(MAX_CONCURRENT):
                loops.create_task(self._carry_out_announced(), name=name)
            loops.create_task(self._scan(), name=f"{name}-scan")

    async def run_once(self) -> int:
        """Carry out what was left behind; how much was taken. Raises ``StorageUnavailable``."""
        return (await self._take_and_try()).taken

    async def _take_and_try(self) -> Round:
        return await self._takings.run_round(
            self._outbox.work, self._clock, self._try_all, list(self._outbox.languages), limit=MAX_BATCH_SIZE
        )

    async def _scan(self) -> None:
        await repeat(
            self._run_round, self._interval, log=log, failure=self._outbox.scan_failure, wake=self._outbox.wake
        )

    async def _run_round(self) -> bool:
        return (await self._take_and_try()).more

    async def _carry_out_announced(self) -> None:
        while True:
            tenant, id_ = await self._outbox.due.take()
            try:
                row = await self._outbox.fetch(tenant, id_)
                if row is not None:
                    await self._try(row)
            except Exception as error:  # the row stays: the scan finds it
                log.warning(self._outbox.failure, child=id_, error=repr(error))

    async def _try_all(self, rows: Sequence[R], taker: str) -> None:
        for row in rows:
            with log_failures(log, self._outbox.failure, child=row.id):  # the row stays: it is tried again
                async with self._takings.attempt(self._outbox.work, row.tenant, (row.id,), taker, clock=self._clock):
                    await self._outbox.carry_out(row)

    async def _try(self, row: R) -> None:
        try:
            await self._outbox.carry_out(row)
        except Failure as failure:  # the row stays: it is tried again
            log.warning(self._outbox.failure, child=row.id, error=failure.detail)


def build_successor_starter(processes: Processes, *, scan_interval: timedelta) -> OutboxWorker[DueChild]:
    """Starts what is due, in one process."""
    hosts, pool = processes.hosts, processes.core.pool

    async def start_child(child: DueChild) -> None:
        await hosts.get_hosted(child.language).start_child(child)

    outbox = OutboxKind(
        name="instance-starts",
        failure="chain_start_failed",
        scan_failure="chains_scan_failed",
        due=hosts.due_children,
        wake=hosts.children_cancelled,
        work=STARTS,
        languages=hosts.names,
        fetch=partial(children.fetch_due_child, pool),
        carry_out=start_child,
    )
    return OutboxWorker(outbox, processes.core.takings, processes.core.clock, scan_interval=scan_interval)


async def start_successor(host: ProcessHost[P, I], child: DueChild) -> None:
    """Start one successor, or give it up for a reason that will not change; at most once, whatever others try. What is
    not needed any more is cancelled; what is suspended is started later.
    """
    if child.is_cancelled:
        await _cancel(host, child)
        return
    if await advancing.find_definition_hold(host, child.tenant, child.definition_id) is not None:
        until = host.core.clock() + SUSPENDED_INTERVAL_US
        await children.defer_child(host.core.pool, child.tenant, child.id, until=until)
        return
    published = await definitions.find_version(host, child.tenant, child.definition_id, child.definition_version)
    if published is None:
        await give_up(host, child, f"definition {child.definition_id} not found")
        return
    moment = host.shared.next_moment()
    new = NewInstance(
        id=uuid_to_ulid(child.id),
        variables=await read_object_by_size(child.variables),
        business_key=child.business_key or "",
        parent_instance_id=uuid_to_ulid(child.parent),
        awaited_by=None if child.execution is None else uuid_to_ulid(child.execution),
    )

    def record_on_parent(unit: UnitOfWork) -> None:
        detail: JsonObject = {
            "instanceId": new.id,
            "definitionId": child.definition_id,
            "definitionName": host.language.get_definition_name(published.process),
        }
        unit.record(child.parent, build_entry_event("chain-started", detail))

    try:
        await advancing.create(
            host,
            Caller(system_principal(child.tenant)),
            published,
            new,
            moment=moment,
            inner=moment,
            also_stage=record_on_parent,
        )
    except BusinessKeyInUse as taken:
        if await _is_still_due(host, child):  # not by the successor itself
            await give_up(host, child, taken.message)
    except Conflict:
        if await _is_still_due(host, child):
            raise


async def _is_still_due(host: ProcessHost[P, I], child: DueChild) -> bool:
    row = await children.fetch_due_child(host.core.pool, child.tenant, child.id)
    return row is not None and not row.is_started


async def _cancel(host: ProcessHost[P, I], child: DueChild) -> None:
    """End an instance that nobody waits for any more; one that was not started is not started at all."""
    operations = host.language.children
    assert operations is not None, "a language without children has none to cancel"  # noqa: S101
    if child.is_started:
        change = InstanceChange(operations.cancel, None, ends=True)
        with suppress(ProcessNotFound, ProcessConflict):  # it is purged, or has ended
            await advancing.advance_in_turn(
                host,
                Caller(system_principal(child.tenant)),
                child.id,
                lambda: change,
                kind="instance.cancel_child",
                unknown=ProcessNotFound("an awaited instance is gone"),
            )
    await children.drop_child(host.core.pool, child)


async def give_up(host: ProcessHost[P, I], child: DueChild, reason: str) -> None:
    """Start it never. It does not affect an instance that has ended, whose trail tells. One that waits hears why."""
    async with host.core.open_unit(Caller(system_principal(child.tenant))) as unit:
        detail = {"definitionId": child.definition_id, "failureReason": reason}
        unit.record(child.parent, build_entry_event("chain-failed", {**detail}))
        unit.parts[WAITS.name] = Waits(
            tenant=child.tenant,
            language=host.language.name,
            started_children=[child.id],
            child_ends=_build_failed_end(child, reason, unit.started_at),
        )
        if child.execution is None:  # one that waits for it fails itself
            unit.parts.update(build_given_up_parts(unit, host.language, child, reason))
        with host.core.failures.watch_commit(unit.parts):
            await unit.commit()
    if child.execution is not None:
        host.shared.due_ends.add(child.tenant, child.id)
    log.warning("chain_given_up", tenant=child.tenant, parent=child.parent, reason=reason)


def _build_failed_end(child: DueChild, reason: str, now: int) -> Sequence[ChildEndRow]:
    if child.execution is None:
        return ()
    row = ChildEndRow(
        id=child.id,
        parent=child.parent,
        execution=child.execution,
        outcome=encode_outcome(ChildOutcome(reason=reason)),
        not_before=now + OUTBOX_DELAY_US,
    )
    return (row,)


def build_end_teller(processes: Processes, *, scan_interval: timedelta) -> OutboxWorker[DueEnd]:
    """Tells parents what has ended, in one process."""
    hosts, pool = processes.hosts, processes.core.pool

    async def tell_end(end: DueEnd) -> None:
        await hosts.get_hosted(end.language).tell_end(end)

    outbox = OutboxKind(
        name="process-ends",
        failure="child_end_failed",
        scan_failure="child_ends_scan_failed",
        due=hosts.due_ends,
        work=ENDS,
        languages=hosts.names,
        fetch=partial(children.fetch_due_end, pool),
        carry_out=tell_end,
    )
    return OutboxWorker(outbox, processes.core.takings, processes.core.clock, scan_interval=scan_interval)


async def tell_parent(host: ProcessHost[P, I], end: DueEnd) -> None:
    """Let the parent go on, at most once, whatever others try; later if it is suspended. Raises what an advance can
    fail with.
    """
    operations = host.language.children
    assert operations is not None, "a language without children has no ends of them"  # noqa: S101
    told = await read_object_by_size(end.outcome)
    reason = told.get("reason")
    outcome = ChildOutcome(output=told.get("output"), reason=reason if isinstance(reason, str) else None)
    execution = uuid_to_ulid(end.execution)
    operation = partial(operations.end_child, execution=execution, outcome=outcome)
    change = InstanceChange(operation, outcome.output, told_ends=(end.id,))
    try:
        advanced = await advancing.advance_in_turn(
            host,
            Caller(system_principal(end.tenant)),
            end.parent,
            lambda: change,
            kind="instance.end_child",
            unknown=ProcessNotFound("the parent of an instance is gone"),
        )
    except InstanceSuspended:
        until = host.core.clock() + SUSPENDED_INTERVAL_US
        await children.defer_end(host.core.pool, end.tenant, end.id, until=until)
        return
    except ProcessNotFound:
        await children.drop_end(host.core.pool, end.tenant, end.id)
        return
    if advanced.changed is None:
        await children.drop_end(host.core.pool, end.tenant, end.id)
