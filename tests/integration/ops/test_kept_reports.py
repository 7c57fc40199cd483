"""Reports on jobs that are suspended are accepted, kept, and applied when the suspension ends
(docs/reference/operations.md#suspensions).
"""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.struct_pb2 import Struct

from statewright.net import ulid_to_uuid
from tests.builders import Json
from tests.integration.flows.conftest import Flows, done
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.integration.playbooks.conftest import Playbooks
from tests.integration.steps_grpc.engine import engine_of
from tests.service import PATIENCE_S, Api, RunningService, a_token, eventually, hosted

MAILING: Json = {
    "id": "mailing",
    "name": "mailing",
    "steps": [
        {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": "mail", "retryCount": 1, "nextStep": "b"},
        {"id": "b", "name": "b", "type": "SERVICE_TASK", "jobType": "post", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ],
}


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_ADMIN", user="olga")


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    return steps_of(service, api)


def steps_of(service: RunningService, api: Api) -> Api:
    v1 = replace(api, url=f"{service.root}/v1")
    assert v1.post("/definitions", MAILING).is_success
    return v1


def suspend(ops: Api, scope: str, **target: Json) -> str:
    return str(done(ops.post("/suspensions", {"scope": scope, "reason": "bank is down", **target}), 201)["id"])


def resume(ops: Api, id_: str) -> None:
    done(ops.post(f"/suspensions/{id_}/resume", {}))


def start(v1: Api) -> str:
    return str(done(v1.post("/instances", {"definitionId": "mailing"}), 201)["id"])


def poll(v1: Api, job_type: str = "mail") -> list[Json]:
    found: list[Json] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": [job_type]}).json()["jobs"]
    return found


def complete(v1: Api, job: Json, **variables: Json) -> int:
    body = {"workerId": "w", "variables": variables}
    return int(v1.post(f"/jobs/{job['id']}/complete", body).status_code)


def fail(v1: Api, job: Json, *, retryable: bool = False) -> int:
    body = {"workerId": "w", "errorMessage": "no stamp", "retryable": retryable}
    return int(v1.post(f"/jobs/{job['id']}/fail", body).status_code)


def count_versions(api: Api, instance: str) -> int:
    return len(done(api.get(f"/entity/{ulid_to_uuid(instance)}/changes")))


def list_places(ops: Api, instance: str) -> list[tuple[str, str | None]]:
    tokens = done(ops.get(f"/instances/{instance}/explain"))["tokens"]
    return [(token["stepId"], token.get("phase")) for token in tokens]


def find_suspension_of(service: RunningService, job: Json) -> str:
    """Under which one the report on a job is kept."""

    async def run() -> object:
        async with service.parts.runtime.core.pool.connection() as connection:
            return await connection.fetchval(
                "SELECT kept_under FROM process_job WHERE id = $1", str(ulid_to_uuid(job["id"]))
            )

    return str(asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S))


TARGETS: dict[str, Callable[[str], Json]] = {
    "INSTANCE": lambda instance: {"id": instance},
    "ENTITY": lambda instance: {"id": str(ulid_to_uuid(instance))},
    "DEFINITION": lambda _: {"definitionId": "mailing"},
    "JOB_TYPE": lambda _: {"name": "mail"},
    "TENANT": lambda _: {},
}


@pytest.mark.parametrize("scope", TARGETS)
def test_a_result_counts_when_the_suspension_ends_and_once(api: Api, v1: Api, ops: Api, scope: str) -> None:
    instance = start(v1)
    [job] = poll(v1)
    id_ = suspend(ops, scope, **TARGETS[scope](instance))
    assert done(ops.get(f"/suspensions/{id_}"))["underWay"] == (0 if scope == "ENTITY" else 1)
    assert complete(v1, job, sent=1) == 204
    assert complete(v1, job, sent=2) == 204
    assert fail(v1, job) == 204
    assert done(ops.get(f"/suspensions/{id_}"))["underWay"] == 0
    assert (count_versions(api, instance), list_places(ops, instance)) == (1, [("a", "REPORTED")])
    queue = done(ops.get("/queues/JOB_TYPE/mail"))
    assert (queue["depth"], queue["inFlight"], queue["delayed"], queue["held"]) == (0, 0, 0, 1)
    resume(ops, id_)
    eventually(lambda: list_places(ops, instance) == [("b", "QUEUED")])
    assert count_versions(api, instance) == 2
    [following] = poll(v1, "post")
    assert following["variables"]["sent"] == 1
    assert len({change["user"] for change in done(api.get(f"/entity/{ulid_to_uuid(instance)}/changes"))}) == 1
    assert complete(v1, following) == 204
    assert done(v1.get(f"/instances/{instance}"))["status"] == "COMPLETED"


def test_a_failure_uses_up_a_retry_and_the_last_one_waits(api: Api, v1: Api, ops: Api) -> None:
    instance = start(v1)
    [job] = poll(v1)
    first = suspend(ops, "INSTANCE", id=instance)
    assert fail(v1, job, retryable=True) == 204
    assert poll(v1) == []
    resume(ops, first)
    [job] = poll(v1)
    assert job["retriesRemaining"] == 0
    second = suspend(ops, "INSTANCE", id=instance)
    assert fail(v1, job, retryable=True) == 204
    assert count_versions(api, instance) == 1
    assert done(ops.get(f"/incidents?instanceId={ulid_to_uuid(instance)}"))["items"] == []
    resume(ops, second)
    eventually(lambda: done(v1.get(f"/instances/{instance}"))["status"] == "FAILED")
    [incident] = done(ops.get(f"/incidents?instanceId={ulid_to_uuid(instance)}"))["items"]
    assert (incident["kind"], incident["message"]) == ("JOB_FAILED", "no stamp")


def test_leases_are_renewed_and_jobs_given_back(v1: Api, ops: Api) -> None:
    instance = start(v1)
    [job] = poll(v1)
    id_ = suspend(ops, "INSTANCE", id=instance)
    assert v1.post(f"/jobs/{job['id']}/renew", {"workerId": "w", "leaseSeconds": 30}).is_success
    assert v1.post(f"/jobs/{job['id']}/release", {"workerId": "w"}).is_success
    assert poll(v1) == []
    assert list_places(ops, instance) == [("a", "QUEUED")]
    resume(ops, id_)
    assert len(poll(v1)) == 1


def test_what_is_reported_cannot_be_renewed_or_given_back(v1: Api, ops: Api) -> None:
    """Not by a worker without a name either, whose jobs are told apart by nothing."""
    instance = start(v1)
    [job] = poll(v1)
    suspend(ops, "INSTANCE", id=instance)
    assert complete(v1, job) == 204
    for worker in ("w", ""):
        v1.post(f"/jobs/{job['id']}/renew", {"workerId": worker, "leaseSeconds": 30})
        v1.post(f"/jobs/{job['id']}/release", {"workerId": worker})
        assert list_places(ops, instance) == [("a", "REPORTED")]


def test_a_result_waits_for_the_last_of_several_suspensions(
    service: RunningService, api: Api, v1: Api, ops: Api
) -> None:
    instance = start(v1)
    [job] = poll(v1)
    narrow, wide = suspend(ops, "JOB_TYPE", name="mail"), suspend(ops, "DEFINITION", definitionId="mailing")
    assert complete(v1, job) == 204
    resume(ops, narrow)
    eventually(lambda: find_suspension_of(service, job) == wide)
    assert list_places(ops, instance) == [("a", "REPORTED")]
    resume(ops, wide)
    eventually(lambda: list_places(ops, instance) == [("b", "QUEUED")])
    assert count_versions(api, instance) == 2


def test_a_suspended_instance_can_be_cancelled_with_its_reports(v1: Api, ops: Api) -> None:
    instance = start(v1)
    [job] = poll(v1)
    id_ = suspend(ops, "INSTANCE", id=instance)
    assert complete(v1, job) == 204
    assert v1.post(f"/instances/{instance}/cancel", {}).is_success
    resume(ops, id_)
    assert done(v1.get(f"/instances/{instance}"))["status"] == "CANCELLED"
    assert done(ops.get("/queues/JOB_TYPE/mail"))["held"] == 0


def test_a_repeated_report_with_a_key_is_answered_as_the_first(api: Api, v1: Api, ops: Api) -> None:
    instance = start(v1)
    [job] = poll(v1)
    id_ = suspend(ops, "INSTANCE", id=instance)
    path, keyed = f"/jobs/{job['id']}/complete", {"Idempotency-Key": "once"}
    first, again = (v1.post(path, {"workerId": "w"}, **keyed) for _ in range(2))
    assert (first.status_code, again.status_code) == (204, 204)
    assert again.headers["Idempotency-Replayed"] == "true"
    resume(ops, id_)
    eventually(lambda: list_places(ops, instance) == [("b", "QUEUED")])
    assert count_versions(api, instance) == 2


def test_reports_over_grpc_wait_alike(service: RunningService, tenant: str, v1: Api, ops: Api) -> None:
    done_one, failed_one = start(v1), start(v1)
    with engine_of(service, a_token(tenant)) as engine:
        jobs = engine("PollJobs", worker_id="w", job_types=["mail"], max_jobs=2).jobs
        id_ = suspend(ops, "DEFINITION", definitionId="mailing")
        sent = Struct()
        sent.update({"sent": 1})
        engine("CompleteJob", job_id=jobs[0].id, worker_id="w", variables_to_set=sent)
        engine("FailJob", job_id=jobs[1].id, worker_id="w", error_message="no stamp")
        assert not engine("PollJobs", worker_id="w", job_types=["mail", "post"], max_jobs=2).jobs
        for instance in (done_one, failed_one):
            assert list_places(ops, instance) == [("a", "REPORTED")]
        resume(ops, id_)
        eventually(lambda: list_places(ops, done_one) == [("b", "QUEUED")])
        eventually(lambda: done(v1.get(f"/instances/{failed_one}"))["status"] == "FAILED")


def test_what_a_member_answers_waits_alike(service: RunningService, tenant: str, v1: Api, ops: Api) -> None:
    """A job that was pushed over its stream."""
    with a_node(service, tenant, "mail") as node:
        instance = start(v1)
        request = node.next()
        id_ = suspend(ops, "INSTANCE", id=instance)
        node.answer(request, payload={"type": "JSON", "data": {"sent": 1}})
        eventually(lambda: list_places(ops, instance) == [("a", "REPORTED")])
        resume(ops, id_)
        eventually(lambda: list_places(ops, instance) == [("b", "QUEUED")])
        assert node.is_idle


def test_results_of_flows_wait_alike(service: RunningService, tenant: str, ops: Api) -> None:
    flows = Flows(Api(service.root, a_token(tenant)))
    instance = flows.run("load → * price")
    first = flows.job("load")
    id_ = suspend(ops, "INSTANCE", id=instance["id"])
    flows.complete(first, [1, 2])
    assert [phase for _, phase in list_places(ops, instance["id"])] == ["REPORTED"]
    assert flows.poll("price") == []
    resume(ops, id_)
    eventually(lambda: len(flows.poll("price")) == 2)


PLAYBOOK = (
    "workflow:\n- {step: work, tool: {kind: long}, next: {arcs: [{step: act}]}}\n- {step: act, tool: {kind: compute}}\n"
)


def test_results_and_reports_of_playbooks_wait_alike(service: RunningService, tenant: str, ops: Api) -> None:
    """What a run reports before its end comes with its result; a result that is none is refused at once."""
    playbooks = Playbooks(Api(service.root, a_token(tenant)))
    execution = playbooks.run(PLAYBOOK)
    [job] = playbooks.poll("long")
    id_ = suspend(ops, "INSTANCE", id=execution["id"])
    patches: Json = [{"path": ["seen"], "value": 1, "at": 0}]
    body = {"workerId": playbooks.worker, "progress": {"patches": patches, "log": []}}
    assert done(playbooks.api.post(f"/v1/jobs/{job['id']}/progress", body)) == {"patches": 0, "log": 0}
    nonsense = {"workerId": playbooks.worker, "variables": {"status": "maybe"}}
    assert playbooks.api.post(f"/v1/jobs/{job['id']}/complete", nonsense).status_code == 400
    playbooks.complete(job, {"status": "ok", "patches": patches, "log": [], "logged": 0})
    assert playbooks.poll() == []
    assert "seen" not in playbooks.read(execution)["ctx"]
    resume(ops, id_)
    eventually(lambda: playbooks.read(execution)["ctx"].get("seen") == 1)
    assert len(playbooks.poll()) == 1


def test_an_instance_hears_of_the_end_of_another_when_its_suspension_ends(
    service: RunningService, tenant: str, ops: Api
) -> None:
    playbooks = Playbooks(Api(service.root, a_token(tenant)))
    path = playbooks.upload(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child}\n"
        "workflow: [{step: work, tool: {kind: compute}}]"
    )
    parent = playbooks.run(
        f"workflow: [{{step: all, tool: {{kind: playbook, path: {path}}}, next: {{arcs: [{{step: act}}]}}}},"
        " {step: act, tool: {kind: long}}]"
    )
    eventually(lambda: done(ops.get("/queues/JOB_TYPE/playbook:compute"))["depth"] == 1)
    id_ = suspend(ops, "INSTANCE", id=parent["id"])
    versions = count_versions(replace(ops, url=f"{service.root}/api"), parent["id"])
    assert playbooks.work() == 1
    assert playbooks.poll("long") == []
    assert count_versions(replace(ops, url=f"{service.root}/api"), parent["id"]) == versions
    resume(ops, id_)
    eventually(lambda: len(playbooks.poll("long")) == 1)


