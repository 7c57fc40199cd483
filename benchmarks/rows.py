"""The floor under reads and writes: the same rows by bare asyncpg, one statement or one transaction for each request.

    python -m benchmarks.rows DSN TENANT

As many connections as clients, plain statements, each prepared once and then kept. A create is two of them between
BEGIN and COMMIT, a transition four. No HTTP, no JSON, no validation, no workflow.
"""

import asyncio
import sys
import time
from array import array
from itertools import cycle, islice

import asyncpg

from benchmarks.jobs import Job, Outcome, percentiles, serve
from benchmarks.statements import Rows
from benchmarks.workload import documents

TEXTS = tuple(document.decode() for document in documents())


class Floor:
    """Connections that stay open from job to job, and the entities created for them."""

    def __init__(self, dsn: str, tenant: str) -> None:
        self._dsn = dsn
        self._rows = Rows(tenant)
        self._connections: list[asyncpg.Connection[asyncpg.Record]] = []
        self._entities: list[str] = []

    async def work(self, job: Job) -> Outcome:
        while len(self._connections) < job.clients:
            self._connections.append(await asyncpg.connect(self._dsn))
        cpu, latencies = time.process_time(), array("q")
        begin = time.perf_counter_ns() + int(job.warm_up * 1e9)
        end = begin + int(job.seconds * 1e9)
        limits = [None] * job.clients if job.limit is None else _shares(job.limit, job.clients)
        async with asyncio.TaskGroup() as tasks:
            clients = [
                tasks.create_task(self._client(job, number, limit, (begin, end), latencies))
                for number, limit in enumerate(limits)
            ]
        done = sum(client.result() for client in clients)
        p50, p95, p99 = percentiles(latencies)
        return Outcome(
            rate=len(latencies) / (job.seconds or (time.perf_counter_ns() - begin) / 1e9),
            p50=p50,
            p95=p95,
            p99=p99,
            succeeded=done,
            failed=0,
            cpu=time.process_time() - cpu,
        )

    async def _client(
        self, job: Job, number: int, limit: int | None, window: tuple[int, int], latencies: "array[int]"
    ) -> int:
        """One client's loop; how many requests it made."""
        connection, rows, done = self._connections[number], self._rows, 0
        entities = cycle(self._entities[number :: job.clients])
        texts = islice(cycle(TEXTS), number, None)
        while done < limit if limit is not None else time.perf_counter_ns() < window[1]:
            sent = time.perf_counter_ns()
            match job.operation:
                case "get":
                    await rows.read(connection, next(entities))
                case "create":
                    async with connection.transaction():
                        created = await rows.create(connection, next(texts))
                    if limit is not None:
                        self._entities.append(created.entity)
                case _:
                    async with connection.transaction():
                        if not await rows.transition(connection, next(entities), next(texts)):
                            raise RuntimeError("nobody else moves these entities")
            done += 1
            now = time.perf_counter_ns()
            if window[0] <= now < window[1]:
                latencies.append(now - sent)
        return done


def _shares(total: int, among: int) -> list[int]:
    return [total // among + (number < total % among) for number in range(among)]


if __name__ == "__main__":
    serve(Floor(sys.argv[1], sys.argv[2]).work)
