"""The audit trail of the operations API: who did what to what, and why. Beside it stands how much a tenant has written
in each of the last minutes, as all nodes have counted it; and how rows are removed that are kept for some time only.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import Actor
from statewright.ids import TenantId, make_uuid7, system_clock
from statewright.instants import to_us
from statewright.operations.queues import MinuteRate
from statewright.operations.service import Act, ActFilter, ActKey, OperatorAct
from statewright.storage.ops.records import read_record
from statewright.storage.pool import Pool

MAX_DETAILS_BYTES: Final = 4096
"""Of one act, as JSON; larger ones are left out, and the act says so."""

MAX_BATCH: Final = 1000
"""Rows that one statement removes."""

MINUTE_US: Final = 60_000_000


class Rate(Struct):
    """Transactions that have written something, and the versions that they have written."""

    transactions: int = 0
    versions: int = 0


_encode = msgspec.json.Encoder().encode
_decode_details = msgspec.json.Decoder(dict[str, Any]).decode


RECORD: Final = """
    INSERT INTO ops_audit (tenant, at, id, actor_id, actor_kind, action, target_kind, target_id,
                           reason, details, trace_id)
    VALUES ($1, now_us(), $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""


async def record_act(connection: asyncpg.Connection, tenant: TenantId, actor: Actor, act: Act) -> None:
    """Add an act to the trail, in the transaction that the connection is in."""
    await connection.execute(
        RECORD,
        tenant,
        make_uuid7(system_clock()),
        actor.id,
        actor.kind,
        act.action,
        act.target_kind,
        act.target_id,
        act.reason,
        encode_details(act.details),
        act.trace_id,
    )


async def record_act_ahead(pool: Pool, tenant: TenantId, actor: Actor, act: Act) -> None:
    """Add an act to the trail that is then carried out in many transactions."""
    async with pool.connection() as connection:
        await record_act(connection, tenant, actor, act)


def encode_details(details: Mapping[str, object]) -> str:
    """As they are stored."""
    text = _encode(details)
    return text.decode() if len(text) <= MAX_DETAILS_BYTES else '{"cut": true}'


_MATCHING: Final = """
      FROM ops_audit
     WHERE tenant = $1
       AND ($2::text[] IS NULL OR action = ANY($2))
       AND ($3::text[] IS NULL OR actor_id = ANY($3))
       AND ($4::text[] IS NULL OR target_kind = ANY($4))
       AND ($5::text[] IS NULL OR target_id = ANY($5))
       AND at >= coalesce($6::bigint, 0) AND at < coalesce($7::bigint, 9223372036854775807)
"""

ACTS: Final = f"""
    -- Newest first; walks the primary key backwards.
    SELECT at, id, actor_id, actor_kind, action, target_kind, target_id, reason, details, trace_id
    {_MATCHING} AND ($8::bigint IS NULL OR (at, id) < ($8, $9::uuid))
     ORDER BY at DESC, id DESC
     LIMIT $10
"""

COUNT: Final = f"SELECT count(*) FROM (SELECT {_MATCHING} LIMIT $8) AS counted"  # noqa: S608


async def fetch_acts(
    pool: Pool, tenant: TenantId, wanted: ActFilter, *, limit: int, after: ActKey | None = None
) -> list[OperatorAct]:
    """Up to ``limit`` acts, newest first; those that follow one when ``after`` is its key."""
    at, id_ = (after.at, after.id) if after else (None, None)
    rows = await pool.fetch(ACTS, tenant, *_list_arguments(wanted), at, id_, limit)
    return [_to_act(row) for row in rows]


async def count_acts(pool: Pool, tenant: TenantId, wanted: ActFilter, *, limit: int) -> int:
    """How many acts there are, counted up to ``limit``."""
    count: int = await pool.fetchval(COUNT, tenant, *_list_arguments(wanted), limit)
    return count


def _list_arguments(wanted: ActFilter) -> tuple[object, ...]:
    names = (wanted.actions, wanted.actors, wanted.target_kinds, wanted.target_ids)
    return (*names, wanted.since, wanted.before)


def _to_act(row: asyncpg.Record) -> OperatorAct:
    return read_record(OperatorAct, row, details=_decode_details(row["details"]))


def build_removal(table: str, where: str) -> str:
    """The statement that removes rows of a table, of all tenants: those that are found by what stands behind ``WHERE``.
    They are kept for ``$1`` microseconds. Nodes that remove at once pass each other's rows by.
    """
    return f"""
    WITH old AS MATERIALIZED (
        SELECT ctid AS place FROM {table} WHERE {where} LIMIT $2 FOR UPDATE SKIP LOCKED
    ),
    removed AS (
        DELETE FROM {table} USING old WHERE {table}.ctid = old.place RETURNING 1
    )
    SELECT count(*) FROM removed
"""  # noqa: S608 - constants


async def remove_rows(pool: Pool, statement: str, older_than: timedelta) -> int:
    """Remove up to ``MAX_BATCH`` rows that are older, by what ``build_removal`` makes; how many."""
    removed: int = await pool.fetchval(statement, to_us(older_than), MAX_BATCH)
    return removed


REMOVE: Final = build_removal("ops_audit", "at < now_us() - $1::bigint ORDER BY at")
"""Uses ops_audit_age."""


WINDOW_MINUTES: Final = 60

_KEPT_MINUTES: Final = 2 * WINDOW_MINUTES


ADD: Final = """
    INSERT INTO commit_rate AS stored (tenant, minute, transactions, versions)
    SELECT *
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS counted (tenant, minute, transactions, versions)
     ORDER BY tenant, minute
        ON CONFLICT (tenant, minute) DO UPDATE
       SET transactions = stored.transactions + excluded.transactions, versions = stored.versions + excluded.versions
"""

RATES_REMOVE: Final = """
    DELETE FROM commit_rate WHERE minute < now_us() / 60000000 - $1
"""

RECENT: Final = """
    SELECT asked.minute * 60000000 AS at, coalesce(stored.transactions, 0) AS transactions,
           coalesce(stored.versions, 0) AS versions
      FROM generate_series(now_us() / 60000000 - $2 + 1, now_us() / 60000000) AS asked (minute)
      LEFT JOIN commit_rate AS stored ON stored.tenant = $1 AND stored.minute = asked.minute
     ORDER BY asked.minute
"""


async def add_rates(pool: Pool, rates: Mapping[tuple[TenantId, int], Rate]) -> None:
    """Store what a node has counted, by tenant and minute, and forget what nobody asks for any more."""
    async with pool.connection() as connection, connection.transaction():
        if rates:
            await connection.execute(
                ADD,
                [tenant for tenant, _minute in rates],
                [minute for _tenant, minute in rates],
                [rate.transactions for rate in rates.values()],
                [rate.versions for rate in rates.values()],
            )
        await connection.execute(RATES_REMOVE, _KEPT_MINUTES)


async def list_recent_rates(pool: Pool, tenant: TenantId) -> list[MinuteRate]:
    """The minutes of the last hour, the oldest first; the last one is not over."""
    rows = await pool.fetch(RECENT, tenant, WINDOW_MINUTES)
    return [read_record(MinuteRate, row) for row in rows]
