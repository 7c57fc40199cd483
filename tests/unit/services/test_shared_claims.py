"""Claims of jobs that meet are answered by one statement (services/processes/wakeups.py)."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.ids import EntityId
from statewright.services.processes.wakeups import MAX_SHARED_JOBS, SharedClaims
from statewright.storage.processes.jobs import MAX_CLAIM_BYTES, JobLease, LockedJob


def a_job(name: str, place: int, size: int = 1) -> LockedJob:
    return LockedJob(
        id=name,
        language="steps",
        instance=EntityId("i"),
        execution="e",
        definition_id="d",
        definition_version=1,
        node_id="n",
        element=None,
        job_type="t",
        retries=0,
        created_at=0,
        input="{}",
        input_bytes=size,
        place=place,
    )


class Table:
    """Jobs with their sizes in the order of creation, and the statements that claimed some, each held up by a gate."""

    def __init__(self, *sizes: int, is_open: bool = True) -> None:
        self.left = deque(enumerate(sizes))
        self.statements: list[list[str]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None
        if is_open:
            self.gate.set()

    async def lock(self, leases: Sequence[JobLease]) -> list[LockedJob]:
        self.statements.append([lease.worker for lease in leases])
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        found, size = list[LockedJob](), 0
        while self.left and len(found) < len(leases) and size < MAX_CLAIM_BYTES:
            number, bytes_ = self.left.popleft()
            found.append(a_job(str(number), len(found), bytes_))
            size += bytes_
        return found


class Workers:
    """Who claims jobs of one kind."""

    def __init__(self, table: Table) -> None:
        self._table, self._claims = table, SharedClaims()

    def claim(self, worker: str, limit: int = 1, kind: str = "t") -> "asyncio.Task[list[str]]":
        async def ask() -> list[str]:
            lease = JobLease(worker=worker, now=1, until=2)
            found = await self._claims.lock_jobs(kind, lease, limit, self._table.lock, asyncio.create_task)
            return [job.id for job in found]

        return asyncio.create_task(ask())


async def until_asked(table: Table, statements: int) -> None:
    for _ in range(5):  # turns of the loop
        await asyncio.sleep(0)
    assert len(table.statements) == statements


async def test_a_claim_that_meets_none_leaves_at_once_and_those_that_come_meanwhile_leave_together():
    table = Table(1, 1, 1, 1, is_open=False)
    workers = Workers(table)
    first = workers.claim("a")
    await until_asked(table, 1)
    others = [workers.claim("b", 2), workers.claim("c"), workers.claim("d")]
    await until_asked(table, 1)
    table.gate.set()
    assert await asyncio.gather(first, *others) == [["0"], ["1", "2"], ["3"], []]
    assert table.statements == [["a"], ["b", "b", "c", "d"]]


async def test_claims_of_other_kinds_do_not_wait():
    table = Table(1, 1, is_open=False)
    workers = Workers(table)
    claims = [workers.claim("a"), workers.claim("b", kind="u")]
    await until_asked(table, 2)
    table.gate.set()
    assert sorted(await asyncio.gather(*claims)) == [["0"], ["1"]]


async def test_one_statement_looks_for_a_limited_number_of_jobs():
    table = Table(*[1] * (4 * MAX_SHARED_JOBS), is_open=False)
    workers = Workers(table)
    claims = [workers.claim("a")]
    await until_asked(table, 1)
    claims += [
        workers.claim(worker, limit) for worker, limit in (("b", MAX_SHARED_JOBS + 9), ("c", MAX_SHARED_JOBS), ("d", 1))
    ]
    await until_asked(table, 1)
    table.gate.set()
    assert [len(found) for found in await asyncio.gather(*claims)] == [1, MAX_SHARED_JOBS + 9, MAX_SHARED_JOBS, 1]
    assert [sorted(set(workers)) for workers in table.statements] == [["a"], ["b"], ["c"], ["d"]]


async def test_who_came_away_empty_because_jobs_of_others_are_large_asks_again():
    table = Table(1, MAX_CLAIM_BYTES, 1, is_open=False)
    workers = Workers(table)
    claims = [workers.claim("a")]
    await until_asked(table, 1)
    claims += [workers.claim("b", 2), workers.claim("c")]
    await until_asked(table, 1)
    table.gate.set()
    assert await asyncio.gather(*claims) == [["0"], ["1"], ["2"]]
    assert table.statements == [["a"], ["b", "b", "c"], ["c"]]


async def test_all_of_a_failed_statement_are_told_and_the_next_goes_on():
    table = Table(1, is_open=False)
    workers = Workers(table)
    first = workers.claim("a")
    await until_asked(table, 1)
    table.failure = OSError("lost")
    table.gate.set()
    with pytest.raises(OSError, match="lost"):
        await first
    table.failure = None
    assert await workers.claim("b") == ["0"]


async def test_who_has_left_takes_nothing_from_the_others():
    table = Table(1, 1, 1, is_open=False)
    workers = Workers(table)
    first = workers.claim("a")
    await until_asked(table, 1)
    gone, last = workers.claim("b"), workers.claim("c")
    await until_asked(table, 1)
    gone.cancel()
    table.gate.set()
    assert await asyncio.gather(first, last) == [["0"], ["1"]]
    assert await workers.claim("d") == ["2"]


@given(
    sizes=st.lists(st.sampled_from([1, MAX_CLAIM_BYTES // 2, MAX_CLAIM_BYTES]), max_size=60),
    limits=st.lists(st.integers(1, 70), min_size=1, max_size=12),
)
def test_every_job_goes_to_one_worker_and_none_is_left_while_one_is_without(sizes: list[int], limits: list[int]):
    async def run() -> None:
        table = Table(*sizes)
        workers = Workers(table)
        found = await asyncio.gather(*[workers.claim(str(number), limit) for number, limit in enumerate(limits)])
        handed_out = [job for jobs in found for job in jobs]
        assert sorted(handed_out, key=int) == [str(number) for number in range(len(handed_out))]
        assert all(len(jobs) <= limit for jobs, limit in zip(found, limits, strict=True))
        assert all(found) or not table.left

    asyncio.run(run())
