"""What a transaction has written, found by the events that its runs have filed.

An index by transaction would cost every commit an entry at a random place. The id of a transaction has the time at
which it was made, and events have the time of their run, which a BRIN index knows for whole ranges of pages: it costs
commits next to nothing, and leaves little to look at.
"""

import asyncio
from datetime import timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from statewright.entity import ChangeType, ModelKey
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.search.query import SearchDatabase

BEFORE: Final = timedelta(minutes=1)
"""By how much the clock of a node may be ahead of that of the database."""

AFTER: Final = (timedelta(minutes=2), timedelta(hours=2))
"""How long after its beginning a transaction is looked for: first where nearly all are."""


class TransactionKey(Struct, frozen=True, array_like=True):
    """The place of an entity in the list of a transaction."""

    entity: UUID


class WrittenEntity(Struct, frozen=True, kw_only=True):
    """An entity that a transaction has written: the last version of the transaction, as far as it is kept, and how many
    there were; ``events`` is how many the run has filed. Instants in epoch microseconds.
    """

    id: EntityId
    at: int
    events: int
    versions: int
    model: ModelKey | None
    state: str | None
    transition: str | None
    change: ChangeType | None


FILED: Final = """
    -- Uses entity_audit_at. One row for each entity, and of an entity for each segment.
    SELECT entity, min(at) AS at, sum(n)::int AS events
      FROM entity_audit
     WHERE at >= $3 AND at <= $4 AND tenant = $1 AND transaction_id = $2 AND entity > $5
     GROUP BY entity
     ORDER BY entity
     LIMIT $6
"""

WRITTEN: Final = """
    SELECT filed.entity, filed.at, filed.events, version.state, version.transition, version.change, version.versions,
           model.name, model.version
      FROM unnest($3::uuid[], $4::bigint[], $5::int[]) AS filed (entity, at, events)
      LEFT JOIN LATERAL (
            SELECT model, state, transition, count(*) OVER () AS versions,
                   CASE WHEN is_deletion THEN 'DELETE' WHEN created_at = valid_from THEN 'CREATE' ELSE 'UPDATE' END
                   AS change
              FROM (SELECT model, state, transition, created_at, valid_from, false AS is_deletion
                      FROM entity
                     WHERE tenant = $1 AND id = filed.entity AND $2 IN (transaction_id, entry_transaction_id)
                     UNION ALL
                    SELECT model, state, transition, created_at, valid_from, document IS NULL
                      FROM entity_history
                     WHERE tenant = $1 AND id = filed.entity AND valid_from BETWEEN $6 AND $7
                       AND $2 IN (transaction_id, entry_transaction_id)) AS kept
             ORDER BY valid_from DESC
             LIMIT 1) AS version ON true
      LEFT JOIN model ON model.tenant = $1 AND model.id = version.model
     ORDER BY filed.entity
"""


WITHIN_S: Final = 5.0


async def list_written(
    search: SearchDatabase,
    tenant: TenantId,
    transaction: TransactionId,
    *,
    made_at: int,
    limit: int,
    after: TransactionKey | None,
) -> list[WrittenEntity]:
    """Up to ``limit`` entities, by id, that a transaction has written whose id was made at an instant (epoch
    microseconds); those behind ``after``.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    since, begin = made_at - BEFORE // _MICROSECOND, after.entity if after else UUID(int=0)
    try:
        async with asyncio.timeout(WITHIN_S), search.open_connection() as connection:
            for span in AFTER:
                until = made_at + span // _MICROSECOND
                filed = await connection.fetch(FILED, tenant, transaction, since, until, begin, limit)
                if filed:
                    break
            else:
                return []
            ids, instants, events = zip(*filed, strict=True)
            rows = await connection.fetch(WRITTEN, tenant, transaction, ids, instants, events, since, until)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return [
        WrittenEntity(
            id=EntityId(str(row["entity"])),
            at=row["at"],
            events=row["events"],
            versions=row["versions"] or 0,
            model=None if row["name"] is None else ModelKey(row["name"], row["version"]),
            state=row["state"],
            transition=row["transition"],
            change=row["change"],
        )
        for row in rows
    ]


_MICROSECOND: Final = timedelta(microseconds=1)
