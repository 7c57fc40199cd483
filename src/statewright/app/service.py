"""A whole service, from its first listener to its last."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from statewright import logs
from statewright.app.authentication import build_authentication
from statewright.app.background import run_scheduler, run_step_engine
from statewright.app.database import migrate_database, open_database
from statewright.app.garbage import collect_garbage, tune_garbage_collection
from statewright.app.listeners import Listeners, bind_http, serve_admin
from statewright.app.program import get_program_version
from statewright.app.readiness import Readiness
from statewright.app.runtime import build_runtime
from statewright.app.telemetry import open_tracer
from statewright.background import ShutdownBudget, finish_all, shorten_thread_switches
from statewright.cluster.node import ClusterNode, NodeConfig, open_cluster_node
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.metrics import Metrics
from statewright.services.ops.waiting import EntityWaits
from statewright.services.runtime import Runtime
from statewright.settings import Settings
from statewright.tls import check_tls

log = logs.logger(__name__)


class Service(Struct, frozen=True, kw_only=True):
    """A running service: where it listens, for tests and the banner."""

    http_port: int
    grpc_port: int
    admin_port: int
    runtime: Runtime
    dispatcher: Dispatcher
    members: Members
    node: ClusterNode


@asynccontextmanager
async def run_service(
    settings: Settings, stopped: asyncio.Event | None = None, *, listener: socket.socket | None = None
) -> AsyncIterator[Service]:
    """A service that is ready inside the block. ``stopped`` is set when a listener fails.

    ``listener`` is an HTTP socket that other processes share, and so they do the gRPC port. None: this one is alone.
    Raises ``StartFailed``, ``OSError``.
    """
    check_tls(settings.tls)
    stopped = stopped or asyncio.Event()
    readiness, metrics, members = Readiness(), Metrics(), Members()
    grace = ShutdownBudget(settings.drain_window + settings.shutdown_timeout)
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
        stack.push_async_callback(finish_all, runtime.detached_runs, grace)  # as long as members can answer them
        http_port = await begin(listeners.http(bound, stopped, grace))
        metrics.register_runtime(runtime, members, node, version=get_program_version())
        await begin(run_scheduler(settings, runtime, metrics))
        await begin(run_step_engine(settings, runtime, members, node))
        readiness.open(runtime.pool, node)
        stack.callback(readiness.close)
        stack.callback(node.drain)
        stack.callback(runtime.extensions.get(EntityWaits).close)
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
        program=get_program_version(),
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
