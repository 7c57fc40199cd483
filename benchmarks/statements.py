"""The rows the service writes, as plain single-row statements: what one writes without having thought about speed."""

from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

import asyncpg
from msgspec import Struct

from benchmarks.workload import CLOSED, MODEL, OPEN, VERSION
from statewright.ids import IdSource, model_id, system_clock

INSERT_ENTITY = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    VALUES ($1, $2, $3, $4, $5, $5, $6, $6, 'loopback', 'prize-lifecycle', 1, $7, $8, $7, $8, $9)
"""
SELECT_ENTITY = """
    SELECT model, state, transaction_id, entry_transaction_id, created_at, valid_from, transition, workflow,
           workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document
      FROM entity
     WHERE tenant = $1 AND id = $2
"""
UPDATE_ENTITY = """
    UPDATE entity
       SET state = $4, transaction_id = $5, entry_transaction_id = $5, valid_from = $6, transition = $7,
           attributed_id = $8, attributed_kind = $9, executor_id = $8, executor_kind = $9, document = $10
     WHERE tenant = $1 AND id = $2 AND transaction_id = $3
"""
INSERT_HISTORY = """
    INSERT INTO entity_history (tenant, id, valid_to, model, state, transaction_id, entry_transaction_id, created_at,
                                valid_from, transition, workflow, workflow_revision, attributed_id, attributed_kind,
                                executor_id, executor_kind, document)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
"""
INSERT_AUDIT = """
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    VALUES ($1, $2, $3, $4, $5, $6)
"""

PERSON: Final = ("mock-user-001", "user")

CREATE_EVENTS: Final = (
    '[{"type":"STATE_MACHINE_START","at":1795228800000001,"details":"State machine started"},'
    '{"type":"WORKFLOW_FOUND","at":1795228800000002,'
    '"details":"Workflow \\"prize-lifecycle\\" selected (no criterion)"},'
    '{"type":"STATE_MACHINE_FINISH","at":1795228800000003,'
    '"details":"State machine finished","state":"OPEN","data":{"success":true}}]'
)
TRANSITION_EVENTS: Final = (
    '[{"type":"STATE_MACHINE_START","at":1795228800000001,'
    '"details":"Manual transition started","state":"OPEN"},'
    '{"type":"TRANSITION_MAKE","at":1795228800000002,'
    '"details":"Transition \\"close\\": OPEN → CLOSED","state":"OPEN"},'
    '{"type":"STATE_MACHINE_FINISH","at":1795228800000003,'
    '"details":"Manual transition finished","state":"CLOSED","data":{"success":true}}]'
)
"""What the service files for the same requests."""


class Connection(Protocol):
    """What is asked of a connection: asyncpg's own, or its pool's."""

    async def execute(self, query: str, *args: object) -> str: ...

    async def fetchrow(self, query: str, *args: object) -> "asyncpg.Record | None": ...


class Written(Struct, frozen=True):
    """What a client is told of a write."""

    entity: str
    transaction: str


class Rows:
    """The writes of one tenant; the caller holds the transaction open around each."""

    def __init__(self, tenant: str, ids: Callable[[], str] | None = None) -> None:
        self._tenant = tenant
        self._model = model_id(MODEL, VERSION)
        self._ids = ids or IdSource()

    async def create(self, connection: Connection, document: str) -> Written:
        """An entity and its audit row."""
        entity, transaction, now = self._ids(), self._ids(), system_clock()
        await connection.execute(
            INSERT_ENTITY, self._tenant, entity, self._model, OPEN, transaction, now, *PERSON, document
        )
        await connection.execute(INSERT_AUDIT, self._tenant, entity, now, transaction, 3, CREATE_EVENTS)
        return Written(entity, transaction)

    async def read(self, connection: Connection, entity: str | UUID) -> "asyncpg.Record | None":
        """An entity's current row."""
        return await connection.fetchrow(SELECT_ENTITY, self._tenant, entity)

    async def transition(self, connection: Connection, entity: str | UUID, document: str) -> Written | None:
        """Move an entity to its other state; None when there is none such, or somebody else has moved it meanwhile."""
        row = await self.read(connection, entity)
        if row is None:
            return None
        transaction, now = self._ids(), system_clock()
        state, name = (CLOSED, "close") if row["state"] == OPEN else (OPEN, "reopen")
        expected = row["transaction_id"]
        changed = await connection.execute(
            UPDATE_ENTITY, self._tenant, entity, expected, state, transaction, now, name, *PERSON, document
        )
        if changed != "UPDATE 1":
            return None
        await connection.execute(INSERT_HISTORY, self._tenant, entity, now, *row)
        await connection.execute(INSERT_AUDIT, self._tenant, entity, now, transaction, 3, TRANSITION_EVENTS)
        return Written(str(entity), transaction)
