"""The one place where the parts are put together.

Start-up goes inside out: admin listener (alive, not ready), database and migrations, definitions and engine, gRPC,
HTTP; then the process is ready. Shutdown goes outside in: not ready, no new calls, calls in flight and runs whose
client has gone finish, member streams end, pools, database. One limit holds for all of this (``Grace``); who outlasts
it is cut off. A signal during start-up undoes what was started so far.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib import metadata
from typing import Any

from msgspec import Struct

from statewright import logs
from statewright.api.admin import admin_app
from statewright.api.grpc.joining import Joining
from statewright.api.grpc.rpc import Served
from statewright.api.grpc.server import CloudEventsService, Listening, listen
from statewright.api.grpc.steps.service import WorkflowEngine
from statewright.api.grpc.streaming import KeepAlive, MemberStreams
from statewright.api.http.connection import Limits
from statewright.api.http.cors import Cors
from statewright.api.http.front import Front
from statewright.api.http.openapi import Document
from statewright.api.http.openapi import openapi_document as openapi_document
from statewright.api.http.public import public_routes
from statewright.api.http.serving import listening_socket, served, served_on
from statewright.api.http.steps.door import StepDoor
from statewright.api.metrics import Metrics
from statewright.auth import (
    Authenticator,
    ClientSecrets,
    FixedClients,
    JwkSet,
    JwtAuthenticator,
    KeyRing,
    MockAuthenticator,
    MockTokenEndpoint,
    NoTrustedKeys,
    OpenTo,
    TokenEndpoint,
    TokenIssuer,
    TokenRules,
    TokenService,
    TokenVerifier,
    bootstrap_client,
    configured_key,
    mock_principal,
    open_principal,
)
from statewright.cluster.node import ClusterNode, Place, cluster_node
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.compute.transaction_tokens import TransactionTokens
from statewright.engine.callouts import Desk
from statewright.engine.engine import Engine
from statewright.engine.processors import Retry
from statewright.failures import StorageUnavailable
from statewright.grace import Grace
from statewright.identity import IdSource, system_clock
from statewright.proto.cyoda_cloud_api_pb2_grpc import add_CloudEventsServiceServicer_to_server
from statewright.services.definitions import DefinitionCache, Refresher
from statewright.services.index_builder import IndexBuilder
from statewright.services.retention import Pruner
from statewright.services.runtime import Runtime
from statewright.services.scheduler import Pace, Scheduler
from statewright.services.search_runner import CONCURRENCY as JOB_CONNECTIONS
from statewright.services.search_runner import SearchRunner
from statewright.services.steps.background import StepPace, hosting_steps
from statewright.services.steps.parts import StepParts
from statewright.services.steps.push import Pusher
from statewright.services.transactions import OpenTransactions
from statewright.settings import Settings
from statewright.storage import announcements, migrate
from statewright.storage.connections import Target, connect, target
from statewright.storage.embedded import running as embedded_server
from statewright.storage.entities import MAX_IN_FLIGHT as READ_CONNECTIONS
from statewright.storage.entities import EntityReader
from statewright.storage.group_commit import CONNECTIONS as COMMIT_CONNECTIONS
from statewright.storage.group_commit import GroupCommit, commit_sessions
from statewright.storage.lookups import Lookups
from statewright.storage.pool import Pool
from statewright.storage.refusals import SchemaNewer, StartRefused
from statewright.storage.schedules import StoredTasks
from statewright.storage.search import SearchDatabase, lookup_sessions, past_sessions, search_sessions
from statewright.storage.search_indexes import SearchIndexes
from statewright.storage.search_jobs import SearchJobs
from statewright.storage.steps import wakeups

GC_THRESHOLDS = (50_000, 20, 100)
"""Allocations between collections. What lives after start-up is frozen; the default thresholds would triple the p99 of
a read.
"""

MOST_SEARCH_CONNECTIONS = 8
"""Of the connections of a process; searches take a quarter of them."""

LOOKUP_CONNECTIONS = 2
"""For searches by a declared index, which take a fraction of a millisecond."""

PAST_CONNECTIONS = 2
"""Searches of the past at a time."""

ADMIN_GRACE = Grace(timedelta(seconds=1))
CLOSE_WITHIN_S = 2.0
"""How long a database may take to say goodbye."""

log = logs.logger("app")


class StartFailed(Exception):
    """The service cannot start; the message is one line for the operator."""


class Service(Struct, frozen=True, kw_only=True):
    """A running service: where it listens, for tests and the banner."""

    http_port: int
    grpc_port: int
    admin_port: int
    runtime: Runtime
    dispatcher: Dispatcher
    members: Members
    node: ClusterNode


class Identity(Struct, frozen=True, kw_only=True):
    """How callers prove who they are, by the mode of the settings."""

    authenticator: Authenticator
    tokens: TokenService
    published_keys: Callable[[], JwkSet] | None


async def serve(settings: Settings) -> int:
    """Run the service until a signal ends it; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        log.warning("setting_doubtful", text=warning)
    signalled, stopped = asyncio.Event(), asyncio.Event()
    on_signals(signalled)
    try:
        async with interruptible(signalled) as started, running(settings, stopped) as service:
            started()
            if not settings.suppress_banner:
                print_banner(settings, service.http_port, service.grpc_port, service.admin_port)
            await first_of(signalled, stopped)
            log.info("shutdown_started")
    except Interrupted:
        log.info("startup_interrupted")
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        log.error("startup_failed", error=str(failure))  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("shutdown_complete")
    return 0


