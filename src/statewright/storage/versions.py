"""Versions of entities: their documents, read when they are wanted, and the audit trail of the runs that wrote them.

A version never changes. So a list may name versions instead of holding them, and read them in portions when they are
wanted; what is written meanwhile makes no difference, and no connection is held between two portions. Thousands of
found entities need not be in memory at once.

*How much is read.* The text of a document may be many times longer than what is stored, which is compressed and spells
``1e6000`` in some bytes. So the length of the texts decides what is sent, and what is stored decides how many texts the
database makes in order to measure them.

*The audit trail* has one row per entity and transaction, holding the events in order.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final, TypeVar, cast

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import AuditEvent, EntityView
from statewright.failures import HistoryPruned
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.loop.background import run_by_size
from statewright.storage.pool import Pool

Selected = TypeVar("Selected")

PORTION_BYTES: Final = 1024 * 1024
"""Of documents as texts, after which a portion ends; the first one is always in it."""

FIRST_PORTION: Final = 200
MAX_PORTION: Final = 500
"""Entities that are asked for at once: while it is not known how large they are, and at most."""

STORED_BYTES: Final = "pg_column_size(document) * CASE WHEN pg_column_compression(document) IS NULL THEN 1 ELSE 4 END"
"""What a document takes on the disk, which is known without reading it; about as much as its text, where that is not
made of something very compressible.
"""

VIEW_COLUMNS: Final = "id, state, transaction_id, created_at, valid_from, transition, document"


def limit_documents(selection: str, columns: str, *, most: int, order: str) -> str:
    """The rows of a selection in order, an ``ORDER BY`` clause, with their documents as text: null from the one on
    before which there are ``most`` bytes. ``columns`` are those of the selection, with ``document``.
    """
    sent = _replace_document(
        columns,
        f"CASE WHEN sum(octet_length(document)) OVER within - octet_length(document) < {most} THEN document END",
    )
    made = _replace_document(
        columns, f"CASE WHEN sum({STORED_BYTES}) OVER within - {STORED_BYTES} < {most} THEN document::text END"
    )
    return f"""
        SELECT {sent}
          FROM (SELECT {made} FROM ({selection}) AS selected
                WINDOW within AS ({order} ROWS UNBOUNDED PRECEDING)) AS made
        WINDOW within AS ({order} ROWS UNBOUNDED PRECEDING)
         {order}
    """  # noqa: S608 - names are our own, values are arguments


def cap_documents(selection: str, columns: str, *, most: int | str, order: str = "") -> str:
    """The rows of a selection, in order if there is one, with their documents as text; null where that has more than
    ``most`` bytes, a number or a parameter. Costs next to nothing.
    """
    sent = _replace_document(columns, f"CASE WHEN octet_length(document) <= {most} THEN document END")
    made = _replace_document(columns, f"CASE WHEN {STORED_BYTES} <= {most} THEN document::text END")
    # OFFSET 0, or the text would be made twice. Nothing disturbs the order of the rows.
    texts = f"SELECT {made} FROM ({selection}) AS selected {order} OFFSET 0"  # noqa: S608
    return f"SELECT {sent} FROM ({texts}) AS made"  # noqa: S608


def _replace_document(columns: str, expression: str) -> str:
    return columns.replace("document", f"{expression} AS document")


class VersionRef(Struct, frozen=True, gc=False):
    """Names the version of an entity that came to be at ``updated_at`` (epoch microseconds). ``transaction_id`` is
    empty where nobody asks for it.
    """

    id: EntityId
    updated_at: int
    transaction_id: TransactionId = TransactionId("")


Entry = EntityView | VersionRef

_new_view: Final = cast("Callable[..., EntityView]", EntityView)
"""Calling the new types of ids would take as long as all the rest, and searches find thousands."""


def to_view(row: asyncpg.Record) -> EntityView:
    """What clients see of an entity, from a row with ``VIEW_COLUMNS`` in order."""
    id_, state, transaction, created, valid_from, transition, document, *_ = row
    return _new_view(
        id=str(id_),
        state=state,
        transaction_id=str(transaction),
        created_at=created,
        updated_at=valid_from,
        transition=transition,
        document=document,
    )


def to_ref(row: asyncpg.Record) -> VersionRef:
    """The name of the version in a row."""
    return VersionRef(EntityId(str(row["id"])), row["valid_from"], TransactionId(str(row["transaction_id"])))


class EntityList:
    """Entities of a tenant in order, each of them in memory or named. Iterating gives these entries.

    ``skips_missing``: versions that are not there any more are left out, instead of being a failure.
    """

    def __init__(self, pool: Pool, tenant: TenantId, entries: list[Entry], *, skips_missing: bool = False) -> None:
        self._pool = pool
        self._tenant = tenant
        self._entries = entries
        self._skips_missing = skips_missing

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def replace_entries(self, entries: list[Entry]) -> "EntityList":
        """The same with other entities of the tenant."""
        return EntityList(self._pool, self._tenant, entries, skips_missing=self._skips_missing)

    async def take_portions(self) -> AsyncGenerator[list[EntityView]]:
        """The entities in portions. The list forgets what it has given.

        Raises ``HistoryPruned`` for a version that is not kept any more, ``StorageUnavailable``.
        """
        count = FIRST_PORTION
        while self._entries:
            portion = await self._take_portion(count)
            if portion:
                yield portion
                size = sum(len(entity.document) for entity in portion)
                count = min(MAX_PORTION, PORTION_BYTES * len(portion) // max(size, 1) + 1)

    async def _take_portion(self, count: int) -> list[EntityView]:
        wanted = self._entries[:count]
        refs = [entry for entry in wanted if isinstance(entry, VersionRef)]
        found = await fetch_versions(self._pool, self._tenant, refs) if refs else []
        portion, taken, read = list[EntityView](), 0, 0
        for entry in wanted:
            if isinstance(entry, EntityView):
                portion.append(entry)
            elif read == len(found):
                break
            elif (view := found[read]) is not None:
                portion.append(view)
                read += 1
            elif self._skips_missing:
                read += 1
            else:
                raise HistoryPruned(entry.updated_at)
            taken += 1
        del self._entries[:taken]
        return portion


# LATERAL … LIMIT 1 keeps the planner at one index probe per version.
VERSIONS: Final = limit_documents(
    f"""
        SELECT wanted.n, version.*
          FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS wanted (entity, at, n)
         CROSS JOIN LATERAL (
                (SELECT {VIEW_COLUMNS} FROM entity
                  WHERE tenant = $1 AND id = wanted.entity AND valid_from = wanted.at LIMIT 1)
                 UNION ALL
                (SELECT {VIEW_COLUMNS} FROM entity_history
                  WHERE tenant = $1 AND id = wanted.entity AND valid_from = wanted.at LIMIT 1)
                 LIMIT 1) AS version
    """,  # noqa: S608 - the column list is a constant
    f"{VIEW_COLUMNS}, n",
    most=PORTION_BYTES,
    order="ORDER BY n",
)


async def fetch_versions(pool: Pool, tenant: TenantId, refs: Sequence[VersionRef]) -> list[EntityView | None]:
    """The first of the versions in their order, as many as are a portion; None for one that is not there (any more)."""
    ids, instants = [ref.id for ref in refs], [ref.updated_at for ref in refs]
    rows = await pool.fetch(VERSIONS, tenant, ids, instants)
    cut = next((row["n"] - 1 for row in rows if row["document"] is None), len(refs))
    found: list[EntityView | None] = [None] * cut
    for row in rows:
        if row["n"] <= cut:
            found[row["n"] - 1] = to_view(row)
    return found


DOCUMENT: Final = """
    SELECT document::text FROM entity WHERE tenant = $1 AND id = $2 AND valid_from = $3
     UNION ALL
    SELECT document::text FROM entity_history WHERE tenant = $1 AND id = $2 AND valid_from = $3
