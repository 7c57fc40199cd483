"""Jobs over REST: what workers meet (docs/reference/steps.md#jobs, docs/reference/steps.md#workers,
docs/reference/steps.md#when-a-job-fails).
"""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from threading import Barrier
from urllib.parse import urlsplit

import pytest

from tests.integration.steps_http.conftest import an_error, definition, done, polled, started, step, uploaded
from tests.service import Api, RunningService, eventually

ULID = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
WORK = definition("work", step("do", "SERVICE_TASK", "end", jobType="do", retryCount=1))


@pytest.fixture
def instance(v1: Api) -> str:
    """An instance with one job of type ``do``."""
    uploaded(v1, WORK)
    return str(started(v1, "work", variables={"name": "Ada", "n": 9007199254740993})["id"])


def status(v1: Api, instance: str) -> str:
    return str(done(v1.get(f"/v1/instances/{instance}"))["status"])


def test_a_job_has_the_members_that_clients_read(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do", leaseSeconds=45)
    members = "id instanceId stepId stepExecutionId jobType status workerId lockedAt lockExpiresAt retriesRemaining"
    assert set(job) == {*members.split(), "variables", "createdAt"}
    assert (job["instanceId"], job["stepId"], job["jobType"], job["status"]) == (instance, "do", "do", "LOCKED")
    assert (job["workerId"], job["retriesRemaining"]) == ("w-1", 1)
    assert job["variables"] == {"name": "Ada", "n": 9007199254740993}
    locked, expires = (datetime.fromisoformat(job[name]) for name in ("lockedAt", "lockExpiresAt"))
    assert (expires - locked).total_seconds() == 45


@pytest.mark.parametrize(("declared", "retries"), [(2**31, 2**31 - 1), (2**63 - 1, 2**31 - 1), (-(2**63), 0)])
def test_a_job_has_no_more_retries_than_it_can_count(v1: Api, declared: int, retries: int) -> None:
    uploaded(v1, definition("work", step("do", "SERVICE_TASK", "end", jobType="do", retryCount=declared)))
    started(v1, "work")
    assert [job["retriesRemaining"] for job in polled(v1, "do")] == [retries]


@pytest.mark.parametrize(("asked", "given"), [(0, 30), (1, 5), (99999, 3600), (-1, 5)])
def test_a_lease_is_brought_into_range(v1: Api, instance: str, asked: int, given: int) -> None:
    [job] = polled(v1, "do", leaseSeconds=asked)
    locked, expires = (datetime.fromisoformat(job[name]) for name in ("lockedAt", "lockExpiresAt"))
    assert (expires - locked).total_seconds() == given
    assert job["instanceId"] == instance


def test_a_poll_without_a_wait_is_answered_at_once(v1: Api) -> None:
    assert polled(v1, "nothing") == []


def test_the_oldest_jobs_of_any_type_come_first_up_to_the_batch(v1: Api) -> None:
    other = definition("other", step("x", "SERVICE_TASK", "end", jobType="other"))
    uploaded(v1, WORK, other)
    made = [started(v1, name)["id"] for name in ("work", "other", "work", "other")]
    assert [job["instanceId"] for job in polled(v1, "do", "other", maxJobs=3)] == made[:3]
    assert [job["instanceId"] for job in polled(v1, "do", "other")] == made[3:]


def test_two_workers_never_get_the_same_job(v1: Api) -> None:
    uploaded(v1, WORK)
    made = sorted(started(v1, "work")["id"] for _ in range(12))
    together = Barrier(4)

    def work(number: int) -> list[str]:
        together.wait()
        claimed = []
        while jobs := polled(v1, "do", worker=f"w-{number}", maxJobs=2):
            claimed += [job["instanceId"] for job in jobs]
        return claimed

    with ThreadPoolExecutor(4) as pool:
        claimed = [instance for mine in pool.map(work, range(4)) for instance in mine]
    assert sorted(claimed) == made


def test_one_job_that_two_workers_race_for_is_had_by_one(v1: Api, instance: str) -> None:
    together = Barrier(2)

    def poll(number: int) -> int:
        together.wait()
        return len(polled(v1, "do", worker=f"w-{number}"))

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(poll, range(2))) == [0, 1]
    assert status(v1, instance) == "ACTIVE"


