"""Group commit: the transactions that become ready together share one statement, one round trip and one flush to disk.

Terms. A *submission* is what one unit of work wants written: rows, at most one per entity. A *batch* is a list of
submissions that touch disjoint entities. ``commit.sql`` applies every submission of a batch wholly or not at all; a
stale version in one leaves the others untouched. Unique keys are claimed by the same statement: a claim that an entity
outside the submission holds refuses that submission.

When a batch leaves. The first submission asks the event loop to be called back at the end of its turn, so that
everything which became ready in the same turn travels together; while other transactions are open and each turn brings
more of them, it waits for the next turn, for some milliseconds at most. There is no timer, and an idle system sends at
once. At most ``MAX_BATCH`` submissions per batch and ``MAX_IN_FLIGHT`` batches at a time, each on its own connection
(measured: larger or more batches are slower). A submission that touches an entity of a batch being built or on its way,
or wants a claim that one of it wants, waits for the next one; that is no conflict. A large submission goes alone, and
keeps no small one waiting: a batch of small ones leaves beside as many large ones as there are on their way.

Locks of others. No submission waits for the lock of another transaction. An entity that another session has locked is
skipped by the statement; its submission is *held up* and tried again after a pause, while all others go their way. The
few other locks that the statement can meet (a claim or a task that is being written, a model that grows or is being
unlocked) end it after ``STATEMENT_LOCK_TIMEOUT``, as a deadlock does; its submissions then go to the *serial queue*,
which runs them one by one. What was blocked or queued for ``LOCK_TIMEOUT`` ends in ``Conflict``; the request may be
repeated.

Growth. A submission whose documents extend the schema of a model goes alone, too, and in a transaction of its own: the
model's row is locked, what the documents taught is compared with the schema as it is *then* if that has changed since,
and schema and entities are written together (docs/adr/0003). So growth commits and rolls back with its entities, and
concurrent growth never conflicts. Rows of models are always locked before rows of entities.

Bulk. A submission of many new entities goes alone, too, and is written by COPY (``storage/commit/statement.py``).

Models. A new entity needs its model, locked as it was when the entity was judged; its processors may have taken a while
since. The statement holds the model's lock against an unlock, and looks (docs/adr/0008). A submission whose model is
gone, unlocked, or locked anew is refused, and no other.

Failures.
- Stale version: told to that submission only, as the ids of the entities that moved.
- Claim of another entity: told to that submission only.
- Any SQL error rolls the whole batch back. Its members are then run one by one, once, so that the culprit fails alone.
  Two batches that want the same claim at once end so, too: neither saw the other's. Run again, the loser sees it; only
  if its holder came and went meanwhile it may have to be run once more.
- A lost connection leaves the outcome unknown. The backend is ended if it is still there, so that it cannot commit
  behind our back; then the transaction ids of the batch are looked up before its callers get an answer. That is tried
  until ``ANSWER_TIMEOUT`` is over, since a database that crashed is back after some seconds. Where it fails, clients
  are told ``OutcomeUnknown``, which names the transaction and is no invitation to repeat the request.
- A silent database. A submission that is not on its way after ``SEND_TIMEOUT`` is given up: nothing was done. One that
  is, has ``statement.STATEMENT_TIMEOUT_S``, and then what is left of ``ANSWER_TIMEOUT`` for looking it up.
- A cancelled caller is dropped while queued. Once sent, the batch is never cancelled, and the caller does not learn the
  outcome either.

Spans (docs/reference/traces.md#spans), where there is a tracer. ``tx.commit`` is the wait of one transaction, in its
trace. ``tx.batch`` is a batch on its way to the database: it belongs to no single trace, and links to the commits that
it carries.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from typing import Any, Final

import asyncpg

from statewright.entity import AuditEvent
from statewright.failures import Conflict, Failure, OutcomeUnknown, StorageUnavailable
from statewright.ids import EntityId, ModelId, TenantId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.outbox import RecordedTenants
from statewright.storage.commit.overlay import AppliedSubmission, Busy, Stale, Submission, Verdict
from statewright.storage.commit.statement import (
    CommitStatement,
    Part,
    find_applied,
    get_transaction_id,
    is_bulk,
)
from statewright.storage.connections import DatabaseUrl, add_session_settings
from statewright.storage.ops.service import MINUTE_US, Rate
from statewright.storage.pool import ConnectionLost, Pool
from statewright.telemetry import logs
from statewright.telemetry.histogram import Histogram
from statewright.telemetry.tracing import NO_SPAN, Attributes, Span, Tracer, get_trace

MAX_SHARED_ROWS: Final = 20
MAX_SHARED_CHARS: Final = 64 * 1024
"""What is larger does not share its statement."""


# What became of the transactions of one process, in numbers; and how much was committed, by tenant and minute, until it
# is taken to be stored.

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds (docs/reference/service.md#metrics)."""

