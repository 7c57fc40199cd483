"""Who ends an asynchronous search: of all that try, exactly one (storage/search/jobs.py)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from msgspec import Struct

from statewright.conditions import compile_search, parse
from statewright.entity import ModelKey
from statewright.ids import ModelId, TenantId, model_id
from statewright.jsonval.values import JsonObject
from statewright.operations.listings import JobId, SearchJob
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.search.jobs import HITS_PER_PART, NewSearchJob, SearchJobs
from statewright.storage.search.query import configure_search_sessions
from statewright.storage.search.statements import EntityQuery
from tests.database import connected

ACME = TenantId("acme")
MODEL: ModelId = model_id("parcel", 1)
LEASE = timedelta(minutes=1)

EVERYTHING: JsonObject = {"type": "group", "operator": "AND", "conditions": []}
PATTERN: JsonObject = {"type": "simple", "jsonPath": "$.name", "operatorType": "MATCHES_PATTERN", "value": ".*"}

CREATE = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, 'NEW', gen_random_uuid(), gen_random_uuid(), 1, n, '', '', 0, '', 'user', '',
           'user', jsonb_build_object('name', 'p' || n)
      FROM generate_series(1, $3) AS n
"""

MANY = 2 * HITS_PER_PART + 7


class Bench(Struct, frozen=True, kw_only=True):
    """Jobs on a database with :data:`MANY` parcels, and a way to look behind them."""

    jobs: SearchJobs
    tables: asyncpg.Connection

    async def submitted(self, tenant: TenantId = ACME) -> JobId:
        job = JobId(str(uuid4()))
        new = NewSearchJob(tenant=tenant, id=job, model=MODEL, key=ModelKey("parcel", 1), condition="{}", sort="[]")
        await self.jobs.submit(new)
        return job

    async def claimed(self, worker: str = "first", *, lease: timedelta = LEASE) -> SearchJob:
        await self.submitted()
        [job] = await self.jobs.claim(worker, lease=lease, most=1)
        return job

    async def carry_out(self, job: SearchJob, worker: str = "first", condition: JsonObject = EVERYTHING) -> int | None:
        query = EntityQuery(
            tenant=job.tenant, model=job.model, search=compile_search(parse(condition), {}), instant=job.instant
        )
        return await self.jobs.execute(job, worker, query)

    async def kept(self, job: SearchJob) -> int:
        """How many hits of the job there are in the tables."""
        count = "SELECT coalesce(sum(cardinality(entities)), 0) FROM search_hits WHERE job = $1"
        return int(await self.tables.fetchval(count, job.id))

    async def now(self, job: SearchJob) -> SearchJob:
        found = await self.jobs.find(job.tenant, job.id)
        assert found is not None
        return found


@pytest.fixture
async def bench(database: str) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(Pool(parse_database_url(database), size=8))
        workers = await stack.enter_async_context(Pool(configure_search_sessions(parse_database_url(database)), size=4))
        tables = await stack.enter_async_context(connected(database))
        await tables.execute(CREATE, ACME, MODEL, MANY)
        yield Bench(jobs=SearchJobs(pool, workers, retention=timedelta(hours=1)), tables=tables)


@pytest.mark.parametrize("condition", [EVERYTHING, PATTERN])
async def test_all_hits_are_kept_in_order_whatever_their_number(bench: Bench, condition: JsonObject) -> None:
    job = await bench.claimed()
    assert await bench.carry_out(job, condition=condition) == MANY
    assert await bench.kept(job) == MANY
    whole = [entity.id for entity in await bench.jobs.list_page(ACME, job.id, offset=0, size=10_000)]
    assert whole == sorted(whole)
    assert len(whole) == MANY
    for offset, size in ((0, 1), (999, 2), (990, 1020), (2000, 10), (2006, 5), (5000, 10)):
        some = [entity.id for entity in await bench.jobs.list_page(ACME, job.id, offset=offset, size=size)]
        assert some == whole[offset : offset + size]


@pytest.mark.parametrize("condition", [EVERYTHING, PATTERN])
async def test_a_cancel_that_is_recorded_first_wins(bench: Bench, condition: JsonObject) -> None:
    job = await bench.claimed()
    async with bench.tables.transaction():
        await bench.tables.execute(SearchJobs.CANCEL, job.tenant, job.id)
        finishing = asyncio.create_task(bench.carry_out(job, condition=condition))
        await waiting_for_a_lock(bench)
    assert await finishing is None
    found = await bench.now(job)
    assert (found.status, found.hits, await bench.kept(job)) == ("CANCELLED", 0, 0)


