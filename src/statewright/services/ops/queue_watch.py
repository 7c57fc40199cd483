"""Watching the queues of all tenants: numbers for metrics, and alerts where nobody comes
(docs/reference/operations.md#queues-without-a-worker).

Every node watches. It counts what waits now and then, more seldom the longer a count takes, and remembers since when a
queue that is not empty has had no worker. After the time of the alert it stores an incident, unless another node has
done so already. Whoever sees that a worker came, or that nothing waits any more, closes it.
"""

import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import repeat
from statewright.ids import TenantId, make_uuid7
from statewright.incidents import IncidentRow, build_title, compute_fingerprint
from statewright.services.ops.queues import Queue, QueueId, QueueKind, WorkCounts, build_queues
from statewright.services.runtime import Runtime
from statewright.storage.ops.alerts import ClosedAlert, OpenAlert, close_alerts, list_open_alerts, raise_alert
from statewright.storage.ops.queues import count_work

INTERVAL: Final = timedelta(seconds=5)
MIN_INTERVAL: Final = timedelta(milliseconds=200)
"""Where the time of the alert is short."""

REST_FACTOR: Final = 100
"""After a look the watch rests for so many times as long as it took."""

log = logs.logger(__name__)


class QueueWatch:
    """The watch of one node. ``alert_after`` zero: there are no alerts."""

    def __init__(self, runtime: Runtime, *, alert_after: timedelta) -> None:
        self._runtime = runtime
        self._alert_after_us = alert_after // timedelta(microseconds=1)
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
        runtime, counts = self._runtime, self._runtime.extensions.get(WorkCounts)
        census = await count_work(runtime.pool)
        self.queues = await build_queues(runtime, census)
        now, since = runtime.clock(), counts.unserved_since
        unserved = {
            QueueId(tenant, queue.kind, queue.name): queue
            for tenant, queues in self.queues.items()
            for queue in queues
            if queue.is_unserved and not queue.is_suspended
        }
        counts.unserved_since = {queue: since.get(queue, now) for queue in unserved}
        self._alerted &= unserved.keys()
        if not (self._alert_after_us and runtime.incidents.is_on):
            return
        for queue, begun in counts.unserved_since.items():
            if now - begun >= self._alert_after_us and queue not in self._alerted:
                await self._alert(queue, now)
        await self._close_alerts(census.crowded)

    async def _alert(self, queue: QueueId, now: int) -> None:
        self._alerted.add(queue)
        if await raise_alert(self._runtime.pool, _build_incident(queue, now)):
            self._runtime.incidents.count_committed("NO_WORKER")
            log.warning("queue_without_worker", tenant=queue.tenant, kind=queue.kind, queue=queue.name)

    async def _close_alerts(self, crowded: Collection[TenantId]) -> None:
        closed: list[ClosedAlert] = []
        for alert in await list_open_alerts(self._runtime.pool):
            found = self._find(alert)
            if found is not None and (found.is_suspended or found.is_unserved):
                continue
            if found is not None and found.workers:
                closed.append(ClosedAlert(tenant=alert.tenant, id=alert.id, how="SUCCEEDED"))
            elif found is not None or alert.tenant not in crowded:
                closed.append(ClosedAlert(tenant=alert.tenant, id=alert.id, how="GONE"))
        if closed:
            await close_alerts(self._runtime.pool, closed)

    def _find(self, alert: OpenAlert) -> Queue | None:
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


def _build_incident(queue: QueueId, at: int) -> IncidentRow:
    what = "jobs of the type" if queue.kind == "JOB_TYPE" else "callouts for members with the tags"
    message = f"{what} {queue.name or '(any)'} wait, and nobody takes them"
    subject = f"{queue.kind}/{queue.name}"
    return IncidentRow(
        tenant=queue.tenant,
        id=make_uuid7(at),
        kind="NO_WORKER",
        severity="ERROR",
        fingerprint=compute_fingerprint("NO_WORKER", subject, message=""),
        title=build_title("no worker", message),
        at=at,
        occurrences=1,
        subject_kind="QUEUE",
        subject_id=subject,
        model="",
        state="",
        component=queue.name,
        code="NO_WORKER",
        message=message,
        principal_id="system",
        principal_kind="system",
    )
