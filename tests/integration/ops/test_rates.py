"""Rates (docs/reference/operations.md#rates)."""

import asyncio

from statewright.ids import TenantId
from statewright.storage.ops.service import Rate, add_rates
from tests.builders import Json
from tests.integration.ops.builders import ops_api
from tests.service import PATIENCE_S, Api, RunningService, done


def read(service: RunningService, tenant: str) -> Json:
    return done(ops_api(service, tenant).get("/rates"))


def test_what_was_written_counts_in_its_minute_and_for_its_tenant(
    service: RunningService, api: Api, tenant: str
) -> None:
    api.a_model()
    before = read(service, tenant)
    assert [minute["versions"] for minute in before["minutes"]] == [0] * 60
    entity = api.create().id
    api.update(entity)
    api.read(entity)
    after = read(service, tenant)
    assert (after["transactions"], after["versions"]) == (2, 2)
    assert sum(minute["versions"] for minute in after["minutes"][-2:]) == 2
    assert [minute["at"] for minute in after["minutes"]] == sorted(minute["at"] for minute in after["minutes"])
    assert read(service, f"{tenant}-x")["versions"] == 0


def test_counts_of_other_nodes_are_added_and_old_ones_left_out(service: RunningService, api: Api, tenant: str) -> None:
    pool = service.parts.runtime.core.pool
    api.a_model()
    api.create()
    [minute] = [each for each in read(service, tenant)["minutes"] if each["versions"]]
    at = service.parts.runtime.core.clock() // 60_000_000
    counted = {
        (TenantId(tenant), at - age): Rate(1, versions) for age, versions in ((0, 10), (30, 5), (60, 7), (500, 9))
    }
    asyncio.run_coroutine_threadsafe(add_rates(pool, counted), service.loop).result(PATIENCE_S)
    told = read(service, tenant)
    assert minute["versions"] == 1
    assert told["versions"] == 16
