"""Tasks whose workers are not heard of any more (docs/reference/steps.md#policies-in-all-languages)."""

import subprocess
import sys

import pytest

from statewright.flows.definition import DELIVERIES, FlowSettings, FlowSource, TaskPolicy
from statewright.flows.instance import FlowInstance
from statewright.services.flows.dialect import FLOW_DIALECT
from statewright.services.processes import dialects
from statewright.services.processes.dialects import TransitionMembers
from tests.builders import Json
from tests.integration.flows.conftest import Flows, done
from tests.integration.steps.conftest import Host, definition, end, service_task
from tests.integration.steps.conftest import host as host
from tests.service import RunningService, eventually

WORKER = """
import sys, time, httpx
root, token, lease = sys.argv[1:4]
body = {"workerId": "w-" + sys.argv[4], "jobTypes": ["A"], "maxJobs": 1, "leaseSeconds": int(lease), "waitSeconds": 30}
found = httpx.post(f"{root}/v1/jobs/poll", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60)
print(found.json()["jobs"][0]["id"], flush=True)
time.sleep(60)
"""
"""Takes a job, and would do it."""


async def run_flow(host: Host, text: str, value: Json = None, **policies: TaskPolicy) -> FlowInstance:
    processes, caller = host.runtime.processes, host.caller
    source = FlowSource(id="f", text=text, settings=FlowSettings(tasks=policies))
    await dialects.upload_definition(FLOW_DIALECT, processes, caller, source)
    body = TransitionMembers({"definitionId": "f", "input": value})
    return await dialects.start_instance(FLOW_DIALECT, processes, caller, body)


async def read_flow(host: Host, instance: FlowInstance) -> FlowInstance:
    return await dialects.get_instance(FLOW_DIALECT, host.runtime.processes, host.caller, instance.id)


async def lose(host: Host, type_: str, times: int) -> None:
    """Workers take the job, and die: it is handed out again each time."""
    for number in range(times):
        await host.job(type_, worker=f"w-{number}")
        assert await host.sweep(seconds=31) == 1


@pytest.mark.parametrize("policies", [{}, {"A": TaskPolicy(deliveries=2)}, {"*": TaskPolicy(deliveries=1)}])
async def test_a_task_is_handed_out_so_often_and_then_fails_with_an_incident(
    host: Host, policies: dict[str, TaskPolicy]
) -> None:
    deliveries = next((policy.deliveries or 0 for policy in policies.values()), DELIVERIES)
    instance = await run_flow(host, "A → B", **policies)
    await lose(host, "A", deliveries - 1)
    await host.job("A", worker="last")
    assert (await read_flow(host, instance)).status == "RUNNING"
    assert await host.sweep(seconds=31) == 0, "it is not handed out again"
    failed = await read_flow(host, instance)
    assert failed.status == "FAILED"
    assert (failed.failed_nodes[0].reason or "").startswith("LEASE_LOST: ")
    assert await host.claim("A") == ()
    assert await host.count("SELECT count(*) FROM incident WHERE tenant = $1", host.caller.tenant) == 1


async def test_each_element_counts_for_itself_and_a_restart_begins_to_count_again(host: Host) -> None:
    instance = await run_flow(host, "* A → B", [1, 2], A=TaskPolicy(deliveries=2))
    lost = []
    for number in range(2):
        lost += await host.claim("A", worker=f"w-{number}", most=1)
        await host.sweep(seconds=31)
    [second] = await host.claim("A")
    assert second.id not in [job.id for job in lost]
    await host.complete(second, done=True)
    assert (await read_flow(host, instance)).status == "FAILED"
    await dialects.ask(FLOW_DIALECT, host.runtime.processes, host.caller, instance.id, "restart", {})
    await lose(host, "A", 1)
    await host.complete(await host.job("A"), done=True)
    assert [job.job_type for job in await host.claim("A", "B")] == ["B"]


async def test_a_task_that_ends_in_its_last_delivery_counts(host: Host) -> None:
    instance = await run_flow(host, "A", A=TaskPolicy(deliveries=3))
    await lose(host, "A", 2)
    await host.complete(await host.job("A"), ok=1)
    assert await host.sweep(seconds=31) == 0
    assert (await read_flow(host, instance)).status == "COMPLETED"


async def test_jobs_of_steps_are_handed_out_however_often_unless_their_definition_limits_it(host: Host) -> None:
    limited = {"deliveries": {"score": 2}}
    await host.upload(
        definition("any", service_task("load", "end"), end()),
        definition("some", service_task("score", "end"), end(), metadata=limited),
    )
    free, instance = await host.start("any"), await host.start("some")
    await lose(host, "load", 15)
    await lose(host, "score", 1)
    await host.job("score")
    assert await host.sweep(seconds=31) == 0
    failed = await host.read(instance)
    assert (failed.status, (failed.failure_reason or "").partition(":")[0]) == ("FAILED", "LEASE_LOST")
    await host.do("load")
    assert (await host.read(free)).status == "COMPLETED"


async def test_a_service_that_ends_with_a_job_three_times_is_kept_from_it_as_before(host: Host) -> None:
    """A job with ten deliveries is parked after three nodes of the service, since these are worth more."""
    instance = await run_flow(host, "A")
    for number in range(3):
        await host.job("A", worker=f"service-{number}")
        await host.sweep(seconds=31)
    assert await host.claim("A") == ()
    assert (await read_flow(host, instance)).status == "RUNNING"
    parked = "SELECT count(*) FROM incident WHERE tenant = $1 AND kind = 'POISONED'"
    assert await host.count(parked, host.caller.tenant) == 1


def test_a_task_that_kills_its_workers_fails(flows: Flows, service: RunningService) -> None:
    instance = flows.run("A", {"n": 1}, tasks={"A": {"deliveries": 2}})
    for number in range(2):
        words = [sys.executable, "-c", WORKER, service.root, str(flows.api.token), "5", str(number)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline().strip()
            worker.kill()
    eventually(lambda: flows.read(instance)["status"] == "FAILED")
    assert flows.read(instance)["failedNodes"][0]["reason"].startswith("LEASE_LOST: ")
    [incident] = done(flows.api.get(f"/ops/v1/incidents?instanceId={instance['id']}"))["items"]
    assert "LEASE_LOST" in incident["message"]
