"""Whatever meets at one instance: each has its effect once or not at all, and exactly one of the rivals wins.

``hosts`` are two nodes on one database; what they do at the same time is decided by the versions of the entity alone.
"""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from datetime import timedelta

import pytest

from statewright.failures import BusinessKeyInUse, ProcessConflict, ProcessNotFound
from statewright.services.processes import dialects
from statewright.services.processes.successors import start_successor as start_child
from statewright.services.steps.dialect import STEP_DIALECT
from statewright.steps import Instance
from statewright.storage.work import STARTS
from tests.database import connected
from tests.integration.steps.conftest import THREE_STEPS, Host, definition, end, service_task, step, timer
from tests.takings import take

ROUNDS = 5


async def outcomes(rivals: Sequence[Awaitable[object]]) -> list[BaseException | None]:
    """What became of everything that was begun at once: None, or why not."""
    results = await asyncio.gather(*rivals, return_exceptions=True)
    return [result if isinstance(result, BaseException) else None for result in results]


async def test_of_many_completions_of_a_job_one_counts(hosts: tuple[Host, Host]):
    await hosts[0].upload(THREE_STEPS)
    for _ in range(ROUNDS):
        instance = await hosts[0].start("chain")
        job = await hosts[0].job("a")
        await asyncio.gather(*(host.complete(job, by=n) for n in range(4) for host in hosts))
        assert await hosts[0].trace(instance) == ["a COMPLETED", "b RUNNING"]
        assert len(await hosts[1].claim("b")) == 1


async def test_of_a_completion_and_a_failure_of_a_job_one_counts(hosts: tuple[Host, Host]):
    await hosts[0].upload(THREE_STEPS)
    for _ in range(ROUNDS):
        instance = await hosts[0].start("chain")
        job = await hosts[0].job("a")
        await asyncio.gather(hosts[0].complete(job), hosts[1].fail(job, retryable=False))
        after = await hosts[0].read(instance)
        assert (after.status, after.current_step_ids) in {("ACTIVE", ("b",)), ("FAILED", ("a",))}


async def test_of_many_signals_one_gets_through(hosts: tuple[Host, Host]):
    await hosts[0].upload(definition("d", step("hold", "WAIT", "next"), step("next", "USER_TASK", "end"), end()))
    for _ in range(ROUNDS):
        instance = await hosts[0].start("d")
        told = await outcomes([host.signal(instance, "hold", by=n) for n in range(3) for host in hosts])
        assert sorted(type(one).__name__ for one in told) == ["NoneType", *["ProcessConflict"] * 5]
        assert len(await hosts[0].history(instance)) == 2


async def test_of_two_people_one_completes_the_task(hosts: tuple[Host, Host]):
    await hosts[0].upload(definition("d", step("review", "USER_TASK", "hold"), step("hold", "WAIT", "end"), end()))
    for _ in range(ROUNDS):
        instance = await hosts[0].start("d")
        told = await outcomes([host.approve(instance, "review", by=str(n)) for n, host in enumerate(hosts)])
        assert sorted(type(one).__name__ for one in told) == ["NoneType", "ProcessNotFound"]


async def test_signal_timer_and_cancel_meet_and_one_of_them_moves_the_instance(hosts: tuple[Host, Host]):
    await hosts[0].upload(
        definition(
            "d",
            step("hold", "WAIT", "signalled", boundaryEvents=[timer("PT1H", "timed", interrupting=True)]),
            service_task("signalled", "end"),
            service_task("timed", "end"),
            end(),
        )
    )
    seen: set[str] = set()
    for _ in range(ROUNDS):
        instance = await hosts[0].start("d")
        told = await outcomes([hosts[0].signal(instance, "hold"), hosts[1].after(hours=1), hosts[0].cancel(instance)])
        assert all(one is None or isinstance(one, ProcessConflict) for one in told), told
        trace = await hosts[0].trace(instance)
        after = await hosts[0].read(instance)
        assert after.status == "CANCELLED", "nothing else makes it terminal, so the cancellation always gets through"
        assert trace[0] in {"hold COMPLETED", "hold FAILED", "hold SKIPPED"}
        assert trace[1:] in ([], ["signalled SKIPPED"], ["timed SKIPPED"])
        assert await hosts[0].count("SELECT count(*) FROM process_job") == 0
        assert await hosts[0].count("SELECT count(*) FROM process_timer") == 0
        seen.add(trace[0])
    assert seen


