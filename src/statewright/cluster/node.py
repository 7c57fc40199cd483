"""This process as a node: everything it needs for the others, put together."""

import asyncio
import os
import platform
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from statewright.cluster.authentication import NodeAuthenticator
from statewright.cluster.channels import Channels
from statewright.cluster.draining import MemberDrains
from statewright.cluster.forwarding import ClusterDispatcher
from statewright.cluster.heartbeat import Heartbeat, start_heartbeat
from statewright.cluster.http_proxy import Application, HttpProxy
from statewright.cluster.peer_table import PeerTable
from statewright.cluster.server import NodeServer, NodeService, RegisterServices, start_node_server
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.ids import NodeId
from statewright.rpc.server import PortLoad
from statewright.storage.connections import DatabaseUrl
from statewright.storage.nodes import NodeRow, load_cluster_key

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class NodeConfig(Struct, frozen=True, kw_only=True):
    """Where and as what a node is present, and how long it lets others wait.

    ``host`` is where the others reach it, ``bind`` where it listens, on the first free one of ``ports``. ``secret``
    None: the database keeps one.
    """

    name: str
    program: str
    bind: str
    ports: tuple[int, ...]
    host: str
    lease: timedelta
    secret: bytes | None
    dispatch_wait: timedelta
    dispatch_limit: timedelta
    relay_limit: timedelta
    within: timedelta


class ClusterNode:
    """A node. Until :meth:`open` it is alone; it says goodbye at the end of :func:`open_cluster_node`."""

    def __init__(self, config: NodeConfig, database: DatabaseUrl, secret: bytes, members: Members) -> None:
        self.id = NodeId(secrets.token_hex(12))
        self.secret = secret
        """Signs transaction tokens. Never to be logged."""
        self.peer_table = PeerTable()
        self._config = config
        self._database = database
        self.members = members
        self._authenticator = NodeAuthenticator(secret, self.id)
        self.channels = Channels(self.peer_table, self._authenticator)
        self.local = Dispatcher(members)
        self.callouts = ClusterDispatcher(
            self.local,
            members,
            self.peer_table,
            self.channels,
            wait=config.dispatch_wait,
            limit=config.dispatch_limit,
        )
        self.drains = MemberDrains(self.id, members, self.channels)
        self.http_proxy = HttpProxy(self.channels, limit=config.relay_limit)
        self._service = NodeService(self.local, members)
        self._server: NodeServer | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the others can take it for alive."""
        return self._heartbeat is not None and self._heartbeat.has_lease

    def get_port_load(self) -> PortLoad | None:
        """What other nodes take of this one at the moment; None before it is open."""
        return self._server.load if self._server is not None else None

    async def open(self, application: Application, register_services: RegisterServices, *, connections: int) -> None:
        """Let the others in and be seen. ``application`` answers relayed HTTP requests, ``register_services`` adds
        those for clients of other nodes, and there may be so many ``connections``.

        Raises ``OSError`` and ``TimeoutError``.
        """
        self._service.application = application
        self._server = await self._start_server(register_services, connections)
        self._heartbeat = Heartbeat(
            self._build_row(self._server.port),
            self._database,
            self.members,
            self.peer_table,
            lease=self._config.lease,
            on_gone=self.channels.drop,
        )
        self._heartbeat_task = await start_heartbeat(self._heartbeat, within=self._config.within)

    def drain(self) -> None:
        """This node is about to stop: no new callouts from others."""
        if self._heartbeat is not None:
            self._heartbeat.drain()

    async def close(self) -> None:
        """Say goodbye, and end what is still open between nodes."""
        if self._heartbeat_task is not None and self._heartbeat is not None:
            self._heartbeat_task.cancel()
            await asyncio.wait([self._heartbeat_task])
            await self._heartbeat.leave()
        if self._server is not None:
            await self._server.stop()
        await self.channels.close()

    async def _start_server(self, register_services: RegisterServices, connections: int) -> NodeServer:
        async def start(port: int) -> NodeServer:
            return await start_node_server(
                self._service,
                self._authenticator,
                register_services,
                host=self._config.bind,
                port=port,
                connections=connections,
            )

        *taken, last = self._config.ports
        for port in taken:
            with suppress(OSError):
                return await start(port)
        return await start(last)

    def _build_row(self, port: int) -> NodeRow:
        host = self._config.host or self._config.bind
        return NodeRow(
            id=self.id,
            name=self._config.name or f"{socket.gethostname()}:{os.getpid()}",
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            machine=_identify_machine(),
            program=self._config.program,
            draining=False,
            revision=-1,
        )


@asynccontextmanager
async def open_cluster_node(config: NodeConfig, database: DatabaseUrl, members: Members) -> AsyncIterator[ClusterNode]:
    """A node for the length of the block, which opens it when it can serve.

    Raises ``StorageUnavailable`` and ``TimeoutError``.
    """
    secret = config.secret or await load_cluster_key(database, config.within)
    node = ClusterNode(config, database, secret, members)
    try:
        yield node
    finally:
        await node.close()


def _identify_machine() -> str:
    """Tells whether two processes share a loopback interface, as far as that can be told."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    return f"{platform.node()} {boot}".strip()
