"""Telling the other nodes which workers poll here, and which callouts wait or are under way."""

import asyncio
import heapq
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Final

from statewright import logs
from statewright.background import repeat
from statewright.cluster.forwarding import ClusterDispatcher
from statewright.compute.callout import Callout
from statewright.compute.members import Members
from statewright.compute.rates import MinuteCounts
from statewright.ids import Clock, NodeId, TenantId
from statewright.services.processes.polling import PollingWorkers
from statewright.storage.ops import presence
from statewright.storage.ops.presence import CalloutQueueRow, QueueRateRow, WorkerRow
from statewright.storage.pool import Pool

INTERVAL: Final = timedelta(seconds=4)
"""So that what others know is at most five seconds old."""

FORGOTTEN_AFTER: Final = timedelta(minutes=5)

SWEEP_INTERVAL_S: Final = 60.0

MAX_RATES: Final = 1_000
"""Queues of which a node tells how much it has handed out: those of which it was most."""

MAX_CALLOUTS: Final = 100_000
"""Of one node that are counted."""

log = logs.logger(__name__)


class WorkPresence:
    """What this node tells. ``polling`` and ``members`` are this node's, ``dispatcher`` has what waits for a member."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        *,
        node: NodeId,
        polling: PollingWorkers,
        jobs_handed_out: MinuteCounts[tuple[TenantId, str]],
        members: Members,
        dispatcher: ClusterDispatcher,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._node = node
        self._polling = polling
        self._jobs_handed_out = jobs_handed_out
        self._members = members
        self._dispatcher = dispatcher
        self._told: list[CalloutQueueRow] = []
        self._told_rates: list[QueueRateRow] = []
        self._sweeps_at = 0.0
        self.removed = 0
        """Rows of workers since the start of the process."""

    async def run(self) -> None:
        """Tell until cancelled."""
        await repeat(self.run_once, INTERVAL, log=log, failure="work_presence_failed", waits_first=True)

    async def run_once(self) -> None:
        """Tell what has changed. Raises ``StorageUnavailable``."""
        workers = [
            WorkerRow(tenant=each.tenant, worker=each.worker, job_types=each.job_types, seen_at=each.seen_at)
            for each in self._polling.take_changed()
        ]
        if workers:
            await presence.publish_workers(self._pool, self._node, workers)
        queues = self.count_callouts()
        if queues != self._told:
            await presence.publish_callouts(self._pool, self._node, queues)
            self._told = queues
        rates = self.list_rates()
        if rates != self._told_rates:
            await presence.publish_rates(self._pool, self._node, rates)
            self._told_rates = rates
        if time.monotonic() >= self._sweeps_at:
            older_than_us = FORGOTTEN_AFTER // timedelta(microseconds=1)
            removed = await presence.forget_workers(self._pool, older_than_us=older_than_us)
            self.removed += removed
            self._sweeps_at = time.monotonic() + (0 if removed == presence.MAX_BATCH else SWEEP_INTERVAL_S)

    def count_callouts(self) -> list[CalloutQueueRow]:
        """The callouts of this node by what they need."""
        depths: dict[tuple[TenantId, str], int] = {}
        under_way: dict[tuple[TenantId, str], int] = {}
        oldest: dict[tuple[TenantId, str], float] = {}
        for callout, begun, is_waiting in islice(self._iterate(), MAX_CALLOUTS):
            key = callout.tenant, ",".join(sorted({tag.lower() for tag in callout.tags}))
            if is_waiting:
                depths[key] = depths.get(key, 0) + 1
                oldest[key] = min(oldest.get(key, begun), begun)
            else:
                under_way[key] = under_way.get(key, 0) + 1
        now, clock = asyncio.get_running_loop().time(), self._clock()
        return [
            CalloutQueueRow(
                tenant=tenant,
                tags=tags,
                depth=depths.get((tenant, tags), 0),
                in_flight=under_way.get((tenant, tags), 0),
                oldest_at=clock - round((now - oldest[tenant, tags]) * 1_000_000) if (tenant, tags) in oldest else None,
            )
            for tenant, tags in sorted(depths.keys() | under_way.keys())
        ]

    def list_rates(self) -> list[QueueRateRow]:
        """How much this node has handed out in the last minute."""
        sums = {(tenant, "JOB_TYPE", name): count for (tenant, name), count in self._jobs_handed_out.sum_up().items()}
        for (tenant, tags), count in self._dispatcher.handed_out.sum_up().items():
            key = tenant, "TAG", ",".join(sorted({tag.lower() for tag in tags}))
            sums[key] = sums.get(key, 0) + count
        most = heapq.nlargest(MAX_RATES, sums.items(), key=lambda each: each[1])
        return sorted(
            [
                QueueRateRow(tenant=tenant, kind=kind, name=name, handed_out=count)
                for (tenant, kind, name), count in most
            ],
            key=lambda row: (row.tenant, row.kind, row.name),
        )

    def _iterate(self) -> Iterator[tuple[Callout, float, bool]]:
        """Each callout, since when, and whether it waits."""
        for waiting in self._dispatcher.waiting.values():
            yield waiting.callout, waiting.begun, True
        for member in self._members.iterate_all():
            for pending in member.pending_callouts:
                yield pending.callout, pending.begun, not pending.is_taken
