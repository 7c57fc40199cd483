"""An operation that takes too long, or too much, fails by itself: the language hangs, and nothing else does."""

import asyncio
import time
from datetime import timedelta
from uuid import uuid4

import psutil
import pytest

from statewright.failures import ComputationKilled, ComputationTooLarge, ComputationTooLong
from tests.database import Template
from tests.integration.processes.conftest import Loop, Office
from tests.integration.steps.conftest import a_caller
from tests.service import eventually, hosted


async def test_a_long_operation_is_computed_by_another_process(offices: tuple[Office, Office]):
    office, _ = offices
    await office.draw()
    errand = await office.send()
    [job] = await office.claim("fetch")
    await office.complete(job, takes="long", weight=3)
    done = await office.read(errand)
    assert done.status == "COMPLETED"
    assert [done.marking.data["computed_by"]] == office.runtime.core.computations.pids


@pytest.mark.parametrize(
    ("takes", "failure"),
    [("time", ComputationTooLong), ("memory", ComputationTooLarge), ("its process", ComputationKilled)],
)
async def test_one_that_is_killed_fails_its_request_and_changes_nothing(
    offices: tuple[Office, Office], takes: str, failure: type[ComputationKilled]
):
    office, _ = offices
    await office.draw()
    errand, other = await office.send(), await office.send()
    first, second = await office.claim("fetch")
    other_tenant = Office(office.runtime, a_caller(f"tenant-{uuid4().hex[:8]}"))
    await other_tenant.draw()
    elsewhere = await other_tenant.send()
    [third] = await other_tenant.claim("fetch")
    begun = time.monotonic()
    killed = asyncio.create_task(office.complete(first, takes=takes, weight=3))
    await office.complete(second, weight=3)
    await other_tenant.complete(third, takes="long", weight=3)
    assert (await office.read(other)).status == "COMPLETED"
    assert (await other_tenant.read(elsewhere)).status == "COMPLETED"
    with pytest.raises(failure) as raised:
        await killed
    assert type(raised.value) is failure
    assert time.monotonic() - begun < 10
    assert (await office.read(errand)).status == "RUNNING"
    await office.complete(first, weight=4)
    assert (await office.read(errand)).marking.data == {"weight": 4}


def test_a_service_stops_within_its_budget_while_it_computes(installed: None, database_template: Template):
    settings = {"computation_timeout": timedelta(seconds=300), "shutdown_timeout": timedelta(seconds=2)}
    with hosted(database_template.clone(), **settings) as running:
        run, runtime = Loop(running.loop), running.parts.runtime
        office = Office(runtime, a_caller("stopping"))
        run(office.draw())
        run(office.send())
        [job] = run(office.claim("fetch"))
        run(runtime.core.computations.warm())
        asyncio.run_coroutine_threadsafe(office.complete(job, takes="time"), running.loop)
        eventually(lambda: runtime.core.computations.pids)
        pids = runtime.core.computations.pids
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    eventually(lambda: not any(map(psutil.pid_exists, pids)))