SCHEDULE_EVENTS: Final = {
    "SCHEDULED_TRANSITION_ARM": "armed",
    "SCHEDULED_TRANSITION_CANCEL": "cancelled",
    "SCHEDULED_TRANSITION_EXPIRE": "expired",
    "SCHEDULED_TRANSITION_FIRE": "fired",
}
"""Audit events, and what they say of a timer."""


class TransactionMetrics:
    """Counts whole transactions; savepoints and joined requests are parts of them.

    ``timers`` are those that were committed. A transaction that fails after it has committed segments is in
    ``commits`` and in ``rollbacks``.
    """

    def __init__(self) -> None:
        self.begins = Histogram(BUCKETS_S)
        self.commits = Histogram(BUCKETS_S)
        self.rollbacks = Histogram(BUCKETS_S)
        self.active = 0
        self.conflicts = 0
        self.suspended = 0
        """Transactions that were refused because an entity was suspended when they committed."""
        self.timers: Counter[str] = Counter()

    def count_begin(self, took_s: float) -> None:
        """A transaction has begun."""
        self.active += 1
        self.begins.observe(took_s)

    def count_end(self, rollback_s: float | None) -> None:
        """A transaction has ended; ``rollback_s`` is how long that took when it was not to stay."""
        self.active -= 1
        if rollback_s is not None:
            self.rollbacks.observe(rollback_s)

    def count_timers(self, events: Iterable[list[AuditEvent]]) -> None:
        """A transaction that armed timers, or took some away, has committed."""
        for run in events:
            for event in run:
                if event.type in SCHEDULE_EVENTS:
                    self.timers[SCHEDULE_EVENTS[event.type]] += 1


MAX_KEPT: Final = 100_000
"""Pairs of tenant and minute; while the database is away, no more are counted."""

_WRITES: Final = frozenset({"create", "update", "delete"})
"""Changes that write a version."""