def test_a_result_is_merged_deeply_and_the_instance_goes_on(v1: Api) -> None:
    uploaded(v1, WORK)
    instance = started(v1, "work", variables={"order": {"id": 1, "paid": False}})["id"]
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1", "variables": {"order": {"paid": True}}}), 204)
    after = done(v1.get(f"/v1/instances/{instance}"))
    assert (after["status"], after["variables"]) == ("COMPLETED", {"order": {"id": 1, "paid": True}})


@pytest.mark.parametrize("body", ["{}", '{"variables": null}', '{"variables": {}}', "null"])
def test_a_result_may_set_nothing(v1: Api, instance: str, body: str) -> None:
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/complete", body), 204)
    assert status(v1, instance) == "COMPLETED"


def test_late_and_repeated_reports_are_accepted_without_effect(v1: Api, instance: str) -> None:
    """Decision J6: real workers die from a refusal here."""
    [job] = polled(v1, "do")
    for variables in ({"first": 1}, {"second": 2}):
        done(v1.post(f"/v1/jobs/{job['id']}/complete", {"variables": variables}), 204)
    done(v1.post(f"/v1/jobs/{job['id']}/fail", {"errorMessage": "late", "retryable": True}), 204)
    after = done(v1.get(f"/v1/instances/{instance}"))
    assert (after["status"], after["variables"]["first"], after["variables"].get("second")) == ("COMPLETED", 1, None)


