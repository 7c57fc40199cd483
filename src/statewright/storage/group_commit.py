"""Group commit: the transactions that become ready together share one statement, one round trip and one flush to disk.

Terms. A *submission* is what one unit of work wants written: rows, at most one per entity. A *batch* is a list of
submissions that touch disjoint entities. ``commit.sql`` applies every submission of a batch wholly or not at all; a
stale version in one leaves the others untouched. Unique keys are claimed by the same statement: a claim that an entity
outside the submission holds refuses that submission.

When a batch leaves. The first submission asks the event loop to be called back at the end of its turn, so that
everything which became ready in the same turn travels together; there is no timer, and an idle system sends at once. At
most ``MAX_BATCH`` submissions per batch and ``MAX_IN_FLIGHT`` batches at a time, each on its own connection (measured:
larger or more batches are slower). A submission that touches an entity of a batch being built or on its way, or wants a
claim that one of it wants, waits for the next one; that is no conflict. A large submission goes alone.

Locks of others. Nobody waits for the lock of somebody else's transaction. An entity that another session has locked is
skipped by the statement; its submission is *held up* and tried again after a pause, while all others go their way. The
few other locks that the statement can meet (a claim or a task that is being written, a model that grows or is being
unlocked) end it after ``LOCK_WITHIN``, as a deadlock does; its submissions are then *suspects*, which run one by one
on a lane of their own. Who was held up or suspected for ``patience`` is told ``Conflict``, and may repeat the request.

Growth. A submission whose documents extend the schema of a model goes alone, too, and in a transaction of its own: the
model's row is locked, the documents are compared with the schema as it is *then*, and schema and entities are written
together (docs/adr/0003). So growth commits and rolls back with its entities, and concurrent growth never conflicts.
Rows of models are always locked before rows of entities.

Bulk. A submission of many new entities goes alone, too, and is written by COPY (``storage/bulk.py``).

Homes. A new entity needs its model, locked as it was when the entity was judged; its processors may have taken a while
since. The statement holds the model's lock against an unlock, and looks (docs/adr/0008). A submission whose model is
gone, unlocked, or locked anew is refused, and no other.

Failures.
- Stale version: told to that submission only, as the ids of the entities that moved.
- Claim of another entity: told to that submission only.
- Any SQL error rolls the whole batch back. Its members are then run one by one, once, so that the culprit fails alone.
  Two batches that want the same claim at once end so, too: neither saw the other's. Run again, the loser sees it; only
  if its holder came and went meanwhile it may have to be run once more.
- A lost connection leaves the outcome unknown. The backend is ended if it is still there, so that it cannot commit
  behind our back; then each submission's transaction id is looked up before its caller gets an answer. Where that
  fails, callers are told ``OutcomeUnknown``, which names the transaction and is no invitation to repeat the request.
- A cancelled caller is dropped while queued. Once sent, the batch is never cancelled, and the caller does not learn the
  outcome either.
"""

import asyncio
from collections import deque
from datetime import timedelta
from random import Random
from typing import Any

import asyncpg
import structlog

from statewright.failures import Conflict, Failure, OutcomeUnknown, StorageUnavailable
from statewright.identity import ModelId, TenantId
from statewright.storage.bulk import copy_in, is_bulk
from statewright.storage.commit_statement import WRITTEN_AT, Applied, Busy, Stale, Submission, Verdict, run, run_growing
from statewright.storage.connections import Target, with_settings
from statewright.storage.pool import ConnectionLost, Pool
from statewright.storage.transaction_tally import TransactionTally

MAX_BATCH = 32
MAX_IN_FLIGHT = 2
CONNECTIONS = MAX_IN_FLIGHT + 1
"""One for each batch and one for the lane of suspects."""

WORTH_A_SECOND = 8
"""Submissions that justify another batch while one is on its way. Fewer wait for it and then travel together: a
statement costs as much for one transaction as for several."""

HELD_UP_S = 0.02
"""After so long the few that wait for a batch leave without it: it is not busy then, it waits for a lock."""

LOCK_WITHIN = timedelta(milliseconds=250)
"""How long a statement may wait for a lock; much longer than any statement of ours holds one."""