async def test_branches_that_end_at_once_join_once(hosts: tuple[Host, Host]):
    names = [f"b{n}" for n in range(8)]
    await hosts[0].upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=names, joinStep="join"),
            *(service_task(name, "join", jobType="work") for name in names),
            step("join", "JOIN_GATEWAY", "last"),
            service_task("last", "end"),
            end(),
        )
    )
    instance = await hosts[0].start("d")
    jobs = await hosts[0].claim("work")
    await asyncio.gather(*(hosts[n % 2].complete(job, **{job.node_id: n}) for n, job in enumerate(jobs)))
    after = await hosts[0].read(instance)
    assert after.current_step_ids == ("last",)
    assert set(after.variables) == set(names), "no branch overwrites what another one wrote"
    assert len(await hosts[0].claim("last")) == 1


async def test_a_retry_and_another_of_the_same_step_start_it_once(hosts: tuple[Host, Host]):
    await hosts[0].upload(THREE_STEPS)
    instance = await hosts[0].start("chain")
    await hosts[0].fail(await hosts[0].job("a"), retryable=False)
    told = await outcomes([host.retry(instance, "a") for host in (*hosts, *hosts)])
    assert sorted(type(one).__name__ for one in told) == ["NoneType", *["ProcessConflict"] * 3]
    assert len(await hosts[0].claim("a")) == 1


async def test_failures_of_one_job_use_up_one_retry_each(hosts: tuple[Host, Host]):
    await hosts[0].upload(definition("d", service_task("a", "end", retryCount=5), end()))
    instance = await hosts[0].start("d")
    job = await hosts[0].job("a")
    await asyncio.gather(*(host.fail(job, f"{n}") for n in range(2) for host in hosts))
    again = await hosts[0].job("a")
    assert again.retries_remaining == 1
    assert (await hosts[0].read(instance)).status == "ACTIVE"


async def test_of_many_starts_with_a_business_key_one_gets_it(hosts: tuple[Host, Host]):
    await hosts[0].upload(THREE_STEPS)
    for n in range(ROUNDS):
        told = await outcomes([host.start("chain", f"K-{n}") for host in (*hosts, *hosts)])
        assert sorted(type(one).__name__ for one in told) == [*["BusinessKeyInUse"] * 3, "NoneType"], told
        assert len(await hosts[0].all(business_key=f"K-{n}")) == 1
    assert BusinessKeyInUse().message.startswith("business key already in use")


async def test_concurrent_uploads_of_one_id_all_succeed(hosts: tuple[Host, Host]):
    texts = [json.dumps({**THREE_STEPS, "description": str(n % 3)}) for n in range(6)]
    uploads = [
        dialects.upload_definition(STEP_DIALECT, hosts[n % 2].runtime.processes, hosts[n % 2].caller, text)
        for n, text in enumerate(texts)
    ]
    versions = [uploaded.version for uploaded in await asyncio.gather(*uploads)]
    assert set(versions) == {1, 2, 3}
    assert [versions[n] == versions[n + 3] for n in range(3)] == [True] * 3


async def _chained(host: Host, key: str = "") -> Instance:
    """An instance that has just ended, and whose successor is due."""
    await host.upload(
        definition("second", step("hold", "WAIT", "end"), end()),
        definition("first", service_task("a", "end"), end(), autoStartNextWorkflow=True, nextWorkflowId="second"),
    )
    instance = await host.start("first", key, n=1)
    await host.do("a", done=True)
    return instance


async def test_a_successor_is_started_once_whoever_tries(hosts: tuple[Host, Host]):
    parent = await _chained(hosts[0], "K-1")
    hosts[0].clock.advance(timedelta(minutes=1))
    due = await take(hosts[0].runtime.core.pool, STARTS, ["steps"], now=hosts[0].clock(), until=hosts[0].clock() + 1)
    assert len(due) == 1
    told = await outcomes([start_child(host.steps, due[0]) for host in (*hosts, *hosts)])
    assert told == [None] * 4
    [successor] = await hosts[0].all(definition_id="second")
    assert (successor.parent_instance_id, successor.business_key) == (parent.id, "K-1")
    assert successor.variables == {"n": 1, "done": True}
    assert await hosts[0].chain() == 0


async def test_a_successor_that_can_never_start_is_given_up_and_leaves_the_instance_as_it_is(host: Host):
    await host.upload(definition("first", end(), autoStartNextWorkflow=True, nextWorkflowId="nowhere"))
    parent = await host.start("first")
    assert await host.chain() == 1
    assert await host.chain() == 0
    assert (await host.read(parent)).status == "COMPLETED"
    assert await host.count("SELECT count(*) FROM entity_audit WHERE events LIKE '%chain-failed%'") == 1
    assert await host.count("SELECT count(*) FROM incident WHERE kind = 'CHAIN_FAILED' AND workflow = 'nowhere'") == 1


async def test_a_successor_whose_key_is_taken_is_given_up(host: Host):
    await _chained(host, "K-1")
    await host.start("second", "K-1")
    assert await host.chain() == 1
    assert len(await host.all(definition_id="second")) == 1
    assert await host.chain() == 0


