"""The audit trail of runs: one row per entity and transaction, holding the events in order."""

from typing import Final

import msgspec

from statewright.entity import AuditEvent
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool

_decode = msgspec.json.Decoder(tuple[AuditEvent, ...]).decode

OF_TRANSACTION: Final = """
    SELECT events FROM entity_audit
     WHERE tenant = $1 AND entity = $2 AND transaction_id = $3
     ORDER BY at
"""

OF_ENTITY: Final = """
    -- Newest first; uses entity_audit_entity.
    SELECT transaction_id, events FROM entity_audit
     WHERE tenant = $1 AND entity = $2
     ORDER BY at DESC
"""


async def fetch_transaction_events(
    pool: Pool, tenant: TenantId, entity: EntityId, transaction: TransactionId
) -> tuple[AuditEvent, ...]:
    """The events that a transaction filed on the entity, in order of time."""
    async with pool.connection() as connection:
        rows = await connection.fetch(OF_TRANSACTION, tenant, entity, transaction)
    return tuple(event for row in rows for event in _decode(row["events"]))


async def fetch_entity_events(pool: Pool, tenant: TenantId, entity: EntityId) -> list[tuple[TransactionId, AuditEvent]]:
    """All events of the entity with the transaction they are filed under, newest first."""
    async with pool.connection() as connection:
        rows = await connection.fetch(OF_ENTITY, tenant, entity)
    return [
        (TransactionId(str(row["transaction_id"])), event) for row in rows for event in reversed(_decode(row["events"]))
    ]