@asynccontextmanager
async def running(
    settings: Settings, stopped: asyncio.Event | None = None, *, listener: socket.socket | None = None
) -> AsyncIterator[Service]:
    """A service that is ready inside the block. ``stopped`` is set when a listener fails.

    ``listener`` is an HTTP socket that other processes share, and so they do the gRPC port. None: this one is alone.
    Raises ``StartFailed``, ``OSError``.
    """
    stopped = stopped or asyncio.Event()
    readiness = Readiness()
    grace = Grace(settings.drain_window + settings.shutdown_timeout)
    metrics = Metrics()
    limits = Limits(head_bytes=settings.http_max_header_bytes, head_within=settings.http_header_timeout.total_seconds())
    async with AsyncExitStack() as stack:
        admin = admin_app(ready=readiness.check, metrics=metrics.exposition, bearer=settings.metrics_bearer)
        admin_port = await stack.enter_async_context(
            served(admin, settings.admin_bind_address, settings.admin_port, stopped, limits, grace=ADMIN_GRACE)
        )
        database = await stack.enter_async_context(database_of(settings))
        await migrated(settings, database)
        members = Members()
        node = await stack.enter_async_context(cluster_node(_place(settings), database, members))
        runtime = await stack.enter_async_context(_runtime(settings, database, node, grace))
        identity = await _identity(settings)
        steps_authenticator = _steps_authenticator(settings, identity)
        streams = MemberStreams(members, identity.authenticator, keep_alive=_keep_alive(settings))
        front = Front(
            runtime,
            identity.authenticator,
            context_path=settings.context_path,
            cors=Cors(settings.cors_allowed_origins) if settings.cors_enabled else None,
            public=public_routes(settings.context_path, tokens=identity.tokens, keys=identity.published_keys),
            observe=metrics.requests.observe,
            verbose_errors=settings.error_response_mode == "verbose",
            relay=node.relay,
        )
        await _opened(node, front, CloudEventsService(streams, Served(runtime, identity.authenticator)))
        joining = Joining(runtime.transactions, node.channels, limit=settings.proxy_timeout)
        requests = Served(runtime, identity.authenticator, joining)
        engine = WorkflowEngine(runtime, steps_authenticator, metrics.step_calls.observe_grpc)
        grpc_port = await stack.enter_async_context(
            _grpc(settings, streams, requests, engine, node.local, grace, shared=listener is not None)
        )
        stack.push_async_callback(_finished, runtime.outliving, grace)  # as long as members can answer them
        doors = StepDoor(
            front,
            runtime,
            steps_authenticator,
            cors=Cors(settings.cors_allowed_origins) if settings.cors_enabled else None,
            ready=readiness.check,
            observe=metrics.step_calls.observe_http,
            verbose_errors=settings.error_response_mode == "verbose",
        )
        http_port = await stack.enter_async_context(
            served_on(
                listener or listening_socket(settings.host, settings.http_port),
                doors,
                stopped,
                limits,
                grace=grace,
                window=settings.drain_window,
            )
        )
        metrics.watch(runtime, members, node)
        if settings.scheduler_enabled:
            await stack.enter_async_context(_scheduling(settings, runtime, metrics))
        pusher = Pusher(runtime, members, node.local) if settings.steps_dispatch == "both" else None
        await stack.enter_async_context(hosting_steps(runtime, _step_pace(settings), pusher))
        readiness.open(runtime.pool, node)
        stack.callback(readiness.close)
        stack.callback(node.drain)
        stack.callback(grace.begin)
        _tune_garbage_collection()
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


