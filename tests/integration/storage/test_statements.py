"""Every SQL statement of the storage package fits the migrated schema, and the hot ones use their indexes."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import asyncpg
import pytest

from statewright import storage
from statewright.storage import deletion, entities, models, takings, versions
from statewright.storage.commit.statement import KINDS, CommitStatement
from statewright.storage.idempotency import KEY_PARTS
from statewright.storage.processes.parts import PROCESS_PARTS
from statewright.storage.work import WORKS
from tests.database import Template, connected, filled_clone, kept_open

STATEMENT = re.compile(r"\s*(--[^\n]*\n\s*)*(WITH|SELECT|INSERT|UPDATE|DELETE|LISTEN|NOTIFY|CALL|TABLE)\b")


TEMPLATES = (
    takings.TAKE,
    takings.TAKE_SUSPECT,
    takings.HOLD,
    takings.RELEASE,
    takings.REVIVE,
    takings.DROP,
    takings.PARKED_ROWS,
)
"""Of which each kind of work that nodes take makes a statement."""


def texts() -> Iterator[tuple[str, str]]:
    """Every constant of a storage module or class that looks like a statement, by name."""
    for module in pkgutil.walk_packages(storage.__path__, "statewright.storage."):
        members = importlib.import_module(module.name)
        holders = [
            members,
            *(c for _, c in inspect.getmembers(members, inspect.isclass) if c.__module__ == module.name),
        ]
        for holder in holders:
            for name, value in vars(holder).items():
                if name.isupper() and isinstance(value, str) and STATEMENT.match(value) and value not in TEMPLATES:
                    yield (
                        f"{module.name.removeprefix('statewright.storage.')}:{holder.__name__.split('.')[-1]}.{name}",
                        value,
                    )


COMMIT = CommitStatement((*PROCESS_PARTS, *KEY_PARTS))
"""As the service has it."""

COMPOSED = {
    f"commit with {', '.join(names) or 'nothing else'}": COMMIT.compose(*names)
    for names in [(), *((name,) for name in COMMIT.part_names), ("claims", "tasks"), COMMIT.part_names]
} | {
    f"commit of {kind or 'nothing'}s with {', '.join(names) or 'nothing else'}": COMMIT.compose(
        *names, kinds=frozenset(filter(None, (kind,)))
    )
    for kind in ("", *sorted(KINDS))
    for names in ((), COMMIT.part_names)
}
OF_WORK = {
    f"{work.name}: {template.split()[0]} {number}": takings.write_statement(template, work)
    for work in WORKS.values()
    for number, template in enumerate(TEMPLATES)
}
STATEMENTS = {**dict(texts()), **COMPOSED, **OF_WORK}


def test_the_search_for_statements_finds_them():
    assert {entities.CURRENT, versions.OF_ENTITY, models.ModelEdit.SAVE_SCHEMA} <= {*STATEMENTS.values()}


@pytest.fixture(scope="module")
def unused(database_template: Template) -> Iterator[str]:
    """The URL of a migrated database that nobody writes to."""
    with kept_open(database_template.clone()) as database:
        yield database


@pytest.mark.parametrize("name", STATEMENTS)
async def test_every_statement_can_be_prepared(unused: str, name: str):
    async with connected(unused) as connection:
        await connection.prepare(STATEMENTS[name])


async def plan_of(connection: asyncpg.Connection, statement: str, *arguments: object) -> str:
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (COSTS off) {statement}", *arguments))


SOMEBODY = "00000000-0000-1000-8000-000000000000"
NIL = "00000000-0000-0000-0000-000000000000"

HOT = {
    "read by id": (entities.CURRENT, (["acme"], [SOMEBODY])),
    "read at an instant": (entities.AT_INSTANT, ("acme", SOMEBODY, 1)),
    "page": (entities.PAGE, ("acme", SOMEBODY, 20, 0, NIL)),
    "page at an instant": (entities.PAGE_AT, ("acme", SOMEBODY, 20, 0, 1_000_000, NIL)),
    "prunable models": (deletion.PRUNABLE, ()),
    "removal of versions": (deletion.REMOVE, ("acme", SOMEBODY, 0, 1, 1000)),
    "changes": (entities.CHANGES, ("acme", SOMEBODY, 1, 1000, None)),
    "events": (versions.OF_ENTITY, ("acme", SOMEBODY)),
    "definitions": (models.DEFINITIONS, ("acme", SOMEBODY)),
}

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT 'acme', gen_random_uuid(), '00000000-0000-1000-8000-000000000000', 'S', gen_random_uuid(),
           gen_random_uuid(), 1, 2, '', '', 0, 'a', 'user', 'a', 'user', '{}'
      FROM generate_series(1, 5000);
    INSERT INTO entity_history
    SELECT tenant, id, model, state, transaction_id, entry_transaction_id, created_at, 1, 2, transition, workflow,
           workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document
      FROM entity;
    INSERT INTO entity_audit
    SELECT tenant, id, 1, transaction_id, 1, '[]' FROM entity;
    INSERT INTO model (tenant, id, name, version, state, schema, imported_at, changed_at, revision)
    SELECT 'acme', gen_random_uuid(), 'm', 1, 'LOCKED', '{}', 1, 1, 1 FROM generate_series(1, 5000);
    INSERT INTO workflow_set SELECT tenant, id, '[]', 1, 1 FROM model;
    ANALYZE;
"""


@pytest.fixture(scope="module")
def tables(database_template: Template) -> Iterator[str]:
    with filled_clone(database_template, FILL) as database:
        yield database


@pytest.mark.parametrize("name", HOT)
async def test_hot_statements_scan_no_table(tables: str, name: str):
    """On tables of some size with fresh statistics; on empty ones a scan is what a planner should choose."""
    statement, arguments = HOT[name]
    async with connected(tables) as connection:
        plan = await plan_of(connection, statement, *arguments)
    assert "Seq Scan" not in plan, plan
