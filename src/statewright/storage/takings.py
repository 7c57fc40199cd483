"""Work of which any node takes what is due: taken, released, parked (docs/architecture.md#work-that-nodes-take).

Taking a row moves on its pause, so that nobody else takes it meanwhile, and adds an entry to its ``takers``: when, and
by which node. A node that is through with it, in whatever way, removes the row or *releases* it, which empties the
list. So what is left there are nodes that said no more: they died, or stood still, or had the computation killed.

*Fresh* work has no such entry, and is taken in batches. *Suspect* work has some, and is taken one at a time, so that
what was merely under way when a node died of something else proves to be harmless. With ``MAX_TAKERS`` entries it is
not taken but *parked*: its pause never ends, which nodes of earlier versions respect, too. That commits together with
the incident that tells of it, so that no two nodes park the same.

Shares. Where several nodes live, each takes its part of what is due, as far as it can tell, and tells the others when
it leaves some (``call_others``).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

import asyncpg
from msgspec import Struct

from statewright.entity import Actor
from statewright.failures import IncidentClosed
from statewright.ids import NodeId, TenantId
from statewright.operations.incidents import IncidentRow
from statewright.operations.service import Act
from statewright.storage.connections import NOTIFY
from statewright.storage.ops.incidents import RESOLVE, insert_incidents
from statewright.storage.ops.service import record_act
from statewright.storage.pool import Pool
from statewright.storage.processes.leases import MAX_TAKERS
from statewright.storage.work import AnyWork, R, Work, WorkName

CHANNEL: Final = "statewright_due"


class Look(Struct, frozen=True, kw_only=True):
    """At what is due: when, until when nobody else is to take it, who looks, and what the work needs to know."""

    now: int
    until: int
    taker: str
    arguments: tuple[object, ...] = ()


TAKE: Final = """
    WITH due AS MATERIALIZED (
        SELECT count(*) AS total
          FROM (SELECT FROM {table} AS task
                 WHERE $5::int > 1 AND {due} AND takers = '{{}}'
                 LIMIT $4::int * $5::int) AS counted
    )
    -- Found and locked first, in the order of the index. Rows that another node is just taking are skipped.
    UPDATE {table} AS task
       SET {pause} = {pauses}, takers = ARRAY[$3::text]{begins}
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table} AS task
             WHERE {due} AND takers = '{{}}'
             ORDER BY {order}
             LIMIT CASE WHEN $5::int > 1 THEN (SELECT least($4::int, greatest(1, ceil(total::numeric / $5::int)))::int
                                                 FROM due)
                        ELSE $4::int END
               FOR UPDATE SKIP LOCKED))
 RETURNING {columns}, (SELECT total FROM due) AS total
"""


async def take(pool: Pool, work: Work[R], look: Look, *, limit: int, nodes: int = 1) -> tuple[list[R], bool]:
    """Up to ``limit`` fresh rows that are due, this node's share of them where there are several; and whether it has
    left some to the others.
    """
    rows = await pool.fetch(
        write_statement(TAKE, work), look.now, look.until, look.taker, limit, nodes, *look.arguments
    )
    return [work.read(tuple(row)[:-1]) for row in rows], any(row["total"] > len(rows) for row in rows[:1])


TAKE_SUSPECT: Final = """
    UPDATE {table} AS task
       SET {pause} = CASE WHEN cardinality(takers) >= $4::int THEN {never} ELSE {pauses} END{begins}{parks},
           takers = CASE WHEN cardinality(takers) >= $4::int THEN takers ELSE takers || $3::text END
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table} AS task
             WHERE {due} AND takers <> '{{}}'
             ORDER BY {order}
             LIMIT $5 FOR UPDATE SKIP LOCKED))
 RETURNING {columns}, task.tenant AS tenant_of, {owner} AS owner_of, {name_of} AS name_of, {place} AS place, takers,
           {pause} = {never} AS is_parked
"""


class Parked(Struct, frozen=True, kw_only=True):
    """Work that is not tried any more, and what it is of. Where that is gone, ``model`` is None."""

    tenant: TenantId
    work: WorkName
    noun: str
    owner: str
    """An entity, or an instance where ``language`` is not None."""
    name: str
    place: str | None
    takers: tuple[str, ...]
    state: str | None
    model: str | None
    workflow: str | None
    language: str | None
    definition: str | None
    steps: tuple[str, ...]
    """Those that are under way."""


BuildReport: TypeAlias = Callable[[Parked], IncidentRow | None]
"""Makes what tells operators of parked work, and commits with that; None where nothing does."""

OWNER: Final = """
    SELECT entity.state, model.name || '/' || model.version AS model, entity.workflow, line.language,
           line.definition_id AS definition,
           ARRAY(SELECT DISTINCT node_id FROM process_execution
                  WHERE tenant = $1 AND instance = $2 AND status = 'RUNNING' ORDER BY node_id LIMIT 5) AS steps
      FROM (SELECT $1::text AS tenant, $2::uuid AS id) AS wanted
      LEFT JOIN entity USING (tenant, id)
      LEFT JOIN model ON model.tenant = wanted.tenant AND model.id = entity.model
      LEFT JOIN process_instance AS line ON line.tenant = wanted.tenant AND line.id = wanted.id
