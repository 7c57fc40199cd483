"""The commit statement: what transactions want written goes in, what became of each comes out.

Beside entities, their history and their events it has *optional parts*. A part has a name, an SQL text and an encoder.
The text consists of sections, each for the place of that name in ``commit.sql``; it reads the part's parameter as
``$name::json``. The encoder makes the parameter from the submissions of a batch; where it gives none, the part is left
out of the statement.

Parts that this package knows (unique keys, scheduled tasks, models of new entities) are ``CORE_PARTS``. Others are
given to ``GroupCommit`` where the service is put together; a transaction stages rows for them by name
(``UnitOfWork.parts``), and this package does not look into them.

To add a part:

1. Write its SQL file. A CTE that locks rows belongs into the section ``reads``, and locks them in the order of their
   key: entities come first, then tasks, then the rows of other parts in the order in which the parts are given.
   ``[conditions]`` keeps a transaction from being applied; ``[refusal]`` then says why, as a text. What the text says
   before its first colon is looked up in ``Part.refusals``; the rest is handed to ``PartRefused.build_failure``.
2. Beside it, declare a ``StagedPart`` with the fields that the SQL reads, and make the ``Part`` with
   ``build_staged_part``. Its ``names`` keep transactions apart that write the same row, ``merge`` is what joined
   requests need to stage rows of it.
3. Add the part where the runtime is assembled (``app/runtime.py``), and stage it: ``unit.parts[NAME.name] = …``.

A batch in which nobody has staged the part is sent as if there were no such part: same text, same parameters. A part
that looks at every transaction has an ``encode`` of its own, which gives None as long as there is nothing to look for.

What became of submissions whose connection broke before the verdict arrived.

Its backend may still be at work, so it is ended first; from then on what the tables show is the truth. A database that
cannot be asked is asked again until a deadline: one that is started anew takes some seconds to let anybody in.

Many new entities of one transaction, written by COPY.

The commit statement takes its rows as arrays, which cost more per row than COPY does; for a handful of rows its one
round trip is cheaper, for hundreds it is not. What is written is the same: entities, one audit row each, unique keys,
growth of models, optional parts. It happens in one database transaction:

1. Models grow under the locks of their rows (``storage/commit/growth.py``), those of new entities stay locked (ADR 8).
2. Unique keys are claimed, in the one global order. A claim that another transaction is just taking is waited for;
   one that is taken ends the transaction.
3. The statement applies the first row and the optional parts. It takes the instant of all behind the fence
   (``storage/entities.py``), which is held until all of it is visible.
4. The other rows are copied.

New entities have no former versions, so there is nothing to lock, to compare or to supersede.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import timedelta
from functools import partial
from importlib.resources import files
from operator import attrgetter
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from statewright.failures import Conflict, Failure, ModelNotFound, ModelNotLocked, StorageUnavailable, Suspended
from statewright.ids import EntityId
from statewright.loop.background import MAX_INLINE_BYTES, run_by_size
from statewright.storage.columns import ENTITY_COLUMNS, EntityColumns, StagedRow
from statewright.storage.commit.growth import write_growing
from statewright.storage.commit.overlay import (
    AppliedSubmission,
    Attempt,
    Busy,
    ClaimRow,
    ModelLock,
    ModelLockLost,
    PartRefused,
    Refusal,
    StagedPart,
    Stale,
    Submission,
    UniqueKeyTaken,
    encode_claims,
)
from statewright.storage.pool import ConnectionLost, Pool
from statewright.storage.schedules import encode_tasks
from statewright.telemetry import logs

# Models of new entities: locked when the entities are written as they were when these were judged (docs/adr/0008).

LOST_REASONS: Final[Mapping[str, Callable[[], Failure]]] = {
    "gone": lambda: ModelNotFound("model not found"),
    "unlocked": ModelNotLocked,
    "relocked": Conflict,
}
"""What may have become of the model of a new entity, and what its client is told."""

_encode = msgspec.json.Encoder().encode


def encode_model_locks(batch: Sequence[Submission]) -> str | None:
    """The models that new entities of a batch need, in the one order in which they are locked; None when there is
    no new entity.
    """
    needed: dict[ModelLock, list[int]] = {}
    for number, submission in enumerate(batch):
        for model_lock in submission.model_locks:
            needed.setdefault(model_lock, []).append(number)
    if not needed:
        return None
    model_locks = [
        {"tenant": tenant, "model": model, "lock": lock, "ts": needed[tenant, model, lock]}
        for tenant, model, lock in sorted(needed)
    ]
    return _encode(model_locks).decode()


LOCK_LOST: Final = "SELECT model_locks_lost($1::jsonb) ->> '0'"
"""Keeps the models locked until the transaction ends."""


async def lock_models(connection: asyncpg.Connection, submission: Submission, *, timeout_s: float) -> str | None:
    """Hold the models of the new entities of a submission; why that cannot be, or None."""
    model_locks = encode_model_locks([submission])
    if model_locks is None:
        return None
    reason: str | None = await connection.fetchval(LOCK_LOST, model_locks, timeout=timeout_s)
    return reason


# Optional parts.

PLACE: Final = re.compile(r"^-- \[(\w+)\]\n", re.MULTILINE)
"""A line that begins a section in the text of a part, and stands for it in the statement."""

OF_KINDS: Final = re.compile(r"^-- \((\w[\w, ]*)\)\n(.*?)^-- \(\)\n", re.MULTILINE | re.DOTALL)
"""What ``commit.sql`` has for batches with writes of some kinds only."""

KINDS: Final = frozenset(("create", "update", "delete"))
"""Changes that write entities."""

PACKAGE: Final = "statewright.storage.commit"


class Part(Struct, frozen=True, kw_only=True):
    """A part of the statement. ``staged_as`` is the name under which transactions stage what it writes, or a member of
    what they submit; empty where it looks at all of them.

    ``refusals`` are the values of its section ``refusal``, up to a colon, and what each of them means.
    """

    name: str
    sections: Mapping[str, str]
    encode: Callable[[Sequence[Submission]], str | None]
    refusals: Mapping[str, Refusal] = {}
    staged_as: str = ""
    tenants: Set[str] | None = None
    """Those whose transactions it looks at: while there are none it is left out. None: of all tenants."""
    copied: str = ""
    """What it writes beside rows that are copied: a statement on a tenant ($1) and ids of new entities ($2)."""


def read_sections(package: str, file: str) -> dict[str, str]:
    """The sections of an SQL file; what stands before the first is a comment."""
    _, *pieces = PLACE.split(files(package).joinpath(file).read_text(encoding="utf-8"))
    return {name: text.rstrip("\n") + "\n" for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def build_staged_part(name: str, sections: Mapping[str, str], refusals: Mapping[str, Refusal] | None = None) -> Part:
    """A part that writes what transactions have staged under its name.

    Its parameter is a list of objects: ``t``, the number of the transaction, and ``part``, the staged fields.
    ``refusals`` as in ``Part``.
    """

    def encode(batch: Sequence[Submission]) -> str | None:
        numbered = [
            _Numbered(t, staged)
            for t, submission in enumerate(batch)
            if (staged := submission.parts.get(name)) is not None
        ]
        return _encode(numbered).decode() if numbered else None

    return Part(name=name, sections=sections, encode=encode, refusals=refusals or {}, staged_as=name)


class _Numbered(Struct, frozen=True):
    t: int
    part: StagedPart


def _encode_tasks(batch: Sequence[Submission]) -> str | None:
    return encode_tasks([submission.tasks for submission in batch])


MODEL_LOCKS: Final = Part(
    name="model_locks",
    sections=read_sections(PACKAGE, "model_locks.sql"),
    encode=encode_model_locks,
    refusals={reason: ModelLockLost(reason) for reason in LOST_REASONS},
    staged_as="model_locks",
)
CLAIMS: Final = Part(
    name="claims",
    sections=read_sections(PACKAGE, "claims.sql"),
    encode=encode_claims,
    refusals={"taken": UniqueKeyTaken()},
    staged_as="claims",
)
TASKS: Final = Part(name="tasks", sections=read_sections(PACKAGE, "tasks.sql"), encode=_encode_tasks, staged_as="tasks")

SUBMITTED: Final = ("model_locks", "claims", "tasks")
"""Members of a submission that have a part of their own."""


class Pass(StagedPart, frozen=True, kw_only=True):
    """The transaction may write entities that are suspended."""


PASSES: Final = build_staged_part("passes", read_sections(PACKAGE, "passes.sql"))


def build_suspended(entity_id: str) -> Failure:
    """What a client is told whose transaction writes an entity that is suspended."""
    return Suspended("ENTITY", entity_id)


CORE_PARTS: Final = (MODEL_LOCKS, CLAIMS, TASKS, PASSES)
"""In the order in which their refusals count."""


STATEMENT_TIMEOUT_S: Final = 12.0
"""A database that takes longer has stopped answering: its connection counts as lost, and the outcome is looked up."""


class CommitStatement:
    """``commit.sql`` with the optional parts that may be in it."""

    def __init__(self, parts: Sequence[Part] = (), columns: EntityColumns = ENTITY_COLUMNS) -> None:
        template = files("statewright.storage.commit").joinpath("commit.sql").read_text(encoding="utf-8")
        self._template = template.format(columns=columns)
        self._first_part = len(columns.staged) + 2  # after an array for each column, and the transactions' numbers
        self._parts = (*CORE_PARTS, *parts)
        self._texts: dict[tuple[frozenset[str], tuple[str, ...]], str] = {}
        self._refusals: dict[str, Refusal] = {}
        places = {*PLACE.findall(template)}
        for part in self._parts:
            if unknown := part.sections.keys() - places:
                raise ValueError(f"the commit statement has no place for {sorted(unknown)} of {part.name}")
            self._refusals |= part.refusals

    @property
    def part_names(self) -> tuple[str, ...]:
        """The optional parts, in their order."""
        return tuple(part.name for part in self._parts)

    def compose(self, *names: str, kinds: frozenset[str] = KINDS) -> str:
        """The text with these optional parts, each with one more parameter, in the order of ``part_names``, for
        batches of writes of these kinds. Where there are several it is the text for all, or there would be many.
        """
        kinds = kinds if len(kinds) < 2 else KINDS
        text = self._texts.get((kinds, names))
        if text is None:
            text = self._build_text([part for part in self._parts if part.name in names], kinds)
            self._texts[kinds, names] = text
        return text

    def _build_text(self, parts: Sequence[Part], kinds: frozenset[str]) -> str:
        text = OF_KINDS.sub(lambda of: "" if kinds.isdisjoint(of[1].split(", ")) else of[2], self._template)
        text = PLACE.sub(lambda place: "".join(part.sections.get(place[1], "") for part in parts), text)
        for number, part in enumerate(parts, start=self._first_part):
            text = text.replace(f"${part.name}::", f"${number}::")
        return text

    async def apply(self, connection: asyncpg.Connection, batch: Sequence[Submission]) -> list[Attempt]:
        """Try to apply the batch; what became of its submissions, in order."""
        numbers = [number for number, submission in enumerate(batch) for _ in submission.rows]
        columns = zip(*[astuple(row) for submission in batch for row in submission.rows], strict=True)
        kinds = KINDS.intersection([row.change for submission in batch for row in submission.rows])
        size = sum([part.size for submission in batch for part in submission.parts.values()])
        more: dict[str, str] = {}
        staged = {name for submission in batch for name in submission.parts}
        staged.update([name for submission in batch for name in SUBMITTED if getattr(submission, name)])
        for part in self._parts:
            if (part.staged_as and part.staged_as not in staged) or (part.tenants is not None and not part.tenants):
                continue
            is_small = size <= MAX_INLINE_BYTES
            text = part.encode(batch) if is_small else await run_by_size(size, partial(part.encode, batch))
            if text is not None:
                more[part.name] = text
        records = await connection.fetch(
            self.compose(*more, kinds=kinds), numbers, *columns, *more.values(), timeout=STATEMENT_TIMEOUT_S
        )
        attempts: dict[int, Attempt] = {}
        for number, at, stale, busy, suspended, refusal in records:
            before = attempts.get(number)
            if suspended:
                attempts[number] = before or PartRefused(build_suspended, str(stale))
            elif stale is not None and not busy:
                others = before.entities if isinstance(before, Stale) else ()
                attempts[number] = Stale((*others, EntityId(str(stale))))
            elif busy:
                attempts[number] = before or Busy()
            else:
                attempts[number] = AppliedSubmission(at) if refusal is None else self._read_refusal(refusal)
        return [attempts[number] for number in range(len(batch))]

    def _read_refusal(self, text: str) -> Refusal:
        name, _, reason = text.partition(":")
        refusal = self._refusals[name]
        return replace(refusal, reason=reason) if isinstance(refusal, PartRefused) else refusal

    async def apply_growing(self, connection: asyncpg.Connection, submission: Submission) -> Attempt:
        """Apply a submission together with what its documents teach their models, or nothing of it."""
        return await self._apply_or_roll_back(connection, submission, self._apply_alone)

    async def copy_in(self, connection: asyncpg.Connection, submission: Submission) -> Attempt:
        """Apply a submission of many new entities, with its optional parts, or nothing of it. Raises the failures of
        ``storage.commit.growth.write_growing``.
        """
        return await self._apply_or_roll_back(connection, submission, self._copy_in)

    async def _apply_or_roll_back(
        self,
        connection: asyncpg.Connection,
        submission: Submission,
        apply: Callable[[asyncpg.Connection, Submission], Awaitable[Attempt]],
    ) -> Attempt:
        try:
            return await write_growing(connection, submission.growth, partial(apply, connection, submission))
        except SubmissionRefused as refused:
            return refused.attempt

    async def _apply_alone(self, connection: asyncpg.Connection, submission: Submission) -> AppliedSubmission:
        return _require_applied(*await self.apply(connection, [submission]))

    async def _copy_in(self, connection: asyncpg.Connection, submission: Submission) -> Attempt:
        await _lock_models(connection, submission)
        await _claim(connection, [claim for claim in submission.claims if claim[2] is not None])
        first = replace(submission, rows=submission.rows[:1], claims=(), model_locks=frozenset())
        applied = await self._apply_alone(connection, first)
        others = submission.rows[1:]
        await _copy(connection, others, applied.at)
        for part in self._parts:
            if part.copied and part.encode([submission]) is not None:
                ids = [row.id for row in others]
                await connection.execute(part.copied, first.rows[0].tenant, ids, timeout=STATEMENT_TIMEOUT_S)
        return applied


class SubmissionRefused(Exception):
    """Ends a database transaction whose submission is not applied, so that nothing else of it stays either."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.attempt = attempt


