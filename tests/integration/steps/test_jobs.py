"""The queue: who gets a job, for how long, and what becomes of results that come late."""

import asyncio
from datetime import timedelta

import pytest

from statewright.failures import ProcessConflict, ProcessNotFound
from statewright.services.processes import jobs
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.jobs import to_job_record
from tests.integration.steps.conftest import (
    PATIENCE_S,
    THREE_STEPS,
    Host,
    definition,
    end,
    service_task,
    step,
    until,
)

RETRIED = definition("d", service_task("a", "end", retryCount=2), end())


async def test_a_job_is_handed_to_one_worker_at_a_time(host: Host):
    await host.upload(THREE_STEPS)
    instance = await host.start("chain")
    job = await host.job("a", worker="w1")
    assert await host.claim("a", worker="w2") == ()
    assert to_job_record(job) | {"id": "", "stepExecutionId": "", "lockedAt": "", "lockExpiresAt": ""} == {
        "id": "",
        "instanceId": instance.id,
        "stepId": "a",
        "stepExecutionId": "",
        "jobType": "a",
        "status": "LOCKED",
        "workerId": "w1",
        "lockedAt": "",
        "lockExpiresAt": "",
        "retriesRemaining": 0,
        "variables": {},
        "createdAt": to_job_record(job)["createdAt"],
    }
    assert job.lock_expires_at - job.locked_at == 30_000_000


async def test_the_oldest_jobs_of_several_types_come_first(host: Host):
    await host.upload(*(definition(name, service_task(name, "end"), end()) for name in ("x", "y", "z")))
    order = [await host.start(name) for name in ("x", "y", "z", "y", "x")]
    got = await host.claim("y", "x", "nothing", most=3)
    assert [job.instance_id for job in got] == [order[0].id, order[1].id, order[3].id]
    assert [job.instance_id for job in await host.claim("x", "y", "x")] == [order[4].id]


async def test_workers_take_jobs_in_order_whatever_members_they_are_for(host: Host):
    tagged = {"dispatch": {"a": {"calculationNodesTags": "eu;gpu"}}}
    await host.upload(
        definition("plain", service_task("a", "end"), end()),
        definition("tagged", service_task("a", "end"), end(), metadata=tagged),
    )
    order = [await host.start(name) for name in ("plain", "tagged", "tagged", "plain")]
    got = [*await host.claim("a", most=3), *await host.claim("a", most=3)]
    assert [job.instance_id for job in got] == [instance.id for instance in order]


async def test_nothing_of_a_job_stays_in_memory_when_it_is_done(host: Host):
    await host.upload(THREE_STEPS, RETRIED)
    await host.start("chain")
    await host.start("d")
    done, given_up = await host.claim("a")
    owners = host.runtime.processes.hosts.owners_of_jobs
    assert len(owners) == 2
    await host.complete(done)
    await host.fail(given_up, retryable=False)
    assert len(owners) == 0
    await host.complete(done)  # late, and without effect


async def test_a_hundred_pollers_share_a_hundred_jobs(hosts: tuple[Host, Host]):
    first, second = hosts
    await first.upload(definition("d", service_task("a", "end"), end()))
    started = [await first.start("d") for _ in range(40)]
    polls = [host.claim("a", worker=f"w{n}", most=3) for n in range(20) for host in (first, second)]
    claimed = [job.instance_id for answer in await asyncio.gather(*polls) for job in answer]
    claimed += [job.instance_id for job in await first.claim("a", most=100)]
    assert sorted(claimed) == sorted(instance.id for instance in started)


async def test_a_claim_waits_for_a_job_that_comes(host: Host):
    await host.upload(THREE_STEPS)
    waiting = asyncio.create_task(host.claim("a", "b", wait=timedelta(seconds=PATIENCE_S)))
    await _listening(host)
    instance = await host.start("chain")
    [job] = await waiting
    assert job.instance_id == instance.id


async def test_a_claim_on_another_node_hears_of_it_too(hosts: tuple[Host, Host]):
    first, second = hosts
    await first.upload(THREE_STEPS)
    waiting = asyncio.create_task(second.claim("a", wait=timedelta(seconds=PATIENCE_S)))
    await _listening(second)
    instance = await first.start("chain")
    [job] = await waiting
    assert job.instance_id == instance.id


async def test_a_claim_that_waits_in_vain_is_empty(host: Host):
    assert await host.claim("a", wait=timedelta(milliseconds=50)) == ()
    assert await host.claim() == ()


