"""The parts that write and read entities, put together as in the service, and questions to the tables behind them."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import Actor, Entity, Event, Principal
from statewright.ids import EntityId, IdSource, ModelId, TenantId, TransactionId, model_id, system_clock
from statewright.storage.commit.group_commit import (
    ANSWER_TIMEOUT,
    COMMIT_CONNECTIONS,
    LOCK_TIMEOUT,
    GroupCommit,
    configure_commit_sessions,
)
from statewright.storage.commit.unit_of_work import Transaction, UnitOfWork
from statewright.storage.connections import parse_database_url
from statewright.storage.entities import EntityReader
from statewright.storage.pool import Pool
from tests.database import connected

ACME = TenantId("acme")
ALICE = Principal(id="alice", name="Alice", kind="user", tenant=ACME)
BOB = Principal(id="bob", name="Bob", kind="user", tenant=ACME)
ROBOT = Principal(id="robot", name="Robot", kind="service", tenant=ACME)
STRANGER = Principal(id="eve", name="Eve", kind="user", tenant=TenantId("globex"))
MODEL: ModelId = model_id("prize", 1)


class Store(Struct, frozen=True, kw_only=True):
    """One process's way to the database."""

    url: str
    pool: Pool
    reader: EntityReader
    commits: GroupCommit
    ids: IdSource

    def unit(self, principal: Principal = ALICE) -> UnitOfWork:
        """A new transaction."""
        id_ = self.ids.new_transaction_id()
        return UnitOfWork(
            Transaction(id_, reader=self.reader, commits=self.commits, clock=system_clock),
            principal,
        )

    def new(self, unit: UnitOfWork, data: object = None, *, state: str = "NEW") -> Entity:
        """An entity staged in the unit."""
        actor = Actor(unit.principal.id, unit.principal.kind)
        entity = Entity(
            tenant=unit.tenant,
            id=self.ids.new_entity_id(),
            model=MODEL,
            state=state,
            transaction_id=unit.id,
            entry_transaction_id=unit.label,
            created_at=0,
            updated_at=0,
            transition="loopback",
            workflow="lifecycle",
            attributed=actor,
            executor=actor,
            document=json.dumps(data if data is not None else {"n": 0}),
        )
        unit.create(entity)
        return entity

    async def created(self, data: object = None, *, principal: Principal = ALICE) -> EntityId:
        """A committed entity."""
        unit = self.unit(principal)
        entity = self.new(unit, data)
        await unit.commit()
        return entity.id

    async def change(self, entity_id: EntityId, data: object, *, principal: Principal = ALICE) -> TransactionId:
        """The transaction that gave a committed entity a new document."""
        unit = self.unit(principal)
        await rewrite(unit, entity_id, data)
        await unit.commit()
        return unit.id


async def rewrite(unit: UnitOfWork, entity_id: EntityId, data: object, *, if_match: bool = False) -> Entity:
    """Stage a new document of an entity that is there."""
    entity = await unit.get_entity(entity_id)
    assert entity is not None
    version = replace(entity, document=json.dumps(data), transaction_id=unit.id, entry_transaction_id=unit.label)
    unit.save(version, if_match=if_match)
    return version


async def data_of(unit: UnitOfWork, entity_id: EntityId) -> Any:
    """The document as the unit sees it; None when there is no such entity."""
    entity = await unit.get_entity(entity_id)
    return None if entity is None else json.loads(entity.document)


def happened(unit: UnitOfWork, entity_id: EntityId, kind: str) -> None:
    """File an audit event."""
    unit.record(entity_id, Event(kind, kind))


@asynccontextmanager
async def a_store(
    url: str,
    *,
    tables: str | None = None,
    patience: timedelta = LOCK_TIMEOUT,
    lock_timeout: bool = True,
    answer_within: timedelta = ANSWER_TIMEOUT,
    connections: int = COMMIT_CONNECTIONS,
) -> AsyncIterator[Store]:
    """A store on a database. ``tables``: the URL for questions, when commits take another way. ``patience``: for what
    others have locked. Without ``lock_timeout`` statements wait for locks for ever. ``answer_within``: how long
    outcomes are looked for. ``connections``: of commits.
    """
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(Pool(parse_database_url(tables or url), size=4))
        sessions = configure_commit_sessions(parse_database_url(url)) if lock_timeout else parse_database_url(url)
        commits = await stack.enter_async_context(Pool(sessions, size=connections, min_open=connections))
        store = Store(
            url=tables or url,
            pool=pool,
            reader=EntityReader(pool),
            commits=GroupCommit(commits, lock_timeout=patience, answer_within=answer_within),
            ids=IdSource(),
        )
        stack.push_async_callback(store.commits.drain)
        yield store


async def fetch(store: Store, query: str, *arguments: object) -> list[Any]:
    """Rows, asked on a connection beside all pools."""
    async with connected(store.url) as connection:
        return list(await connection.fetch(query, *arguments))


async def scalar(store: Store, query: str, *arguments: object) -> Any:
    """One value."""
    [row] = await fetch(store, query, *arguments)
    return row[0]


CHAIN = """
    SELECT id, valid_from, valid_to, transaction_id::text AS transaction, created_at, document IS NULL AS tombstone,
           document
      FROM entity_history
     UNION ALL
    SELECT id, valid_from, 9223372036854775807, transaction_id::text, created_at, false, document
      FROM entity
     ORDER BY id, valid_from
"""


async def assert_histories_are_whole(store: Store) -> dict[EntityId, list[Any]]:
    """Every version ends in the very microsecond in which its successor begins, and the last one never."""
    chains: dict[EntityId, list[Any]] = {}
    for row in await fetch(store, CHAIN):
        chains.setdefault(EntityId(str(row["id"])), []).append(row)
    for versions in chains.values():
        assert versions[0]["valid_from"] == versions[0]["created_at"]
        assert all(a["valid_to"] == b["valid_from"] for a, b in pairwise(versions))
        assert all(a["valid_from"] < b["valid_from"] for a, b in pairwise(versions))
        assert versions[-1]["valid_to"] == 2**63 - 1
        assert not any(version["tombstone"] for version in versions[:-1])
        assert len({version["created_at"] for version in versions}) == 1
        assert len({version["transaction"] for version in versions}) == len(versions)
    return chains


def transactions(versions: Sequence[Any]) -> list[str]:
    """Who wrote them, in order."""
    return [version["transaction"] for version in versions]
