"""What nodes do for bulk jobs in the background (docs/reference/operations.md#bulk-jobs).

A job is worked on by one node at a time, which holds a lease. It takes the frozen ids a part at a time, and lets items
begin at the rate of the job, as many at once as the job may. Each is a transaction like any other, whose commit has the
result of the item (``storage/ops/bulk_items.py``). What the operator changes meanwhile is seen within a second.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from statewright.failures import (
    Conflict,
    CriterionNotMatched,
    EntityModified,
    Failure,
    Forbidden,
    OutcomeUnknown,
    StateWithoutWorkflow,
    StorageUnavailable,
)
from statewright.ids import EntityId
from statewright.loop.background import LEASE_TIMEOUT, cancel_all, log_failures, repeat
from statewright.operations.bulk_jobs import (
    MAX_ITEMS,
    SKIP_CODES,
    ItemStatus,
)
from statewright.operations.idempotency import StoredAnswer
from statewright.services import entities
from statewright.services.core import Caller
from statewright.services.ops.bulk_incidents import WORKS, freeze
from statewright.services.ops.bulk_items import ItemContext
from statewright.services.ops.bulk_jobs import check_deletions, prepare_search, read_change
from statewright.services.ops.service import Operations
from statewright.services.ops.waiting import wait_for_nodes
from statewright.storage.columns import StagedRow
from statewright.storage.commit.overlay import Overlay
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.idempotency import open_recorded_transaction
from statewright.storage.ops import bulk_items as stored
from statewright.storage.ops.bulk_claims import BulkClaim, BulkJobs
from statewright.storage.ops.bulk_items import BULK_ITEMS, PART, FreezeLost, StagedItem, TooManyItems
from statewright.storage.ops.bulk_jobs import get_job
from statewright.storage.ops.suspensions import list_pending_nodes
from statewright.storage.pool import Pool
from statewright.storage.search.matching import judge_entities
from statewright.storage.search.statements import EntityQuery
from statewright.telemetry import logs

T = TypeVar("T")

LOOK_INTERVAL: Final = timedelta(seconds=2)
"""Between looks for jobs of other nodes; those changed here need no look."""

BEAT_S: Final = 0.5
"""Between two words of a running job to the database, which are what pauses and paces reach it by."""

MAX_CATCH_UP_S: Final = 1.0
"""How far a job that was held up may run ahead of its rate."""

MAX_JOBS: Final = 4
"""Of one node at a time."""

RELEASE_TIMEOUT_S: Final = 2.0
"""For giving a job back when the service stops."""

MAX_TRIES: Final = 5
"""Of an item that meets other writers."""

JUDGED_AT_ONCE: Final = 8

RETENTION: Final = timedelta(days=30)

log = logs.logger(__name__)


class ItemGuard:
    """Around the commits of one item (``CommitGuard``): its result becomes durable with its work. Of a run with several
    segments the first says that it is under way: whoever takes the job over does not begin it again.
    """

    answer: StoredAnswer | None = None
    elements: tuple[str, ...] = ()
    is_left = False

    def __init__(self, job: BulkClaim, n: int, entity: EntityId) -> None:
        self._job, self._n, self._entity = job, n, entity

    def _stage(self, overlay: Overlay, status: ItemStatus) -> None:
        overlay.parts[BULK_ITEMS.name] = StagedItem(
            tenant=self._job.tenant,
            job=self._job.id,
            worker=self._job.worker,
            n=self._n,
            entity=self._entity,
            status=status,
            transaction_id=overlay.label,
        )

    def commit(
        self, unit: UnitOfWork, result: object, commit: Callable[[], Awaitable[int | None]]
    ) -> Awaitable[int | None]:
        """Commit with the result of the item."""
        self._stage(unit, "SUCCEEDED")
        return commit()

    def stage_segment(self, overlay: Overlay) -> None:
        """The item is under way."""
        self._stage(overlay, "RUNNING")

    async def prepare_callout(self) -> None:
        """Nothing is claimed: the job is."""

    def confirm_segment(self) -> None:
        """Nothing is kept of it."""

    def keep_event(self, row: StagedRow, parts: object) -> bool:
        """Events of failures are committed at once."""
        return False

    def respond_with(self, compose: object) -> None:
        """No client waits."""

    def convert_results(self, convert: object) -> None:
        """No client waits."""

    def open_chunk(
        self, before: Sequence[object], encode: Callable[[object], bytes], *, is_last: bool, conclude: object
    ) -> None:
        """An item is one entity."""

    async def carry_out(self, act: Callable[[Pool], Awaitable[T]], conclude: Callable[[T], object], pool: Pool) -> T:
        """Do something by statements of its own, with the result of the item in the same transaction."""
        async with open_recorded_transaction(pool) as transaction:
            done = await act(transaction.pool)
            has_effect: object = done
            if has_effect is not False and not await stored.write_result(
                transaction.pool, self._job, self._n, self._entity, "SUCCEEDED"
            ):
                raise Conflict
        return done

    async def amend_answer(self, result: object) -> None:
        """No client waits."""

    async def settle_failure(self, unit: UnitOfWork, failure: Failure) -> Failure:
        """The runner stores it."""
        return failure

    def follow(self, work: Coroutine[object, object, T]) -> Coroutine[object, object, T]:
        """Nobody leaves."""
        return work

    def leave(self) -> None:
        """Nobody leaves."""


class BulkRunner:
    """The worker on bulk jobs of this node."""

    def __init__(self, jobs: BulkJobs) -> None:
        self._jobs = jobs
        self._name = secrets.token_hex(8)
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._operations: Operations | None = None
        self.items: Counter[tuple[str, str]] = Counter()
        """Items by operation and result."""
        self.jobs: dict[str, int] = {}
        """Jobs by status, as last counted."""
        self.removed = 0
        """Rows removed after their retention."""

    def wake(self) -> None:
        """There is something new to do."""
        self._changed.set()

    async def run(self, operations: Operations) -> None:
        """Work until cancelled; unfinished jobs are left to other nodes."""
        self._operations = operations
        try:
            await repeat(self.run_once, LOOK_INTERVAL, log=log, failure="bulk_claim_failed", wake=self._changed)
        finally:
            await cancel_all(self._tasks)

    async def run_once(self) -> bool:
        """Begin with the jobs that no node works on; whether there was something to remove."""
        free = MAX_JOBS - len(self._tasks)
        for job in await self._jobs.claim(self._name, lease=LEASE_TIMEOUT, most=free) if free else ():
            assert self._operations is not None  # noqa: S101 - it runs
            task = asyncio.create_task(self._work_on(BulkRun(self._operations, self._jobs, job, self.items)))
            self._tasks.add(task)
            task.add_done_callback(self._forget)
        self.jobs = await self._jobs.count()
        removed = await self._jobs.remove_old(older_than=RETENTION)
        self.removed += removed
        return removed > 0

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self.wake()

    async def _work_on(self, run: "BulkRun") -> None:
        job = run.job
        try:
            await run.carry_out()
        except (StorageUnavailable, OutcomeUnknown, Conflict) as away:
            log.warning("bulk_job_interrupted", job=job.id, error=str(away))  # goes on when its lease has ended
            return
        except Exception as error:  # the next node, or the next look, tries again
            log.error_with_ticket("bulk_job_failed", job=job.id, exc_info=error)
            return
        except asyncio.CancelledError:  # the service stops: another node goes on at once
            await run.close()
            with log_failures(log, "bulk_job_not_released"):
                async with asyncio.timeout(RELEASE_TIMEOUT_S):
                    await self._jobs.release(job)
            raise
        finally:
            await run.close()
        with log_failures(log, "bulk_job_not_released"):  # then its lease ends
            await self._jobs.release(job)


class Pace:
    """When the next item may begin, by a clock in seconds."""

    def __init__(self, now: float) -> None:
        self.next_at = now

    def arrive(self, now: float) -> None:
        """There is an item. What was held up catches up for a second at most."""
        self.next_at = max(self.next_at, now - MAX_CATCH_UP_S)

    def begin(self, rate: float) -> None:
        """An item begins, of so many in a second."""
        self.next_at += 1 / rate


class LeaseLost(Exception):
    """Another node has the job."""


class BulkRun:
    """A job as this node works on it."""

    def __init__(self, operations: Operations, jobs: BulkJobs, job: BulkClaim, items: Counter[tuple[str, str]]) -> None:
        self.job = job
        self._operations = operations
        self._jobs = jobs
        self._items = items
        self._status = job.status
        self._was_resumed_by_another = False
        """Whether somebody else has resumed it, before this node heard of the pause."""
        self._rate, self._concurrency = job.rate, job.concurrency
        self._active: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._pace = Pace(time.monotonic())
        self._query: EntityQuery | None = None
        self._change = read_change(job.plan)
        self._error: BaseException | None = None

    async def carry_out(self) -> None:
        """Freeze the job, or let it run, as far as that goes. Raises ``StorageUnavailable``."""
        beats = asyncio.create_task(self._keep())
        try:
            if self.job.status == "FREEZING":
                await self._freeze()
            elif await self._run_items():
                if self.job.plan.operation == "RESUME":
                    await self._tell_nodes()
                await self._jobs.complete(self.job)
                log.info("bulk_job_completed", tenant=self.job.tenant, job=self.job.id)
        except LeaseLost:
            log.info("bulk_job_taken_over", job=self.job.id)
        finally:
            await cancel_all({beats})

    async def _tell_nodes(self) -> None:
        """Wait for the nodes, which would refuse for a moment what has been resumed."""
        active = self._operations.concerns.active
        await active.load_anew()
        revision = active.revision
        await wait_for_nodes(lambda: list_pending_nodes(self._operations.core.pool, revision))

    async def close(self) -> None:
        """End what is under way, and wait until it has ended. What commits all the same has its result."""
        await cancel_all(set(self._active))

    async def _keep(self) -> None:
        """Renew the lease, and hear what the operator wants."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            try:
                beat = await self._jobs.renew(
                    self.job, lease=LEASE_TIMEOUT, running=len(self._active), ran_us=int((now - last) * 1e6)
                )
            except StorageUnavailable:
                if now - last > LEASE_TIMEOUT.total_seconds() / 2:
                    self._stop(LeaseLost())
                continue
            last = now
            if beat is None:
                self._stop(LeaseLost())
                return
            self._status, self._rate, self._concurrency = beat.status, beat.rate, beat.concurrency
            self._was_resumed_by_another = self._was_resumed_by_another or beat.principal != self.job.principal
            self._moved.set()

    def _stop(self, error: BaseException) -> None:
        self._error = self._error or error
        self._moved.set()

    async def _freeze(self) -> None:
        job, plan = self.job, self.job.plan
        total = job.total
        if total is None:
            try:
                await freeze(self._operations.core, self._jobs, job)
            except FreezeLost:
                raise LeaseLost from None
            except TooManyItems:
                await self._jobs.give_up(job, f"more than {MAX_ITEMS} entities match")
                return
            except StorageUnavailable:
                raise
            except Failure as failure:
                await self._jobs.give_up(job, f"{failure.code}: {failure.detail}")
                return
            found = await get_job(self._operations.core.pool, job.tenant, job.id)
            total = found.totals.total
        if not plan.dry_run:
            try:
                check_deletions(job.principal, plan, total)
            except Forbidden as forbidden:
                await self._jobs.give_up(job, forbidden.detail)
                return
        else:
            for part in range(-(-total // PART)):
                await self._judge_part(part)
        await self._jobs.end_freeze(job, "READY" if plan.dry_run else "RUNNING")

    async def _judge_part(self, part: int) -> None:
        items, known = await stored.read_part(self._operations.core.pool, self.job, part)
        if known or not items:
            return
        codes: list[str | None] = []
        for at in range(0, len(items), JUDGED_AT_ONCE):
            self._raise_error()
            if self._status != "FREEZING":
                return
            codes += await asyncio.gather(*(self._judge(entity) for _, entity in items[at : at + JUDGED_AT_ONCE]))
        ids = [entity for _, entity in items]
        await stored.write_verdicts(self._operations.core.pool, self.job, items[0][0], ids, codes)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def _judge(self, entity: EntityId) -> str | None:
        """Why an item would be skipped, as far as that can be told without members; None: it would not."""
        caller, plan = Caller(self.job.principal), self.job.plan
        try:
            if (code := await self._recheck(caller, entity)) is not None:
                return code
            return await WORKS[plan.operation].judges(self._describe(caller), entity)
        except Failure as failure:
            return SKIP_CODES.get(failure.code)

    def _describe(self, caller: Caller) -> ItemContext:
        return ItemContext(
            operations=self._operations,
            caller=caller,
            plan=self.job.plan,
            reason=self.job.reason or "",
            change=self._change,
        )

    async def _recheck(self, caller: Caller, entity: EntityId) -> str | None:
        """Why the condition does not choose an entity any more, where that is wanted."""
        plan = self.job.plan
        if not plan.recheck or plan.condition is None:
            return None
        if self._query is None:
            self._query = await prepare_search(self._operations.core, self.job.principal, plan)
        found = await entities.read(self._operations.core, caller, entity)
        return None if await judge_entities([found], self._query) else "NOT_MATCHING"

    @property
    def _goes_on(self) -> bool:
        return self._status == "RUNNING" and not self._was_resumed_by_another

    async def _run_items(self) -> bool:
        """Work on all items; whether there are none left. A job that was paused is left, also when it goes on while
        items are under way: it is taken anew then, as whoever resumed it.
        """
        has_begun_all = await self._begin_items()
        while self._active and self._error is None:
            await self._wait_moved()
        self._raise_error()
        return has_begun_all and self._goes_on

    async def _begin_items(self) -> bool:
        """Begin with all items that have no result; False when the job is not to go on."""
        for part in range(-(-(self.job.total or 0) // PART)):
            items, known = await stored.read_part(self._operations.core.pool, self.job, part)
            for n, entity in items:
                status, judged = known.get(n, ("ELIGIBLE", True))
                if status == "RUNNING":
                    await self._end_item(
                        n, entity, "FAILED", "INTERRUPTED", "its node ended after a part was committed"
                    )
                elif judged and not await self._begin(n, entity):
                    return False
            if not self._goes_on:
                return False
        return True

    async def _begin(self, n: int, entity: EntityId) -> bool:
        """Begin with an item when its turn has come; False when the job is not to go on."""
        pace = self._pace
        pace.arrive(time.monotonic())
        while self._goes_on and (
            (wait_s := pace.next_at - time.monotonic()) > 0 or len(self._active) >= self._concurrency
        ):
            self._raise_error()
            await self._wait_moved(wait_s if wait_s > 0 else None)
        self._raise_error()
        if not self._goes_on:
            return False
        pace.begin(self._rate)
        task = asyncio.create_task(self._process(n, entity))
        self._active.add(task)
        task.add_done_callback(self._finish)
        return True

    async def _wait_moved(self, seconds: float | None = None) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            return

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._active.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stop(error)
        self._moved.set()

    async def _process(self, n: int, entity: EntityId) -> None:
        """Do the work of an item, and see to it that its result is stored."""
        job = self.job
        caller = Caller(job.principal, around=(ItemGuard(job, n, entity),))
        for tried in range(1, MAX_TRIES + 1):
            try:
                if (code := await self._recheck(Caller(job.principal), entity)) is not None:
                    await self._end_item(n, entity, "SKIPPED", code, "the condition does not hold any more")
                    return
                await WORKS[job.plan.operation].does(self._describe(caller), entity)
            except (StorageUnavailable, OutcomeUnknown):
                raise
            except (Conflict, EntityModified) as lost:
                await self._require_lease()
                if tried < MAX_TRIES:
                    await asyncio.sleep(0.02 * 2**tried)
                    continue
                await self._end_item(n, entity, "FAILED", lost.code, lost.detail)
            except CriterionNotMatched as unmatched:
                await self._end_item(n, entity, "SKIPPED", "CRITERION", unmatched.detail)
            except StateWithoutWorkflow as stranded:
                await self._end_item(n, entity, "SKIPPED", "NO_SUCH_TRANSITION", stranded.detail)
            except Failure as failure:
                skipped = SKIP_CODES.get(failure.code)
                status: ItemStatus = "FAILED" if skipped is None else "SKIPPED"
                await self._end_item(n, entity, status, skipped or failure.code, failure.detail)
            else:
                self._items[job.plan.operation, "SUCCEEDED"] += 1
            return

    async def _require_lease(self) -> None:
        """A commit was refused: for another writer, or since another node has the job. Raises ``LeaseLost``."""
        if await self._jobs.renew(self.job, lease=LEASE_TIMEOUT, running=len(self._active)) is None:
            raise LeaseLost

    async def _end_item(self, n: int, entity: EntityId, status: ItemStatus, code: str, message: str) -> None:
        found = await stored.write_result(self._operations.core.pool, self.job, n, entity, status, code, message)
        if found is None:
            raise LeaseLost
        self._items[self.job.plan.operation, status] += 1
        if found != self._status:
            self._status = found
            self._moved.set()
