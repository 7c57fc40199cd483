"""Watching the queues of all tenants: numbers for metrics, and alerts where nobody comes
(docs/reference/operations.md#queues-without-a-worker).

Every node watches. It counts what waits now and then, more seldom the longer a count takes, and remembers since when a
queue that is not empty has had no worker. After the time of the alert it stores an incident, unless another node has
done so already. Whoever sees that a worker came, or that nothing waits any more, closes it.

Telling the other nodes which workers poll here, and which callouts wait or are under way.
"""

import asyncio
import heapq
import time
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final, Protocol

from statewright.cluster.forwarding import ClusterDispatcher
from statewright.compute.callout import Callout
from statewright.compute.members import Members
from statewright.ids import Clock, NodeId, TenantId
from statewright.instants import to_us
from statewright.loop.background import Removal, repeat
from statewright.operations.queues import QueueKind
from statewright.services.core import Core
from statewright.services.ops.queues import Queue, QueueId, WorkCounts, build_queues, name_tags
from statewright.services.processes.wakeups import PollingWorkers
from statewright.storage.ops import queues as stored
from statewright.storage.ops.service import MAX_BATCH, remove_rows
from statewright.storage.pool import Pool
from statewright.telemetry import logs
from statewright.telemetry.histogram import MinuteCounts

INTERVAL: Final = timedelta(seconds=5)
MIN_INTERVAL: Final = timedelta(milliseconds=200)
"""Where the time of the alert is short."""

REST_FACTOR: Final = 100
"""After a look the watch rests for so many times as long as it took."""

log = logs.logger(__name__)


class QueueReports(Protocol):
    """What operators are told of queues without workers."""

    @property
    def is_on(self) -> bool:
        """Whether they are told anything."""
        ...

    async def report_unserved(self, tenant: TenantId, kind: QueueKind, name: str, at: int) -> bool:
        """They are told of a queue; whether that is news. Raises ``StorageUnavailable``."""
        ...


class QueueWatch:
    """The watch of one node. ``alert_after`` zero: there are no alerts."""

    def __init__(self, core: Core, work: WorkCounts, reports: QueueReports, *, alert_after: timedelta) -> None:
        self._core = core
        self._reports = reports
        self._work = work
        self._alert_after_us = to_us(alert_after)
        self._interval = max(MIN_INTERVAL, min(INTERVAL, alert_after / 4)) if alert_after else INTERVAL
        self._rests_until = 0.0
        self._alerted: set[QueueId] = set()
        self.queues: Mapping[TenantId, list[Queue]] = {}
        """The queues of all tenants, as of the last look."""

    async def run(self) -> None:
        """Watch until cancelled."""
        await repeat(self._look_after_rest, self._interval, log=log, failure="queue_watch_failed", waits_first=True)

    async def _look_after_rest(self) -> None:
        begun = time.monotonic()
        if begun >= self._rests_until:
            await self.run_once()
            self._rests_until = time.monotonic() + REST_FACTOR * (time.monotonic() - begun)

    async def run_once(self) -> None:
        """One look. Raises ``StorageUnavailable``."""
        core, work = self._core, self._work
        census = await stored.count_work(core.pool)
        self.queues = await build_queues(work, census)
        now, since = core.clock(), work.unserved_since
        unserved = {
            QueueId(tenant, queue.kind, queue.name): queue
            for tenant, queues in self.queues.items()
            for queue in queues
            if queue.is_unserved and not queue.is_suspended
        }
        work.unserved_since = {queue: since.get(queue, now) for queue in unserved}
        self._alerted &= unserved.keys()
        if not (self._alert_after_us and self._reports.is_on):
            return
        for queue, begun in work.unserved_since.items():
            if now - begun >= self._alert_after_us and queue not in self._alerted:
                await self._alert(queue, now)
        await self._close_alerts(census.crowded)

    async def _alert(self, queue: QueueId, now: int) -> None:
        self._alerted.add(queue)
        if await self._reports.report_unserved(queue.tenant, queue.kind, queue.name, now):
            log.warning("queue_without_worker", tenant=queue.tenant, kind=queue.kind, queue=queue.name)

    async def _close_alerts(self, crowded: Collection[TenantId]) -> None:
        closed: list[stored.ClosedAlert] = []
        for alert in await stored.list_open_alerts(self._core.pool):
            found = self._find(alert)
            if found is not None and (found.is_suspended or found.is_unserved):
                continue
            if found is not None and found.workers:
                closed.append(stored.ClosedAlert(tenant=alert.tenant, id=alert.id, how="SUCCEEDED"))
            elif found is not None or alert.tenant not in crowded:
                closed.append(stored.ClosedAlert(tenant=alert.tenant, id=alert.id, how="GONE"))
        if closed:
            await stored.close_alerts(self._core.pool, closed)

    def _find(self, alert: stored.OpenAlert) -> Queue | None:
        queues = self.queues.get(alert.tenant, [])
        return next((queue for queue in queues if f"{queue.kind}/{queue.name}" == alert.subject_id), None)


