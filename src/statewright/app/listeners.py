"""Where requests come in: other nodes, gRPC, HTTP, and the admin listener.

How many files the process may open is divided among the connections of clients. A port that is full must not starve the
others: health, the admin listener and the database need files, too.
"""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from grpc_h2 import Limits as GrpcLimits
from statewright.api.grpc.calls import TransactionForwarder
from statewright.api.grpc.handlers import RequestHandler
from statewright.api.grpc.members import KeepAlive, MemberStreams
from statewright.api.grpc.server import CloudEventsService, GrpcListenConfig, start_grpc_server
from statewright.api.grpc.steps.service import WorkflowEngineService
from statewright.api.http import dialects
from statewright.api.http.administration import build_admin_application
from statewright.api.http.application import Dialect, HttpApplication
from statewright.api.http.asgi import Application, RequestLimits
from statewright.api.http.console import ConsoleEndpoint, build_console_dialect
from statewright.api.http.dialects import (
    build_absent_ops_dialect,
    build_entity_dialect,
    build_ops_dialect,
    build_probe_dialect,
    build_process_dialect,
)
from statewright.api.http.public import build_public_routes
from statewright.api.http.security import PageGuard
from statewright.api.http.server import HttpLimits, serve_http
from statewright.app.authentication import Authentication
from statewright.app.database import StartFailed
from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.loop.background import ShutdownBudget
from statewright.metrics import Metrics
from statewright.network.sockets import bind_listening_socket
from statewright.network.tls import build_server_context
from statewright.proto.cyoda_cloud_api_pb2_grpc import add_CloudEventsServiceServicer_to_server
from statewright.services.runtime import Runtime
from statewright.settings import Settings

if TYPE_CHECKING:
    from statewright.console.application import Console


MAX_FILES: Final = 1_048_576
"""No more are asked for, whatever the system would grant."""

RESERVED_FILES: Final = 256
"""Files that no client gets: connections to the database and to other nodes, logs, sockets that listen."""

MAX_CONNECTIONS: Final = 10_000
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_NODE_CONNECTIONS: Final = 1000


class ConnectionShares(Struct, frozen=True, kw_only=True):
    """Connections that each of the ports may have."""

    http: int
    grpc: int
    nodes: int
    admin: int


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; how many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems grant less than they say
        return soft
    return wanted


def share_connections(grpc_limit: int) -> ConnectionShares:
    """Half of the files for HTTP, a quarter for gRPC, an eighth for other nodes, as far as that is needed.
    ``grpc_limit`` is what the settings allow.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_FILES if soft == resource.RLIM_INFINITY else soft
    free = max(files - RESERVED_FILES, files // 2)
    return ConnectionShares(
        http=min(MAX_CONNECTIONS, free // 2),
        grpc=min(grpc_limit, free // 4),
        nodes=min(MAX_NODE_CONNECTIONS, free // 8),
        admin=min(MAX_ADMIN_CONNECTIONS, free // 16),
    )


MIN_GRPC_CONNECTION_BYTES: Final = 32 * 1024 * 1024
"""What a gRPC connection may hold in memory, unless messages are so long that two of them take more."""

ADMIN_GRACE: Final = ShutdownBudget(timedelta(seconds=1))

Ready = Callable[[], Awaitable[bool]]


class Listeners:
    """The listeners of one service, each opened by a method of its own."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        node: ClusterNode,
        members: Members,
        identity: Authentication,
        metrics: Metrics,
        ready: Ready,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._node = node
        self._identity = identity
        self._metrics = metrics
        self._streams = MemberStreams(
            members,
            identity.authenticator,
            keep_alive=_keep_alive(settings),
            message_bytes=settings.grpc_max_message_bytes,
            connections=runtime.processes.connections,
        )
        self._console = ConsoleEndpoint(self._build_console) if settings.console else None
        self._application = self._build_application(ready)
        if self._console is not None:
            self._console.attach(self._application)

    async def close_console(self) -> None:
        """End what pages of the console have begun."""
        if self._console is not None:
            await self._console.close()

    async def open_to_nodes(self) -> None:
        """Let other nodes in; what they bring is answered by this one, and never sent on. Raises ``StartFailed``."""
        service = CloudEventsService(self._streams, RequestHandler(self._runtime, self._identity.authenticator))
        try:
            await self._node.open(
                self._application,
                lambda server: add_CloudEventsServiceServicer_to_server(service, server),
                connections=share_connections(self._settings.grpc_max_connections).nodes,
            )
        except TimeoutError as late:
            raise StartFailed("the database took too long to know this node") from late
        self._metrics.grpc.add_port("nodes", self._node.get_port_load)

    @asynccontextmanager
    async def grpc(self, grace: ShutdownBudget, *, shared: bool) -> AsyncIterator[int]:
        """Serve gRPC inside the block; gives the port, which is ``shared`` with other processes or ours alone."""
        settings = self._settings
        listening = GrpcListenConfig(
            host=settings.host,
            port=settings.grpc_port,
            limits=_build_grpc_limits(settings),
            reuse_port=shared,
            tls=build_server_context(settings.tls, protocols=("h2",)) if settings.tls else None,
        )
        joining = TransactionForwarder(
            self._runtime.core.transactions, self._node.channels, limit=settings.proxy_timeout
        )
        requests = RequestHandler(self._runtime, self._identity.authenticator, joining)
        steps = WorkflowEngineService(self._runtime, self._identity.steps, self._metrics.step_calls.observe_grpc)
        server = await start_grpc_server(
            CloudEventsService(self._streams, requests),
            listening,
            self._identity.authenticator,
            steps=(steps, self._identity.steps),
        )
        self._metrics.grpc.add_port("clients", lambda: server.load)
        try:
            yield server.port
        finally:
            await server.stop(self._streams, self._node.local, grace=grace.remaining_s)

    def http(
        self, listener: socket.socket, stopped: asyncio.Event, grace: ShutdownBudget, *, shared: bool
    ) -> AbstractAsyncContextManager[int]:
        """Serve HTTP on a bound socket inside the block, which others accept from, too, if it is ``shared``; gives the
        port.
        """
        return serve_http(
            self._application,
            listener,
            stopped,
            _build_http_limits(self._settings, share_connections(self._settings.grpc_max_connections).http),
            grace=grace,
            drain_window=self._settings.drain_window,
            tls=self._settings.tls,
            is_shared=shared,
        )

    def _build_application(self, ready: Ready) -> HttpApplication:
        settings, identity, metrics = self._settings, self._identity, self._metrics
        origins = _list_origins(settings)
        guard = _build_guard(settings)
        public = build_public_routes(settings.context_path, tokens=identity.tokens, keys=identity.published_keys)
        entities = build_entity_dialect(
            settings.context_path,
            identity.authenticator,
            public=public,
            origins=origins,
            guard=guard,
            observe=metrics.requests.times.observe,
        )
        processes = (
            build_process_dialect(
                api,
                identity.steps,
                origins=origins,
                guard=guard or _build_anonymous_guard(settings),
                observe=metrics.step_calls.http.observe,
            )
            for api in dialects.PROCESS_APIS
        )
        probes = build_probe_dialect(ready, guard)
        console = [] if self._console is None else [build_console_dialect(self._console, self._build_console_guard())]
        return HttpApplication(
            [*processes, self._build_ops(origins, guard), probes, *console, entities],
            self._runtime,
            proxy=self._node.http_proxy,
            verbose_errors=settings.error_response_mode == "verbose",
            access_log=settings.access_log,
        )

    def _build_console(self, application: Application) -> "Console":
        from statewright.app.console import build_console

        return build_console(
            self._settings, self._runtime, application, partial(self._metrics.console.times.observe, "")
        )

    def _build_console_guard(self) -> PageGuard:
        """Pages of other origins may not use the console, whatever CORS allows the API."""
        public = urlsplit(self._settings.public_url).hostname
        return PageGuard((*_list_hosts(self._settings), *((public,) if public else ())), None)

    def _build_ops(self, origins: tuple[str, ...] | None, guard: PageGuard | None) -> Dialect:
        settings = self._settings
        if not settings.ops_enabled:
            return build_absent_ops_dialect()
        return build_ops_dialect(
            settings.context_path,
            self._identity.authenticator,
            origins=origins,
            guard=guard,
            observe=self._metrics.requests.times.observe,
        )


