"""Group commit: the transactions that become ready together share one statement, one round trip and one flush to disk.

Terms. A *submission* is what one unit of work wants written: rows, at most one per entity. A *batch* is a list of
submissions that touch disjoint entities. ``commit.sql`` applies every submission of a batch wholly or not at all; a
stale version in one leaves the others untouched. Unique keys are claimed by the same statement: a claim that an entity
outside the submission holds refuses that submission.

When a batch leaves. The first submission asks the event loop to be called back at the end of its turn, so that
everything which became ready in the same turn travels together; there is no timer, and an idle system sends at once. At
most ``MAX_BATCH`` submissions per batch and ``MAX_IN_FLIGHT`` batches at a time, each on its own connection (measured:
larger or more batches are slower). A submission that touches an entity of a batch being built, or wants a claim that
one of it wants, waits for the next one; that is no conflict. A large submission goes alone.

Growth. A submission whose documents extend the schema of a model goes alone, too, and in a transaction of its own: the
model's row is locked, the documents are compared with the schema as it is *then*, and schema and entities are written
together (docs/adr/0003). So growth commits and rolls back with its entities, and concurrent growth never conflicts.
Rows of models are always locked before rows of entities.

Bulk. A submission of many new entities goes alone, too, and is written by COPY (``storage/bulk.py``).

Failures.
- Stale version: told to that submission only, as the ids of the entities that moved.
- Claim of another entity: told to that submission only.
- Any SQL error rolls the whole batch back. Its members are then run one by one, once, so that the culprit fails alone.
  Two batches that want the same claim at once end so, too: neither saw the other's. Run again, the loser sees it; only
  if its holder came and went meanwhile it may have to be run once more.
- A lost connection leaves the outcome unknown. The backend is ended if it is still there, so that it cannot commit
  behind our back; then each submission's transaction id is looked up before its caller gets an answer.
- A cancelled caller is dropped while queued. Once sent, its future is ignored; the batch is never cancelled.
"""

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from importlib.resources import files

import asyncpg
import msgspec
import structlog
from msgspec import Struct

from statewright.failures import Conflict, Failure, StorageUnavailable
from statewright.identity import EntityId
from statewright.storage.bulk import copy_in, is_bulk
from statewright.storage.growth import Growth, grow
from statewright.storage.pool import ConnectionLost, Pool
from statewright.storage.schedules import TaskRow, encoded
from statewright.storage.steps.staged import StagedSteps, encoded_progress, encoded_waits

MAX_BATCH = 32
MAX_IN_FLIGHT = 2
WORTH_A_SECOND = 8
"""Submissions that justify another batch while one is on its way. Fewer wait for it and then travel together: a
statement costs as much for one transaction as for several."""

HELD_UP_S = 0.02
"""After so long the few that wait for a batch leave without it: it is not busy then, it waits for a lock."""

MAX_QUEUED = 20_000
"""Submissions waiting; beyond it the database cannot keep up and callers are told so at once."""

STATEMENT_WITHIN_S = 15.0
"""A database that takes longer has stopped answering: its connection counts as lost, and the outcome is looked up."""

LARGE_ROWS = 20
LARGE_CHARACTERS = 64 * 1024

ROW_COLUMNS = 20
"""Parameters that every form of the statement has, an array for each column of the staged rows."""


