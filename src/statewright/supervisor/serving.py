"""``statewright serve --workers N``: the storage, ports and admin listener of the service, and its workers.

The admin listener tells readiness and metrics of all workers as one. The service is ready when all workers have become
ready, and from then on while at least one is. Its metrics are those of all workers, told apart by the label ``worker``.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from statewright.app.database import migrate_database, open_database
from statewright.app.listeners import serve_admin
from statewright.app.serving import handle_signals, run_until_signal
from statewright.network.sockets import ACCEPT_TIME_S, bind_listening_socket, refuse_connections
from statewright.network.tls import check_authorities, check_tls
from statewright.settings import Secret, Settings
from statewright.storage.connections import DatabaseUrl
from statewright.supervisor.worker_pool import WorkerConfig, WorkerPool, WorkerProcess
from statewright.telemetry import logs

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


STOP_MARGIN: Final = timedelta(seconds=15)
"""Time that a worker has, beyond the limits of its own, to close its streams and pools before it is killed."""

log = logs.logger(__name__)


async def serve(settings: Settings) -> int:
    """Run ``settings.workers`` workers until a signal ends them; the exit code of the process."""
    _on_hangup(None)
    return await run_until_signal(settings, lambda signalled, stopped: _supervise(settings, signalled, stopped))


class SupervisedService(Struct, frozen=True, kw_only=True):
    """Where a supervised service listens."""

    http_port: int
    grpc_port: int
    admin_port: int


@asynccontextmanager
async def _supervise(
    settings: Settings, signalled: asyncio.Event, stopped: asyncio.Event
) -> AsyncIterator[SupervisedService]:
    """Run the service: inside the block all workers are ready. ``stopped`` is set when the admin listener fails."""
    check_tls(settings.tls)
    check_authorities(settings.egress_ca)
    health = AggregateHealth(settings.metrics_bearer)
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(_bind_ports(settings))
        admin_port = await stack.enter_async_context(
            serve_admin(settings, health.is_ready, health.collect_metrics, stopped)
        )
        database = await stack.enter_async_context(open_database(settings))
        await migrate_database(settings, database)
        ports.listen()
        pool = _build_pool(settings, ports, database)
        stack.push_async_callback(_stop, pool, ports, settings.drain_window)
        handle_signals(signalled, pool.kill)
        _on_hangup(pool)
        await pool.start()
        health.set_pool(pool)
        log.info("ready", http=ports.http, grpc=ports.grpc, admin=admin_port, workers=settings.workers)
        yield SupervisedService(http_port=ports.http, grpc_port=ports.grpc, admin_port=admin_port)


async def _stop(pool: WorkerPool, ports: "Ports", drain_window: timedelta) -> None:
    """Have all workers drain. Before they accept no more, nobody is let in whom they could not accept."""
    stopping = asyncio.create_task(pool.stop(), name="stop-workers")
    await asyncio.wait([stopping], timeout=max(0.0, drain_window.total_seconds() - ACCEPT_TIME_S))
    for listener in ports.listeners:
        refuse_connections(listener)
    await stopping


def _build_pool(settings: Settings, ports: "Ports", database: DatabaseUrl) -> WorkerPool:
    def build_config(number: int, http_socket: int) -> WorkerConfig:
        return WorkerConfig(
            number=number, database=database.dsn, http_socket=http_socket, grpc_port=ports.grpc, report=-1
        )

    return WorkerPool(
        ports.listeners,
        build_config,
        start_within=settings.startup_timeout + STOP_MARGIN,
        stop_within=settings.shutdown_timeout + settings.drain_window + STOP_MARGIN,
    )


def _on_hangup(pool: WorkerPool | None) -> None:
    """SIGHUP replaces the workers one by one; before there are any it does nothing, rather than end the process."""

    def restart() -> None:
        if pool is not None:
            pool.start_task(pool.roll(), "rolling-restart")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, restart)


class Ports:
    """The sockets that the supervisor keeps open, and the ports they are bound to."""

    def __init__(self, listeners: list[socket.socket], http: int, grpc: int) -> None:
        self.listeners = listeners
        self.http = http
        self.grpc = grpc

    def listen(self) -> None:
        """From now on connections wait instead of being refused."""
        for listener in self.listeners:
            listener.listen(2048)


@contextmanager
def _bind_ports(settings: Settings) -> Iterator[Ports]:
    """An HTTP socket for each worker, and one that keeps the gRPC port. Raises ``OSError`` when a port is taken."""
    with ExitStack() as stack:
        for port in (settings.http_port, settings.grpc_port):
            bind_listening_socket(settings.host, port).close()  # alone: another supervisor's ports can be shared, too
        first = stack.enter_context(bind_listening_socket(settings.host, settings.http_port, shared=True))
        http = first.getsockname()[1]
        rest = [
            stack.enter_context(bind_listening_socket(settings.host, http, shared=True))
            for _ in range(settings.workers - 1)
        ]
        held = stack.enter_context(bind_listening_socket(settings.host, settings.grpc_port, shared=True))
        yield Ports([first, *rest], http, held.getsockname()[1])
