"""Asynchronous searches over HTTP (docs/reference/search.md#asynchronous-search,
docs/reference/search.md#error-codes-of-searches, docs/reference/search.md#paths-for-older-clients).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from tests.builders import Json
from tests.database import Template, connected
from tests.integration.search.finding import (
    EVERYTHING,
    PARCEL,
    a_parcel_model,
    asked,
    lifecycle,
    parcels,
    simple,
)
from tests.service import PATIENCE_S, Api, RunningService, done, hosted, refused, wait_for

PATTERN = simple("$.name", "MATCHES_PATTERN", ".*")
"""Of what SQL cannot judge alone."""

SUBMIT = "/search/async/parcel/1"


@pytest.fixture
def parcel_api(api: Api) -> Api:
    """A caller whose tenant has a model of parcels."""
    a_parcel_model(api)
    return api


def submitted(api: Api, condition: Json = EVERYTHING, **query: Json) -> str:
    """The id of a new job."""
    return str(done(asked(api, condition, path=SUBMIT, **query)))


def status_of(api: Api, job: str) -> Json:
    return done(api.get(f"/search/async/{job}/status"))


def ended(api: Api, job: str) -> Json:
    """The status object of a job once it does not run any more."""
    return wait_for(lambda: status_of(api, job), lambda status: status["searchJobStatus"] != "RUNNING")


def page(api: Api, job: str, query: str = "") -> Json:
    return done(api.get(f"/search/async/{job}{query}"))


def names(page: Json) -> list[str]:
    return [envelope["data"]["name"] for envelope in page["content"]]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("condition", [EVERYTHING, PATTERN])
def test_a_job_runs_to_its_end_and_keeps_what_it_found(parcel_api: Api, condition: Json) -> None:
    ids = [saved.id for saved in parcels(parcel_api, *[{} for _ in range(3)])]
    job = submitted(parcel_api, condition)
    assert UUID(job).version == 1
    status = ended(parcel_api, job)
    assert set(status) == {
        *("searchJobStatus", "createTime", "finishTime", "entitiesCount", "calculationTimeMillis", "expirationDate")
    }
    assert (status["searchJobStatus"], status["entitiesCount"]) == ("SUCCESSFUL", 3)
    took = moment(status["finishTime"]) - moment(status["createTime"])
    assert status["calculationTimeMillis"] == took // timedelta(milliseconds=1)
    assert moment(status["expirationDate"]) - moment(status["createTime"]) == timedelta(hours=24)
    found = page(parcel_api, job)
    assert [envelope["meta"]["id"] for envelope in found["content"]] == sorted(ids)
    assert found["page"] == {"number": 0, "size": 1000, "totalElements": 3, "totalPages": 1}
    assert found["content"][0] == parcel_api.read(min(ids))


def test_the_id_is_a_bare_json_string(parcel_api: Api) -> None:
    response = asked(parcel_api, EVERYTHING, path=SUBMIT)
    assert response.headers["content-type"] == "application/json"
    assert response.text.strip() == f'"{response.json()}"'


def test_there_is_no_limit_and_nothing_found_is_a_success(parcel_api: Api) -> None:
    parcels(parcel_api, {})
    job = submitted(parcel_api, simple("$.name", "EQUALS", "z"), limit="none")
    assert ended(parcel_api, job)["entitiesCount"] == 0
    assert page(parcel_api, job) == {
        "content": [],
        "page": {"number": 0, "size": 1000, "totalElements": 0, "totalPages": 0},
    }


@pytest.mark.parametrize("condition", [EVERYTHING, PATTERN])
def test_pages_are_slices_of_the_sorted_whole(parcel_api: Api, condition: Json) -> None:
    parcels(
        parcel_api, *[{"name": name, "weight": weight} for name, weight in zip("edcba", [5, 40, 3, 2, 1], strict=True)]
    )
    job = submitted(parcel_api, condition, sort=["weight:desc"])
    ended(parcel_api, job)
    assert names(page(parcel_api, job)) == list("decba")
    assert names(page(parcel_api, job, "?pageSize=2")) == ["d", "e"]
    last = page(parcel_api, job, "?pageSize=2&pageNumber=2")
    assert (names(last), last["page"]) == (["a"], {"number": 2, "size": 2, "totalElements": 5, "totalPages": 3})
    beyond = page(parcel_api, job, "?pageSize=2&pageNumber=3")
    assert (beyond["content"], beyond["page"]["totalElements"]) == ([], 5)
    assert page(parcel_api, job, "?pageSize=0")["page"]["size"] == 1000
    assert page(parcel_api, job, "?pageSize=-7&pageNumber=214748")["content"] == []


def test_results_do_not_change_with_the_entities(parcel_api: Api) -> None:
    first, second = parcels(parcel_api, {"name": "a"}, {"name": "b"})
    job = submitted(parcel_api, sort="name")
    ended(parcel_api, job)
    before = page(parcel_api, job)
    parcel_api.update(first.id, {**PARCEL, "name": "z"})
    done(parcel_api.delete(f"/entity/{second.id}"))
    parcels(parcel_api, {"name": "c"})
    assert page(parcel_api, job) == before


def test_results_outlive_their_model(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {"name": "a"})
    job = submitted(parcel_api)
    ended(parcel_api, job)
    before = page(parcel_api, job)
    done(parcel_api.delete(f"/entity/{saved.id}"))
    done(parcel_api.put("/model/parcel/1/unlock"))
    done(parcel_api.delete("/model/parcel/1"))
    assert page(parcel_api, job) == before


def test_a_job_looks_at_the_instant_it_is_told(parcel_api: Api) -> None:
    [first] = parcels(parcel_api, {"name": "a"})
    then = parcel_api.read(first.id)["meta"]["lastUpdateTime"]
    parcel_api.update(first.id, {**PARCEL, "name": "a2"})
    parcels(parcel_api, {"name": "b"})
    for condition in (EVERYTHING, PATTERN):
        job = submitted(parcel_api, condition, pointInTime=then)
        assert ended(parcel_api, job)["entitiesCount"] == 1
        assert names(page(parcel_api, job)) == ["a"]


@pytest.mark.parametrize(
    ("condition", "query", "code"),
    [
        ("{", {}, "BAD_REQUEST"),
        (EVERYTHING, {"pointInTime": "soon"}, "BAD_REQUEST"),
        (EVERYTHING, {"sort": "name:up"}, "INVALID_FIELD_PATH"),
        (EVERYTHING, {"sort": "free"}, "INVALID_FIELD_PATH"),
        (simple("$.name", "IN"), {}, "BAD_REQUEST"),
        (simple("$.colour", "IS_NULL"), {}, "INVALID_FIELD_PATH"),
        (simple("$.weight", "EQUALS", "x"), {}, "CONDITION_TYPE_MISMATCH"),
        (simple("$.name", "MATCHES_PATTERN", "("), {}, "INVALID_CONDITION"),
    ],
)
async def test_what_is_wrong_is_said_at_once_and_there_is_no_job(
    service: RunningService, tenant: str, parcel_api: Api, condition: Json, query: Json, code: str
) -> None:
    refused(asked(parcel_api, condition, path=SUBMIT, **query), 400, code)
    async with connected(service.database) as connection:
        assert await connection.fetchval("SELECT count(*) FROM search_job WHERE tenant = $1", tenant) == 0


def test_an_unknown_model_is_not_found(parcel_api: Api) -> None:
    refused(asked(parcel_api, EVERYTHING, path="/search/async/parcel/2"), 404, "MODEL_NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/status"), ("GET", ""), ("PUT", "/cancel"), ("GET", "/failure")],
)
def test_a_job_of_nobody_and_one_of_somebody_else_are_equally_unknown(
    service: RunningService, parcel_api: Api, method: str, path: str
) -> None:
    theirs = submitted(parcel_api)
    ended(parcel_api, theirs)
    stranger = service.api(f"tenant-{uuid4().hex[:12]}")
    for job in (str(uuid4()), theirs):
        problem = refused(stranger.request(method, f"/search/async/{job}{path}"), 404, "SEARCH_JOB_NOT_FOUND")
        assert job in problem["detail"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("pageSize=many", "pageSize"),
        ("pageSize=10001", "pageSize exceeds maximum 10000"),
        ("pageNumber=x", "pageNumber"),
        ("pageNumber=-1", "pageNumber"),
        ("pageNumber=214749", "pageNumber exceeds maximum 214748"),
    ],
)
def test_a_page_that_cannot_be_is_refused_before_the_job_is_looked_for(api: Api, query: str, words: str) -> None:
    problem = refused(api.get(f"/search/async/{uuid4()}?{query}"), 400, "BAD_REQUEST")
    assert words in problem["detail"]


def test_an_id_that_is_none_is_refused_by_its_name(api: Api) -> None:
    problem = refused(api.get("/search/async/first/status"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "jobId"


def test_a_finished_job_cannot_be_cancelled(parcel_api: Api) -> None:
    job = submitted(parcel_api)
    ended(parcel_api, job)
    problem = refused(parcel_api.put(f"/search/async/{job}/cancel"), 400, "SEARCH_JOB_ALREADY_TERMINAL")
    assert problem["detail"].endswith(f"snapshot by id={job} is not running. current status=SUCCESSFUL")
    assert problem["properties"]["currentStatus"] == "SUCCESSFUL"
    assert problem["properties"]["snapshotId"] == job


@pytest.fixture(scope="module")
def own_service(database_template: Template) -> Iterator[RunningService]:
    """A service whose tables a test may lock, and whose results live for as long as no test waits."""
    with hosted(database_template.clone(), search_snapshot_ttl=timedelta(seconds=30)) as running:
        yield running


@pytest.fixture
def own_api(own_service: RunningService, tenant: str) -> Api:
    api = own_service.api(tenant)
    a_parcel_model(api)
    return api


async def test_a_running_job_says_so_and_can_be_cancelled(own_service: RunningService, own_api: Api) -> None:
    parcels(own_api, {})
    async with connected(own_service.database) as connection, connection.transaction():
        await connection.execute("LOCK TABLE entity_history IN ACCESS EXCLUSIVE MODE")
        job = submitted(own_api)
        running = status_of(own_api, job)
        assert running.pop("createTime") < running.pop("expirationDate")
        assert running == {"searchJobStatus": "RUNNING", "entitiesCount": 0, "calculationTimeMillis": 0}
        problem = refused(own_api.get(f"/search/async/{job}"), 400, "BAD_REQUEST")
        assert problem["detail"].endswith(f"job {job} is not complete (status: RUNNING)")
        assert done(own_api.put(f"/search/async/{job}/cancel")) == {
            "isCancelled": True,
            "cancelled": True,
            "currentSearchJobStatus": "CANCELLED",
        }
    status = status_of(own_api, job)
    assert (status["searchJobStatus"], status["entitiesCount"]) == ("CANCELLED", 0)
    assert "finishTime" in status
    assert "status: CANCELLED" in refused(own_api.get(f"/search/async/{job}"), 400, "BAD_REQUEST")["detail"]
    refused(own_api.put(f"/search/async/{job}/cancel"), 400, "SEARCH_JOB_ALREADY_TERMINAL")
    assert ended(own_api, submitted(own_api))["entitiesCount"] == 1, "there is room for others again"


SUBMIT_UNSORTABLE = """
    INSERT INTO search_job (tenant, id, model, name, version, condition, sort, instant, status, created_at)
    SELECT tenant, $2, id, name, version, '{"type": "group", "operator": "AND"}', '[{"path": "gone"}]', 1, 'RUNNING',
           now_us()
      FROM model
     WHERE tenant = $1