async def test_a_workflow_that_follows_itself_keeps_its_key(host: Host):
    await host.upload(
        definition("loop", service_task("a", "end"), end(), autoStartNextWorkflow=True, nextWorkflowId="loop")
    )
    await host.start("loop", "K-1")
    for _ in range(3):
        await host.do("a")
        assert await host.chain() == 1
    assert [one.status for one in await host.all(business_key="K-1")] == ["ACTIVE", *["COMPLETED"] * 3]


async def test_a_hot_instance_takes_the_signals_of_many_in_turn(hosts: tuple[Host, Host]):
    names = [f"w{n}" for n in range(24)]
    await hosts[0].upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=names, joinStep="join"),
            *(step(name, "WAIT", "join") for name in names),
            step("join", "JOIN_GATEWAY", "end"),
            end(),
        )
    )
    instance = await hosts[0].start("d")
    await asyncio.gather(*(hosts[n % 2].signal(instance, name, **{name: n}) for n, name in enumerate(names)))
    done = await hosts[1].read(instance)
    assert done.status == "COMPLETED"
    assert done.variables == {name: n for n, name in enumerate(names)}


async def test_what_a_node_remembers_never_makes_it_say_no(hosts: tuple[Host, Host]):
    """The other node has moved the instance on; what this one knew of it is old."""
    await hosts[0].upload(THREE_STEPS)
    instance = await hosts[0].start("chain")
    await hosts[1].do("a")
    await hosts[0].complete(await hosts[1].job("b"))
    await hosts[0].do("c")
    assert (await hosts[1].read(instance)).status == "COMPLETED"
    with pytest.raises(ProcessConflict):
        await hosts[1].cancel(instance)
    with pytest.raises(ProcessNotFound):
        await hosts[1].approve(instance, "unknown")


async def test_a_node_that_knows_a_version_starts_the_one_that_another_has_stored_since(hosts: tuple[Host, Host]):
    for number in range(1, ROUNDS + 1):
        await hosts[number % 2].upload(definition("d", service_task(f"v{number}", "end"), end()))
        started = await asyncio.gather(*(host.start("d") for host in (*hosts, *hosts)))
        assert {instance.definition_version for instance in started} == {number}


async def test_uploads_and_starts_that_meet_leave_every_start_at_a_version_that_was_the_latest(
    hosts: tuple[Host, Host],
):
    await hosts[0].upload(definition("d", service_task("v1", "end"), end()))
    await hosts[1].start("d")
    for number in range(2, ROUNDS + 2):
        upload = hosts[0].upload(definition("d", service_task(f"v{number}", "end"), end()))
        started, _ = await asyncio.gather(asyncio.gather(*(hosts[1].start("d") for _ in range(8))), upload)
        assert {instance.definition_version for instance in started} <= {number - 1, number}


async def test_a_failure_at_a_version_that_is_known_counts_if_it_is_the_latest(host: Host):
    await host.upload(definition("d", service_task("a", "end"), end()))
    await host.start("d", business_key="k")
    with pytest.raises(BusinessKeyInUse):
        await host.start("d", business_key="k")
    assert (await host.start("d", business_key="other")).definition_version == 1


async def test_starts_that_meet_ask_for_the_latest_version_with_one_statement(host: Host, database: str):
    await host.upload(THREE_STEPS)
    async with connected(database) as connection, connected(database) as observer, connection.transaction():
        await connection.execute("LOCK TABLE process_definition IN ACCESS EXCLUSIVE MODE")
        starts = [asyncio.ensure_future(host.start("chain")) for _ in range(100)]
        async with asyncio.timeout(30):
            while not await observer.fetchval(WAITING):
                pass
        assert {await observer.fetchval(WAITING) for _ in range(20)} == {1}
    assert len({instance.id for instance in await asyncio.gather(*starts)}) == 100


async def test_a_version_that_many_ask_for_is_loaded_once(host: Host, database: str):
    await host.upload(THREE_STEPS)
    processes = host.steps.processes
    async with connected(database) as connection, connected(database) as observer, connection.transaction():
        await connection.execute("LOCK TABLE process_definition IN ACCESS EXCLUSIVE MODE")
        asked = [asyncio.ensure_future(processes.find(host.caller.tenant, "chain", 1)) for _ in range(100)]
        async with asyncio.timeout(30):
            while not await observer.fetchval(WAITING):
                pass
        asked[0].cancel()
        assert {await observer.fetchval(WAITING) for _ in range(20)} == {1}
    assert len({id(found) for found in await asyncio.gather(*asked[1:])}) == 1


WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM process_definition%'
"""