async def waiting_for_a_lock(bench: Bench) -> None:
    """Somebody has come to the row that the test has locked."""
    waits = """
        SELECT count(*) FROM pg_locks AS wanted
         WHERE NOT granted AND locktype = 'transactionid'
           AND EXISTS (SELECT FROM pg_locks AS held
                        WHERE held.pid = wanted.pid
                          AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    """
    async with asyncio.timeout(10):
        while not await bench.tables.fetchval(waits):
            pass


async def test_a_cancel_after_the_end_changes_nothing(bench: Bench) -> None:
    job = await bench.claimed()
    await bench.carry_out(job)
    assert not await bench.jobs.cancel(job.tenant, job.id)
    assert (await bench.now(job)).status == "SUCCESSFUL"


async def test_cancel_finish_and_failure_at_the_same_time_have_one_winner(bench: Bench) -> None:
    winners = set[str]()
    for turn in range(30):
        job = await bench.claimed()
        attempts = [bench.jobs.cancel(job.tenant, job.id), bench.carry_out(job), bench.jobs.fail(job, "first", "why")]
        turned = [*attempts[turn % 3 :], *attempts[: turn % 3]]
        results = await asyncio.gather(*turned)
        cancelled, hits, failed = [*results[-(turn % 3) :], *results[: -(turn % 3)]] if turn % 3 else results
        found = await bench.now(job)
        assert [cancelled, hits is not None, failed].count(True) == 1
        assert found.status == ("CANCELLED" if cancelled else "FAILED" if failed else "SUCCESSFUL")
        assert await bench.kept(job) == found.hits == (hits or 0)
        winners.add(found.status)
    assert len(winners) > 1, "the race was none"


async def test_a_tenant_does_not_wait_behind_all_that_another_has_submitted(bench: Bench) -> None:
    mine = [await bench.submitted() for _ in range(3)]
    other = await bench.submitted(TenantId("other"))
    [first] = await bench.jobs.claim("w", lease=LEASE, most=1)
    claimed = await bench.jobs.claim("w", lease=LEASE, most=2, served={ACME})
    assert [first.id, *(job.id for job in claimed)] == [mine[0], other, mine[1]]


async def test_processes_that_claim_at_the_same_time_share_the_jobs(bench: Bench) -> None:
    ids = {await bench.submitted() for _ in range(20)}
    claims = await asyncio.gather(*[bench.jobs.claim(f"w{n}", lease=LEASE, most=4) for n in range(8)])
    claimed = [job.id for jobs in claims for job in jobs]
    assert len(claimed) == len(set(claimed))
    rest = await bench.jobs.claim("last", lease=LEASE, most=100)
    assert {*claimed, *(job.id for job in rest)} == ids


async def test_a_job_whose_process_died_is_begun_anew_and_the_dead_cannot_end_it(bench: Bench) -> None:
    abandoned = await bench.claimed(lease=timedelta(0))
    [job] = await bench.jobs.claim("second", lease=LEASE, most=10)
    assert (job.id, job.attempts) == (abandoned.id, 2)
    assert await bench.carry_out(abandoned, "first") is None
    assert not await bench.jobs.fail(abandoned, "first", "late")
    assert not await bench.jobs.renew(abandoned, "first", lease=LEASE)
    assert await bench.carry_out(job, "second") == MANY
    assert await bench.kept(job) == MANY


async def test_a_lease_keeps_others_away_and_a_released_job_is_free_at_once(bench: Bench) -> None:
    job = await bench.claimed()
    assert await bench.jobs.renew(job, "first", lease=LEASE)
    assert await bench.jobs.claim("second", lease=LEASE, most=10) == []
    await bench.jobs.release(job, "first")
    [again] = await bench.jobs.claim("second", lease=LEASE, most=10)
    assert (again.id, again.attempts) == (job.id, 1)


async def test_a_cancelled_job_cannot_be_renewed(bench: Bench) -> None:
    job = await bench.claimed()
    assert await bench.jobs.cancel(job.tenant, job.id)
    assert not await bench.jobs.renew(job, "first", lease=LEASE)


async def test_an_attempt_begun_anew_finds_what_the_first_would_have_found(bench: Bench) -> None:
    job = await bench.claimed(lease=timedelta(0))
    await bench.tables.execute(CREATE.replace(" 1, n,", " now_us(), now_us(),"), ACME, MODEL, 5)
    [again] = await bench.jobs.claim("second", lease=LEASE, most=1)
    assert again.instant == job.instant
    assert await bench.carry_out(again, "second") == MANY
