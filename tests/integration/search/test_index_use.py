"""Declared indexes are used for what they are for, also beside tens of thousands of entities."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest

from statewright.conditions import EVERYTHING, compile_search, parse
from statewright.conditions.paths import Path
from statewright.conditions.sorting import DataOrder, OrderingClass, compile_order_by
from statewright.ids import TenantId, model_id
from statewright.jsonval.values import DataType
from statewright.schema.node import DeclaredField
from statewright.storage.search.statements import EntityQuery, Statement, select_versions
from tests.builders import Json
from tests.database import Template, connected
from tests.integration.search.finding import a_parcel_model, all_of, any_of, asked, found, lifecycle, simple
from tests.integration.search.indexing import built, gone, indexes
from tests.service import Api, RunningService, done, hosted

ENTITIES = 50_000

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, CASE WHEN n % 100 = 0 THEN 'it''s' ELSE 'NEW' END, gen_random_uuid(),
           gen_random_uuid(), n, n, '', '', 0, '', 'user', '', 'user',
           jsonb_build_object('name', 'n' || n, 'weight', n % 5000, 'count', 3, 'fragile', n % 1000 = 0,
                              'buyer', jsonb_build_object('city', 'c' || n % 2000),
                              'lines', jsonb_build_array(jsonb_build_object('sku', 's' || n % 2500)),
                              'sent', '2031-01-01'::date + n % 700)
      FROM generate_series(1, $3) AS n
"""


@pytest.fixture(scope="module")
def service(database_template: Template) -> Iterator[RunningService]:
    """A service with a database of its own: indexes are everybody's business."""
    with hosted(database_template.clone()) as running:
        yield running


@pytest.fixture(scope="module")
def crowd_tenant() -> str:
    return f"tenant-{uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def crowd(service: RunningService, crowd_tenant: str) -> Api:
    """An administrator of a tenant with many parcels."""
    api = service.api(crowd_tenant, user_roles=["ROLE_USER", "ROLE_ADMIN"])
    a_parcel_model(api)
    asyncio.run(fill(service.database, crowd_tenant))
    return api


async def fill(database: str, tenant: str) -> None:
    async with connected(database) as connection:
        await connection.execute(FILL, tenant, model_id("parcel", 1), ENTITIES)
        await connection.execute("ANALYZE entity")


def plan(api: Api, condition: Json) -> str:
    return "\n".join(done(asked(api, condition, explain="plan"))["plan"])


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        ("$.weight", simple("$.weight", "EQUALS", 17)),
        ("$.weight", simple("$.weight", "EQUALS", "17.0")),
        ("$.weight", simple("$.weight", "BETWEEN", [10, 12])),
        ("$.weight", simple("$.weight", "GREATER_THAN", 4998)),
        ("$.weight", any_of(*[simple("$.weight", "EQUALS", n) for n in (3, 5, 7)])),
        ("$.name", simple("$.name", "EQUALS", "n77")),
        ("$.name", simple("$.name", "STARTS_WITH", "n777")),
        ("$.name", simple("$.name", "LIKE", "n777_")),
        ("$.name", simple("$.name", "MATCHES_PATTERN", "n777[0-9]")),
        ("$.name", simple("$.name", "LESS_THAN", "n1001")),
        ("$.name", any_of(*[simple("$.name", "EQUALS", f"n{n}") for n in range(20)])),
        ("$.buyer.city", simple("$.buyer.city", "EQUALS", "c5")),
        ("$.buyer.city", all_of(simple("$.buyer.city", "EQUALS", "c5"), simple("$.weight", "GREATER_THAN", 1))),
        ("$.sent", simple("$.sent", "BETWEEN_INCLUSIVE", ["2031-02-03", "2031-02-04"])),
        ("$.sent", simple("$.sent", "EQUALS", "2031-02-03")),
        ("$.fragile", simple("$.fragile", "EQUALS", True)),
        ("$", simple("$.lines[*].sku", "EQUALS", "s7")),
    ],
)
def test_an_index_is_used_for_what_it_is_for(crowd: Api, path: str, condition: Json) -> None:
    index = built(crowd, path)
    assert f"Scan using {index['id']}" in plan(crowd, condition) or f"Scan on {index['id']}" in plan(crowd, condition)


@pytest.mark.parametrize(("path", "values"), [("weight", OrderingClass.NUMBER), ("name", OrderingClass.TEXT)])
async def test_an_index_is_used_for_sorting(
    service: RunningService, crowd: Api, crowd_tenant: str, path: str, values: OrderingClass
) -> None:
    index = built(crowd, f"$.{path}")
    statement = select_versions(
        EntityQuery(tenant=TenantId(crowd_tenant), model=model_id("parcel", 1), search=EVERYTHING), "*"
    )
    order = compile_order_by(
        (DataOrder(path=Path((path,)), values=values, descending=False),), first=len(statement.args) + 1
    )
    async with connected(service.database) as connection:
        await connection.execute("SET plan_cache_mode = force_custom_plan")
        lines = await connection.fetch(
            f"EXPLAIN {statement.text} ORDER BY {order.text} LIMIT 100", *statement.args, *order.args
        )
    assert f"Scan using {index['id']}" in "\n".join(line[0] for line in lines)


async def test_statistics_of_fields_decide_which_of_two_indexes_is_used(
    service: RunningService, crowd: Api, crowd_tenant: str
) -> None:
    everywhere, rarely = built(crowd, "$.count")["id"], built(crowd, "$.weight")["id"]
    condition = all_of(simple("$.count", "EQUALS", 3), simple("$.weight", "GREATER_THAN", 4998))
    declared = {path: DeclaredField(types=frozenset((DataType.INTEGER,))) for path in ("$.count", "$.weight")}
    searched = compile_search(parse(condition), declared)
    statement = select_versions(
        EntityQuery(tenant=TenantId(crowd_tenant), model=model_id("parcel", 1), search=searched), "*"
    )
    async with connected(service.database) as connection:
        await connection.execute("SET plan_cache_mode = force_custom_plan")
        assert rarely in await explained(connection, statement)
        transaction = connection.transaction()
        await transaction.start()
        for row in await connection.fetch("SELECT stxname FROM pg_statistic_ext WHERE stxname LIKE 'entity_field_%'"):
            await connection.execute(f'DROP STATISTICS "{row["stxname"]}"')
        without = await explained(connection, statement)
        await transaction.rollback()
    assert everywhere in without, "it would fetch every entity, and take equality for rare"


async def explained(connection: asyncpg.Connection, statement: Statement) -> str:
    return "\n".join(line[0] for line in await connection.fetch(f"EXPLAIN {statement.text}", *statement.args))


def test_an_index_of_one_state_is_used_in_that_state(crowd: Api) -> None:
    index = built(crowd, "$.weight", state="it's")
    for withdrawn in [one for one in indexes(crowd) if one["path"] == "$.weight" and "state" not in one]:
        gone(crowd, withdrawn["id"])
    weight = simple("$.weight", "LESS_THAN", 2500)
    assert index["id"] in plan(crowd, all_of(weight, lifecycle("state", "EQUALS", "it's")))
    assert index["id"] not in plan(crowd, all_of(weight, lifecycle("state", "EQUALS", "NEW")))
    assert index["id"] not in plan(crowd, weight)
    assert len(found(crowd, all_of(weight, lifecycle("state", "EQUALS", "it's")))) == 250