def test_a_retryable_failure_makes_the_job_claimable_again_while_it_has_retries(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do")
    report = {"workerId": "w-1", "errorMessage": "no voice", "retryable": True}
    done(v1.post(f"/v1/jobs/{job['id']}/fail", report), 204)
    [again] = polled(v1, "do")
    assert (again["id"], again["retriesRemaining"]) == (job["id"], 0)
    done(v1.post(f"/v1/jobs/{job['id']}/fail", report), 204)
    failed = done(v1.get(f"/v1/instances/{instance}"))
    assert (failed["status"], failed["failureReason"]) == ("FAILED", "no voice")
    assert polled(v1, "do") == []


def test_a_failure_that_does_not_say_so_is_not_tried_again(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/fail", {"errorMessage": ""}), 204)
    assert done(v1.get(f"/v1/instances/{instance}"))["failureReason"] == "job failed"


def test_of_a_very_long_reason_the_beginning_is_kept(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/fail", {"errorMessage": "no voice " * 100_000}), 204)
    reason = done(v1.get(f"/v1/instances/{instance}"))["failureReason"]
    assert len(reason) == 65_536
    assert reason.startswith("no voice no voice ")
    assert reason.endswith("…")


@pytest.mark.parametrize("call", ["complete", "fail", "renew"])
@pytest.mark.parametrize("id_", [ULID, "x", "%00"])
def test_an_unknown_job_is_not_found(v1: Api, call: str, id_: str) -> None:
    reason = an_error(v1.post(f"/v1/jobs/{id_}/{call}", {"workerId": "w"}), 404, "not-found")
    assert reason.startswith("job ")
    assert reason.endswith("not found")


def test_a_lease_is_renewed_by_its_worker_alone(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do")
    beat = done(v1.post(f"/v1/jobs/{job['id']}/heartbeat", {"workerId": "w-1", "leaseSeconds": 0}))
    assert list(beat) == ["accepted", "lockExpiresAt"]
    assert beat["accepted"] is True
    an_error(v1.post(f"/v1/jobs/{job['id']}/heartbeat", {"workerId": "w-2"}), 409, "conflict")
    renewed = done(v1.post(f"/v1/jobs/{job['id']}/renew", {"workerId": "w-1", "leaseSeconds": 600}))
    assert renewed["lockExpiresAt"] > beat["lockExpiresAt"]
    assert list(renewed) == ["lockExpiresAt"]
    assert renewed["lockExpiresAt"] > job["lockExpiresAt"]
    an_error(v1.post(f"/v1/jobs/{job['id']}/renew", {"workerId": "w-2"}), 409, "conflict")
    done(v1.post(f"/v1/jobs/{job['id']}/complete", "{}"), 204)
    an_error(v1.post(f"/v1/jobs/{job['id']}/renew", {"workerId": "w-1"}), 409, "conflict")
    assert status(v1, instance) == "COMPLETED"


def test_a_job_that_is_released_can_be_claimed_at_once_with_all_its_retries(v1: Api, instance: str) -> None:
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/release", {"workerId": "w-2"}), 204)
    assert polled(v1, "do") == []
    done(v1.post(f"/v1/jobs/{job['id']}/release", {"workerId": "w-1"}), 204)
    [again] = polled(v1, "do", worker="w-2")
    assert (again["id"], again["retriesRemaining"], again["instanceId"]) == (job["id"], 1, instance)


def test_a_poll_that_waits_is_answered_when_a_job_comes(service: RunningService, v1: Api) -> None:
    uploaded(v1, WORK)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(polled, v1, "do", waitSeconds=15)
        eventually(lambda: waiters(service) == 1)
        made = started(v1, "work")["id"]
        [job] = waiting.result(30)
    assert job["instanceId"] == made


def test_of_two_polls_that_wait_one_gets_the_job_and_the_other_the_next(service: RunningService, v1: Api) -> None:
    uploaded(v1, WORK)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(polled, v1, "do", worker=f"w-{n}", waitSeconds=15, maxJobs=1) for n in range(2)]
        eventually(lambda: waiters(service) == 2)
        made = [started(v1, "work")["id"] for _ in range(2)]
        claimed = [job["instanceId"] for future in waiting for job in future.result(30)]
    assert sorted(claimed) == sorted(made)


def test_a_wait_that_is_in_vain_ends_with_no_jobs(v1: Api) -> None:
    assert polled(v1, "never", waitSeconds=1) == []


def test_a_client_that_goes_away_while_it_waits_takes_no_job_with_it(service: RunningService, v1: Api) -> None:
    uploaded(v1, WORK)
    with a_poll(v1, "do", waitSeconds=50):
        eventually(lambda: waiters(service) == 1)
    eventually(lambda: waiters(service) == 0)
    made = started(v1, "work")["id"]
    assert [job["instanceId"] for job in polled(v1, "do", worker="w-2", waitSeconds=10)] == [made]


def test_a_job_that_comes_right_after_a_client_has_gone_is_not_taken_for_it(service: RunningService, v1: Api) -> None:
    """As workers do that are started anew: the next one would wait for the lease of the last one to end."""
    uploaded(v1, WORK)
    with a_poll(v1, "do", waitSeconds=50):
        eventually(lambda: waiters(service) == 1)
    made = started(v1, "work")["id"]
    assert [job["instanceId"] for job in polled(v1, "do", worker="w-2", waitSeconds=10)] == [made]


def test_giving_back_an_unknown_job_changes_nothing(v1: Api) -> None:
    done(v1.post(f"/v1/jobs/{ULID}/release", {"workerId": "w"}), 204)


def waiters(service: RunningService) -> int:
    """How many polls wait in the shared service; tests of one process run one after the other."""
    waiting = service.parts.runtime.processes.hosts.wakeups._waiting
    return len({event for events in waiting.values() for event in events})


@contextmanager
def a_poll(v1: Api, type_: str, **members: int) -> Iterator[None]:
    """A poll on a connection of its own, which is cut at the end of the block."""
    body = json.dumps({"workerId": "gone", "jobTypes": [type_], **members}).encode()
    head = f"POST /v1/jobs/poll HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {v1.token}\r\n"
    with socket.create_connection((urlsplit(v1.url).hostname, urlsplit(v1.url).port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        yield