"""
"""A job as it is left when its model has lost a field since its submission."""


async def test_a_failed_job_gives_its_reason_at_a_place_of_its_own(
    own_service: RunningService, own_api: Api, tenant: str
) -> None:
    job = str(uuid4())
    async with connected(own_service.database) as connection:
        await connection.execute(SUBMIT_UNSORTABLE, tenant, job)
    status = ended(own_api, job)
    assert status["searchJobStatus"] == "FAILED"
    assert set(status) == {
        *("searchJobStatus", "createTime", "finishTime", "entitiesCount", "calculationTimeMillis", "expirationDate")
    }
    reason = done(own_api.get(f"/search/async/{job}/failure"))
    assert reason["searchJobStatus"] == "FAILED"
    assert reason["reason"].startswith("INVALID_FIELD_PATH: ")
    refused(own_api.get(f"/search/async/{job}"), 400, "BAD_REQUEST")


def test_a_job_that_did_not_fail_has_no_reason(parcel_api: Api) -> None:
    job = submitted(parcel_api)
    ended(parcel_api, job)
    assert done(parcel_api.get(f"/search/async/{job}/failure")) == {"searchJobStatus": "SUCCESSFUL", "reason": None}


async def test_results_are_gone_when_their_time_is_over_and_a_sweep_removes_them(
    own_service: RunningService, own_api: Api, tenant: str
) -> None:
    parcels(own_api, {})
    old, recent = submitted(own_api), submitted(own_api)
    ended(own_api, old)
    ended(own_api, recent)
    async with connected(own_service.database) as connection:
        await connection.execute("UPDATE search_job SET finished_at = finished_at - 31000000 WHERE id = $1", old)
        for path in ("", "/status", "/failure"):
            refused(own_api.get(f"/search/async/{old}{path}"), 404, "SEARCH_JOB_NOT_FOUND")
        assert names(page(own_api, recent)) == ["a"]
        sweep = own_service.parts.runtime.core.search_runner.reap_once()
        assert asyncio.run_coroutine_threadsafe(sweep, own_service.loop).result(PATIENCE_S) == 1
        left = await connection.fetch("SELECT DISTINCT job FROM search_hits WHERE tenant = $1", tenant)
        assert [str(row["job"]) for row in left] == [recent]


@asynccontextmanager
async def given(url: str) -> AsyncIterator[str]:
    yield url


async def test_a_job_that_was_running_when_its_process_ended_is_finished_by_the_next(
    database: str, tenant: str
) -> None:
    async with connected(database) as connection:
        async with connection.transaction():
            with hosted(given(database)) as first:
                api = first.api(tenant)
                a_parcel_model(api)
                parcels(api, {"name": "a"})
                await connection.execute("LOCK TABLE entity_history IN ACCESS EXCLUSIVE MODE")
                job = submitted(api, sort="name")
                while await connection.fetchval("SELECT attempts FROM search_job WHERE id = $1", job) == 0:
                    pass
        with hosted(given(database)) as second:
            api = second.api(tenant)
            assert ended(api, job)["searchJobStatus"] == "SUCCESSFUL"
            assert names(page(api, job)) == ["a"]


def test_older_clients_find_their_snapshots(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {})
    job = str(done(asked(parcel_api, lifecycle("state", "EQUALS", "CREATED"), path="/search/snapshot/parcel/1")))
    status = wait_for(
        lambda: done(parcel_api.get(f"/search/snapshot/{job}/status")), lambda it: it["snapshotStatus"] != "RUNNING"
    )
    assert (status["snapshotStatus"], status["entitiesCount"]) == ("SUCCESSFUL", 1)
    response = parcel_api.get(f"/search/snapshot/{job}")
    assert response.headers["content-type"] == "application/hal+json"
    found = done(response)
    assert [envelope["meta"]["id"] for envelope in found["_embedded"]["objectNodes"]] == [saved.id]
    assert found["page"]["totalElements"] == 1
