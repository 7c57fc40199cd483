"""Starting instances that follow others (spec/step-engine.md §15): durable, exactly once, whatever becomes of a node.

The transaction that ends an instance writes a row for its successor; the one that creates the successor, under the id
of the row, removes it. The node that ended the instance tries at once; a row that is still there after a while is taken
by any node.
"""

import asyncio
from datetime import timedelta

from statewright import logs
from statewright.engine.run import record
from statewright.failures import BusinessKeyInUse, Conflict, Failure
from statewright.net import uuid_to_ulid
from statewright.services.firing import system
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import definitions, hosting, trail
from statewright.services.steps.documents import read_object
from statewright.steps.core import NewInstance, start_instance
from statewright.storage.steps import children
from statewright.storage.steps.children import DueChild
from statewright.storage.steps.staged import StagedSteps, Waits
from statewright.storage.unit_of_work import UnitOfWork

BACKOFF = timedelta(seconds=10)
BATCH = 100
AT_ONCE = 8
"""Successors that one process starts at a time."""

log = logs.logger("steps")


class Chains:
    """Starts what is due, in one process. A background service."""

    def __init__(self, runtime: Runtime, *, scan_interval: timedelta) -> None:
        self._runtime = runtime
        self._interval_s = scan_interval.total_seconds()

    async def run(self) -> None:
        """Start what this process has made due at once, and look for what was left behind, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            for _ in range(AT_ONCE):
                loops.create_task(self._follow(), name="steps-chains")
            loops.create_task(self._scan(), name="steps-chains-scan")

    async def run_once(self) -> int:
        """Start what was left behind; how much was taken. Raises ``StorageUnavailable``."""
        now, backoff = self._runtime.clock(), BACKOFF // timedelta(microseconds=1)
        due = await children.take(self._runtime.pool, now=now, backoff=backoff, limit=BATCH)
        for child in due:
            await self._attempt(child)
        return len(due)

    async def _scan(self) -> None:
        while True:
            try:
                more = await self.run_once() == BATCH
            except Exception as error:  # a background loop must outlive the failure of one round
                log.warning("chains_scan_failed", error=repr(error))
                more = False
            if not more:
                await asyncio.sleep(self._interval_s)

    async def _follow(self) -> None:
        while True:
            tenant, child_id = await self._runtime.steps.children.next()
            try:
                due = await children.due(self._runtime.pool, tenant, child_id)
                if due is not None:
                    await self._attempt(due)
            except Exception as error:  # the row stays: the scan finds it
                log.warning("chain_start_failed", child=child_id, error=repr(error))

    async def _attempt(self, child: DueChild) -> None:
        try:
            await start(self._runtime, child)
        except Failure as failure:  # the row stays: it is tried again
            log.warning("chain_start_failed", child=child.id, error=failure.detail)


async def start(runtime: Runtime, child: DueChild) -> None:
    """Start one successor, or give it up for a reason that will not change; at most once whoever else tries."""
    published = await definitions.find(runtime, child.tenant, child.definition_id, 0)
    if published is None:
        await _give_up(runtime, child, f"definition {child.definition_id} not found")
        return
    moment = runtime.steps.moments()
    new = NewInstance(
        id=uuid_to_ulid(child.id),
        variables=read_object(child.variables),
        business_key=child.business_key or "",
        parent_instance_id=uuid_to_ulid(child.parent),
    )
    applied = start_instance(published.process, new, moment)

    def tell_parent(unit: UnitOfWork) -> None:
        detail = trail.entry_event("chain-started", {"instanceId": new.id, "definitionId": child.definition_id})
        record(unit, child.parent, detail)

    try:
        await hosting.create(
            runtime, Caller(system(child.tenant)), applied, published.process, moment, beside=tell_parent
        )
    except BusinessKeyInUse as taken:
        if await children.due(runtime.pool, child.tenant, child.id) is not None:  # not by the successor itself
            await _give_up(runtime, child, taken.message)
    except Conflict:
        if await children.due(runtime.pool, child.tenant, child.id) is not None:
            raise


async def _give_up(runtime: Runtime, child: DueChild, reason: str) -> None:
    """It never affects the instance that has ended; its trail tells."""
    async with runtime.unit(Caller(system(child.tenant))) as unit:
        detail = {"definitionId": child.definition_id, "failureReason": reason}
        record(unit, child.parent, trail.entry_event("chain-failed", {**detail}))
        unit.steps = StagedSteps(waits=Waits(tenant=child.tenant, started_children=[child.id]))
        await unit.commit()
    log.warning("chain_given_up", tenant=child.tenant, parent=child.parent, reason=reason)