async def apply_migrations(settings: Settings, within: timedelta) -> int:
    """Apply pending migrations and exit; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    try:
        async with asyncio.timeout(within.total_seconds()), database_of(settings) as database:
            connection = await connect(database)
            try:
                applied = await migrate.apply(connection)
            finally:
                await connection.close()
    except TimeoutError:
        sys.stderr.write(f"statewright: migrations were not complete within {within.total_seconds():g} s\n")
        return 1
    except (StartFailed, OSError, StorageUnavailable, StartRefused) as failure:
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("migrations_applied", count=len(applied))
    return 0


class Interrupted(Exception):
    """A signal came before the service was up."""


@asynccontextmanager
async def interruptible(signalled: asyncio.Event) -> AsyncIterator[Callable[[], None]]:
    """A block that a signal ends until the function it is given was called. Raises ``Interrupted``."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks
    interrupted = False

    async def watch() -> None:
        nonlocal interrupted
        await signalled.wait()
        interrupted = True
        task.cancel()

    watcher = asyncio.create_task(watch(), name="startup-signals")

    def started() -> None:
        watcher.cancel()

    try:
        yield started
    except asyncio.CancelledError as cut:
        if not interrupted or task.uncancel():
            raise
        raise Interrupted from cut
    finally:
        watcher.cancel()


async def first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await _cancelled(waits)


class Readiness:
    """Whether the service can do its work now: start-up is complete and the database answers."""

    WITHIN_S = 1.0

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
        if self._pool is None or self._node is None:
            return False
        if not self._node.is_present:
            log.warning("not_ready", error="the other nodes take this one for lost")
            return False
        try:
            async with asyncio.timeout(self.WITHIN_S), self._pool.connection() as connection:
                await migrate.check(connection)
        except SchemaNewer:  # nodes of a newer release have joined: the rolling upgrade must not stop this one
            return True
        except (StorageUnavailable, TimeoutError, StartRefused) as reason:
            log.warning("not_ready", error=str(reason) or type(reason).__name__)
            return False
        return True


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[Target]:
    """The database of the settings; the embedded server runs inside the block."""
    if settings.storage == "postgres":
        assert settings.postgres_url is not None  # noqa: S101 - the settings demand it
        yield target(settings.postgres_url.reveal())
        return
    async with embedded_server(settings.data_directory) as url:
        yield target(url)