"""


async def fetch_document(connection: asyncpg.Connection, tenant: TenantId, row: asyncpg.Record) -> str:
    """The document of the version in a row. Raises ``HistoryPruned`` when it is not there any more."""
    text: str | None = await connection.fetchval(DOCUMENT, tenant, row["id"], row["valid_from"])
    if text is None:
        raise HistoryPruned(row["valid_from"])
    return text


_decode = msgspec.json.Decoder(tuple[AuditEvent, ...]).decode

OF_TRANSACTION: Final = """
    SELECT events FROM entity_audit
     WHERE tenant = $1 AND entity = $2 AND transaction_id = $3
     ORDER BY at
"""

OF_ENTITY: Final = """
    -- Newest first; uses entity_audit_entity.
    SELECT transaction_id, at, events FROM entity_audit
     WHERE tenant = $1 AND entity = $2
     ORDER BY at DESC, transaction_id DESC
"""


async def fetch_transaction_events(
    pool: Pool, tenant: TenantId, entity: EntityId, transaction: TransactionId
) -> tuple[AuditEvent, ...]:
    """The events that a transaction filed on the entity, in order of time."""
    rows = await pool.fetch(OF_TRANSACTION, tenant, entity, transaction)
    return tuple(event for row in rows for event in _decode(row["events"]))


class TrailEvent(Struct, frozen=True):
    """An event and where it is kept: the transaction it is filed under, the instant of that entry (epoch microseconds)
    and its number there.
    """

    transaction: TransactionId
    filed_at: int
    number: int
    event: AuditEvent


async def fetch_entity_events(
    pool: Pool, tenant: TenantId, entity: EntityId, select: Callable[[Iterator[TrailEvent]], Selected]
) -> Selected:
    """What is selected of all events of the entity: they come the newest entry first, and of each entry the last event
    first. An entity that was written for years has a hundred thousand, from which a thread selects.
    """
    rows = await pool.fetch(OF_ENTITY, tenant, entity)
    size = sum([len(row["events"]) for row in rows])
    return await run_by_size(size, lambda: select(_read_events(rows)))


def _read_events(rows: Sequence[asyncpg.Record]) -> Iterator[TrailEvent]:
    for row in rows:
        transaction, at = TransactionId(str(row["transaction_id"])), row["at"]
        for number, event in reversed([*enumerate(_decode(row["events"]))]):
            yield TrailEvent(transaction, at, number, event)