MAX_QUEUES: Final = 250
"""That metrics tell apart, with four numbers each."""

OTHERS: Final = "_other"


def select_queues(queues: Mapping[TenantId, list[Queue]]) -> list[tuple[tuple[str, str, str], Queue]]:
    """The queues that metrics tell apart, with tenant, kind and name; the smallest go together when there are more."""
    known: list[tuple[tuple[str, str, str], Queue]] = [
        ((tenant, each.kind, each.name), each) for tenant, found in queues.items() for each in found
    ]
    if len(known) <= MAX_QUEUES:
        return known
    known.sort(key=lambda each: each[1].wanted, reverse=True)
    kept, rest = known[: MAX_QUEUES - 2], known[MAX_QUEUES - 2 :]
    kinds: tuple[QueueKind, ...] = ("JOB_TYPE", "TAG")
    for kind in kinds:
        small = [queue for _, queue in rest if queue.kind == kind]
        ages = [queue.oldest_age_us for queue in small if queue.oldest_age_us is not None]
        together = Queue(
            kind=kind,
            name=OTHERS,
            depth=sum(queue.depth for queue in small),
            in_flight=sum(queue.in_flight for queue in small),
            oldest_age_us=max(ages, default=None),
            workers=sum(queue.workers for queue in small),
        )
        kept.append(((OTHERS, kind, OTHERS), together))
    return kept


PRESENCE_INTERVAL: Final = timedelta(seconds=4)
"""So that what others know is at most five seconds old."""

FORGOTTEN_AFTER: Final = timedelta(minutes=5)

SWEEP_INTERVAL: Final = timedelta(minutes=1)

MAX_RATES: Final = 1_000
"""Queues of which a node tells how much it has handed out: those of which it was most."""

MAX_CALLOUTS: Final = 100_000
"""Of one node that are counted."""


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
        self._told: list[stored.CalloutQueueRow] = []
        self._told_rates: list[stored.QueueRateRow] = []
        self.removal = Removal(partial(remove_rows, pool, stored.FORGET, FORGOTTEN_AFTER), MAX_BATCH)
        """Of workers."""

    async def run(self) -> None:
        """Tell until cancelled."""
        await repeat(self.run_once, PRESENCE_INTERVAL, log=log, failure="work_presence_failed", waits_first=True)

    async def run_once(self) -> None:
        """Tell what has changed. Raises ``StorageUnavailable``."""
        workers = [
            stored.WorkerRow(tenant=each.tenant, worker=each.worker, job_types=each.job_types, seen_at=each.seen_at)
            for each in self._polling.take_changed()
        ]
        if workers:
            await stored.publish_workers(self._pool, self._node, workers)
        queues = self.count_callouts()
        if queues != self._told:
            await stored.publish_callouts(self._pool, self._node, queues)
            self._told = queues
        rates = self.list_rates()
        if rates != self._told_rates:
            await stored.publish_rates(self._pool, self._node, rates)
            self._told_rates = rates
        await self.removal.run_if_due(SWEEP_INTERVAL)

    def count_callouts(self) -> list[stored.CalloutQueueRow]:
        """The callouts of this node by what they need."""
        depths: dict[tuple[TenantId, str], int] = {}
        under_way: dict[tuple[TenantId, str], int] = {}
        oldest: dict[tuple[TenantId, str], float] = {}
        for callout, begun, is_waiting in islice(self._iterate(), MAX_CALLOUTS):
            key = callout.tenant, name_tags(callout.tags)
            if is_waiting:
                depths[key] = depths.get(key, 0) + 1
                oldest[key] = min(oldest.get(key, begun), begun)
            else:
                under_way[key] = under_way.get(key, 0) + 1
        now, clock = asyncio.get_running_loop().time(), self._clock()
        return [
            stored.CalloutQueueRow(
                tenant=tenant,
                tags=tags,
                depth=depths.get((tenant, tags), 0),
                in_flight=under_way.get((tenant, tags), 0),
                oldest_at=clock - round((now - oldest[tenant, tags]) * 1_000_000) if (tenant, tags) in oldest else None,
            )
            for tenant, tags in sorted(depths.keys() | under_way.keys())
        ]

    def list_rates(self) -> list[stored.QueueRateRow]:
        """How much this node has handed out in the last minute."""
        sums = {(tenant, "JOB_TYPE", name): count for (tenant, name), count in self._jobs_handed_out.sum_up().items()}
        for (tenant, tags), count in self._dispatcher.handed_out.sum_up().items():
            key = tenant, "TAG", name_tags(tags)
            sums[key] = sums.get(key, 0) + count
        most = heapq.nlargest(MAX_RATES, sums.items(), key=lambda each: each[1])
        return sorted(
            [
                stored.QueueRateRow(tenant=tenant, kind=kind, name=name, handed_out=count)
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
