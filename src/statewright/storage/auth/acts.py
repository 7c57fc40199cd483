"""What administrators of clients, keys and providers do, in the trail of operators
(docs/reference/operations.md#audit). An act is recorded in the transaction of what it does.
"""

import asyncpg
from msgspec import Struct

from statewright.entity import Actor
from statewright.ids import TenantId
from statewright.operator_acts import Act
from statewright.storage.ops.audit import record_act


class TenantAct(Struct, frozen=True):
    """An act of ``actor``, in the trail of ``tenant``."""

    tenant: TenantId
    actor: Actor
    act: Act


async def record(connection: asyncpg.Connection, act: TenantAct | None) -> None:
    """Add the act to the trail, if there is one, in the transaction that the connection is in."""
    if act is not None:
        await record_act(connection, act.tenant, act.actor, act.act)