async def test_a_cancelled_claim_keeps_no_job(host: Host):
    await host.upload(THREE_STEPS)
    for _ in range(10):
        waiting = asyncio.create_task(host.claim("a", worker="gone", wait=timedelta(seconds=PATIENCE_S)))
        await _listening(host)
        instance = await host.start("chain")
        waiting.cancel()
        got: tuple[jobs.ClaimedJob, ...] = ()
        try:
            got = await waiting
        except asyncio.CancelledError:
            got = await host.claim("a", worker="next", wait=timedelta(seconds=PATIENCE_S))
        assert [job.instance_id for job in got] == [instance.id]


async def test_a_lease_that_ends_returns_the_job_without_using_a_retry(host: Host):
    await host.upload(RETRIED)
    instance = await host.start("d")
    job = await host.job("a", worker="w1")
    assert await host.sweep(seconds=29) == 0
    assert await host.sweep(seconds=2) == 1
    again = await host.job("a", worker="w2")
    assert (again.id, again.retries_remaining, again.created_at) == (job.id, 2, job.created_at)
    await host.complete(job, by="w1")  # the first completion counts, whoever holds the job now
    await host.complete(again, by="w2")
    done = await host.read(instance)
    assert (done.status, done.variables) == ("COMPLETED", {"by": "w1"})


async def test_a_lease_can_be_renewed_by_its_holder_only(host: Host):
    await host.upload(RETRIED)
    await host.start("d")
    job = await host.job("a", worker="w1")
    host.clock.advance(timedelta(seconds=20))
    until = await jobs.renew(
        find_shared_queue(host.runtime.processes), host.caller, job.id, worker_id="w1", lease=timedelta(seconds=30)
    )
    assert until > job.lock_expires_at
    assert await host.sweep(seconds=15) == 0
    with pytest.raises(ProcessConflict, match="not locked by worker"):
        await jobs.renew(
            find_shared_queue(host.runtime.processes), host.caller, job.id, worker_id="w2", lease=timedelta(seconds=30)
        )
    assert await host.sweep(seconds=60) == 1
    with pytest.raises(ProcessConflict):
        await jobs.renew(
            find_shared_queue(host.runtime.processes), host.caller, job.id, worker_id="w1", lease=timedelta(seconds=30)
        )
    with pytest.raises(ProcessNotFound, match=r'^job "nonsense" not found$'):
        await jobs.renew(
            find_shared_queue(host.runtime.processes),
            host.caller,
            "nonsense",
            worker_id="w1",
            lease=timedelta(seconds=30),
        )


async def test_a_job_that_is_given_back_is_there_for_the_next(host: Host):
    await host.upload(RETRIED)
    await host.start("d")
    job = await host.job("a", worker="w1")
    await jobs.release(find_shared_queue(host.runtime.processes), host.caller, job.id, worker_id="w2")
    assert await host.claim("a") == ()
    await jobs.release(find_shared_queue(host.runtime.processes), host.caller, job.id, worker_id="w1")
    assert (await host.job("a", worker="w3")).retries_remaining == 2


async def test_a_retryable_failure_uses_up_the_retries_and_then_fails_the_instance(host: Host):
    await host.upload(RETRIED)
    instance = await host.start("d")
    for left in (2, 1, 0):
        job = await host.job("a")
        assert job.retries_remaining == left
        await host.fail(job, f"boom {left}")
    failed = await host.read(instance)
    assert (failed.status, failed.failure_reason) == ("FAILED", "boom 0")
    assert await host.trace(instance) == ["a FAILED"]
    assert await host.claim("a") == ()


RESTING = {**RETRIED, "metadata": {"retryBackoff": {"a": {"delay": "PT5S", "factor": 3, "jitter": 0}}}}


async def test_a_failed_job_rests_as_its_definition_says(hosts: tuple[Host, Host]):
    one, other = hosts
    await one.upload(RESTING)
    await one.start("d")
    job = await one.job("a")
    await one.fail(job)
    assert await one.end_rests(seconds=3) == 0
    assert await one.claim("a") == ()
    assert await other.claim("a") == ()
    assert await one.end_rests(seconds=2.1) == 1
    again = await one.job("a")
    assert (again.id, again.retries_remaining, again.variables) == (job.id, 1, job.variables)
    await one.fail(again)
    assert await one.end_rests(seconds=14) == 0
    assert await one.end_rests(seconds=2) == 1
    await one.do("a")


