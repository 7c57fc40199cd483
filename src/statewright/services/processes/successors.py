"""Starting instances that follow others (docs/reference/steps.md#chaining): durable, exactly once, whatever becomes of
a node.

The transaction that ends an instance writes a row for its successor; the one that creates the successor, under the id
of the row, removes it. The node that ended the instance tries at once; a row that is still there after a while is taken
by any node.
"""

import asyncio
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import repeat, run_by_size
from statewright.engine.run import record
from statewright.failures import BusinessKeyInUse, Conflict, Failure
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.processes.language import I, NewInstance, P
from statewright.services.processes import advancing, audit, definitions
from statewright.services.processes.documents import read_object
from statewright.services.processes.hosting import ProcessHost, ProcessHosts
from statewright.services.runtime import Caller, Runtime
from statewright.services.scheduler import system_principal
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.processes import children
from statewright.storage.processes.children import DueChild
from statewright.storage.processes.parts import WAITS, Waits

BACKOFF_INTERVAL: Final = timedelta(seconds=10)
MAX_BATCH_SIZE: Final = 100
MAX_CONCURRENT_STARTS: Final = 8
"""Successors that one process starts at a time."""

log = logs.logger("steps")


class SuccessorStarter:
    """Starts what is due, in one process. A background service."""

    def __init__(self, runtime: Runtime, *, scan_interval: timedelta) -> None:
        self._runtime = runtime
        self._hosts = runtime.extensions.get(ProcessHosts)
        self._interval = scan_interval

    async def run(self) -> None:
        """Start what this process has made due at once, and look for what was left behind, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            for _ in range(MAX_CONCURRENT_STARTS):
                loops.create_task(self._start_announced(), name="steps-chains")
            loops.create_task(self._scan(), name="steps-chains-scan")

    async def run_once(self) -> int:
        """Start what was left behind; how much was taken. Raises ``StorageUnavailable``."""
        now, backoff = self._runtime.clock(), BACKOFF_INTERVAL // timedelta(microseconds=1)
        due = await children.take_due_children(
            self._runtime.pool, self._hosts.names, now=now, backoff=backoff, limit=MAX_BATCH_SIZE
        )
        for child in due:
            await self._try_start(child)
        return len(due)

    async def _scan(self) -> None:
        await repeat(self._run_round, self._interval, log=log, failure="chains_scan_failed")

    async def _run_round(self) -> bool:
        return await self.run_once() == MAX_BATCH_SIZE

    async def _start_announced(self) -> None:
        while True:
            tenant, child_id = await self._hosts.due_children.take()
            try:
                due = await children.fetch_due_child(self._runtime.pool, tenant, child_id)
                if due is not None:
                    await self._try_start(due)
            except Exception as error:  # the row stays: the scan finds it
                log.warning("chain_start_failed", child=child_id, error=repr(error))

    async def _try_start(self, child: DueChild) -> None:
        try:
            await self._hosts.get_hosted(child.language).start_child(child)
        except Failure as failure:  # the row stays: it is tried again
            log.warning("chain_start_failed", child=child.id, error=failure.detail)


async def start_successor(host: ProcessHost[P, I], child: DueChild) -> None:
    """Start one successor, or give it up for a reason that will not change; at most once, whatever others try."""
    runtime = host.runtime
    published = await definitions.find_version(host, child.tenant, child.definition_id, 0)
    if published is None:
        await _give_up(host, child, f"definition {child.definition_id} not found")
        return
    moment = host.shared.next_moment()
    new = NewInstance(
        id=uuid_to_ulid(child.id),
        variables=await run_by_size(len(child.variables), lambda: read_object(child.variables)),
        business_key=child.business_key or "",
        parent_instance_id=uuid_to_ulid(child.parent),
    )

    def record_on_parent(unit: UnitOfWork) -> None:
        detail: JsonObject = {
            "instanceId": new.id,
            "definitionId": child.definition_id,
            "definitionName": host.language.get_definition_name(published.process),
        }
        record(unit, child.parent, audit.build_entry_event("chain-started", detail))

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
        if (
            await children.fetch_due_child(runtime.pool, child.tenant, child.id) is not None
        ):  # not by the successor itself
            await _give_up(host, child, taken.message)
    except Conflict:
        if await children.fetch_due_child(runtime.pool, child.tenant, child.id) is not None:
            raise


async def _give_up(host: ProcessHost[P, I], child: DueChild, reason: str) -> None:
    """It never affects the instance that has ended; its trail tells."""
    async with host.runtime.open_unit(Caller(system_principal(child.tenant))) as unit:
        detail = {"definitionId": child.definition_id, "failureReason": reason}
        record(unit, child.parent, audit.build_entry_event("chain-failed", {**detail}))
        unit.parts[WAITS.name] = Waits(tenant=child.tenant, language=host.language.name, started_children=[child.id])
        await unit.commit()
    log.warning("chain_given_up", tenant=child.tenant, parent=child.parent, reason=reason)
