"""What a process keeps of definitions while nobody announces that they have changed."""

from collections.abc import AsyncIterator

import pytest

from statewright.entity import ModelKey
from statewright.ids import TenantId, system_clock
from statewright.jsonval.codec import encode
from statewright.schema import infer, schema_to_stored
from statewright.services.definitions import DefinitionCache, Refresher
from statewright.storage import models
from statewright.storage.pool import Pool
from tests.integration.storage.store import a_store

TENANT = TenantId("acme")
KEY = ModelKey("prize", 1)
SCHEMA = encode(schema_to_stored(infer({"a": 1}))).decode()


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with a_store(database) as store:
        yield store.pool


async def a_model(pool: Pool) -> None:
    async with models.edit_model(pool, TENANT, KEY) as change:
        await change.save_schema(SCHEMA)


async def test_what_was_loaded_since_it_changed_stays(pool: Pool):
    await a_model(pool)
    cache = DefinitionCache(pool, system_clock)
    loaded = await cache.find(TENANT, KEY)
    assert await Refresher(pool, cache, system_clock).run_once() == 0
    assert await cache.find(TENANT, KEY) is loaded


async def test_a_model_that_changed_without_a_word_is_loaded_anew(pool: Pool):
    await a_model(pool)
    cache = DefinitionCache(pool, system_clock)
    await cache.find(TENANT, KEY)
    async with models.edit_model(pool, TENANT, KEY) as change:
        await change.set_state("LOCKED")
    assert await Refresher(pool, cache, system_clock).run_once() == 1
    renewed = await cache.find(TENANT, KEY)
    assert renewed is not None
    assert renewed.is_locked


async def test_workflows_that_changed_without_a_word_are_loaded_anew(pool: Pool):
    await a_model(pool)
    cache = DefinitionCache(pool, system_clock)
    await cache.find(TENANT, KEY)
    for _ in range(2):
        async with models.edit_model(pool, TENANT, KEY) as change:
            await change.save_workflows("[]")
        assert await Refresher(pool, cache, system_clock).run_once() == 1
        assert await cache.find(TENANT, KEY) is not None
    assert await Refresher(pool, cache, system_clock).run_once() == 0