PATIENCE = timedelta(seconds=5)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1
"""Between attempts of a submission that is held up: a commit of another process takes a few milliseconds, a mass
deletion seconds."""

LOCKED_OUT = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""What the database says when transactions stand in each other's way."""

MAX_QUEUED = 20_000
"""Submissions waiting; beyond it the database cannot keep up and callers are told so at once."""

LARGE_ROWS = 20
LARGE_CHARACTERS = 64 * 1024

_jitter = Random()  # noqa: S311 - spreads attempts, guards nothing

log = structlog.get_logger(__name__)


def commit_sessions(database: Target) -> Target:
    """The database as commits connect to it."""
    return with_settings(database, lock_timeout=str(LOCK_WITHIN // timedelta(milliseconds=1)))


class _Caller:
    """Who waits for the verdict on a submission."""

    __slots__ = ("future", "held_up_since", "homes", "is_bulk", "is_sent", "keys", "large", "submission")

    def __init__(self, submission: Submission, future: "asyncio.Future[Verdict]") -> None:
        self.submission = submission
        self.future = future
        rows = submission.rows
        claimed = {(tenant, f"#{hash_}") for tenant, _, hash_ in submission.claims if hash_}
        self.keys = {(row[1], row[2]) for row in rows} | claimed
        if submission.growth:
            self.keys |= {(growth.tenant, f"@{growth.model}") for growth in submission.growth}
        self.held_up_since: float | None = None
        self.is_sent = False
        steps = submission.steps
        self.is_bulk = not submission.tasks and steps is None and is_bulk(rows)
        self.homes = {(tenant, model): lock for tenant, model, lock in submission.homes}
        characters = sum(len(row[15] or "") for row in rows) + (steps.size if steps else 0)
        self.large = len(rows) > LARGE_ROWS or characters > LARGE_CHARACTERS or bool(submission.growth)


class GroupCommit:
    """Collects submissions and commits them in batches; one per process.

    ``pool`` should hold ``CONNECTIONS`` of its own, opened as ``commit_sessions``.
    """

    def __init__(
        self, pool: Pool, *, within: timedelta = timedelta(seconds=10), patience: timedelta = PATIENCE
    ) -> None:
        self._pool = pool
        self._within = within
        self._patience = patience.total_seconds()
        self._queue: deque[_Caller] = deque()
        self._in_flight: dict[asyncio.Task[None], list[_Caller]] = {}
        self._suspects: deque[_Caller] = deque()
        self._lane: asyncio.Task[None] | None = None
        self._unanswered: set[asyncio.Future[Verdict]] = set()
        self._scheduled = False
        self._overdue: asyncio.TimerHandle | None = None
        self.tally = TransactionTally()

    async def commit(self, submission: Submission) -> Verdict:
        """Apply a submission atomically.

        Raises what growing its models raises, ``StorageUnavailable`` when nothing was written because the database is
        away or overloaded, ``Conflict`` when somebody else held what the transaction needs for too long, and
        ``OutcomeUnknown``: also when the caller is cancelled while the submission is on its way.
        """
        if len(self._queue) >= MAX_QUEUED:
            raise StorageUnavailable("too many transactions are waiting to commit")
        loop = asyncio.get_running_loop()
        caller = _Caller(submission, loop.create_future())
        self._unanswered.add(caller.future)
        caller.future.add_done_callback(self._unanswered.discard)
        self._queue.append(caller)
        self._schedule(loop)
        begun = loop.time()
        try:
            verdict = await caller.future
        except asyncio.CancelledError as cut:
            if caller.is_sent:
                raise OutcomeUnknown(_transaction(submission)) from cut
            raise
        self.tally.commits.observe(loop.time() - begun)
        self.tally.conflicts += isinstance(verdict, Stale)
        return verdict

    @property
    def waiting(self) -> int:
        """Submissions that are not on their way yet."""
        return len(self._queue)

    async def drain(self) -> None:
        """Wait until every submission so far has its verdict."""
        while self._unanswered or self._in_flight or self._lane:
            pending: set[asyncio.Future[Any]] = {*self._unanswered, *self._in_flight}  # of verdicts, and of nothing
            if self._lane is not None:
                pending.add(self._lane)
            await asyncio.wait(pending)

    @property
    def _has_room(self) -> bool:
        """Whether a batch may leave now."""
        busy = len(self._in_flight)
        return not busy or (busy < MAX_IN_FLIGHT and len(self._queue) >= WORTH_A_SECOND)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._has_room:
            if not self._scheduled:
                self._scheduled = True
                loop.call_soon(self._send)
        elif self._overdue is None and len(self._in_flight) < MAX_IN_FLIGHT:
            self._overdue = loop.call_later(HELD_UP_S, self._send_overdue)

    def _send(self) -> None:
        self._scheduled = False
        while self._queue and self._has_room and self._send_one():
            pass

    def _send_overdue(self) -> None:
        """The batch on its way is held up, by a row that somebody else has locked: the others must not wait for it."""
        self._overdue = None
        if self._queue and len(self._in_flight) < MAX_IN_FLIGHT:
            self._send_one()

    def _send_one(self) -> bool:
        """Send the next batch; whether there was one."""
        batch = self._next_batch()
        if batch:
            task = asyncio.get_running_loop().create_task(self._settle(batch), name="group-commit")
            self._in_flight[task] = batch
            task.add_done_callback(self._sent)
        return bool(batch)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        del self._in_flight[task]
        if self._queue:
            self._schedule(task.get_loop())

    def _next_batch(self) -> list[_Caller]:
        """The oldest submissions that fit together; those that collide with one of them, or of a batch on its way, keep
        their place in the queue.
        """
        batch: list[_Caller] = []
        postponed: list[_Caller] = []
        taken: set[tuple[str, str]] = set()
        taken = taken.union(*(caller.keys for flying in self._in_flight.values() for caller in flying))
        homes: dict[tuple[TenantId, ModelId], int] = {}
        while self._queue and len(batch) < MAX_BATCH:
            caller = self._queue.popleft()
            if caller.future.done():  # it was cancelled while it waited
                continue
            if any(not suspect.keys.isdisjoint(caller.keys) for suspect in self._suspects):
                self._suspect(caller)
                continue
            if caller.large and batch:
                self._queue.appendleft(caller)
                break
            if taken.isdisjoint(caller.keys) and all(
                homes.get(home, lock) == lock for home, lock in caller.homes.items()
            ):
                batch.append(caller)
                homes |= caller.homes
            else:
                postponed.append(caller)
            taken |= caller.keys  # of a postponed one, too: a later submission of the same entity must not overtake it
            if caller.large:
                break
        self._queue.extendleft(reversed(postponed))
        return batch

    async def _settle(self, batch: list[_Caller], *, again: bool = True) -> None:
        """Bring each caller its verdict. ``again``: one that loses a race for a claim may be run once more."""
        try:
            await self._apply(batch)
        except ConnectionLost as lost:
            await self._look_up(batch, lost)
        except StorageUnavailable as away:
            for caller in batch:
                _fail(caller, away)
        except LOCKED_OUT as error:
            log.info("commit_locked_out", size=len(batch), sqlstate=error.sqlstate)
            for caller in batch:
                self._suspect(caller)
        except asyncpg.PostgresError as error:
            if len(batch) == 1 and not (again and isinstance(error, asyncpg.UniqueViolationError)):
                _fail(batch[0], _translated(error))
                return
            log.warning("batch_split", size=len(batch), sqlstate=error.sqlstate)
            for caller in batch:
                await self._settle([caller], again=len(batch) > 1)
        except Failure as refused:  # growth; its submission is alone
            _fail(batch[0], refused)
        except Exception as error:  # a background task: whatever it is must reach the callers, or they wait for ever
            for caller in batch:
                _fail(caller, error)

    async def _apply(self, batch: list[_Caller]) -> None:
        async with self._pool.connection(within=self._within) as connection:
            for caller in batch:
                caller.is_sent = True
            if batch[0].is_bulk:
                attempts = [await copy_in(connection, batch[0].submission)]
            elif batch[0].submission.growth:
                attempts = [await run_growing(connection, batch[0].submission)]
            else:
                attempts = await run(connection, [caller.submission for caller in batch])
        for caller, attempt in zip(batch, attempts, strict=True):
            if isinstance(attempt, Busy):
                self._hold_up(caller)
            elif not caller.future.done():
                caller.future.set_result(attempt)

    def _hold_up(self, caller: _Caller) -> None:
        """Try again later: somebody else has locked an entity of the submission."""
        waited = self._waited(caller)
        if waited < self._patience and not caller.future.done():
            pause = min(max(waited / 4, FIRST_PAUSE_S), LONGEST_PAUSE_S) * _jitter.uniform(0.75, 1.25)
            asyncio.get_running_loop().call_later(pause, self._again, caller)
        else:
            _give_up(caller)

    def _again(self, caller: _Caller) -> None:
        self._queue.append(caller)
        self._schedule(asyncio.get_running_loop())

    def _suspect(self, caller: _Caller) -> None:
        """Have the submission run alone, beside the others, which its locks must not hold up again."""
        self._waited(caller)
        self._suspects.append(caller)
        if self._lane is None:
            self._lane = asyncio.get_running_loop().create_task(self._run_suspects(), name="group-commit-suspects")

    async def _run_suspects(self) -> None:
        while self._suspects:
            caller = self._suspects[0]  # it stays a suspect while it runs
            if self._waited(caller) < self._patience and not caller.future.done():
                await self._settle([caller])
            else:
                _give_up(caller)
            self._suspects.popleft()
        self._lane = None

    def _waited(self, caller: _Caller) -> float:
        """For how many seconds somebody has stood in the way of a submission; it begins now if nobody did before."""
        now = asyncio.get_running_loop().time()
        if caller.held_up_since is None:
            caller.held_up_since = now
        return now - caller.held_up_since

    async def _look_up(self, batch: list[_Caller], lost: ConnectionLost) -> None:
        """Find out which submissions of a batch were applied although its connection broke."""
        for caller in batch:
            try:
                at = await self._applied_at(lost, caller.submission)
            except Exception as error:  # whatever it is, the caller must not be told a guess
                unknown = OutcomeUnknown(_transaction(caller.submission))
                log.error("commit_outcome_unknown", error=repr(error), **unknown.properties)  # noqa: TRY400 - no news
                _fail(caller, unknown)
                continue
            if at is None:
                _fail(caller, StorageUnavailable())
            elif not caller.future.done():
                caller.future.set_result(Applied(at))

    async def _applied_at(self, lost: ConnectionLost, submission: Submission) -> int | None:
        """When the submission was applied; None when it was not. Raises whatever stands in the way of the truth."""
        tenant, entity, transaction = _witness(submission)
        async with self._pool.connection(within=self._within) as connection:
            await end_backend(connection, lost)
            at: int | None = await connection.fetchval(WRITTEN_AT, tenant, entity, transaction)
            return at


class BackendAlive(Exception):
    """A backend could not be ended; it may still commit."""


END_BACKEND = """
    -- Another backend may have got the number since. Waits up to 5 s for this one to be gone.
    SELECT pg_terminate_backend(pid, 5000)
      FROM pg_stat_activity
     WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()
"""


async def end_backend(connection: asyncpg.Connection, lost: ConnectionLost) -> None:
    """End the backend of a lost connection, so that a statement it may still run cannot commit any more.

    Raises ``BackendAlive`` when it does not end.
    """
    ended: bool | None = await connection.fetchval(END_BACKEND, lost.process_id, lost.started_at)
    if ended is False:
        raise BackendAlive(f"backend {lost.process_id} does not end")


def _witness(submission: Submission) -> tuple[str, str, str | None]:
    """A row whose transaction id proves that the submission was applied."""
    row = next((row for row in submission.rows if row[5] is not None), submission.rows[0])
    return row[1], row[2], row[5]


def _transaction(submission: Submission) -> str:
    """The id that the caller knows; that of the run where nothing is written but events."""
    return _witness(submission)[2] or submission.rows[0][6]


def _translated(error: asyncpg.PostgresError) -> Exception:
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict()
    return error


def _give_up(caller: _Caller) -> None:
    """Somebody else holds what the submission needs, for longer than a client should wait."""
    log.warning("commit_given_up", transaction=_transaction(caller.submission))
    _fail(caller, Conflict())


def _fail(caller: _Caller, error: Exception) -> None:
    if not caller.future.done():
        caller.future.set_exception(error)