class CommitRates:
    """Counts of one process that no database has yet."""

    def __init__(self) -> None:
        self._rates: dict[tuple[TenantId, int], Rate] = {}

    def count(self, rows: Sequence[StagedRow], at: int) -> None:
        """A transaction has written rows at an instant, in epoch microseconds."""
        versions = sum([row.change in _WRITES for row in rows])
        if not versions:
            return
        key = (TenantId(rows[0].tenant), at // MINUTE_US)
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= MAX_KEPT:
                return
            rate = self._rates[key] = Rate()
        rate.transactions += 1
        rate.versions += versions

    def take(self) -> dict[tuple[TenantId, int], Rate]:
        """What was counted since the last time, by tenant and minute since the epoch."""
        taken, self._rates = self._rates, {}
        return taken

    def give_back(self, taken: dict[tuple[TenantId, int], Rate]) -> None:
        """Count again what could not be stored."""
        for key, rate in taken.items():
            if (newer := self._rates.get(key)) is not None:
                newer.transactions += rate.transactions
                newer.versions += rate.versions
            elif len(self._rates) < MAX_KEPT:
                self._rates[key] = rate


class PendingCommit:
    """Who waits for the verdict on a submission, since ``now`` by the clock of the event loop; and what batching has to
    know of it.
    """

    __slots__ = (
        "blocked_since",
        "future",
        "is_bulk",
        "is_large",
        "is_sent",
        "keys",
        "model_locks",
        "queued_at",
        "submission",
        "trace",
    )

    def __init__(self, submission: Submission, future: "asyncio.Future[Verdict]", now: float) -> None:
        self.submission = submission
        self.future = future
        self.queued_at = now
        self.trace = get_trace()
        rows = submission.rows
        claimed = {(tenant, f"#{hash_}") for tenant, _, hash_ in submission.claims if hash_}
        self.keys = {(row.tenant, row.id) for row in rows} | claimed
        if submission.growth:
            self.keys |= {(growth.tenant, f"@{growth.model}") for growth in submission.growth}
        self.blocked_since: float | None = None
        self.is_sent = False
        self.is_bulk = is_bulk(rows)
        self.model_locks = {(tenant, model): lock for tenant, model, lock in submission.model_locks}
        characters = sum([len(row.document or "") for row in rows])
        for part, staged in submission.parts.items():
            self.keys.update([(part, name) for name in staged.names])
            characters += staged.size
        self.is_large = len(rows) > MAX_SHARED_ROWS or characters > MAX_SHARED_CHARS or bool(submission.growth)


MAX_BATCH: Final = 32
MAX_IN_FLIGHT: Final = 2
COMMIT_CONNECTIONS: Final = MAX_IN_FLIGHT + 1
"""One for each batch and one for the serial queue, or for small submissions beside large ones."""

SECOND_BATCH_MIN: Final = 16
"""Submissions that justify another batch while one is on its way. Fewer wait for it and then travel together: a
statement costs the database as much as some twenty rows in it."""

GATHER_WITHIN_S: Final = 0.005
"""How long a submission may wait for others to join its batch: turns of a busy loop are long."""

BLOCKED_AFTER_S: Final = 0.02
"""After so long the few that wait for a batch leave without it: it is not busy then, it waits for a lock."""

STATEMENT_LOCK_TIMEOUT: Final = timedelta(milliseconds=250)
"""How long a statement may wait for a lock; much longer than any statement of ours holds one."""

LOCK_TIMEOUT: Final = timedelta(seconds=5)
MIN_ACQUIRE_S: Final = 1.0
"""A batch has so long for a connection also when one of it was queued for long."""

MIN_PAUSE_S, MAX_PAUSE_S = 0.002, 0.1
"""Between attempts of a submission that is held up: a commit of another process takes a few milliseconds, a mass
deletion seconds."""

LOCK_ERRORS: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""What the database says when transactions stand in each other's way."""

SEND_TIMEOUT: Final = timedelta(seconds=8)
"""How long a submission may wait for its turn and a connection."""

ANSWER_TIMEOUT: Final = timedelta(seconds=28)
"""How long a caller may wait for the verdict, whatever becomes of the database: 30 s with what comes before and after
(decision S14).
"""

MAX_QUEUED: Final = 20_000
"""Submissions waiting; beyond it the database cannot keep up and callers are told so at once."""

_jitter = Random()  # noqa: S311 - spreads attempts, guards nothing

log = logs.logger(__name__)


def configure_commit_sessions(database: DatabaseUrl) -> DatabaseUrl:
    """The database as commits connect to it."""
    return add_session_settings(database, lock_timeout=str(STATEMENT_LOCK_TIMEOUT // timedelta(milliseconds=1)))


class GroupCommit:
    """Collects submissions and commits them in batches; one per process.

    ``pool`` should hold ``COMMIT_CONNECTIONS`` of its own, opened as ``configure_commit_sessions``. ``parts`` are what
    transactions may write beside what this package knows (``storage/commit/statement.py``).
    """

    def __init__(
        self,
        pool: Pool,
        *,
        parts: Sequence[Part] = (),
        send_within: timedelta = SEND_TIMEOUT,
        answer_within: timedelta = ANSWER_TIMEOUT,
        lock_timeout: timedelta = LOCK_TIMEOUT,
        tracer: Tracer | None = None,
        recorded: RecordedTenants | None = None,
    ) -> None:
        self._pool = pool
        self._tracer = tracer
        self._recorded = recorded or RecordedTenants()
        self._recorded.list_batches = self._list_batches
        self._statement = CommitStatement((*parts, self._recorded.build_part()))
        self._send_within_s = send_within.total_seconds()
        self._answer_within_s = answer_within.total_seconds()
        self._lock_timeout_s = lock_timeout.total_seconds()
        self._queue: deque[PendingCommit] = deque()
        self._in_flight: dict[asyncio.Task[None], list[PendingCommit]] = {}
        self._serial_queue: deque[PendingCommit] = deque()
        self._serial_worker: asyncio.Task[None] | None = None
        self._unresolved: set[asyncio.Future[Verdict]] = set()
        self._scheduled = False
        self._gathered = 0
        """How many waited when a batch was last about to leave."""
        self._overdue_timer: asyncio.TimerHandle | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None
        self.watched: dict[tuple[TenantId, EntityId], Callable[[tuple[TenantId, EntityId]], None]] = {}
        """Entities whose versions somebody in this process waits for, and who is to be told of a commit."""
        self.metrics = TransactionMetrics()
        self.rates = CommitRates()

    async def commit(self, submission: Submission) -> Verdict:
        """Apply a submission atomically.

        Raises what growing its models raises, ``StorageUnavailable`` when nothing was written because the database is
        away or overloaded, ``Conflict`` when another session held what the transaction needs for too long, and
        ``OutcomeUnknown``: also when the caller is cancelled while the submission is on its way.
        """
        with NO_SPAN if self._tracer is None else self._begin_commit(self._tracer, submission) as span:
            if len(self._queue) >= MAX_QUEUED:
                raise StorageUnavailable("too many transactions are waiting to commit")
            loop = asyncio.get_running_loop()
            started_at = loop.time()
            pending = PendingCommit(submission, loop.create_future(), started_at)
            self._unresolved.add(pending.future)
            pending.future.add_done_callback(self._unresolved.discard)
            self._queue.append(pending)
            self._schedule(loop)
            if self._expiry_timer is None:
                self._expiry_timer = loop.call_later(self._send_within_s, self._give_up_expired)
            try:
                verdict = await pending.future
            except asyncio.CancelledError as cut:
                if pending.is_sent:
                    raise OutcomeUnknown(get_transaction_id(submission)) from cut
                raise
            self.metrics.commits.observe(loop.time() - started_at)
            self.metrics.conflicts += isinstance(verdict, Stale)
            if isinstance(verdict, AppliedSubmission):
                self.rates.count(submission.rows, verdict.at)
                if self.watched:
                    self._tell_watchers(submission)
            if span is not None:
                span.set("tx.conflict", isinstance(verdict, Stale))
            return verdict

    @staticmethod
    def _begin_commit(tracer: Tracer, submission: Submission) -> AbstractContextManager[Span | None]:
        attributes: Attributes = {"tx.id": get_transaction_id(submission), "entity.count": len(submission.rows)}
        return tracer.begin("tx.commit", "client", attributes)

    @staticmethod
    def _begin_batch(tracer: Tracer, batch: list[PendingCommit]) -> AbstractContextManager[Span | None]:
        causes = [pending.trace for pending in batch if pending.trace is not None]
        attributes: Attributes = {"batch.size": len(batch), "db.system.name": "postgresql"}
        return tracer.begin("tx.batch", "client", attributes, parent=None, links=causes)

    def _tell_watchers(self, submission: Submission) -> None:
        for row in submission.rows:
            key = (TenantId(row.tenant), EntityId(row.id))
            if (tell := self.watched.get(key)) is not None:
                tell(key)

    @property
    def waiting(self) -> int:
        """Submissions that are not on their way yet."""
        return len(self._queue)

    async def drain(self) -> None:
        """Wait until every submission so far has its verdict."""
        while self._unresolved or self._in_flight or self._serial_worker:
            pending: set[asyncio.Future[Any]] = {*self._unresolved, *self._in_flight}  # of verdicts, and of nothing
            if self._serial_worker is not None:
                pending.add(self._serial_worker)
            await asyncio.wait(pending)

    def _list_batches(self) -> "set[asyncio.Task[None]]":
        """The work on batches of which some are on their way."""
        return {*self._in_flight} if self._serial_worker is None else {*self._in_flight, self._serial_worker}

    @property
    def _has_capacity(self) -> bool:
        """Whether any batch may leave now."""
        busy = len(self._in_flight)
        return not busy or (busy < MAX_IN_FLIGHT and len(self._queue) >= SECOND_BATCH_MIN)

    @property
    def _waits_for_large_ones(self) -> bool:
        """Whether only large submissions are on their way: they take long, and small ones leave beside them."""
        return all(batch[0].is_large for batch in self._in_flight.values())

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        has_capacity = self._has_capacity
        if not self._scheduled and (has_capacity or self._waits_for_large_ones):
            self._scheduled = True
            self._gathered = 0
            loop.call_soon(self._send)
        if not has_capacity and self._overdue_timer is None and len(self._in_flight) < MAX_IN_FLIGHT:
            self._overdue_timer = loop.call_later(BLOCKED_AFTER_S, self._send_overdue)

    def _send(self) -> None:
        if self._is_gathering():
            self._gathered = len(self._queue)
            asyncio.get_running_loop().call_soon(self._send)
            return
        self._scheduled = False
        while self._queue and self._has_capacity and self._send_one():
            pass
        if self._queue and self._waits_for_large_ones:
            self._send_one(with_large=False)

    def _is_gathering(self) -> bool:
        """Whether others are at work, and the last turn of the loop has brought more to travel along."""
        waiting = len(self._queue)
        if not self._gathered < waiting < min(MAX_BATCH, self.metrics.active):
            return False
        return asyncio.get_running_loop().time() - self._queue[0].queued_at < GATHER_WITHIN_S

    def _send_overdue(self) -> None:
        """A row that another session has locked blocks the batch on its way: the others must not wait for it."""
        self._overdue_timer = None
        if self._queue and len(self._in_flight) < MAX_IN_FLIGHT:
            self._send_one()

    def _give_up_expired(self) -> None:
        """Nothing was done of what is still queued after so long; look again as long as anything is queued."""
        self._expiry_timer = None
        loop = asyncio.get_running_loop()
        queued = [*self._queue, *list(self._serial_queue)[1:]]  # the first of the serial queue is on its way
        for pending in queued:
            if loop.time() - pending.queued_at >= self._send_within_s:
                _fail(pending, StorageUnavailable("the database takes no commits"))
        left = [pending.queued_at for pending in queued if not pending.future.done()]
        if left:
            self._expiry_timer = loop.call_at(min(left) + self._send_within_s, self._give_up_expired)

    def _send_one(self, *, with_large: bool = True) -> bool:
        """Send the next batch; whether there was one."""
        batch = self._take_batch(with_large)
        if batch:
            task = asyncio.get_running_loop().create_task(self._settle(batch), name="group-commit")
            self._in_flight[task] = batch
            task.add_done_callback(self._finish_batch)
        return bool(batch)

    def _finish_batch(self, task: "asyncio.Task[None]") -> None:
        del self._in_flight[task]
        if self._queue:
            self._schedule(task.get_loop())

    def _take_batch(self, with_large: bool) -> list[PendingCommit]:
        """The oldest submissions that fit together; those that collide with one of them, or of a batch on its way, keep
        their place in the queue, as large ones do unless the batch may be of one.
        """
        batch: list[PendingCommit] = []
        postponed: list[PendingCommit] = []
        taken: set[tuple[str, str]] = set()
        taken = taken.union(*(pending.keys for flying in self._in_flight.values() for pending in flying))
        model_locks: dict[tuple[TenantId, ModelId], int] = {}
        while self._queue and len(batch) < MAX_BATCH:
            pending = self._queue.popleft()
            if pending.future.done():  # it was cancelled while it waited
                continue
            if any(not blocked.keys.isdisjoint(pending.keys) for blocked in self._serial_queue):
                self._enqueue_serial(pending)
                continue
            if pending.is_large and not with_large:
                postponed.append(pending)
                taken |= pending.keys
                continue
            if pending.is_large and batch:
                self._queue.appendleft(pending)
                break
            if taken.isdisjoint(pending.keys) and all(
                model_locks.get(model, lock) == lock for model, lock in pending.model_locks.items()
            ):
                batch.append(pending)
                model_locks |= pending.model_locks
            else:
                postponed.append(pending)
            taken |= pending.keys  # of a postponed one, too: a later submission of the same entity must not overtake it
            if pending.is_large:
                break
        self._queue.extendleft(reversed(postponed))
        return batch

    async def _settle(self, batch: list[PendingCommit], *, again: bool = True) -> None:
        """Bring each caller its verdict. ``again``: one that loses a race for a claim may be run once more."""
        try:
            await self._apply(batch)
        except ConnectionLost as lost:
            await self._resolve_outcomes(batch, lost)
        except StorageUnavailable as away:
            for pending in batch:
                _fail(pending, away)
        except LOCK_ERRORS as error:
            log.info("commit_locked_out", size=len(batch), sqlstate=error.sqlstate)
            for pending in batch:
                self._enqueue_serial(pending)
        except asyncpg.PostgresError as error:
            if len(batch) == 1 and not (again and isinstance(error, asyncpg.UniqueViolationError)):
                _fail(batch[0], _translate_error(error))
                return
            log.warning("batch_split", size=len(batch), sqlstate=error.sqlstate)
            for pending in batch:
                await self._settle([pending], again=len(batch) > 1)
        except Failure as refused:  # growth; its submission is alone
            _fail(batch[0], refused)
        except Exception as error:  # a background task: whatever it is must reach the callers, or they wait for ever
            for pending in batch:
                _fail(pending, error)

    async def _apply(self, batch: list[PendingCommit]) -> None:
        with NO_SPAN if self._tracer is None else self._begin_batch(self._tracer, batch):
            oldest = min([pending.queued_at for pending in batch])
            left_s = oldest + self._send_within_s - asyncio.get_running_loop().time()
            within = timedelta(seconds=max(left_s, MIN_ACQUIRE_S))
            if asyncio.get_running_loop().time() >= self._recorded.presence.until:
                await self._recorded.load_anew()
            async with self._pool.connection(within=within, limit=None) as connection:  # each statement has its own
                # Who was cancelled meanwhile was told that nothing is done.
                if not (batch := [pending for pending in batch if not pending.future.done()]):
                    return
                for pending in batch:
                    pending.is_sent = True
                if batch[0].is_bulk:
                    attempts = [await self._statement.copy_in(connection, batch[0].submission)]
                elif batch[0].submission.growth:
                    attempts = [await self._statement.apply_growing(connection, batch[0].submission)]
                else:
                    attempts = await self._statement.apply(connection, [pending.submission for pending in batch])
            for pending, attempt in zip(batch, attempts, strict=True):
                if isinstance(attempt, Busy):
                    self._retry_later(pending)
                elif not pending.future.done():
                    pending.future.set_result(attempt)

    def _retry_later(self, pending: PendingCommit) -> None:
        """Try again later: another session has locked an entity of the submission."""
        waited = self._measure_blocked_s(pending)
        if waited < self._lock_timeout_s and not pending.future.done():
            pause = min(max(waited / 4, MIN_PAUSE_S), MAX_PAUSE_S) * _jitter.uniform(0.75, 1.25)
            asyncio.get_running_loop().call_later(pause, self._requeue, pending)
        else:
            _give_up(pending)

    def _requeue(self, pending: PendingCommit) -> None:
        self._queue.append(pending)
        self._schedule(asyncio.get_running_loop())

    def _enqueue_serial(self, pending: PendingCommit) -> None:
        """Have the submission run alone, beside the others, which its locks must not hold up again."""
        self._measure_blocked_s(pending)
        self._serial_queue.append(pending)
        if self._serial_worker is None:
            self._serial_worker = asyncio.get_running_loop().create_task(
                self._run_serial_queue(), name="group-commit-serial"
            )

    async def _run_serial_queue(self) -> None:
        while self._serial_queue:
            pending = self._serial_queue[0]  # it stays in the queue while it runs
            if self._measure_blocked_s(pending) < self._lock_timeout_s and not pending.future.done():
                await self._settle([pending])
            else:
                _give_up(pending)
            self._serial_queue.popleft()
        self._serial_worker = None

    def _measure_blocked_s(self, pending: PendingCommit) -> float:
        """For how many seconds locks of others have blocked a submission; the first call begins to count."""
        now = asyncio.get_running_loop().time()
        if pending.blocked_since is None:
            pending.blocked_since = now
        return now - pending.blocked_since

    async def _resolve_outcomes(self, batch: list[PendingCommit], lost: ConnectionLost) -> None:
        """Find out which submissions of a batch were applied although its connection broke."""
        until = min(pending.queued_at for pending in batch) + self._answer_within_s
        try:
            applied = await find_applied(self._pool, lost, [pending.submission for pending in batch], until=until)
        except Exception as error:  # whatever it is, the callers must not be told a guess
            for pending in batch:
                unknown = OutcomeUnknown(get_transaction_id(pending.submission))
                log.error("commit_outcome_unknown", error=repr(error), **unknown.properties)  # noqa: TRY400 - no news
                _fail(pending, unknown)
            return
        for pending, at in zip(batch, applied, strict=True):
            if at is None:
                _fail(pending, StorageUnavailable())
            elif not pending.future.done():
                pending.future.set_result(AppliedSubmission(at))


def _translate_error(error: asyncpg.PostgresError) -> Exception:
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict()
    return error


def _give_up(pending: PendingCommit) -> None:
    """Another session holds what the submission needs, for longer than a client should wait."""
    log.warning("commit_given_up", transaction=get_transaction_id(pending.submission))
    _fail(pending, Conflict())


def _fail(pending: PendingCommit, error: Exception) -> None:
    if not pending.future.done():
        pending.future.set_exception(error)
