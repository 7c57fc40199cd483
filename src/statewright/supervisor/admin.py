"""The admin listener of a supervised service: what its workers say, as one.

It is ready when all workers have been, and from then on while at least one is. Its metrics are those of all workers,
told apart by the label ``worker``.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from statewright.settings import Secret
from statewright.supervisor.processes import Worker
from statewright.supervisor.slots import Slots

WITHIN_S: Final = 1.2
"""Less than the patience of the listener that asks."""

LABEL: Final = "worker"


class Together:
    """The workers as seen from the admin listener."""

    def __init__(self, bearer: Secret | None) -> None:
        self._slots: Slots | None = None
        self._bearer = bearer

    def watch(self, slots: Slots) -> None:
        """From now on these are the workers; before there are none."""
        self._slots = slots

    async def ready(self) -> bool:
        """Whether some worker is."""
        answers = await asyncio.gather(*(self._get(worker, "/readyz") for worker in self._workers))
        return any(status == 200 for status, _ in answers)

    async def metrics(self) -> bytes:
        """What all workers count, and how many they are."""
        workers = self._workers
        answers = await asyncio.gather(*(self._get(worker, "/metrics") for worker in workers))
        told = {worker.number: body for worker, (status, body) in zip(workers, answers, strict=True) if status == 200}
        registry = CollectorRegistry()
        registry.register(Merged(told))
        return generate_latest(registry)

    @property
    def _workers(self) -> list[Worker]:
        return [] if self._slots is None else list(self._slots.workers)

    async def _get(self, worker: Worker, path: str) -> tuple[int, str]:
        """Status and body of an answer; status 0 when there is none."""
        try:
            async with asyncio.timeout(WITHIN_S):
                return await self._answer(worker.admin_port, path)
        except (OSError, TimeoutError, ValueError):
            return 0, ""

    async def _answer(self, port: int, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            bearer = f"Authorization: Bearer {self._bearer.reveal()}\r\n" if self._bearer else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n".encode())
            head, _, body = (await reader.read(-1)).decode().partition("\r\n\r\n")
            return int(head.split(" ", 2)[1]), body
        finally:
            writer.close()


class Merged(Collector):
    """The metrics of several processes, by worker."""

    def __init__(self, told: dict[int, str]) -> None:
        self._told = told

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before somebody asks."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with the samples of all workers."""
        workers = Metric("statewright_workers", "Workers that answer", "gauge")
        workers.add_sample("statewright_workers", {}, len(self._told))
        yield workers
        families: dict[str, Metric] = {}
        for number, text in self._told.items():
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.add_sample(sample.name, {LABEL: str(number), **sample.labels}, sample.value)
        yield from families.values()
