"""Instances that have still to be started, or cancelled, because of another one, and ends of instances that their
parents have still to hear of: two durable outboxes.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool
from statewright.storage.processes.leases import MAX_TAKERS


class DueChild(Struct, frozen=True, kw_only=True):
    """An instance to be started, under the id it is going to have. ``variables`` is JSON text."""

    tenant: TenantId
    language: str
    id: EntityId
    parent: EntityId
    definition_id: str
    definition_version: int
    """0: the latest."""
    business_key: str | None
    variables: str
    execution: EntityId | None
    """The execution of the parent that waits for its end."""
    is_started: bool = False
    is_cancelled: bool = False
    """The parent waits for it no more."""


COLUMNS: Final = """tenant, language, id, parent, definition_id, business_key, variables, execution,
           definition_version, started, cancelled"""

DUE: Final = f"""
    SELECT {COLUMNS}
      FROM process_child
     WHERE tenant = $1 AND id = $2 AND (cancelled OR NOT started) AND cardinality(takers) < {MAX_TAKERS}
"""  # noqa: S608 - a constant


async def fetch_due_child(pool: Pool, tenant: TenantId, child: EntityId) -> DueChild | None:
    """An instance that has still to be started, or to be cancelled; None when there is nothing to be done."""
    row = await pool.fetchrow(DUE, tenant, child)
    return None if row is None else to_child(row)


def to_child(row: Iterable[Any]) -> DueChild:
    """A start from a row with ``COLUMNS`` in order."""
    tenant, language, id_, parent, definition_id, business_key, variables, execution, version, started, cancelled = row
    return DueChild(
        tenant=TenantId(tenant),
        language=language,
        id=EntityId(str(id_)),
        parent=EntityId(str(parent)),
        definition_id=definition_id,
        business_key=business_key,
        definition_version=version,
        variables=variables,
        execution=None if execution is None else EntityId(str(execution)),
        is_started=started,
        is_cancelled=cancelled,
    )


DROP_CHILD: Final = "DELETE FROM process_child WHERE tenant = $1 AND id = $2 AND started = $3"


async def drop_child(pool: Pool, child: DueChild) -> None:
    """Nothing is left to be done for an instance, unless it was started since it was read."""
    await pool.execute(DROP_CHILD, child.tenant, child.id, child.is_started)


DEFER_CHILD: Final = """
    UPDATE process_child SET not_before = $3, attempts = 0 WHERE tenant = $1 AND id = $2 AND NOT started
"""


async def defer_child(pool: Pool, tenant: TenantId, child: EntityId, *, until: int) -> None:
    """Let nobody start an instance before an instant; that it was tried does not count."""
    await pool.execute(DEFER_CHILD, tenant, child, until)


class DueEnd(Struct, frozen=True, kw_only=True):
    """The end of an instance that an execution of its parent waits for. ``outcome`` is JSON text."""

    tenant: TenantId
    language: str
    id: EntityId
    """Of the instance that has ended."""
    parent: EntityId
    execution: EntityId
    outcome: str


END_COLUMNS: Final = "tenant, language, id, parent, execution, outcome"

DUE_END: Final = f"""
    SELECT {END_COLUMNS} FROM process_child_end WHERE tenant = $1 AND id = $2 AND cardinality(takers) < {MAX_TAKERS}
"""  # noqa: S608 - a constant


async def fetch_due_end(pool: Pool, tenant: TenantId, child: EntityId) -> DueEnd | None:
    """The end of an instance that its parent has still to hear of; None when it has."""
    row = await pool.fetchrow(DUE_END, tenant, child)
    return None if row is None else to_end(row)


DROP_END: Final = """
    WITH awaited AS (DELETE FROM process_child WHERE tenant = $1 AND id = $2)
    DELETE FROM process_child_end WHERE tenant = $1 AND id = $2
"""


async def drop_end(pool: Pool, tenant: TenantId, child: EntityId) -> None:
    """Nobody waits for the end of an instance any more."""
    await pool.execute(DROP_END, tenant, child)


DEFER_END: Final = "UPDATE process_child_end SET not_before = $3, attempts = 0 WHERE tenant = $1 AND id = $2"


async def defer_end(pool: Pool, tenant: TenantId, child: EntityId, *, until: int) -> None:
    """Let nobody tell the end of an instance before an instant; that it was tried does not count."""
    await pool.execute(DEFER_END, tenant, child, until)


def to_end(row: Iterable[Any]) -> DueEnd:
    """An end from a row with ``END_COLUMNS`` in order."""
    tenant, language, id_, parent, execution, outcome = row
    return DueEnd(
        tenant=TenantId(tenant),
        language=language,
        id=EntityId(str(id_)),
        parent=EntityId(str(parent)),
        execution=EntityId(str(execution)),
        outcome=outcome,
    )