async def migrated(settings: Settings, database: Target) -> None:
    """Bring the schema up to this program, or see that it is. Raises ``StartFailed`` and ``StartRefused``."""
    within = settings.startup_timeout.total_seconds()
    try:
        async with asyncio.timeout(within):
            connection = await connect(database)
            try:
                await (migrate.apply(connection) if settings.postgres_auto_migrate else migrate.check(connection))
            finally:
                await connection.close(timeout=CLOSE_WITHIN_S)
    except TimeoutError as late:
        raise StartFailed(f"the database was not ready within {within:g} s") from late
    except StorageUnavailable as away:
        raise StartFailed(f"cannot connect to the database at {database.place}: {away.__cause__ or away}") from away


@asynccontextmanager
async def without_doors(settings: Settings) -> AsyncIterator[Runtime]:
    """The use cases of a node that nobody can call and that fires nothing on its own; for tests and benchmarks.

    The database is at ``settings.postgres_url`` and is up to date.
    """
    grace = Grace(settings.shutdown_timeout)
    async with (
        database_of(settings) as database,
        cluster_node(_place(settings), database, Members()) as node,
        _runtime(settings, database, node, grace) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def _runtime(settings: Settings, database: Target, node: ClusterNode, grace: Grace) -> AsyncIterator[Runtime]:
    """Pools, caches and background work.

    Commits and reads by id have connections of their own, which nothing slow can take.
    """
    ids = IdSource()
    searching = max(1, min(settings.postgres_max_conns // 4, MOST_SEARCH_CONNECTIONS))
    searchers = searching + LOOKUP_CONNECTIONS + PAST_CONNECTIONS + JOB_CONNECTIONS
    reserved = COMMIT_CONNECTIONS + READ_CONNECTIONS + searchers
    shared = max(settings.postgres_max_conns - reserved, 1)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            Pool(database, size=shared, keep=min(settings.postgres_min_conns, shared))
        )
        reads = await stack.enter_async_context(Pool(database, size=READ_CONNECTIONS, keep=READ_CONNECTIONS))
        commits = await stack.enter_async_context(
            Pool(commit_sessions(database), size=COMMIT_CONNECTIONS, keep=COMMIT_CONNECTIONS)
        )
        searches = await stack.enter_async_context(
            Pool(search_sessions(database, timeout=settings.search_timeout), size=searching)
        )
        lookups = await stack.enter_async_context(
            Pool(lookup_sessions(database, timeout=settings.search_timeout), size=LOOKUP_CONNECTIONS)
        )
        past = await stack.enter_async_context(
            Pool(past_sessions(database, timeout=settings.search_timeout), size=PAST_CONNECTIONS)
        )
        workers = await stack.enter_async_context(Pool(search_sessions(database), size=JOB_CONNECTIONS))
        definitions = DefinitionCache(pool, system_clock, lease=settings.model_cache_lease)
        group_commit = GroupCommit(commits)
        tasks = StoredTasks(pool)
        transactions = OpenTransactions(_transaction_tokens(settings, node))
        outliving: set[asyncio.Task[object]] = set()
        jobs = SearchJobs(pool, workers, retention=settings.search_snapshot_ttl)
        indexes = SearchIndexes(pool, database)
        builder = IndexBuilder(indexes)
        runner = SearchRunner(jobs, definitions, reap_interval=settings.search_reap_interval)
        runtime = Runtime(
            pool=pool,
            reader=EntityReader(reads),
            commits=group_commit,
            tasks=tasks,
            definitions=definitions,
            engine=Engine(
                Desk(callouts=node.callouts, tokens=transactions, ids=ids),
                tasks,
                max_visits=settings.max_state_visits,
                retry=Retry(
                    attempts=settings.retry_attempts, delay_ms=settings.retry_delay // timedelta(milliseconds=1)
                ),
                checks_output=settings.processor_output == "strict",
            ),
            transactions=transactions,
            ids=ids,
            clock=system_clock,
            outliving=outliving,
            search=SearchDatabase(
                searches,
                timeout=settings.search_timeout,
                scan_budget=settings.search_scan_budget,
                lookups=Lookups(lookups, searches),
                past=past,
            ),
            search_jobs=jobs,
            search_runner=runner,
            search_indexes=indexes,
            index_builder=builder,
            steps=StepParts(pool, system_clock),
            stats_group_max=settings.stats_group_max,
            max_sort_keys=settings.search_max_sort_keys,
        )
        background = [
            asyncio.create_task(
                announcements.follow(
                    database,
                    definitions.forget,
                    definitions.forget_all,
                    others={wakeups.CHANNEL: wakeups.hearing(runtime.steps.wakeups.wake)},
                ),
                name="announcements",
            ),
            asyncio.create_task(Refresher(pool, definitions, system_clock).run(), name="definition-refresh"),
            asyncio.create_task(runner.run(), name="search-jobs"),
            asyncio.create_task(runner.reap(), name="search-expiry"),
            asyncio.create_task(builder.run(), name="search-indexes"),
        ]
        if settings.history_retention.is_limited:
            pruner = Pruner(pool, settings.history_retention, interval=settings.history_prune_interval)
            background.append(asyncio.create_task(pruner.run(), name="history-pruning"))
        stack.push_async_callback(_cancelled, background)
        stack.push_async_callback(group_commit.drain)
        stack.push_async_callback(_finished, outliving, grace)
        yield runtime


def _step_pace(settings: Settings) -> StepPace:
    return StepPace(
        fires_timers=settings.scheduler_enabled,
        scan_interval=settings.scheduler_scan_interval,
        sweep_interval=settings.steps_sweep_interval,
        retention=settings.steps_retention,
    )


@asynccontextmanager
async def _scheduling(settings: Settings, runtime: Runtime, metrics: Metrics) -> AsyncIterator[None]:
    """Scheduled transitions fire inside the block; those under way at its end are outliving runs like others."""
    pace = Pace(
        scan_interval=settings.scheduler_scan_interval,
        batch_size=settings.scheduler_batch_size,
        backoff=settings.scheduler_redispatch_backoff,
        expiry_grace=settings.scheduler_expiry_grace,
    )
    scheduler = Scheduler(runtime, pace)
    metrics.watch_scheduler(scheduler.tally)
    task = asyncio.create_task(scheduler.run(), name="scheduler")
    try:
        yield
    finally:
        await _cancelled([task])


async def _cancelled(tasks: "Sequence[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _finished(tasks: "set[asyncio.Task[object]]", grace: Grace) -> None:
    """Let runs whose client has gone come to their end, for a while; the rest is cancelled, and undone."""
    if tasks:
        _, late = await asyncio.wait(set(tasks), timeout=grace.left)
        if late:
            log.warning("runs_cut_off", count=len(late))
            await _cancelled([*late])


def _transaction_tokens(settings: Settings, node: ClusterNode) -> TransactionTokens:
    return TransactionTokens(node.secret, node=node.id, ttl=settings.tx_token_ttl.total_seconds(), clock=system_clock)


def _place(settings: Settings) -> Place:
    return Place(
        name=settings.node_id,
        program=program_version(),
        bind=settings.node_bind_address,
        ports=_node_ports(settings),
        host=settings.node_host,
        lease=settings.node_lease,
        secret=settings.hmac_secret.key_bytes() if settings.hmac_secret else None,
        dispatch_wait=settings.dispatch_wait_timeout,
        dispatch_limit=settings.dispatch_forward_timeout,
        relay_limit=settings.proxy_timeout,
        within=settings.startup_timeout,
    )


def _node_ports(settings: Settings) -> tuple[int, ...]:
    """With workers, a range of which each takes a free one; during a rolling restart there is one more of them."""
    first = settings.node_port
    return tuple(range(first, first + settings.workers + 1)) if first and settings.workers > 1 else (first,)


async def _opened(node: ClusterNode, front: Front, service: CloudEventsService) -> None:
    """Let other nodes in; what they bring is answered by this one, and never sent on."""
    try:
        await node.open(front, lambda server: add_CloudEventsServiceServicer_to_server(service, server))
    except TimeoutError as late:
        raise StartFailed("the database took too long to know this node") from late


async def _identity(settings: Settings) -> Identity:
    principal = mock_principal(settings.iam_mock_roles, settings.iam_mock_kind)
    rules = TokenRules(
        issuer=settings.jwt_issuer, audience=settings.jwt_audience, expiry_seconds=settings.jwt_expiry_seconds
    )
    if settings.iam_mode == "mock":
        tokens = MockTokenEndpoint(principal, rules, system_clock)
        return Identity(authenticator=MockAuthenticator(principal), tokens=tokens, published_keys=None)
    key = configured_key(settings, system_clock())
    ring = KeyRing(*([key] if key else []))
    client = await bootstrap_client(settings)
    clients = ClientSecrets(FixedClients(*([client] if client else [])))
    return Identity(
        authenticator=JwtAuthenticator(TokenVerifier(ring, rules, system_clock)),
        tokens=TokenEndpoint(clients, TokenIssuer(ring, rules, system_clock), NoTrustedKeys(), system_clock),
        published_keys=lambda: ring.published(system_clock()),
    )


def _steps_authenticator(settings: Settings, identity: Identity) -> Authenticator:
    """Who calls the step engine; its workers cannot authenticate (decision J8)."""
    if not settings.steps_open_tenant:
        return identity.authenticator
    return OpenTo(open_principal(settings.steps_open_tenant), identity.authenticator)


@asynccontextmanager
async def _grpc(
    settings: Settings,
    streams: MemberStreams,
    requests: Served,
    steps: WorkflowEngine,
    dispatcher: Dispatcher,
    grace: Grace,
    *,
    shared: bool,
) -> AsyncIterator[int]:
    listening = Listening(
        host=settings.host,
        port=settings.grpc_port,
        max_receive_bytes=settings.grpc_max_message_bytes,
        reuse_port=shared,
    )
    server = await listen(CloudEventsService(streams, requests), listening, steps=steps)
    try:
        yield server.port
    finally:
        await server.stop(streams, dispatcher, grace=grace.left)


def _keep_alive(settings: Settings) -> KeepAlive:
    return KeepAlive(
        interval=settings.keepalive_interval.total_seconds(), timeout=settings.keepalive_timeout.total_seconds()
    )


def on_signals(stopped: asyncio.Event) -> None:
    """The first signal drains, the second one ends the process at once."""

    def received() -> None:
        if stopped.is_set():
            log.warning("hard_exit_forced_by_second_signal")
            os._exit(2)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received)


def program_version() -> str:
    """The release, as it is installed."""
    try:
        return metadata.version("statewright")
    except metadata.PackageNotFoundError:
        return "unknown"


def _tune_garbage_collection() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def print_banner(settings: Settings, http_port: int, grpc_port: int, admin_port: int) -> None:
    """Tell a person at the terminal where everything is; loud about mock authentication (decision A3)."""
    lines = [
        "",
        "  Statewright",
        f"  REST   http://{settings.host}:{http_port}{settings.context_path}   (described at /docs)",
        f"  gRPC   {settings.host}:{grpc_port}",
        f"  admin  http://{settings.admin_bind_address}:{admin_port}   (/livez /readyz /metrics)",
        f"  data   {'PostgreSQL by URL' if settings.storage == 'postgres' else settings.data_directory}",
    ]
    if settings.iam_mode == "mock":
        lines += [
            "",
            "  WARNING: mock authentication. Every caller is an administrator of one tenant. Never expose this.",
        ]
    sys.stdout.write("\n".join([*lines, "", ""]))
    sys.stdout.flush()


__all__ = [
    "Document",
    "Service",
    "StartFailed",
    "apply_migrations",
    "openapi_document",
    "running",
    "serve",
    "without_doors",
]
