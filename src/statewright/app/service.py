"""A whole service, from its first listener to its last; what ``/readyz`` says of it, and its traces, where they are
switched on (docs/reference/traces.md).

*Reference cycles.* While the service is loaded, next to nothing becomes garbage, and next to nothing is looked at. What
lives when it is ready is frozen: no collection looks at it again. Young objects are looked at as they come. Old ones
wait for a full collection, which CPython starts by itself only when so many objects have become old that a service
would not see one in days; with the default thresholds full collections would triple the p99 of a read. So one is made
about every minute, and less often when it takes long. It looks at every container, and everything else stands still
meanwhile; so it waits as long as there are large documents in memory, which may have millions of them.
"""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Final

from cryptography import x509
from msgspec import Struct

from statewright.api.http.help.topics import read_version
from statewright.app.authentication import build_authentication
from statewright.app.database import StartFailed, migrate_database, open_database
from statewright.app.listeners import Listeners, bind_http, serve_admin
from statewright.app.runtime import build_runtime, run_scheduler, run_step_engine
from statewright.cluster.node import ClusterNode, NodeConfig, open_cluster_node
from statewright.computations import ComputationPool
from statewright.compute.members import Dispatcher, Members
from statewright.failures import StorageUnavailable
from statewright.loop.background import (
    ShutdownBudget,
    finish_all,
    has_large_values,
    log_failures,
    repeat,
    run_in_background,
    shorten_thread_switches,
)
from statewright.metrics import Metrics
from statewright.network.tls import Tls, check_authorities, check_tls
from statewright.services.runtime import Runtime
from statewright.settings import Settings
from statewright.storage import migrate
from statewright.storage.connections import check_writes
from statewright.storage.migrate import SchemaNewer, StartRefused
from statewright.storage.pool import Pool
from statewright.telemetry import logs
from statewright.telemetry.tracing import Tracer, set_sampling

log = logs.logger(__name__)

THRESHOLDS: Final = (20_000, 4, 1_250)
"""Allocations between collections, and collections of the young and the middle-aged that make one of the next.

The first two bound how many objects a collection looks at while everything else stands still: of the million containers
that a large document may have, a tenth at a time, in some 10 ms.
"""

COLLECT_INTERVAL: Final = timedelta(minutes=1)

MAX_SHARE: Final = 0.0005
"""Of all time, that full collections may take."""


MAX_DELAY_S: Final = 600.0
"""For which large documents put a full collection off: some service always works on one."""


