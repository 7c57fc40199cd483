"""Events of the runs of an entity, a page at a time."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from statewright.entity import AuditEvent
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool


class EventKey(Struct, frozen=True, array_like=True):
    """Where an event stands: when its run began, the transaction of the run, and its number there."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    transaction: Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
    number: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class FiledEvent(Struct, frozen=True, kw_only=True):
    """An event and where it stands."""

    key: EventKey
    event: AuditEvent


LAST: Final = EventKey(2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff", 2**31 - 1)
"""Behind all events there are."""

RUNS: Final = """
    -- A range of entity_audit_entity. Events are not read of runs that the page does not come to; of the first run, the
    -- last events may have been told already.
    SELECT at, transaction_id, events
      FROM (SELECT at, transaction_id, events,
                   sum(untold) OVER (ORDER BY at DESC, transaction_id DESC) - untold AS before
              FROM (SELECT at, transaction_id, events,
                           CASE WHEN at = $3 AND transaction_id = $4::uuid THEN least(n, $5) ELSE n END AS untold
                      FROM entity_audit
                     WHERE tenant = $1 AND entity = $2 AND at <= $3 AND (at, transaction_id) <= ($3, $4::uuid)
                       AND ($6::uuid IS NULL OR transaction_id = $6)
                     ORDER BY at DESC, transaction_id DESC
                     LIMIT $7) AS run) AS counted
     WHERE before < $7
     ORDER BY at DESC, transaction_id DESC
"""

_decode = msgspec.json.Decoder(tuple[AuditEvent, ...]).decode


async def fetch_events(
    pool: Pool,
    tenant: TenantId,
    entity: EntityId,
    *,
    limit: int,
    after: EventKey | None,
    transaction: TransactionId | None,
) -> list[FiledEvent]:
    """Up to ``limit`` events, those of the newest run first, and of each run the last one first; those behind a key
    when ``after`` is one. ``transaction``: only those of one run.
    """
    begin = after or LAST
    async with pool.connection() as connection:
        # Of the first run there may be nothing left to tell: one run more is read than events are wanted.
        rows = await connection.fetch(
            RUNS, tenant, entity, begin.at, begin.transaction, begin.number, transaction, limit + 1
        )
    found: list[FiledEvent] = []
    for row in rows:
        events, id_ = _decode(row["events"]), str(row["transaction_id"])
        is_begun = (row["at"], id_) == (begin.at, begin.transaction)
        for number in range(len(events) - 1, -1, -1):
            if is_begun and number >= begin.number:
                continue
            found.append(FiledEvent(key=EventKey(row["at"], id_, number), event=events[number]))
            if len(found) == limit:
                return found
    return found