def test_no_client_changes_a_suspended_flow_or_playbook(service: RunningService, tenant: str, ops: Api) -> None:
    """By no way: neither its own resources, nor transitions of its entity, nor an event that it waits for."""
    api = Api(service.root, a_token(tenant))
    flows, playbooks = Flows(api), Playbooks(api)
    flow, execution = flows.run("load"), playbooks.run(PLAYBOOK)
    waiting = flows.run("wait:event (- event: paid -)")
    for instance in (flow, execution, waiting):
        suspend(ops, "INSTANCE", id=instance["id"])
    for path, body in (
        (f"/v1/flows/instances/{flow['id']}/restart", {}),
        (f"/v1/executions/{execution['id']}/evaluate", {}),
        (f"/v1/executions/{execution['id']}/restart", {}),
        ("/v1/flows/events", {"event": "paid"}),
    ):
        answer = api.post(path, body)
        assert (answer.status_code, "SUSPENDED" in answer.text) == (409, True), (path, answer.text)
    for path in (f"/v1/flows/instances/{flow['id']}/cancel", f"/v1/executions/{execution['id']}/cancel"):
        assert api.post(path, {}).is_success, path


def test_reports_outlive_the_node_that_kept_them(database: str) -> None:
    """Nobody is there when one suspension is over, and the next node ends the other."""
    with hosted(nullcontext(database)) as first:
        v1, ops = steps_of(first, first.api("t")), ops_api(first, "t", "ROLE_ADMIN")
        by_hand, by_clock = start(v1), start(v1)
        jobs = {job["instanceId"]: job for _ in range(2) for job in poll(v1)}
        id_ = suspend(ops, "INSTANCE", id=by_hand)
        soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        suspend(ops, "INSTANCE", id=by_clock, until=soon)
        for instance in (by_hand, by_clock):
            assert complete(v1, jobs[instance], sent=1) == 204
            assert list_places(ops, instance) == [("a", "REPORTED")]
    with hosted(nullcontext(database)) as second:
        ops = ops_api(second, "t", "ROLE_ADMIN")
        eventually(lambda: list_places(ops, by_clock) == [("b", "QUEUED")])
        assert list_places(ops, by_hand) == [("a", "REPORTED")]
        resume(ops, id_)
        eventually(lambda: list_places(ops, by_hand) == [("b", "QUEUED")])
        assert [count_versions(second.api("t"), one) for one in (by_hand, by_clock)] == [2, 2]