def _require_applied(attempt: Attempt) -> AppliedSubmission:
    if not isinstance(attempt, AppliedSubmission):
        raise SubmissionRefused(attempt)
    return attempt


ASK_TIMEOUT_S: Final = 6.0
"""For one statement: a little longer than ``END_BACKEND`` may wait."""

PAUSE_S: Final = 0.25
"""Between two attempts."""

log = logs.logger(__name__)


async def find_applied(
    pool: Pool, lost: ConnectionLost, submissions: Sequence[Submission], *, until: float
) -> list[int | None]:
    """When each submission of a batch was applied, in order; None for one that was not.

    ``until``: when to give up, by the clock of the event loop. Raises then what stands in the way of the truth.
    """
    clock = asyncio.get_running_loop().time
    while True:
        try:
            return await _ask(pool, lost, submissions, within_s=max(until - clock(), PAUSE_S))
        except (StorageUnavailable, BackendAlive, asyncpg.PostgresError) as obstacle:
            if clock() + PAUSE_S >= until:
                raise
            log.info("commit_outcome_awaited", error=repr(obstacle.__cause__ or obstacle), commits=len(submissions))
        await asyncio.sleep(PAUSE_S)


async def _ask(
    pool: Pool, lost: ConnectionLost, submissions: Sequence[Submission], *, within_s: float
) -> list[int | None]:
    tenants, entities, transactions = zip(*map(_get_proof_row, submissions), strict=True)
    timeout_s = min(within_s, ASK_TIMEOUT_S)
    async with pool.connection(within=timedelta(seconds=within_s)) as connection:
        await end_backend(connection, lost, timeout_s=timeout_s)
        rows = await connection.fetch(WRITTEN_AT, tenants, entities, transactions, timeout=timeout_s)
    instants: dict[int, int] = {row["n"]: row["valid_from"] for row in rows}
    return [instants.get(number) for number in range(1, len(submissions) + 1)]


