"""Operations near their budget: they come to what they come to, and everybody else has their turns meanwhile
(docs/reference/steps.md#limits-of-an-operation).
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.builders import Json
from tests.integration.steps.conftest import Host, definition, end, service_task, step

LOOP = [
    step("count", "TRANSFORMATION", "again", transformations={"n": "${n + 1}", "s": "${len(sort(map(1..200, -#)))}"}),
    step("again", "DECISION", conditionalNextSteps={"n >= 2000": "end", "true": "count"}),
    end(),
]

TURN_S = 0.25
"""Of the event loop's own CPU time. It is 0.03 on a quiet machine, and was the whole operation."""


@asynccontextmanager
async def watched_turns() -> AsyncIterator[list[float]]:
    """The CPU time of the longest turn of the event loop while the block runs."""
    longest = [0.0]

    async def watch() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest[0] = max(longest[0], time.thread_time() - before)

    watching = asyncio.create_task(watch())
    try:
        yield longest
    finally:
        watching.cancel()


async def test_an_operation_of_thousands_of_steps_leaves_others_their_turns(host: Host):
    await host.upload(definition("loop", *LOOP))
    began = time.process_time()
    async with watched_turns() as longest:
        instance = await host.start("loop", n=0)
    assert (instance.status, instance.variables["n"]) == ("COMPLETED", 2000)
    assert len(await host.history(instance)) == 4001
    assert longest[0] < TURN_S < time.process_time() - began


async def test_a_result_that_leads_to_thousands_of_steps_does_so_too(host: Host):
    await host.upload(definition("later", service_task("work", "count"), *LOOP))
    instance = await host.start("later")
    job = await host.job("work")
    async with watched_turns() as longest:
        await host.complete(job, n=0)
    assert (await host.read(instance)).status == "COMPLETED"
    assert longest[0] < TURN_S


@pytest.mark.parametrize("size", [10, 100_000])
async def test_however_large_a_result_is_it_has_the_same_effect(host: Host, size: int):
    await host.upload(definition("large", service_task("work", "more"), service_task("more", "end"), end()))
    value: Json = {"items": [*range(size)], "text": "x" * size}
    instance = await host.start("large", **value)
    job = await host.job("work")
    assert job.variables == value
    await host.complete(job, result=value)
    after = await host.read(instance)
    assert after.current_step_ids == ("more",)
    assert after.variables == {**value, "result": value}