@cache
def form(*parts: str) -> str:
    """The commit statement with these optional parts, which come as one more parameter each, in this order."""
    text = files("statewright.storage").joinpath("commit.sql").read_text()
    for number, part in enumerate(parts, start=ROW_COLUMNS + 1):
        text = text.replace(f"${part}::", f"${number}::")
    for part in {"claims", "tasks", "progress", "waits"} - set(parts):
        text = re.sub(f"^-- <{part}>$.*?^-- </{part}>\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


COMMIT = form()
COMMIT_CLAIMS = form("claims")
COMMIT_TASKS = form("tasks")
COMMIT_CLAIMS_AND_TASKS = form("claims", "tasks")
COMMIT_STEPS = form("progress")
COMMIT_EVERYTHING = form("claims", "tasks", "progress", "waits")
"""The first five are the usual ones, the last shows that all parts fit together."""

_encode = msgspec.json.Encoder().encode

log = structlog.get_logger(__name__)

StagedRow = tuple[
    str,  # change: create, update, delete, read, audit, tasks
    str,  # tenant
    str,  # entity id
    str | None,  # model
    str | None,  # expected transaction id
    str | None,  # transaction id
    str,  # entry transaction id
    str | None,  # state
    str | None,  # transition
    str | None,  # workflow
    int | None,  # workflow revision
    str | None,  # attributed id
    str | None,  # attributed kind
    str | None,  # executor id
    str | None,  # executor kind
    str | None,  # document
    int | None,  # instant of the first audit event
    int | None,  # number of audit events
    str | None,  # audit events
]


ClaimRow = tuple[
    str,  # tenant
    str,  # entity id
    str | None,  # hash of a unique key's values; None: the entity claims nothing (any more)
]


class Applied(Struct, frozen=True):
    """The submission is durable; all its versions carry the instant ``at`` (epoch microseconds)."""

    at: int


class Stale(Struct, frozen=True):
    """Nothing was written: these entities are no longer at the version the submission expected."""

    entities: tuple[EntityId, ...]


class Violation(Struct, frozen=True):
    """Nothing was written: another entity holds a unique key that the submission claims."""


Verdict = Applied | Stale | Violation


class _Submission:
    __slots__ = ("claims", "future", "growth", "is_bulk", "keys", "large", "rows", "steps", "tasks")

    def __init__(
        self,
        rows: Sequence[StagedRow],
        future: "asyncio.Future[Verdict]",
        claims: Sequence[ClaimRow] = (),
        growth: Sequence[Growth] = (),
        tasks: Sequence[TaskRow] = (),
        steps: StagedSteps | None = None,
    ) -> None:
        self.rows = rows
        self.steps = steps
        self.future = future
        self.claims = claims
        self.growth = growth
        self.tasks = tasks
        self.is_bulk = not tasks and steps is None and is_bulk(rows)
        self.keys = {(row[1], row[2]) for row in rows} | {(tenant, f"#{hash_}") for tenant, _, hash_ in claims if hash_}
        characters = sum(len(row[15] or "") for row in rows) + (steps.size if steps else 0)
        self.large = len(rows) > LARGE_ROWS or characters > LARGE_CHARACTERS or bool(growth)


class GroupCommit:
    """Collects submissions and commits them in batches; one per process.

    ``pool`` should hold ``MAX_IN_FLIGHT`` connections of its own.
    """

    def __init__(self, pool: Pool, *, within: timedelta = timedelta(seconds=10)) -> None:
        self._pool = pool
        self._within = within
        self._queue: deque[_Submission] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self._overdue: asyncio.TimerHandle | None = None

    async def commit(
        self,
        rows: Sequence[StagedRow],
        *,
        claims: Sequence[ClaimRow] = (),
        growth: Sequence[Growth] = (),
        tasks: Sequence[TaskRow] = (),
        steps: StagedSteps | None = None,
    ) -> Verdict:
        """Apply ``rows``, at most one per entity, atomically.

        ``claims`` are what entities with unique keys hold from now on: for each of them every claim it has, or one row
        without a hash. ``growth`` is what the documents teach their models; when it is refused, the failure is raised.
        ``tasks`` are scheduled tasks of entities that have a row, ``steps`` what instances of the step engine among
        them write beside their versions.

        Raises ``StorageUnavailable`` when nothing was written because the database is away or overloaded, ``Conflict``
        when the database gave up on the transaction (deadlock, serialisation).
        """
        if len(self._queue) >= MAX_QUEUED:
            raise StorageUnavailable("too many transactions are waiting to commit")
        loop = asyncio.get_running_loop()
        submission = _Submission(rows, loop.create_future(), claims, growth, tasks, steps)
        self._queue.append(submission)
        self._schedule(loop)
        return await submission.future

    @property
    def waiting(self) -> int:
        """Submissions that are not on their way yet."""
        return len(self._queue)

    async def drain(self) -> None:
        """Wait until every submission so far has its verdict."""
        while self._queue or self._in_flight:
            if self._in_flight:
                await asyncio.wait(set(self._in_flight))
            else:
                await asyncio.sleep(0)

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
            self._in_flight.add(task)
            task.add_done_callback(self._sent)
        return bool(batch)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if self._queue:
            self._schedule(task.get_loop())

    def _next_batch(self) -> list[_Submission]:
        """The oldest submissions that fit together; those that collide with one of them keep their place in the
        queue.
        """
        batch: list[_Submission] = []
        postponed: list[_Submission] = []
        taken: set[tuple[str, str]] = set()
        while self._queue and len(batch) < MAX_BATCH:
            submission = self._queue.popleft()
            if submission.future.done():  # its caller was cancelled while it waited
                continue
            if submission.large and batch:
                self._queue.appendleft(submission)
                break
            if taken.isdisjoint(submission.keys):
                batch.append(submission)
                taken |= submission.keys
            else:
                postponed.append(submission)
                taken |= submission.keys  # a later submission of the same entity must not overtake this one
            if submission.large:
                break
        self._queue.extendleft(reversed(postponed))
        return batch

    async def _settle(self, batch: list[_Submission], *, again: bool = True) -> None:
        """Bring each submission its verdict. ``again``: one that loses a race for a claim may be run once more."""
        try:
            await self._apply(batch)
        except ConnectionLost as lost:
            await self._look_up(batch, lost)
        except StorageUnavailable as away:
            for submission in batch:
                _fail(submission, away)
        except asyncpg.PostgresError as error:
            if len(batch) == 1 and not (again and isinstance(error, asyncpg.UniqueViolationError)):
                _fail(batch[0], _translated(error))
                return
            log.warning("batch_split", size=len(batch), sqlstate=error.sqlstate)
            for submission in batch:
                await self._settle([submission], again=len(batch) > 1)
        except Failure as refused:  # growth; its submission is alone
            _fail(batch[0], refused)
        except Exception as error:  # a background task: whatever it is must reach the callers, or they wait for ever
            for submission in batch:
                _fail(submission, error)

    async def _apply(self, batch: list[_Submission]) -> None:
        async with self._pool.connection(within=self._within) as connection:
            if batch[0].is_bulk:
                verdicts = [await _apply_bulk(connection, batch[0])]
            elif batch[0].growth:
                verdicts = [await _apply_growing(connection, batch[0])]
            else:
                verdicts = await _run(connection, batch)
        for submission, verdict in zip(batch, verdicts, strict=True):
            if not submission.future.done():
                submission.future.set_result(verdict)

    async def _look_up(self, batch: list[_Submission], lost: ConnectionLost) -> None:
        """Find out which submissions of a batch were applied although its connection broke."""
        for submission in batch:
            try:
                at = await self._applied_at(lost, submission)
            except Exception as error:  # whatever it is, the caller must not be told a guess
                log.error(  # noqa: TRY400 - the traceback says nothing more
                    "commit_outcome_unknown", error=repr(error), transaction=_witness(submission)[2]
                )
                _fail(submission, StorageUnavailable("the connection was lost during commit; the outcome is not known"))
                continue
            if at is None:
                _fail(submission, StorageUnavailable())
            elif not submission.future.done():
                submission.future.set_result(Applied(at))

    async def _applied_at(self, lost: ConnectionLost, submission: _Submission) -> int | None:
        tenant, entity, transaction = _witness(submission)
        async with self._pool.connection(within=self._within) as connection:
            await end_backend(connection, lost.process_id)
            at: int | None = await connection.fetchval(WRITTEN_AT, tenant, entity, transaction)
            return at


async def _run(connection: asyncpg.Connection, batch: Sequence[_Submission]) -> list[Verdict]:
    """Apply the batch; its verdicts in order."""
    rows = [(number, *row) for number, submission in enumerate(batch) for row in submission.rows]
    columns = map(list, zip(*rows, strict=True))
    steps = [submission.steps for submission in batch]
    parts = {
        "claims": _encoded_claims(batch),
        "tasks": encoded([submission.tasks for submission in batch]),
        "progress": encoded_progress(steps),
        "waits": encoded_waits(steps),
    }
    more = {name: part for name, part in parts.items() if part is not None}
    records = await connection.fetch(form(*more), *columns, *more.values(), timeout=STATEMENT_WITHIN_S)
    verdicts: dict[int, Verdict] = {}
    for number, at, stale, *violates in records:
        if stale is not None:
            before = verdicts.get(number)
            others = before.entities if isinstance(before, Stale) else ()
            verdicts[number] = Stale((*others, EntityId(str(stale))))
        else:
            verdicts[number] = Violation() if any(violates) else Applied(at)
    return [verdicts[number] for number in range(len(batch))]


def _encoded_claims(batch: Sequence[_Submission]) -> str | None:
    """The claims of the transactions of a batch, for the statement; None when none of them has unique keys."""
    claims = [
        {"t": number, "tenant": tenant, "entity": entity, "hash": hash_}
        for number, submission in enumerate(batch)
        for tenant, entity, hash_ in submission.claims
    ]
    return _encode(claims).decode() if claims else None


async def _apply_bulk(connection: asyncpg.Connection, submission: _Submission) -> Verdict:
    """Apply a submission of many new entities, or nothing of it."""
    claims, growth = submission.claims, submission.growth
    at = await copy_in(connection, submission.rows, claims=claims, growth=growth, within_s=STATEMENT_WITHIN_S)
    return Violation() if at is None else Applied(at)


class _Refused(Exception):
    """Ends a transaction whose submission was not applied, so that its models do not grow either."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict


async def _apply_growing(connection: asyncpg.Connection, submission: _Submission) -> Verdict:
    """Apply a submission together with what its documents teach their models, or nothing of it."""
    try:
        async with connection.transaction(isolation="read_committed"):
            await grow(connection, submission.growth)
            return _applied(*await _run(connection, [submission]))
    except _Refused as refused:
        return refused.verdict


def _applied(verdict: Verdict) -> Applied:
    if not isinstance(verdict, Applied):
        raise _Refused(verdict)
    return verdict


WRITTEN_AT = """
    -- When a transaction wrote an entity, or null if it never did.
    SELECT valid_from FROM entity WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     UNION ALL
    SELECT valid_from FROM entity_history WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     LIMIT 1
"""

END_BACKEND = "SELECT pg_terminate_backend($1, 5000)"
"""Waits up to 5 s for the backend to be gone; false when there is no such backend any more, which is as good."""


async def end_backend(connection: asyncpg.Connection, process_id: int) -> None:
    """End the backend of a lost connection, so that a statement it may still run cannot commit any more."""
    try:
        await connection.fetchval(END_BACKEND, process_id)
    except asyncpg.InsufficientPrivilegeError:
        log.warning("backend_not_ended", process_id=process_id)


def _witness(submission: _Submission) -> tuple[str, str, str | None]:
    """A row whose transaction id proves that the submission was applied."""
    row = next((row for row in submission.rows if row[5] is not None), submission.rows[0])
    return row[1], row[2], row[5]


def _translated(error: asyncpg.PostgresError) -> Exception:
    if isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError):
        return Conflict()
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict()
    return error


def _fail(submission: _Submission, error: Exception) -> None:
    if not submission.future.done():
        submission.future.set_exception(error)
