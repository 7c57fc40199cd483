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

from msgspec import Struct

from statewright.cluster.channels import Channels
from statewright.cluster.doors import NodeDoor, NodeServer, Register, listen
from statewright.cluster.forwarding import ClusterDispatcher
from statewright.cluster.picture import Picture
from statewright.cluster.presence import Presence, kept
from statewright.cluster.proof import Prover
from statewright.cluster.relay import Application, HttpRelay
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.identity import NodeId
from statewright.storage.connections import Target
from statewright.storage.presence import NodeRow, cluster_key

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Place(Struct, frozen=True, kw_only=True):
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
    """A node. Until :meth:`open` it is alone; it says goodbye at the end of :func:`cluster_node`."""

    def __init__(self, place: Place, database: Target, secret: bytes, members: Members) -> None:
        self.id = NodeId(secrets.token_hex(12))
        self.secret = secret
        """Signs transaction tokens. Never to be logged."""
        self.picture = Picture()
        self._place = place
        self._database = database
        self._members = members
        self._prover = Prover(secret, self.id)
        self.channels = Channels(self.picture, self._prover)
        self.local = Dispatcher(members)
        self.callouts = ClusterDispatcher(
            self.local,
            members,
            self.picture,
            self.channels,
            wait=place.dispatch_wait,
            limit=place.dispatch_limit,
        )
        self.relay = HttpRelay(self.channels, limit=place.relay_limit)
        self._door = NodeDoor(self.local)
        self._server: NodeServer | None = None
        self._presence: Presence | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def is_present(self) -> bool:
        """Whether the others can take it for alive."""
        return self._presence is not None and self._presence.is_held

    async def open(self, application: Application, others: Register) -> None:
        """Let the others in and be seen. ``application`` answers relayed HTTP requests, ``others`` registers services.

        Raises ``OSError`` and ``TimeoutError``.
        """
        self._door.application = application
        self._server = await self._listening(others)
        self._presence = Presence(
            self._row(self._server.port),
            self._database,
            self._members,
            self.picture,
            lease=self._place.lease,
            gone=self.channels.drop,
        )
        self._keeper = await kept(self._presence, within=self._place.within)

    def drain(self) -> None:
        """This node is about to stop: no new callouts from others."""
        if self._presence is not None:
            self._presence.drain()

    async def close(self) -> None:
        """Say goodbye, and end what is still open between nodes."""
        if self._keeper is not None and self._presence is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            await self._presence.leave()
        if self._server is not None:
            await self._server.stop()
        await self.channels.close()

    async def _listening(self, others: Register) -> NodeServer:
        *taken, last = self._place.ports
        for port in taken:
            with suppress(OSError):
                return await listen(self._door, self._prover, others, host=self._place.bind, port=port)
        return await listen(self._door, self._prover, others, host=self._place.bind, port=last)

    def _row(self, port: int) -> NodeRow:
        host = self._place.host or self._place.bind
        return NodeRow(
            id=self.id,
            name=self._place.name or f"{socket.gethostname()}:{os.getpid()}",
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            machine=_machine(),
            program=self._place.program,
            draining=False,
            revision=-1,
        )


@asynccontextmanager
async def cluster_node(place: Place, database: Target, members: Members) -> AsyncIterator[ClusterNode]:
    """A node for the length of the block, which opens it when it can serve.

    Raises ``StorageUnavailable`` and ``TimeoutError``.
    """
    secret = place.secret or await cluster_key(database, place.within)
    node = ClusterNode(place, database, secret, members)
    try:
        yield node
    finally:
        await node.close()


def _machine() -> str:
    """Tells whether two processes share a loopback interface, as far as that can be told."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    return f"{platform.node()} {boot}".strip()
