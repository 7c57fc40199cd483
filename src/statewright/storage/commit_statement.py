"""The commit statement as Python sees it: what transactions want written goes in, what became of each comes out.

``commit.sql`` has optional parts, each with a parameter of its own: claims of unique keys, scheduled tasks, models that
new entities belong to, what the step engine writes (``storage/steps/staged.py``). A part that no transaction of a batch
needs is left out of the statement.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import asyncpg
import msgspec
from msgspec import Struct

from statewright.identity import EntityId, ModelId, TenantId
from statewright.storage.growth import Growth, grow
from statewright.storage.schedules import TaskRow, encoded
from statewright.storage.steps.staged import StagedSteps, encoded_progress, encoded_waits

ROW_COLUMNS = 20
"""Parameters that every form of the statement has, an array for each column of the staged rows."""

PARTS = ("claims", "tasks", "progress", "waits", "homes")
"""The optional parts, in the order of their parameters."""

STATEMENT_WITHIN_S = 15.0
"""A database that takes longer has stopped answering: its connection counts as lost, and the outcome is looked up."""


@cache
def form(*parts: str) -> str:
    """The commit statement with these optional parts, which come as one more parameter each, in this order."""
    text = files("statewright.storage").joinpath("commit.sql").read_text()
    for number, part in enumerate(parts, start=ROW_COLUMNS + 1):
        text = text.replace(f"${part}::", f"${number}::")
    for part in {*PARTS} - {*parts}:
        text = re.sub(f"^-- <{part}>$.*?^-- </{part}>\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


COMMIT = form()
COMMIT_CLAIMS = form("claims")
COMMIT_TASKS = form("tasks")
COMMIT_CLAIMS_AND_TASKS = form("claims", "tasks")
COMMIT_STEPS = form("progress")
COMMIT_HOMES = form("homes")
COMMIT_EVERYTHING = form(*PARTS)
"""The others are usual ones, the last shows that all parts fit together."""

_encode = msgspec.json.Encoder().encode

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

Home = tuple[TenantId, ModelId, int]
"""The model of a new entity, and the lock under which the entity was judged (``StoredModel.lock_revision``)."""


class Submission(Struct, frozen=True, kw_only=True):
    """What one transaction wants written: rows, at most one per entity.

    ``claims`` are what entities with unique keys hold from now on: for each of them every claim it has, or one row
    without a hash. ``growth`` is what the documents teach their models. ``tasks`` are scheduled tasks of entities that
    have a row, ``steps`` what instances of the step engine among them write beside their versions. ``homes`` are the
    models that new entities need.
    """

    rows: Sequence[StagedRow]
    claims: Sequence[ClaimRow] = ()
    growth: Sequence[Growth] = ()
    tasks: Sequence[TaskRow] = ()
    steps: StagedSteps | None = None
    homes: frozenset[Home] = frozenset()


class Applied(Struct, frozen=True):
    """The submission is durable; all its versions carry the instant ``at`` (epoch microseconds)."""

    at: int


class Stale(Struct, frozen=True):
    """Nothing was written: these entities are no longer at the version the submission expected."""

    entities: tuple[EntityId, ...]


class Violation(Struct, frozen=True):
    """Nothing was written: another entity holds a unique key that the submission claims."""


class Homeless(Struct, frozen=True):
    """Nothing was written: a model of new entities is not locked any more as it was when they were judged.

    ``reason``: ``gone``, ``unlocked``, or ``relocked`` when it was unlocked and locked again since.
    """

    reason: str


class Busy(Struct, frozen=True):
    """Nothing was written: somebody else has locked an entity. Trying again later makes sense."""


Verdict = Applied | Stale | Violation | Homeless
Attempt = Verdict | Busy
"""What became of a submission that may be tried again."""


async def run(connection: asyncpg.Connection, batch: Sequence[Submission]) -> list[Attempt]:
    """Try to apply the batch; what became of its submissions, in order."""
    rows = [(number, *row) for number, submission in enumerate(batch) for row in submission.rows]
    columns = map(list, zip(*rows, strict=True))
    steps = [submission.steps for submission in batch]
    parts = {
        "claims": _encoded_claims(batch),
        "tasks": encoded([submission.tasks for submission in batch]),
        "progress": encoded_progress(steps),
        "waits": encoded_waits(steps),
        "homes": encoded_homes(batch),
    }
    more = {name: part for name, part in parts.items() if part is not None}
    records = await connection.fetch(form(*more), *columns, *more.values(), timeout=STATEMENT_WITHIN_S)
    attempts: dict[int, Attempt] = {}
    for number, at, stale, busy, violates, homeless in records:
        before = attempts.get(number)
        if stale is not None and not busy:
            others = before.entities if isinstance(before, Stale) else ()
            attempts[number] = Stale((*others, EntityId(str(stale))))
        elif busy:
            attempts[number] = before or Busy()
        elif homeless is not None:
            attempts[number] = Homeless(homeless)
        else:
            attempts[number] = Violation() if violates else Applied(at)
    return [attempts[number] for number in range(len(batch))]


def encoded_homes(batch: Sequence[Submission]) -> str | None:
    """The models that new entities of a batch need, in the one order in which they are locked; None when there is
    no new entity.
    """
    needed: dict[Home, list[int]] = {}
    for number, submission in enumerate(batch):
        for home in submission.homes:
            needed.setdefault(home, []).append(number)
    if not needed:
        return None
    homes = [{"tenant": home[0], "model": home[1], "lock": home[2], "ts": needed[home]} for home in sorted(needed)]
    return _encode(homes).decode()


def _encoded_claims(batch: Sequence[Submission]) -> str | None:
    """The claims of the transactions of a batch, for the statement; None when none of them has unique keys."""
    claims = [
        {"t": number, "tenant": tenant, "entity": entity, "hash": hash_}
        for number, submission in enumerate(batch)
        for tenant, entity, hash_ in submission.claims
    ]
    return _encode(claims).decode() if claims else None


class Refused(Exception):
    """Ends a database transaction whose submission is not applied, so that nothing else of it stays either."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.attempt = attempt


async def run_growing(connection: asyncpg.Connection, submission: Submission) -> Attempt:
    """Apply a submission together with what its documents teach their models, or nothing of it."""
    try:
        async with connection.transaction(isolation="read_committed"):
            await grow(connection, submission.growth)
            return _applied(*await run(connection, [submission]))
    except Refused as refused:
        return refused.attempt


def _applied(attempt: Attempt) -> Applied:
    if not isinstance(attempt, Applied):
        raise Refused(attempt)
    return attempt


WRITTEN_AT = """
    -- When a transaction wrote an entity, or null if it never did.
    SELECT valid_from FROM entity WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     UNION ALL
    SELECT valid_from FROM entity_history WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     LIMIT 1
"""