# LATERAL … LIMIT 1 keeps the planner at one index probe per transaction.
WRITTEN_AT: Final = """
    -- When transactions wrote their entities; nothing for one that never did.
    SELECT wanted.n, written.valid_from
      FROM unnest($1::text[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS wanted (tenant, id, transaction_id, n)
     CROSS JOIN LATERAL (
            SELECT valid_from FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id
               AND entity.transaction_id = wanted.transaction_id
             UNION ALL
            SELECT valid_from FROM entity_history AS old
             WHERE old.tenant = wanted.tenant AND old.id = wanted.id AND old.transaction_id = wanted.transaction_id
             LIMIT 1) AS written
"""


class BackendAlive(Exception):
    """A backend could not be ended; it may still commit."""


END_BACKEND: Final = """
    -- Another backend may have got the number since. Waits up to 5 s for this one to be gone.
    SELECT pg_terminate_backend(pid, 5000)
      FROM pg_stat_activity
     WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()
"""


IS_LISTED: Final = "SELECT true FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"


async def end_backend(
    connection: asyncpg.Connection, lost: ConnectionLost, *, timeout_s: float = ASK_TIMEOUT_S
) -> None:
    """End the backend of a lost connection, so that a statement it may still run cannot commit any more.

    Raises ``BackendAlive`` when it does not end, or was killed: then its transaction hangs until the server has
    recovered, which finds it committed if its last record was written.
    """
    backend = lost.process_id, lost.started_at
    ended: bool | None = await connection.fetchval(END_BACKEND, *backend, timeout=timeout_s)
    # A process that is gone and still in the list has not ended by itself.
    if ended is False or (ended and await connection.fetchval(IS_LISTED, *backend, timeout=timeout_s)):
        raise BackendAlive(f"backend {lost.process_id} does not end")


