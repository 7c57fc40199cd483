"""The step engine against its floor: ``python -m benchmarks.steps``.

1. *Chains.* So many instances of a chain of three service tasks are in flight together; workers claim batches and
   complete every job at once. The use cases are called in this process, without HTTP. Reported are instances per
   second, the time from the creation of a job to its claim, and database transactions per job (every statement is one).
2. *Floor.* The same claims and completions by bare SQL on as many connections: claim a batch; then for each job delete
   it, replace a document of the same size if its version is the expected one, insert the next job. No history, no
   audit, no search, no group commit. Both take turns on one server.
3. *Backlog.* Jobs that wait already are drained; the rate of each tenth shows whether the queue slows down.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol
from uuid import uuid4

import asyncpg
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.jobs import percentiles
from benchmarks.report import show_machine
from statewright import app
from statewright.entity import Principal
from statewright.ids import TenantId
from statewright.jsonval.values import JsonObject
from statewright.operations.active_suspensions import ActiveSuspensions
from statewright.processes.language import ProcessInstance
from statewright.services.core import Caller
from statewright.services.processes import dialects, jobs
from statewright.services.processes import instances as hosted
from statewright.services.processes.background import ProcessHostConfig, run_process_services
from statewright.services.processes.dialects import ProcessDialect, TransitionMembers
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.instances import StartRequest
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.runtime import Runtime
from statewright.services.steps.dialect import STEP_DIALECT
from statewright.settings import Secret, Settings
from statewright.storage import migrate
from statewright.storage.embedded import server

BATCH = 64
WORKERS = 16
TENTHS = 10
TYPES = ("a", "b", "c")
VARIABLES: Final[JsonObject] = {"applicant": "Ada Lovelace", "amount": 12_345, "note": "x" * 200}

CHAIN = {
    "id": "bench::chain",
    "name": "chain",
    "steps": [
        *(
            {"id": name, "name": name, "type": "SERVICE_TASK", "jobType": name, "nextStep": then}
            for name, then in (("a", "b"), ("b", "c"), ("c", "end"))
        ),
        {"id": "end", "name": "end", "type": "END"},
    ],
}


class Measured(Struct, frozen=True, kw_only=True):
    """What one round of chains took. Latencies are of the pick-up, in milliseconds."""

    rate: float
    p50: float
    p95: float
    transactions_per_job: float


class ProcessEngine:
    """The use cases of a process language in this process, for a tenant of its own."""

    dialect: ProcessDialect[Any, Any, Any]

    def __init__(self, runtime: Runtime) -> None:
        self.processes = runtime.processes
        self.caller = Caller(
            Principal(id="bench", name="bench", kind="user", tenant=TenantId(f"bench-{uuid4().hex[:8]}"))
        )
        self.pickups: list[int] = []
        self._queue = find_shared_queue(self.processes)

    async def upload(self, source: object) -> None:
        """Store a definition."""
        await dialects.upload_definition(self.dialect, self.processes, self.caller, source)

    async def begin(self, members: JsonObject) -> str:
        """A new instance; its id."""
        body = TransitionMembers(members)
        started: ProcessInstance = await dialects.start_instance(self.dialect, self.processes, self.caller, body)
        return started.id

    async def read_status(self, instance: str) -> str:
        """What became of an instance."""
        found: ProcessInstance = await dialects.get_instance(self.dialect, self.processes, self.caller, instance)
        return found.status

    async def claim(self, worker: str, types: tuple[str, ...]) -> tuple[ClaimedJob, ...]:
        """Up to a batch of jobs."""
        claim = JobClaim(worker_id=worker, job_types=types, max_jobs=BATCH)
        claimed = await jobs.claim(self._queue, self.caller, claim)
        self.pickups += [(job.locked_at - job.created_at) * 1000 for job in claimed]
        return claimed

    async def complete(self, job: ClaimedJob) -> None:
        """What its task answers."""
        await self.finish(job, {job.job_type: "done"})

    async def finish(self, job: ClaimedJob, result: JsonObject) -> None:
        """Complete a job with a result."""
        await jobs.complete(self._queue, self.caller, job.id, result)


class Engine(ProcessEngine):
    """Those of the step engine."""

    dialect = STEP_DIALECT

    async def prepare(self) -> None:
        await self.upload(json.dumps(CHAIN))

    async def start(self) -> None:
        await hosted.start(
            STEP_DIALECT.find_host(self.processes),
            self.caller,
            StartRequest(definition_id="bench::chain", variables={**VARIABLES}),
        )


class Floor:
    """The same claims and completions as bare SQL."""

    SCHEMA = """
        CREATE TABLE IF NOT EXISTS floor_instance (id bigserial PRIMARY KEY, version bigint NOT NULL, document jsonb NOT NULL);
        CREATE TABLE IF NOT EXISTS floor_job (id bigserial PRIMARY KEY, instance bigint NOT NULL, job_type text NOT NULL,
                                              created_at timestamptz NOT NULL DEFAULT clock_timestamp(), worker text);
        CREATE INDEX IF NOT EXISTS floor_job_free ON floor_job (job_type, id) WHERE worker IS NULL;
    """
    START = "INSERT INTO floor_instance (version, document) VALUES (1, $1) RETURNING id"
    ENQUEUE = "INSERT INTO floor_job (instance, job_type) VALUES ($1, $2)"
    CLAIM = """
        UPDATE floor_job SET worker = $1
         WHERE id = ANY (ARRAY(SELECT id FROM floor_job WHERE job_type = $2 AND worker IS NULL
                                ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED))
     RETURNING id, instance, job_type, extract(epoch FROM clock_timestamp() - created_at) * 1e9 AS waited
    """
    DONE = "DELETE FROM floor_job WHERE id = $1"
    ADVANCE = "UPDATE floor_instance SET version = version + 1, document = $2 WHERE id = $1"

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._document = json.dumps(
            {"variables": VARIABLES, "tokens": [{"id": "x" * 26, "node": "a"}], "more": "y" * 200}
        )
        self.pickups: list[int] = []

    async def start(self) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            instance = await connection.fetchval(self.START, self._document)
            await connection.execute(self.ENQUEUE, instance, TYPES[0])

    async def claim(self, worker: str, types: tuple[str, ...]) -> list[asyncpg.Record]:
        for job_type in types:
            async with self._pool.acquire() as connection:
                rows: list[asyncpg.Record] = await connection.fetch(self.CLAIM, worker, job_type, BATCH)
            if rows:
                self.pickups += [int(row["waited"]) for row in rows]
                return rows
        return []

    async def complete(self, job: asyncpg.Record) -> None:
        following = dict(zip(TYPES, (*TYPES[1:], None), strict=True))[job["job_type"]]
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self.DONE, job["id"])
            await connection.execute(self.ADVANCE, job["instance"], self._document)
            if following is not None:
                await connection.execute(self.ENQUEUE, job["instance"], following)


class Side(Protocol):
    """One of those that are compared."""

    pickups: list[int]

    async def start(self) -> object:
        """One instance more."""
        ...

    async def claim(self, worker: str, types: tuple[str, ...]) -> Sequence[Any]:
        """Up to a batch of jobs."""
        ...

    async def complete(self, job: Any) -> None:
        """Do a job."""
        ...


async def chains(side: Side, count: int, database: asyncpg.Connection) -> Measured:
    """``count`` instances in flight together, to the end of all of them."""
    side.pickups.clear()
    before, began = await _transactions(database), time.perf_counter()
    left = 3 * count
    finished = asyncio.Event()

    async def work(name: str) -> None:
        nonlocal left
        while not finished.is_set():
            claimed = await side.claim(name, TYPES)
            await asyncio.gather(*(side.complete(job) for job in claimed))
            left -= len(claimed)
            if left <= 0:
                finished.set()
            elif not claimed:
                await asyncio.sleep(0.005)

    workers = [asyncio.create_task(work(f"w{n}")) for n in range(WORKERS)]
    await _many(side.start, count)
    await asyncio.gather(*workers)
    took = time.perf_counter() - began
    spent = await _transactions(database) - before
    p50, p95, _ = percentiles(side.pickups)
    return Measured(rate=count / took, p50=p50, p95=p95, transactions_per_job=spent / (3 * count))


async def drained(engine: Engine, count: int) -> list[float]:
    """Jobs per second for each tenth of a backlog."""
    for begun in range(0, count, 256):
        await _many(engine.start, min(256, count - begun))
    marks = [time.perf_counter()]
    await drain(engine, count, TYPES[0], marks)
    return compute_rates(marks, count)


async def drain(
    engine: ProcessEngine, count: int, job_type: str, marks: list[float], watch: Callable[[], object] = lambda: None
) -> None:
    """Do ``count`` jobs of a type. ``marks``, which has the begin, gets the end of each tenth; ``watch`` is called after
    each batch.
    """
    done = 0

    async def work(name: str) -> None:
        nonlocal done
        while done < count:
            claimed = await engine.claim(name, (job_type,))
            await asyncio.gather(*map(engine.complete, claimed))
            done += len(claimed)
            watch()
            if not claimed:
                await asyncio.sleep(0.005)  # a claim that can find nothing returns without a turn of the loop
            while len(marks) <= min(done * TENTHS // count, TENTHS):
                marks.append(time.perf_counter())

    await asyncio.gather(*(work(f"w{n}") for n in range(WORKERS)))


def compute_rates(marks: Sequence[float], count: int) -> list[float]:
    """How many of ``count`` per second, by tenth."""
    return [count / TENTHS / max(b - a, 1e-9) for a, b in pairwise(marks)]


async def _many(start: Callable[[], Awaitable[object]], count: int) -> None:
    await asyncio.gather(*(start() for _ in range(count)))


async def _transactions(database: asyncpg.Connection) -> int:
    await database.execute("SELECT pg_stat_clear_snapshot()")
    return int(await database.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))


@asynccontextmanager
async def start_sides() -> AsyncIterator[tuple[Runtime, Floor, asyncpg.Connection]]:
    """The engine and the floor on one embedded server with its own data, durable as in production."""
    with tempfile.TemporaryDirectory(prefix="statewright-bench-") as directory:
        async with server.run_embedded_server(Path(directory) / "data") as url:
            database = await asyncpg.connect(url)
            await migrate.apply_pending(database)
            await database.execute(Floor.SCHEMA)
            settings = Settings(iam_mode="mock", postgres_url=Secret(url), log_level="error")
            async with (
                asyncpg.create_pool(url, min_size=8, max_size=8) as pool,
                app.run_without_listeners(settings) as runtime,
                run_process_services(runtime.processes, ProcessHostConfig()),
            ):
                appear_alive(runtime)
                await runtime.core.computations.warm()
                yield runtime, Floor(pool), database
            await database.close()


def appear_alive(runtime: Runtime) -> None:
    """No heartbeat runs here, without which a node asks the database for suspensions before each step it takes."""
    guard = runtime.core.guard
    assert isinstance(guard, ActiveSuspensions)
    guard.presence.until = inf


async def run(options: argparse.Namespace, console: Console) -> None:
    """Both parts, and their tables."""
    show_machine(console)
    async with start_sides() as (runtime, floor, database):
        ours: list[Measured] = []
        theirs: list[Measured] = []
        for _ in range(options.rounds):
            engine = Engine(runtime)
            await engine.prepare()
            ours.append(await chains(engine, options.instances, database))
            theirs.append(await chains(floor, options.instances, database))
        title = f"{options.instances:,} chains of three service tasks in flight together"
        caption = "The engine does {:.2f} of the floor's instances per second."
        console.print(tabulate(title, {"step engine": ours, "bare SQL": theirs}, caption))
        if options.backlog:
            engine = Engine(runtime)
            await engine.prepare()
            rates = await drained(engine, options.backlog)
            console.print(
                f"Backlog of {options.backlog:,} jobs, jobs/s by tenth: {', '.join(f'{r:,.0f}' for r in rates)}"
            )
            console.print(f"Last tenth against the median: {rates[-1] / median(rates):.2f}")


def tabulate(title: str, sides: Mapping[str, list[Measured]], caption: str) -> Table:
    """What both sides took; the ``caption`` is given the ratio of their rates."""
    table = Table(title=f"{title}: medians of the rounds")
    for heading in ("", "instances/s", "pick-up p50 ms", "p95 ms", "transactions per job"):
        table.add_column(heading, justify="right")
    for name, rounds in sides.items():
        figures = [median(getattr(one, field) for one in rounds) for field in Measured.__struct_fields__]
        table.add_row(name, f"{figures[0]:,.0f}", f"{figures[1]:,.1f}", f"{figures[2]:,.1f}", f"{figures[3]:.2f}")
    ratio = median(mine.rate / other.rate for mine, other in zip(*sides.values(), strict=True))
    table.caption = caption.format(ratio)
    return table


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backlog", type=int, default=100_000, help="0 leaves this part out")
    uvloop.run(run(parser.parse_args(), Console()))


if __name__ == "__main__":
    main()