async def test_the_rest_of_a_job_is_no_lease_that_ends(host: Host):
    await host.upload(RESTING)
    await host.start("d")
    await host.fail(await host.job("a"))
    assert await host.sweep(seconds=60) == 0
    assert await host.end_rests() == 1
    assert (await host.job("a")).retries_remaining == 1


async def test_a_worker_that_says_how_long_decides(host: Host):
    await host.upload(RESTING)
    await host.start("d")
    await host.fail(await host.job("a"), retry_after_s=60)
    assert await host.end_rests(seconds=59) == 0
    assert await host.end_rests(seconds=2) == 1
    await host.fail(await host.job("a"), retry_after_s=0)
    await host.job("a")


async def test_a_job_that_rests_can_still_be_completed(host: Host):
    await host.upload(RESTING)
    instance = await host.start("d")
    job = await host.job("a")
    await host.fail(job)
    await host.complete(job, by="w")
    assert (await host.read(instance)).status == "COMPLETED"
    assert await host.end_rests(seconds=60) == 0


async def test_a_final_failure_fails_the_instance_at_once(host: Host):
    await host.upload(RETRIED)
    instance = await host.start("d")
    await host.fail(await host.job("a"), "", retryable=False)
    assert (await host.read(instance)).failure_reason == "job failed"


async def test_late_repeated_and_foreign_reports_have_no_effect(host: Host):
    await host.upload(RETRIED)
    instance = await host.start("d")
    job = await host.job("a", worker="w1")
    await host.fail(job, "not mine", retryable=False, worker="w2")
    await host.complete(job, n=1)
    await host.complete(job, n=2)
    await host.fail(job, "late", retryable=False)
    done = await host.read(instance)
    assert (done.status, done.variables) == ("COMPLETED", {"n": 1})


async def test_a_job_that_nobody_claimed_can_be_completed(host: Host):
    await host.upload(RETRIED)
    instance = await host.start("d")
    job = await host.job("a")
    await host.sweep(minutes=1)
    await host.complete(job)
    assert (await host.read(instance)).status == "COMPLETED"


@pytest.mark.parametrize("name", ["01JABC3V9E6K8M2Q4S6T8W0Y2Z", "nonsense", ""])
async def test_an_unknown_job_is_not_found(host: Host, name: str):
    with pytest.raises(ProcessNotFound, match=rf'^job "{name}" not found$'):
        await host.complete(name)


async def test_work_of_a_failed_instance_is_held_and_its_results_are_kept_for_the_retry(host: Host):
    await host.upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=["bad", "busy", "idle"], joinStep="join"),
            service_task("bad", "join"),
            service_task("busy", "join"),
            service_task("idle", "join"),
            step("join", "JOIN_GATEWAY", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    busy = await host.job("busy")
    await host.fail(await host.job("bad"), retryable=False)
    assert await host.claim("idle") == (), "work of a failed instance is not handed out"
    await host.complete(busy, busy=True)
    assert (await host.read(instance)).status == "FAILED"
    retried = await host.retry(instance, "bad", patched=True)
    assert (retried.status, retried.variables) == ("ACTIVE", {"patched": True, "busy": True})
    await host.do("idle")
    job = await host.job("bad")
    assert job.variables == {"patched": True, "busy": True} or job.variables == {"patched": True}
    await host.complete(job)
    assert (await host.read(instance)).status == "COMPLETED"
    attempts = {line.attempt_number for line in await host.history(instance) if line.node_id == "bad"}
    assert attempts == {1, 2}


async def test_only_the_step_that_failed_can_be_retried(host: Host):
    await host.upload(THREE_STEPS)
    instance = await host.start("chain")
    with pytest.raises(ProcessConflict, match="instance is not in FAILED state"):
        await host.retry(instance, "a")
    await host.fail(await host.job("a"), retryable=False)
    with pytest.raises(ProcessConflict, match='latest attempt of step "b" is not FAILED'):
        await host.retry(instance, "b")
    with pytest.raises(ProcessNotFound, match='step "z" not found in definition'):
        await host.retry(instance, "z")
    with pytest.raises(ProcessNotFound, match=r"^workflow instance not found$"):
        await host.retry("nonsense", "a")


async def _listening(host: Host) -> None:
    """Somebody waits for a job."""
    await until(lambda: host.runtime.processes.hosts.wakeups.has_listeners)