def _get_proof_row(submission: Submission) -> tuple[str, str, str | None]:
    """A row whose transaction id proves that the submission was applied."""
    row = next((row for row in submission.rows if row.transaction_id is not None), submission.rows[0])
    return row.tenant, row.id, row.transaction_id


def get_transaction_id(submission: Submission) -> str:
    """The id that the caller knows; that of the run where nothing is written but events."""
    return _get_proof_row(submission)[2] or submission.rows[0].entry_transaction_id


MIN_COPY_ROWS: Final = 60
"""Rows from which COPY, with its four round trips, is quicker than the commit statement (measured)."""

AUDIT_COLUMNS: Final = {
    "tenant": "tenant",
    "entity": "id",
    "at": "events_at",
    "transaction_id": "entry_transaction_id",
    "n": "n",
    "events": "events",
}
"""Columns of the audit trail, and the fields of a staged row that they come from."""

_get_version = attrgetter(*ENTITY_COLUMNS.version)
_get_audit = attrgetter(*AUDIT_COLUMNS.values())

CLAIM: Final = """
    -- One of two that claim the same value waits here for the other to commit.
    INSERT INTO unique_claim (tenant, hash, entity)
    SELECT tenant, hash, entity
      FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS claimed (tenant, hash, entity)
     ORDER BY tenant, hash
        ON CONFLICT (tenant, hash) DO NOTHING
"""


