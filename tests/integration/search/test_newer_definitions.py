"""A search by a field that another process has just added: what is cached of the model does not have it yet."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest

from statewright.computations import ComputationLimits, ComputationPool
from statewright.conditions import parse_sort, read_search_condition
from statewright.entity import ModelKey
from statewright.failures import InvalidFieldPath, ModelNotFound
from statewright.ids import TenantId, model_id, system_clock
from statewright.jsonval.codec import encode
from statewright.schema import infer, schema_to_stored
from statewright.services.definitions import DefinitionCache
from statewright.services.runtime import Runtime
from statewright.services.search import Search, prepare
from statewright.storage import models
from statewright.storage.pool import Pool
from tests.builders import Json
from tests.integration.search.finding import simple
from tests.integration.storage.store import a_store

TENANT = TenantId("acme")
KEY = ModelKey("parcel", 1)


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with a_store(database) as store:
        yield store.pool


@pytest.fixture
async def runtime(pool: Pool) -> Runtime:
    """A process that nobody tells of changes, which has the model without the field ``later``."""
    await save(pool, {"weight": 1})
    definitions = DefinitionCache(pool, system_clock)
    await definitions.find(TENANT, KEY)
    computations = ComputationPool(ComputationLimits())  # nothing is started before it has something to compute
    core = SimpleNamespace(pool=pool, definitions=definitions, computations=computations)
    return cast("Runtime", SimpleNamespace(core=core))


async def save(pool: Pool, sample: Json) -> None:
    async with models.edit_model(pool, TENANT, KEY) as change:
        await change.save_schema(encode(schema_to_stored(infer(sample))).decode())


def asked(condition: Json, *sort: str) -> Search:
    return Search(key=KEY, condition=read_search_condition(condition), sort=parse_sort(sort, max_keys=16))


@pytest.mark.parametrize(
    "search",
    [
        asked(simple("$.later", "EQUALS", "a")),
        asked(simple("$.later", "IS_NULL")),
        asked(simple("$.weight", "EQUALS", 1), "later"),
    ],
)
async def test_the_newest_definition_is_asked_before_a_field_is_refused(
    pool: Pool, runtime: Runtime, search: Search
) -> None:
    with pytest.raises(InvalidFieldPath, match="later"):
        await prepare(runtime.core, TENANT, search)
    await save(pool, {"weight": 1, "later": "a"})
    assert (await prepare(runtime.core, TENANT, search)).model == model_id("parcel", 1)


async def test_a_model_that_has_gone_meanwhile_is_not_found(pool: Pool, runtime: Runtime) -> None:
    async with pool.connection() as connection:
        await connection.execute("DELETE FROM model WHERE tenant = $1", TENANT)
    with pytest.raises(ModelNotFound):
        await prepare(runtime.core, TENANT, asked(simple("$.later", "EQUALS", "a")))
    with pytest.raises(ModelNotFound):
        await prepare(runtime.core, TENANT, asked(simple("$.weight", "EQUALS", 1)))