def serve_admin(
    settings: Settings, ready: Ready, metrics: Callable[[], bytes | Awaitable[bytes]], stopped: asyncio.Event
) -> AbstractAsyncContextManager[int]:
    """Serve the admin listener inside the block; gives the port."""
    application = build_admin_application(
        ready=ready, metrics=metrics, bearer=settings.metrics_bearer, guard=_build_guard(settings)
    )
    listener = bind_listening_socket(settings.admin_bind_address, settings.admin_port)
    limits = _build_http_limits(settings, share_connections(settings.grpc_max_connections).admin)
    return serve_http(application, listener, stopped, limits, grace=ADMIN_GRACE)


def bind_http(settings: Settings) -> socket.socket:
    """The socket of the API, and proof that gRPC can have its port. Raises ``OSError``."""
    bind_listening_socket(settings.host, settings.grpc_port).close()
    return bind_listening_socket(settings.host, settings.http_port)


def _build_guard(settings: Settings) -> PageGuard | None:
    """What keeps web pages out of a service that asks nobody who he is (decision A5)."""
    return PageGuard(_list_hosts(settings), _list_origins(settings)) if settings.iam_mode == "mock" else None


def _build_anonymous_guard(settings: Settings) -> PageGuard | None:
    """The same for those callers of the step engine that need not say who they are."""
    if not settings.steps_open_tenant:
        return None
    return PageGuard(_list_hosts(settings), _list_origins(settings), anonymous_only=True)


def _list_hosts(settings: Settings) -> tuple[str, ...]:
    """The names that the service goes by: also those that it was told to bind."""
    bound = (settings.host, settings.admin_bind_address)
    return (*settings.allowed_hosts, *(host.lower() for host in bound))


def _list_origins(settings: Settings) -> tuple[str, ...] | None:
    """The origins that may call; None where CORS is switched off."""
    return settings.cors_allowed_origins if settings.cors_enabled else None


def _build_http_limits(settings: Settings, connections: int) -> HttpLimits:
    return HttpLimits(
        requests=RequestLimits(
            connections=connections,
            body_grace_s=settings.http_body_grace.total_seconds(),
            body_rate=settings.http_min_body_rate,
            proxies=settings.trusted_proxies,
        ),
        head_bytes=settings.http_max_header_bytes,
        head_timeout_s=settings.http_header_timeout.total_seconds(),
    )


def _build_grpc_limits(settings: Settings) -> GrpcLimits:
    return GrpcLimits(
        message_bytes=settings.grpc_max_message_bytes,
        connection_bytes=max(MIN_GRPC_CONNECTION_BYTES, 2 * settings.grpc_max_message_bytes),
        port_bytes=settings.grpc_memory_bytes,
        connections=share_connections(settings.grpc_max_connections).grpc,
        request_timeout_s=settings.grpc_request_timeout.total_seconds(),
        idle_timeout_s=settings.grpc_idle_timeout.total_seconds(),
    )


def _keep_alive(settings: Settings) -> KeepAlive:
    return KeepAlive(
        interval=settings.keepalive_interval.total_seconds(), timeout=settings.keepalive_timeout.total_seconds()
    )
