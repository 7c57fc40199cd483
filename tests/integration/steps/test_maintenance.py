"""What is looked after without being asked: retention, and numbers for those who watch."""

from datetime import timedelta

import pytest

from statewright.failures import ProcessBadRequest, ProcessNotFound
from statewright.metrics.processes import StepCollector
from statewright.services.processes.background import MAX_PURGE_BATCH, PurgeResult, purge, purge_expired
from tests.integration.steps.conftest import THREE_STEPS, Host, definition, end, service_task, step

EVERYWHERE = ("entity", "entity_history", "entity_audit", "process_instance", "process_execution")


async def _finished(host: Host) -> None:
    """A completed instance with a user task behind it, a cancelled and a failed one, and one still at work."""
    await host.upload(THREE_STEPS, definition("review", step("review", "USER_TASK", "end"), end()))
    await host.approve(await host.start("review"), "review")
    await host.cancel(await host.start("chain"))
    await host.start("chain")
    await host.fail(await host.job("a"), retryable=False)
    await host.start("chain")


async def test_finished_instances_are_removed_by_age_with_all_that_is_theirs(host: Host):
    await _finished(host)
    stranger = host.of("stranger")
    await stranger.upload(definition("quick", end()))
    await stranger.start("quick")
    assert await purge(host.steps, host.caller, older_than=timedelta(days=1)) == PurgeResult(
        removed=0, is_complete=True
    )
    host.clock.advance(timedelta(days=2))
    gone = [one for one in await host.all() if one.status in {"COMPLETED", "CANCELLED"}]
    assert await purge(host.steps, host.caller, older_than=timedelta(days=1)) == PurgeResult(
        removed=2, is_complete=True
    )
    assert sorted(one.status for one in await host.all()) == ["ACTIVE", "FAILED"]
    for instance in gone:
        with pytest.raises(ProcessNotFound):
            await host.read(instance)
    assert len(await stranger.all()) == 1
    left = await host.count(
        "SELECT count(DISTINCT instance) FROM process_execution WHERE tenant = $1", host.caller.tenant
    )
    assert left == 2
    for table in ("entity", "entity_history"):
        count = await host.count(f"SELECT count(*) FROM {table} WHERE document ->> 'stepId' = 'review'")
        assert count == 0, f"the user task is still in {table}"


async def test_retention_removes_those_of_all_tenants(host: Host):
    await host.upload(definition("quick", end()))
    await host.start("quick")
    stranger = host.of("stranger")
    await stranger.upload(definition("quick", end()))
    await stranger.start("quick")
    host.clock.advance(timedelta(hours=1))
    steps = host.runtime.processes.hosts.get_hosted("steps")
    assert await purge_expired(host.runtime.core, steps, timedelta(hours=2)) == 0
    assert await purge_expired(host.runtime.core, steps, timedelta(minutes=30)) == 2
    assert await host.count("SELECT count(*) FROM process_instance") == 0
    definitions = await host.count("SELECT count(*) FROM entity")
    assert definitions == 2, "definitions are kept for ever"


async def test_one_request_removes_what_its_time_allows_and_says_whether_that_was_all(host: Host):
    await host.upload(definition("quick", end()))
    for _ in range(MAX_PURGE_BATCH + 1):
        await host.start("quick")
    host.clock.advance(timedelta(days=2))
    at_once, age = timedelta(0), timedelta(days=1)
    first = await purge(host.steps, host.caller, older_than=age, within=at_once)
    assert first == PurgeResult(removed=MAX_PURGE_BATCH, is_complete=False)
    assert await purge(host.steps, host.caller, older_than=age) == PurgeResult(removed=1, is_complete=True)


async def test_a_negative_age_is_refused(host: Host):
    with pytest.raises(ProcessBadRequest, match="must not be negative"):
        await purge(host.steps, host.caller, older_than=timedelta(days=-1))


async def test_everything_that_happens_is_counted(host: Host):
    await host.upload(definition("d", service_task("a", "end", retryCount=1), end()))
    instance = await host.start("d")
    await host.fail(await host.job("a"))
    await host.job("a")
    await host.sweep(minutes=1)
    await host.do("a")
    await host.cancel(await host.start("d"))
    assert (await host.read(instance)).status == "COMPLETED"

    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in StepCollector(host.steps.metrics).collect()
        for sample in metric.samples
    }
    expected = {
        ("workflow_definitions_uploaded_total",): 1,
        ("workflow_instances_started_total",): 2,
        ("workflow_instances_completed_total", "completed"): 1,
        ("workflow_instances_completed_total", "cancelled"): 1,
        ("workflow_steps_executed_total", "SERVICE_TASK"): 2,
        ("workflow_steps_executed_total", "END"): 1,
        ("job_retries_total",): 1,
        ("engine_job_timeout_total",): 1,
        ("engine_job_pickup_latency_seconds_count",): 3,
        ("engine_db_transaction_duration_seconds_count", "instance.start"): 2,
        ("engine_db_transaction_duration_seconds_count", "instance.complete_job"): 1,
    }
    assert {name: samples[name] for name in expected} == expected