def tune_garbage_collection() -> None:
    """To be called when everything that stays is there. The garbage among it stays, too: it is a hundredth of it, and
    to find it would take a tenth of the start.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class FullCollections:
    """Full collections, not more often than they may be. ``clock`` gives seconds; ``is_crowded`` says whether there are
    large documents in memory.
    """

    def __init__(
        self, clock: Callable[[], float] = perf_counter, is_crowded: Callable[[], bool] = has_large_values
    ) -> None:
        self._clock = clock
        self._is_crowded = is_crowded
        self._next_at = 0.0
        self._delayed_since: float | None = None

    async def collect(self) -> None:
        """Collect all garbage, unless the last time took so long that it is too soon, or now would take too long."""
        begun = self._clock()
        if begun < self._next_at:
            return
        if self._is_crowded():
            self._delayed_since = begun if self._delayed_since is None else self._delayed_since
            if begun - self._delayed_since < MAX_DELAY_S:
                return
        self._delayed_since = None
        found = gc.collect()
        taken = self._clock() - begun
        self._next_at = begun + taken / MAX_SHARE
        log.debug("garbage_collected", objects=found, ms=round(taken * 1000, 1))


@asynccontextmanager
async def collect_garbage(interval: timedelta = COLLECT_INTERVAL) -> AsyncIterator[None]:
    """Full collections are made inside the block."""
    collections = repeat(
        FullCollections().collect, interval, log=log, failure="garbage_collection_failed", waits_first=True
    )
    async with run_in_background({"garbage": collections}):
        yield


MIN_FLUSH_S: Final = 1.0
"""What spans have to be sent in at the end, also when nothing is left of the time to shut down."""


@asynccontextmanager
async def open_tracer(
    settings: Settings, metrics: Metrics, grace: ShutdownBudget, *, instance: str
) -> AsyncIterator[Tracer | None]:
    """The tracer inside the block, None where traces are switched off. What is left of the ``grace`` at its end is
    for the spans that are not sent yet. Raises ``StartFailed``.
    """
    if not settings.otel_enabled:
        yield None
        return
    variable = settings.name_variable("otel_enabled")
    try:
        from statewright.telemetry.sampling import read_sampling
        from statewright.telemetry.tracer import build_tracer
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        raise StartFailed(
            f"{variable} is true, and the libraries are missing: pip install 'statewright[server,otel]'"
        ) from missing
    try:
        tracer = build_tracer(instance)
    except ValueError as unreadable:
        raise StartFailed(f"{variable} is true, and a variable of OpenTelemetry cannot be read: {unreadable}") from None
    # As the libraries read their own variables.
    previous = set_sampling(read_sampling(os.environ))
    metrics.register_tracer(tracer.queue)
    try:
        yield tracer
    finally:
        set_sampling(previous)
        await asyncio.to_thread(tracer.queue.close, max(grace.remaining_s, MIN_FLUSH_S))


class Readiness:
    """Whether the service can do its work now: start-up is complete, the database answers, and takes writes."""

    CHECK_TIMEOUT_S = 1.0

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._node: ClusterNode | None = None

    def open(self, pool: Pool, node: ClusterNode) -> None:
        """Start-up is complete."""
        self._pool, self._node = pool, node

    def close(self) -> None:
        """Shutdown begins."""
        self._pool = None

    async def check(self) -> bool:
        """Ask the database."""
        is_writable = True
        if self._pool is None or self._node is None:
            return False
        if not self._node.is_alive:
            log.warning("not_ready", error="the other nodes take this one for lost")
            return False
        try:
            async with asyncio.timeout(self.CHECK_TIMEOUT_S), self._pool.connection() as connection:
                is_writable = await check_writes(connection, self._pool.faults)
                connection.is_broken |= not is_writable  # a session that began so may stay so: the next asks anew
                await migrate.check_schema(connection)
        except SchemaNewer:  # nodes of a newer release have joined: the rolling upgrade must not stop this one
            return is_writable
        except (StorageUnavailable, TimeoutError, StartRefused) as reason:
            log.warning("not_ready", error=str(reason) or type(reason).__name__)
            return False
        if not is_writable:
            log.warning("not_ready", error="the database takes no writes")
        return is_writable


class Service(Struct, frozen=True, kw_only=True):
    """A running service: where it listens, for tests and the banner."""

    http_port: int
    grpc_port: int
    admin_port: int
    runtime: Runtime
    dispatcher: Dispatcher
    members: Members
    node: ClusterNode


def report_certificate(tls: Tls, metrics: Metrics) -> None:
    """Have metrics tell when the certificate ends that clients are shown, and the log that it has."""
    end = x509.load_pem_x509_certificate(tls.certificate.read_bytes()).not_valid_after_utc
    metrics.register_certificate(end)
    if end <= datetime.now(UTC):
        log.warning("certificate_expired", file=str(tls.certificate), ended=end.isoformat())


@asynccontextmanager
async def run_service(
    settings: Settings, stopped: asyncio.Event | None = None, *, listener: socket.socket | None = None
) -> AsyncIterator[Service]:
    """A service that is ready inside the block. ``stopped`` is set when a listener fails.

    ``listener`` is an HTTP socket that other processes share, and so they do the gRPC port. None: this one is alone.
    Raises ``StartFailed``, ``OSError``.
    """
    check_tls(settings.tls)
    check_authorities(settings.egress_ca)
    stopped = stopped or asyncio.Event()
    readiness, metrics, members = Readiness(), Metrics(), Members()
    grace = ShutdownBudget(settings.drain_window + settings.shutdown_timeout)
    if settings.tls is not None:
        report_certificate(settings.tls, metrics)
    async with AsyncExitStack() as stack:
        begin = stack.enter_async_context
        bound = listener or stack.enter_context(bind_http(settings))
        admin_port = await begin(serve_admin(settings, readiness.check, metrics.render, stopped))
        database = await begin(open_database(settings))
        await migrate_database(settings, database)
        node = await begin(open_cluster_node(build_node_config(settings), database, members))
        tracer = await begin(open_tracer(settings, metrics, grace, instance=settings.node_id or node.id))
        runtime = await begin(build_runtime(settings, database, node, grace, tracer))
        identity = await build_authentication(settings, runtime)
        listeners = Listeners(settings, runtime, node, members, identity, metrics, readiness.check)
        await listeners.open_to_nodes()
        grpc_port = await begin(listeners.grpc(grace, shared=listener is not None))
        stack.push_async_callback(finish_all, runtime.core.detached_runs, grace)  # as long as members can answer them
        http_port = await begin(listeners.http(bound, stopped, grace, shared=listener is not None))
        metrics.register_runtime(runtime, members, node, version=read_version())
        await begin(run_scheduler(settings, runtime, metrics))
        await begin(run_step_engine(settings, runtime, members, node))
        readiness.open(runtime.core.pool, node)
        stack.callback(readiness.close)
        stack.callback(node.drain)
        stack.callback(runtime.operations.waits.close)
        stack.push_async_callback(listeners.close_console)
        stack.callback(grace.begin)
        tune_garbage_collection()
        shorten_thread_switches()
        await begin(collect_garbage())
        log.info("ready", http=http_port, grpc=grpc_port, admin=admin_port)
        yield Service(
            http_port=http_port,
            grpc_port=grpc_port,
            admin_port=admin_port,
            runtime=runtime,
            dispatcher=node.local,
            node=node,
            members=members,
        )


WARM_DELAY_S: Final = 3.0
"""After the start: what ends sooner, as many a test does, need not start a program more."""


@asynccontextmanager
async def run_warm_service(
    settings: Settings, stopped: asyncio.Event, *, listener: socket.socket | None = None
) -> AsyncIterator[Service]:
    """As ``run_service``, with computing processes that soon need not be waited for."""
    async with (
        run_service(settings, stopped, listener=listener) as service,
        run_in_background({"computing-processes": _warm(service.runtime.core.computations)}),
    ):
        yield service


async def _warm(computations: ComputationPool) -> None:
    await asyncio.sleep(WARM_DELAY_S)
    with log_failures(log, "computing_processes_not_started"):
        await computations.warm()


@asynccontextmanager
async def run_without_listeners(settings: Settings) -> AsyncIterator[Runtime]:
    """The use cases of a node that listens nowhere and fires nothing on its own; for tests and benchmarks.

    The database is at ``settings.postgres_url`` and is up to date.
    """
    grace = ShutdownBudget(settings.shutdown_timeout)
    async with (
        open_database(settings) as database,
        open_cluster_node(build_node_config(settings), database, Members()) as node,
        build_runtime(settings, database, node, grace) as runtime,
    ):
        yield runtime


# Where and as what this process is a node of the cluster.


def build_node_config(settings: Settings) -> NodeConfig:
    """What the other nodes are told, and how long this one lets them wait."""
    return NodeConfig(
        name=settings.node_id,
        program=read_version(),
        bind=settings.node_bind_address,
        ports=_list_node_ports(settings),
        host=settings.node_host,
        lease=settings.node_lease,
        secret=settings.hmac_secret.key_bytes() if settings.hmac_secret else None,
        dispatch_wait=settings.dispatch_wait_timeout,
        dispatch_limit=settings.dispatch_forward_timeout,
        relay_limit=settings.proxy_timeout,
        within=settings.startup_timeout,
    )


def _list_node_ports(settings: Settings) -> tuple[int, ...]:
    """With workers, a range of which each takes a free one; during a rolling restart there is one more of them."""
    first = settings.node_port
    return tuple(range(first, first + settings.workers + 1)) if first and settings.workers > 1 else (first,)