"""


async def take_suspect(pool: Pool, work: Work[R], look: Look, *, report: BuildReport) -> "R | Parked | None":
    """The suspect row that has waited longest; what was parked in its stead, with the incident that ``report`` makes of
    it; None when none is due.
    """
    async with pool.connection() as connection, connection.transaction():
        row = await connection.fetchrow(
            write_statement(TAKE_SUSPECT, work), look.now, look.until, look.taker, MAX_TAKERS, 1, *look.arguments
        )
        if row is None:
            return None
        if not row["is_parked"]:
            return work.read(tuple(row)[: -len(_EXTRAS)])
        parked = await _describe(connection, work, row)
        incident = report(parked)
        if incident is not None:
            await insert_incidents(connection, [incident])
    return parked


_EXTRAS: Final = ("tenant_of", "owner_of", "name_of", "place", "takers", "is_parked")


async def _describe(connection: asyncpg.Connection, work: AnyWork, row: asyncpg.Record) -> Parked:
    owner = await connection.fetchrow(OWNER, row["tenant_of"], row["owner_of"])
    assert owner is not None  # noqa: S101 - outer joins of one row
    return Parked(
        tenant=TenantId(row["tenant_of"]),
        work=work.name,
        noun=work.noun,
        owner=str(row["owner_of"]),
        name=row["name_of"],
        place=row["place"],
        takers=tuple(row["takers"]),
        state=owner["state"],
        model=owner["model"],
        workflow=owner["workflow"],
        language=owner["language"],
        definition=owner["definition"],
        steps=tuple(owner["steps"]),
    )


HOLD: Final = """
    UPDATE {table} AS task SET {pause} = greatest({pause}, $2::bigint)
     WHERE tenant = $1 AND {is_row} AND $3 = ANY (takers)
"""


async def hold(pool: Pool, work: AnyWork, tenant: TenantId, key: Sequence[str], *, taker: str, until: int) -> None:
    """Keep others from taking what is being worked on, which is still ``taker``'s."""
    await pool.execute(write_statement(HOLD, work), tenant, until, taker, *key)


class Release(Struct, frozen=True):
    """Work that its taker is through with."""

    tenant: TenantId
    key: tuple[str, ...]
    taker: str


RELEASE: Final = """
    -- Who took it later is not through with it. Skips what is locked, since a commit may hold one of these rows and
    -- wait for another.
    UPDATE {table} AS task
       SET takers = coalesce(takers[array_position(takers, released.taker) + 1:], takers)
      FROM (SELECT place, given.taker
              FROM unnest($1::text[], $2::text[], {key_arrays}) AS given (tenant, taker, {key})
             CROSS JOIN LATERAL (
                    SELECT ctid AS place FROM {table} AS task
                     WHERE task.tenant = given.tenant AND {is_given}
                       FOR UPDATE SKIP LOCKED) AS found) AS released
     WHERE task.ctid = released.place
 RETURNING released.taker, {key_texts}
"""


async def release(pool: Pool, work: AnyWork, releases: Sequence[Release]) -> list[Release]:
    """Forget that so many rows were taken; those of them that are gone, or locked just now."""
    columns = zip(*[(each.tenant, each.taker, *each.key) for each in releases], strict=True)
    rows = await pool.fetch(write_statement(RELEASE, work), *map(list, columns))
    done = {tuple(row) for row in rows}
    return [each for each in releases if (each.taker, *each.key) not in done]


async def call_others(pool: Pool, name: WorkName, node: NodeId) -> None:
    """Tell the other nodes that a node has left them something to take."""
    await pool.execute(NOTIFY, CHANNEL, f"{name} {node}")


REVIVE: Final = """
    UPDATE {table} AS task SET {pause} = {free}, takers = '{{}}'{revives}
     WHERE tenant = $1 AND {owner} = $2::uuid AND {is_parked}
 RETURNING 1
"""

DROP: Final = "DELETE FROM {table} AS task WHERE tenant = $1 AND {owner} = $2::uuid AND {is_parked} RETURNING 1"


async def retry_parked(
    pool: Pool, work: AnyWork, tenant: TenantId, incident: str, owner: str, by: Actor, act: Act
) -> bool:
    """Have the parked work of an incident taken again, as if it never was, and close the incident; whether there is
    any. Raises ``IncidentClosed``.
    """
    async with pool.connection() as connection, connection.transaction():
        if not await connection.fetch(write_statement(REVIVE, work), tenant, owner):
            return False
        if await connection.fetchval(RESOLVE, tenant, incident, by.id, by.kind, "RETRIED", None) is None:
            raise IncidentClosed("RESOLVED")
        await record_act(connection, tenant, by, act)
    return True


async def drop_parked(pool: Pool, work: AnyWork, tenant: TenantId, owner: str) -> None:
    """Remove the parked work of an entity or instance."""
    await pool.execute(write_statement(DROP, work), tenant, owner)


PARKED_ROWS: Final = "SELECT {columns} FROM {table} AS task WHERE tenant = $1 AND {owner} = $2::uuid AND {is_parked}"


async def list_parked(pool: Pool, work: Work[R], tenant: TenantId, owner: str) -> list[R]:
    """The parked work of an entity or instance."""
    rows = await pool.fetch(write_statement(PARKED_ROWS, work), tenant, owner)
    return [work.read(tuple(row)) for row in rows]


@cache
def write_statement(template: str, work: AnyWork) -> str:
    """A statement on the table of a kind of work."""
    types = ("uuid", *["text"] * (len(work.key) - 1))
    return template.format(
        **{name: getattr(work, name) for name in ("table", "owner", "columns", "due", "order", "begins", "parks")},
        **{name: getattr(work, name) for name in ("pause", "pauses", "never", "place", "free", "revives", "is_parked")},
        key=", ".join(work.key),
        key_arrays=", ".join(f"${n}::{type_}[]" for n, type_ in enumerate(types, 3)),
        key_texts=", ".join(f"task.{column}::text" for column in work.key),
        name_of=f"concat_ws('/', {', '.join(work.key)})",
        is_given=" AND ".join(f"task.{column} = given.{column}" for column in work.key),
        is_row=" AND ".join(
            f"{column} = ${n}::{type_}" for n, (column, type_) in enumerate(zip(work.key, types, strict=True), 4)
        ),
    )
