"""The admin listener of a supervised service: readiness and metrics of all workers as one.

The service is ready when all workers have become ready, and from then on while at least one is. Its metrics are those
of all workers, told apart by the label ``worker``.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from statewright.settings import Secret
from statewright.supervisor.worker_pool import WorkerPool
from statewright.supervisor.worker_process import WorkerProcess

REQUEST_TIMEOUT_S: Final = 1.2
"""Limit of a request to a worker; shorter than that of the admin listener for a check, so that it can still answer."""

WORKER_LABEL: Final = "worker"


class AggregateHealth:
    """Readiness and metrics of all workers; ``bearer`` is the token that their metrics demand, None for none."""

    def __init__(self, bearer: Secret | None) -> None:
        self._pool: WorkerPool | None = None
        self._bearer = bearer

    def set_pool(self, pool: WorkerPool) -> None:
        """Set the workers; until then there are none."""
        self._pool = pool

    async def is_ready(self) -> bool:
        """Whether at least one worker is ready."""
        answers = await asyncio.gather(*(self._get(worker, "/readyz") for worker in self._workers))
        return any(status == 200 for status, _ in answers)

    async def collect_metrics(self) -> bytes:
        """The metrics of all workers and their number, in the Prometheus text format."""
        workers = self._workers
        answers = await asyncio.gather(*(self._get(worker, "/metrics") for worker in workers))
        texts = {worker.number: body for worker, (status, body) in zip(workers, answers, strict=True) if status == 200}
        registry = CollectorRegistry()
        registry.register(MergedMetrics(texts))
        return generate_latest(registry)

    @property
    def _workers(self) -> list[WorkerProcess]:
        return [] if self._pool is None else list(self._pool.workers)

    async def _get(self, worker: WorkerProcess, path: str) -> tuple[int, str]:
        """Status and body of a worker's answer; status 0 when there is none."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await self._fetch(worker.admin_port, path)
        except (OSError, TimeoutError, ValueError):
            return 0, ""

    async def _fetch(self, port: int, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            bearer = f"Authorization: Bearer {self._bearer.reveal()}\r\n" if self._bearer else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n".encode())
            head, _, body = (await reader.read(-1)).decode().partition("\r\n\r\n")
            return int(head.split(" ", 2)[1]), body
        finally:
            writer.close()


class MergedMetrics(Collector):
    """The metrics of several processes, by worker."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts

    def describe(self) -> Iterable[Metric]:
        """No metrics: those of the workers are only known when they are collected."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with the samples of all workers."""
        workers = Metric("statewright_workers", "Workers that answer", "gauge")
        workers.add_sample("statewright_workers", {}, len(self._texts))
        yield workers
        families: dict[str, Metric] = {}
        for number, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.add_sample(sample.name, {WORKER_LABEL: str(number), **sample.labels}, sample.value)
        yield from families.values()
