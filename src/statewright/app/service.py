"""A whole service, from its first listener to its last."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from statewright import logs
from statewright.api.metrics import Metrics
from statewright.app.background import scheduling, stepping
from statewright.app.database import database_of, migrated
from statewright.app.doors import Doors, admin_door
from statewright.app.identity import identity_of
from statewright.app.place import place_of
from statewright.app.readiness import Readiness
from statewright.app.runtime import runtime_of
from statewright.app.tasks import finished
from statewright.cluster.node import ClusterNode, cluster_node
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.grace import Grace
from statewright.services.runtime import Runtime
from statewright.settings import Settings

GC_THRESHOLDS = (50_000, 20, 100)
"""Allocations between collections. What lives after start-up is frozen; the default thresholds would triple the p99 of
a read.
"""

log = logs.logger("app")


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
async def running(
    settings: Settings, stopped: asyncio.Event | None = None, *, listener: socket.socket | None = None
) -> AsyncIterator[Service]:
    """A service that is ready inside the block. ``stopped`` is set when a listener fails.

    ``listener`` is an HTTP socket that other processes share, and so they do the gRPC port. None: this one is alone.
    Raises ``StartFailed``, ``OSError``.
    """
    stopped = stopped or asyncio.Event()
    readiness, metrics, members = Readiness(), Metrics(), Members()
    grace = Grace(settings.drain_window + settings.shutdown_timeout)
    async with AsyncExitStack() as stack:
        begin = stack.enter_async_context
        admin_port = await begin(admin_door(settings, readiness.check, metrics.exposition, stopped))
        database = await begin(database_of(settings))
        await migrated(settings, database)
        node = await begin(cluster_node(place_of(settings), database, members))
        runtime = await begin(runtime_of(settings, database, node, grace))
        doors = Doors(settings, runtime, node, members, await identity_of(settings), metrics)
        await doors.open_to_nodes()
        grpc_port = await begin(doors.grpc(grace, shared=listener is not None))
        stack.push_async_callback(finished, runtime.outliving, grace)  # as long as members can answer them
        http_port = await begin(doors.http(listener, stopped, readiness.check, grace))
        metrics.watch(runtime, members, node)
        await begin(scheduling(settings, runtime, metrics))
        await begin(stepping(settings, runtime, members, node))
        readiness.open(runtime.pool, node)
        stack.callback(readiness.close)
        stack.callback(node.drain)
        stack.callback(grace.begin)
        tune_garbage_collection()
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
async def without_doors(settings: Settings) -> AsyncIterator[Runtime]:
    """The use cases of a node that nobody can call and that fires nothing on its own; for tests and benchmarks.

    The database is at ``settings.postgres_url`` and is up to date.
    """
    grace = Grace(settings.shutdown_timeout)
    async with (
        database_of(settings) as database,
        cluster_node(place_of(settings), database, Members()) as node,
        runtime_of(settings, database, node, grace) as runtime,
    ):
        yield runtime


def tune_garbage_collection() -> None:
    """To be called when everything that stays is there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
