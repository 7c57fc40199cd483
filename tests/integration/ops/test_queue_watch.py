"""Queues that nobody serves (docs/reference/operations.md#queues-without-a-worker).

``STATEWRIGHT_TEST_QUEUED=500`` lets so many jobs wait.
"""

import asyncio
import os
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from types import SimpleNamespace

import pytest
from msgspec.structs import replace as replaced

from statewright.cli.main import program
from statewright.cli.ops import queues as commands
from statewright.compute.members import Members
from statewright.ids import TenantId
from statewright.services.ops.queue_watch import QueueWatch
from tests.builders import Json
from tests.commands import CommandRunner
from tests.integration.ops.builders import ops_api
from tests.integration.ops.test_queues import start_jobs
from tests.integration.steps_http.conftest import definition, polled, started, step, uploaded
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, refused
from tests.unit.compute.builders import a_callout

MINUTE_US = 60_000_000
JOBS = int(os.environ.get("STATEWRIGHT_TEST_QUEUED", "3"))


class Watched:
    """The watch of a node whose clock a test sets."""

    def __init__(self, service: RunningService) -> None:
        self._service = service
        self.later_us = 0
        runtime = service.parts.runtime
        core = replaced(runtime.core, clock=lambda: runtime.core.clock() + self.later_us)
        reports = runtime.operations.concerns.incident_sweeper.reports
        self._watch = QueueWatch(core, runtime.operations.work, reports, alert_after=timedelta(minutes=1))

    def look(self, *, after_us: int = 0) -> None:
        """Look again, so much later."""
        self.later_us += after_us
        asyncio.run_coroutine_threadsafe(self._watch.run_once(), self._service.loop).result(PATIENCE_S)


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR")


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    return replace(api, url=service.root)