def is_bulk(rows: Sequence[StagedRow]) -> bool:
    """Whether these rows of one transaction are better copied: many new entities, and nothing else."""
    return len(rows) >= MIN_COPY_ROWS and all(row.change == "create" for row in rows)


async def _lock_models(connection: asyncpg.Connection, submission: Submission) -> None:
    reason = await lock_models(connection, submission, timeout_s=STATEMENT_TIMEOUT_S)
    if reason is not None:
        raise SubmissionRefused(ModelLockLost(reason))


async def _claim(connection: asyncpg.Connection, claims: Sequence[ClaimRow]) -> None:
    if not claims:
        return
    tenants, entities, hashes = zip(*claims, strict=True)
    done: str = await connection.execute(CLAIM, tenants, hashes, entities, timeout=STATEMENT_TIMEOUT_S)
    if int(done.rpartition(" ")[2]) < len(claims):
        raise SubmissionRefused(UniqueKeyTaken())


async def _copy(connection: asyncpg.Connection, rows: Sequence[StagedRow], at: int) -> None:
    await connection.copy_records_to_table(
        "entity",
        columns=(*ENTITY_COLUMNS.version, "created_at", "valid_from"),
        records=((*_get_version(row), at, at) for row in rows),
        timeout=STATEMENT_TIMEOUT_S,
    )
    await connection.copy_records_to_table(
        "entity_audit",
        columns=(*AUDIT_COLUMNS,),
        records=(_get_audit(row) for row in rows if row.events is not None),
        timeout=STATEMENT_TIMEOUT_S,
    )
