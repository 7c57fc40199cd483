"""Polls that find nothing: they cost no statement, and a job is found as soon as it is heard of
(docs/reference/steps.md#polls-that-find-nothing).

A poll that asks the database waits for a lock on the queue; one that does not is answered all the same.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from statewright.services.processes.background import announce_jobs
from statewright.services.processes.wakeups import MAX_AGE_US
from statewright.storage import models
from statewright.storage.connections import DatabaseUrl
from statewright.storage.processes.jobs import CHANNEL, build_listener
from tests.integration.steps.conftest import THREE_STEPS, Host
from tests.rehosting import rehost

ONE_AGE = timedelta(microseconds=MAX_AGE_US)


@asynccontextmanager
async def listening(host: Host, database: str) -> AsyncIterator[None]:
    """The node hears what others announce, and announces what it makes itself."""
    wakeups = host.runtime.processes.hosts.wakeups
    ready = asyncio.Event()

    def set_listening(is_listening: bool) -> None:
        wakeups.idle.set_listening(is_listening)
        if is_listening:
            ready.set()

    follow = models.follow(
        DatabaseUrl(dsn=database),
        lambda *_: None,
        lambda: None,
        others={CHANNEL: build_listener(wakeups.wake)},
        set_listening=set_listening,
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow), group.create_task(announce_jobs(host.runtime.processes))]
        await ready.wait()
        yield
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def locked_queue(host: Host) -> AsyncIterator[None]:
    """Nobody can read the queue while the block runs."""
    async with host.runtime.core.pool.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE process_job IN ACCESS EXCLUSIVE MODE")
        yield


def with_clock_stopped(host: Host) -> Host:
    """The same node, for which no time passes: what it knows does not grow old."""
    at = host.clock()
    return Host(rehost(host.runtime, lambda: at), host.caller, host.clock)


async def test_an_empty_poll_is_repeated_without_a_statement(host: Host, database: str):
    async with listening(host, database):
        assert await host.claim("a", "b") == ()
        async with locked_queue(host):
            async with asyncio.timeout(30):
                assert await host.claim("a", "b") == ()
                assert await host.claim("b", worker="another") == ()
            asked = asyncio.ensure_future(host.claim("a", "c"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asked), 0.5)
        assert await asked == ()


async def test_a_job_of_the_same_process_is_found_at_once(host: Host, database: str):
    host = with_clock_stopped(host)
    async with listening(host, database):
        await host.upload(THREE_STEPS)
        assert await host.claim("a") == ()
        instance = await host.start("chain")
        assert [job.instance_id for job in await host.claim("a")] == [instance.id]
        assert await host.claim("a") == ()


async def test_a_job_of_another_process_is_found_as_soon_as_it_is_announced(hosts: tuple[Host, Host], database: str):
    maker, poller = hosts[0], with_clock_stopped(hosts[1])
    async with listening(maker, database), listening(poller, database):
        await maker.upload(THREE_STEPS)
        assert await poller.claim("a") == ()
        instance = await maker.start("chain")
        found = await eventually_claim(poller, "a")
        assert found == [instance.id]


async def test_a_job_that_another_process_sets_free_is_found(hosts: tuple[Host, Host], database: str):
    """After a failed try, the end of a lease, and the retry of an instance."""
    maker, poller = hosts[0], with_clock_stopped(hosts[1])
    async with listening(maker, database), listening(poller, database):
        chain = {**THREE_STEPS, "steps": [{**step, "retryCount": 1} for step in THREE_STEPS["steps"]]}
        await maker.upload(chain)
        await maker.start("chain")
        [job] = await maker.claim("a")
        assert await poller.claim("a") == ()
        await maker.fail(job, retryable=True)
        assert len(await eventually_claim(poller, "a")) == 1
        assert await poller.claim("a") == ()
        assert await maker.sweep(minutes=1) == 1
        assert len(await eventually_claim(poller, "a")) == 1


async def test_held_jobs_that_a_retry_releases_are_found_by_other_processes(hosts: tuple[Host, Host], database: str):
    maker, poller = hosts[0], with_clock_stopped(hosts[1])
    fork = {"id": "fork", "name": "fork", "type": "PARALLEL_GATEWAY", "parallelNextSteps": ["a", "b"], "joinStep": "j"}
    join = {"id": "j", "name": "j", "type": "JOIN_GATEWAY", "nextStep": "end"}
    a, b = ({"id": id_, "name": id_, "type": "SERVICE_TASK", "jobType": id_, "nextStep": "j"} for id_ in "ab")
    both = {"id": "both", "name": "both", "steps": [fork, a, b, join, {"id": "end", "name": "end", "type": "END"}]}
    async with listening(maker, database), listening(poller, database):
        await maker.upload(both)
        instance = await maker.start("both")
        [job] = await maker.claim("a")
        await maker.fail(job)
        assert await poller.claim("b") == ()
        await maker.retry(instance, "a")
        assert await eventually_claim(poller, "b") == [instance.id]


async def test_a_job_whose_announcement_was_lost_is_found_after_a_while(hosts: tuple[Host, Host], database: str):
    maker, poller = hosts
    async with listening(poller, database):  # the maker announces nothing
        await maker.upload(THREE_STEPS)
        assert await poller.claim("a") == ()
        instance = await maker.start("chain")
        poller.clock.advance(ONE_AGE)
        assert [job.instance_id for job in await poller.claim("a")] == [instance.id]


async def test_a_process_that_hears_nothing_asks_every_time(hosts: tuple[Host, Host]):
    maker, poller = hosts[0], with_clock_stopped(hosts[1])
    await maker.upload(THREE_STEPS)
    assert await poller.claim("a") == ()
    instance = await maker.start("chain")
    assert [job.instance_id for job in await poller.claim("a")] == [instance.id]


async def eventually_claim(host: Host, job_type: str) -> list[str]:
    """The instances of the first jobs that are found."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while not found:
            found = [job.instance_id for job in await host.claim(job_type)]
            await asyncio.sleep(0.01)
    return found
