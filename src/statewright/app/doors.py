"""Where callers come in: other nodes, gRPC, HTTP, and the admin listener."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from statewright.api.admin import admin_app
from statewright.api.grpc.joining import Joining
from statewright.api.grpc.rpc import Served
from statewright.api.grpc.server import CloudEventsService, Listening, listen
from statewright.api.grpc.steps.service import WorkflowEngine
from statewright.api.grpc.streaming import KeepAlive, MemberStreams
from statewright.api.http.connection import Limits
from statewright.api.http.cors import Cors
from statewright.api.http.front import Front
from statewright.api.http.public import public_routes
from statewright.api.http.serving import served, served_on
from statewright.api.http.steps.door import StepDoor
from statewright.api.metrics import Metrics
from statewright.app.database import StartFailed
from statewright.app.identity import Identity
from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.grace import Grace
from statewright.proto.cyoda_cloud_api_pb2_grpc import add_CloudEventsServiceServicer_to_server
from statewright.services.runtime import Runtime
from statewright.settings import Settings
from statewright.sockets import listening_socket

ADMIN_GRACE = Grace(timedelta(seconds=1))

Ready = Callable[[], Awaitable[bool]]


class Doors:
    """The doors of one service, each opened by a method of its own."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        node: ClusterNode,
        members: Members,
        identity: Identity,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._node = node
        self._identity = identity
        self._metrics = metrics
        self._cors = Cors(settings.cors_allowed_origins) if settings.cors_enabled else None
        self._verbose_errors = settings.error_response_mode == "verbose"
        self._streams = MemberStreams(members, identity.authenticator, keep_alive=_keep_alive(settings))
        self._front = self._make_front()

    async def open_to_nodes(self) -> None:
        """Let other nodes in; what they bring is answered by this one, and never sent on. Raises ``StartFailed``."""
        service = CloudEventsService(self._streams, Served(self._runtime, self._identity.authenticator))
        try:
            await self._node.open(self._front, lambda server: add_CloudEventsServiceServicer_to_server(service, server))
        except TimeoutError as late:
            raise StartFailed("the database took too long to know this node") from late

    @asynccontextmanager
    async def grpc(self, grace: Grace, *, shared: bool) -> AsyncIterator[int]:
        """Serve gRPC inside the block; gives the port, which is ``shared`` with other processes or ours alone."""
        settings = self._settings
        listening = Listening(
            host=settings.host,
            port=settings.grpc_port,
            max_receive_bytes=settings.grpc_max_message_bytes,
            reuse_port=shared,
        )
        joining = Joining(self._runtime.transactions, self._node.channels, limit=settings.proxy_timeout)
        requests = Served(self._runtime, self._identity.authenticator, joining)
        steps = WorkflowEngine(self._runtime, self._identity.steps, self._metrics.step_calls.observe_grpc)
        server = await listen(CloudEventsService(self._streams, requests), listening, steps=steps)
        try:
            yield server.port
        finally:
            await server.stop(self._streams, self._node.local, grace=grace.left)

    def http(
        self, listener: socket.socket | None, stopped: asyncio.Event, ready: Ready, grace: Grace
    ) -> AbstractAsyncContextManager[int]:
        """Serve HTTP inside the block; gives the port. None: a socket of our own, by the settings."""
        settings = self._settings
        doors = StepDoor(
            self._front,
            self._runtime,
            self._identity.steps,
            cors=self._cors,
            ready=ready,
            observe=self._metrics.step_calls.observe_http,
            verbose_errors=self._verbose_errors,
        )
        return served_on(
            listener or listening_socket(settings.host, settings.http_port),
            doors,
            stopped,
            _limits(settings),
            grace=grace,
            window=settings.drain_window,
        )

    def _make_front(self) -> Front:
        settings, identity = self._settings, self._identity
        return Front(
            self._runtime,
            identity.authenticator,
            context_path=settings.context_path,
            cors=self._cors,
            public=public_routes(settings.context_path, tokens=identity.tokens, keys=identity.published_keys),
            observe=self._metrics.requests.observe,
            verbose_errors=self._verbose_errors,
            relay=self._node.relay,
        )


def admin_door(
    settings: Settings, ready: Ready, metrics: Callable[[], bytes | Awaitable[bytes]], stopped: asyncio.Event
) -> AbstractAsyncContextManager[int]:
    """Serve the admin listener inside the block; gives the port."""
    admin = admin_app(ready=ready, metrics=metrics, bearer=settings.metrics_bearer)
    host, port = settings.admin_bind_address, settings.admin_port
    return served(admin, host, port, stopped, _limits(settings), grace=ADMIN_GRACE)


def _limits(settings: Settings) -> Limits:
    return Limits(head_bytes=settings.http_max_header_bytes, head_within=settings.http_header_timeout.total_seconds())


def _keep_alive(settings: Settings) -> KeepAlive:
    return KeepAlive(
        interval=settings.keepalive_interval.total_seconds(), timeout=settings.keepalive_timeout.total_seconds()
    )