@pytest.fixture
def watch(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The only watch: that of the service has another clock, and rests meanwhile."""

    async def rest() -> None:
        return None

    monkeypatch.setattr(service.parts.runtime.operations.queue_watch, "run_once", rest)
    return Watched(service)


def alerts(ops: Api, status: str = "OPEN") -> list[Json]:
    return done(ops.get(f"/incidents?kind=NO_WORKER&status={status}"))["items"]


def test_a_queue_that_nobody_serves_is_an_incident_until_somebody_polls(ops: Api, v1: Api, watch: Watched) -> None:
    start_jobs(v1, JOBS, "fax")
    watch.look()
    watch.look(after_us=MINUTE_US - 1_000_000)
    assert alerts(ops) == []
    assert done(ops.get("/queues/JOB_TYPE/fax"))["depth"] == JOBS
    assert done(ops.get("/queues/JOB_TYPE/fax"))["since"] is not None
    watch.look(after_us=1_000_000)
    watch.look(after_us=MINUTE_US)
    [alert] = alerts(ops)
    assert (alert["subject"]["kind"], alert["subject"]["id"], alert["occurrences"]) == ("QUEUE", "JOB_TYPE/fax", 1)
    refused(ops.post(f"/incidents/{alert['id']}/retry"), 409, "INCIDENT_NOT_RETRYABLE")
    assert len(polled(v1, "fax", worker="w-1", maxJobs=1)) == 1
    watch.look()
    [closed] = alerts(ops, "RESOLVED")
    assert (closed["id"], closed["resolution"]["how"]) == (alert["id"], "SUCCEEDED")
    assert done(ops.get("/queues/JOB_TYPE/fax"))["since"] is None


def test_two_nodes_raise_an_alert_once(service: RunningService, ops: Api, v1: Api, watch: Watched) -> None:
    start_jobs(v1, 1, "fax")
    other = Watched(service)
    for each in (watch, other):
        each.look()
        each.look(after_us=MINUTE_US)
    [alert] = alerts(ops)
    assert alert["occurrences"] == 1


def test_an_alert_ends_with_its_queue_and_suspended_queues_have_none(
    service: RunningService, tenant: str, ops: Api, v1: Api, watch: Watched
) -> None:
    uploaded(v1, definition("errand", step("work", "SERVICE_TASK", "end", jobType="fax")))
    instance = started(v1, "errand")["id"]
    target = {"scope": "JOB_TYPE", "name": "fax", "reason": "no paper"}
    suspension = ops.post("/suspensions", target).json()
    watch.look()
    watch.look(after_us=MINUTE_US)
    assert (alerts(ops), done(ops.get("/queues/JOB_TYPE/fax"))["suspended"]) == ([], True)
    done(ops.post(f"/suspensions/{suspension['id']}/resume", {}))
    watch.look()
    watch.look(after_us=MINUTE_US)
    assert len(alerts(ops)) == 1
    done(v1.post(f"/v1/instances/{instance}/cancel"))
    watch.look()
    assert [each["resolution"]["how"] for each in alerts(ops, "RESOLVED")] == ["GONE"]


def test_a_worker_that_polls_in_vain_is_listed_and_serves_its_queue(
    service: RunningService, tenant: str, ops: Api, v1: Api
) -> None:
    assert polled(v1, "mail", worker="w-1") == []
    [worker] = done(ops.get("/members"))["items"]
    assert (worker["id"], worker["kind"], worker["jobTypes"], worker["inFlight"]) == ("w-1", "POLL", ["mail"], 0)
    assert worker["node"] == service.parts.node.id
    assert done(ops.get("/queues/JOB_TYPE/mail"))["workers"] == 1


def test_other_nodes_hear_of_workers_that_poll(
    service: RunningService, tenant: str, ops: Api, v1: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled(v1, "mail", worker="w-1")
    presence = service.parts.runtime.operations.presence
    asyncio.run_coroutine_threadsafe(presence.run_once(), service.loop).result(PATIENCE_S)
    polling = service.parts.runtime.processes.hosts.polling_workers
    monkeypatch.setattr(polling, "list_recent", lambda _tenant=None: [])  # as if another node was asked
    assert [each["id"] for each in done(ops.get("/members"))["items"]] == ["w-1"]


def test_callouts_are_queues_of_their_tags(service: RunningService, tenant: str, ops: Api) -> None:
    members: Members = service.parts.members

    async def fill() -> None:
        member = members.join(TenantId(tenant), ["mail", "fast"], member_id="m")
        for name in ("one", "two"):
            callout = replaced(a_callout(name, tags=("mail", "Fast")), tenant=TenantId(tenant))
            member.send(callout)
        await member.outbox.take()  # the greeting
        await member.outbox.take()
        await service.parts.runtime.operations.presence.run_once()

    asyncio.run_coroutine_threadsafe(fill(), service.loop).result(PATIENCE_S)
    try:
        [queue] = done(ops.get("/queues?kind=TAG"))["items"]
        assert (queue["name"], queue["depth"], queue["inFlight"], queue["workers"]) == ("fast,mail", 1, 1, 1)
        assert done(ops.get("/queues/TAG/mail,fast"))["wanted"] == 2
        assert done(ops.get("/queues/TAG/pigeon"))["wanted"] == 0
        assert refused(ops.get("/queues?kind=x"), 400, "BAD_REQUEST")["properties"]["parameter"] == "kind"
    finally:

        async def clear() -> None:
            [member] = members.list_members(TenantId(tenant))
            for pending in tuple(member.pending_callouts):
                member.cancel(pending)
            members.leave(member)

        asyncio.run_coroutine_threadsafe(clear(), service.loop).result(PATIENCE_S)


def test_a_name_of_any_length_keeps_no_node_from_telling_what_waits(
    service: RunningService, tenant: str, ops: Api
) -> None:
    members: Members = service.parts.members
    tags = sorted(sha256(bytes([number])).hexdigest() for number in range(200))

    async def fill() -> None:
        member = members.join(TenantId(tenant), tags, member_id="m")
        member.send(replaced(a_callout("one", tags=tuple(tags)), tenant=TenantId(tenant)))
        try:
            await service.parts.runtime.operations.presence.run_once()
        finally:
            [pending] = member.pending_callouts
            member.cancel(pending)
            members.leave(member)

    asyncio.run_coroutine_threadsafe(fill(), service.loop).result(PATIENCE_S)
    [queue] = done(ops.get("/queues?kind=TAG"))["items"]
    assert (queue["name"], queue["depth"]) == (",".join(tags)[:512], 1)


def test_the_command_looks_again_until_it_is_interrupted(
    service: RunningService, tenant: str, v1: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_jobs(v1, 1, "fax")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=sleep))
    told = CommandRunner().invoke(
        program, ["ops", "queues", "--watch", "--url", service.root, "--token", a_token(tenant)]
    )
    assert (told.output.count("fax"), len(pauses)) == (2, 2)
