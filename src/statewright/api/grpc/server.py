"""The gRPC server: which services it offers, how it listens, how it stops (docs/reference/grpc.md#service,
docs/reference/grpc.md#limits-and-shutdown, docs/reference/grpc.md#leniencies).

What the service publishes about its interface, for authors and generators of clients: JSON Schemas of all event
payloads, and the protobuf sources and descriptors (docs/reference/grpc.md#service).

The schemas are files, ``src/statewright/proto/events``, as the sources of the protocol are, ``proto``; tests hold every
payload that is sent to them, and every example in them to what is read.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from msgspec import Struct

from grpc_h2 import Incidents, Limits, PortLoad, Server
from statewright.api.grpc.calls import Context, authorize_at_head
from statewright.api.grpc.entities import ENTITY_MANAGE, ENTITY_MANAGE_COLLECTION
from statewright.api.grpc.handlers import MembersOnly, RpcHandler
from statewright.api.grpc.inspection import inspect_message
from statewright.api.grpc.members import MemberStreams
from statewright.api.grpc.models import ENTITY_MODEL_MANAGE
from statewright.api.grpc.search import ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION
from statewright.auth import Authenticator
from statewright.compute.members import Dispatcher
from statewright.documentation.sources import find_protos
from statewright.network.sockets import bind_watched_socket
from statewright.proto import cyoda_cloud_api_pb2
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2 import DESCRIPTOR
from statewright.proto.cyoda_cloud_api_pb2_grpc import (
    CloudEventsServiceServicer,
    add_CloudEventsServiceServicer_to_server,
)
from statewright.proto.workflow.v1 import engine_pb2
from statewright.proto.workflow.v1.engine_pb2_grpc import (
    WorkflowEngineServicer,
    add_WorkflowEngineServicer_to_server,
)
from statewright.telemetry import logs

log = logs.logger(__name__)

SERVICE_NAME: Final = DESCRIPTOR.services_by_name["CloudEventsService"].full_name
STEPS_NAME: Final = engine_pb2.DESCRIPTOR.services_by_name["WorkflowEngine"].full_name

PUBLIC_SERVICES: Final = frozenset({health.SERVICE_NAME, reflection.SERVICE_NAME})
"""Services that ask for no credentials."""

STREAM_END_TIMEOUT_S: Final = 5.0
"""Seconds that streams have to end in, after the time for callouts in flight."""

LOOPBACKS: Final = ("127.0.0.1", "::1")


class GrpcListenConfig(Struct, frozen=True, kw_only=True):
    """Where and how the server listens.

    ``host`` is an address, ``localhost`` for both loopbacks, or empty for all interfaces. ``port`` 0 takes a free
    one. ``limits`` are those of clients. With ``reuse_port`` several processes of a host share a port, and the kernel
    spreads connections over them; without, a port that is taken stops the start. ``tls`` offers ``h2`` by ALPN; None:
    plaintext.
    """

    host: str = "localhost"
    port: int = 9090
    limits: Limits = Limits(message_bytes=16 * 1024 * 1024)
    reuse_port: bool = False
    tls: ssl.SSLContext | None = None


class CloudEventsService(CloudEventsServiceServicer):
    """The methods of the service. Without a handler of requests it serves calculation members only."""

    def __init__(self, streams: MemberStreams, requests: RpcHandler | None = None) -> None:
        self._streams = streams
        self._requests = requests or MembersOnly()

    async def startStreaming(self, events: AsyncIterator[CloudEvent], context: Context, /) -> None:  # noqa: N802
        await self._streams.serve(events, context)

    async def entityModelManage(self, event: CloudEvent, context: Context, /) -> CloudEvent:  # noqa: N802
        return await self._requests.handle_one(ENTITY_MODEL_MANAGE, event, context)

    async def entityManage(self, event: CloudEvent, context: Context, /) -> CloudEvent:  # noqa: N802
        return await self._requests.handle_one(ENTITY_MANAGE, event, context)

    async def entityManageCollection(self, event: CloudEvent, context: Context, /) -> AsyncIterator[CloudEvent]:  # noqa: N802
        async with aclosing(self._requests.handle_many(ENTITY_MANAGE_COLLECTION, event, context)) as responses:
            async for response in responses:
                yield response

    async def entitySearch(self, event: CloudEvent, context: Context, /) -> CloudEvent:  # noqa: N802
        return await self._requests.handle_one(ENTITY_SEARCH, event, context)

    async def entitySearchCollection(self, event: CloudEvent, context: Context, /) -> AsyncIterator[CloudEvent]:  # noqa: N802
        async with aclosing(self._requests.handle_many(ENTITY_SEARCH_COLLECTION, event, context)) as responses:
            async for response in responses:
                yield response


class GrpcServer:
    """A running server, made by :func:`start_grpc_server`."""

    def __init__(self, server: Server, health_status: health.aio.HealthServicer, *, port: int) -> None:
        self.port = port
        self._server = server
        self._health = health_status

    @property
    def load(self) -> PortLoad:
        """What the clients of the port take at the moment."""
        return self._server.load

    async def stop(self, streams: MemberStreams, dispatcher: Dispatcher, *, grace: float) -> None:
        """Takes no new calls, lets calls and callouts in flight finish for ``grace`` seconds, then ends member streams.

        Streams of members end with ``UNAVAILABLE``; calls that are left after that are aborted.
        """
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(grace + STREAM_END_TIMEOUT_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await dispatcher.wait_drained()
                streams.drain()  # new callouts go to members of other nodes or fail, but are not aborted
                await dispatcher.wait_drained()
        streams.close()
        await stopping


async def start_grpc_server(
    service: CloudEventsService,
    config: GrpcListenConfig,
    authenticator: Authenticator,
    *,
    steps: tuple[WorkflowEngineServicer, Authenticator] | None = None,
) -> GrpcServer:
    """Starts serving, the step engine too if there is one, whose callers may be others. Raises ``OSError`` when the
    address is taken or is none of this machine's.
    """
    incidents = Incidents(logs.logger("grpc_h2"))
    authenticators = {STEPS_NAME: steps[1]} if steps is not None else {}
    server = Server(
        config.limits,
        tls=config.tls,
        authorize=authorize_at_head(authenticators, authenticator, PUBLIC_SERVICES, incidents),
        inspect=inspect_message,
        incidents=incidents,
    )
    add_CloudEventsServiceServicer_to_server(service, server)
    offered = [SERVICE_NAME]
    if steps is not None:
        add_WorkflowEngineServicer_to_server(steps[0], server)
        offered.append(STEPS_NAME)
    statuses = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(statuses, server)
    reflection.enable_server_reflection((*offered, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = _bind(server, config)
    await server.start()
    for name in ("", *offered):
        await statuses.set(name, health_pb2.HealthCheckResponse.SERVING)
    log.info("grpc_listening", host=config.host, port=port, tls=config.tls is not None)
    return GrpcServer(server, statuses, port=port)


def _bind(server: Server, config: GrpcListenConfig) -> int:
    """The port that was bound, on every address the host stands for."""
    first, *others = {"localhost": LOOPBACKS, "": ("::",)}.get(config.host, (config.host.strip("[]"),))
    port = server.add_socket(bind_watched_socket(first, config.port, shared=config.reuse_port))
    for host in others:
        try:
            server.add_socket(bind_watched_socket(host, port, shared=config.reuse_port))
        except OSError:  # a machine without IPv6, or the port is taken there
            log.warning("grpc_address_unavailable", address=f"[{host}]:{port}")
    return port


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BASE_ID: Final = "https://cyoda.com/cloud/event/"


def read_event_schemas() -> dict[str, object]:
    """Every schema by its path below :data:`BASE_ID`, ``<category>/<event type>.json``, in order of paths; the parts
    that they share are among them.
    """
    found = _walk_schemas(files("statewright.proto") / "events", "")
    return {path: msgspec.json.decode(file.read_bytes()) for path, file in sorted(found)}


def _walk_schemas(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk_schemas(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield f"{prefix}{entry.name}", entry


SOURCES: Final = ("cloudevents.proto", "cyoda-cloud-api.proto", "workflow/v1/engine.proto")
SERVICES: Final = (cyoda_cloud_api_pb2.DESCRIPTOR, engine_pb2.DESCRIPTOR)


def read_proto_sources() -> str:
    """All source files, each under its name."""
    folder = find_protos()
    return "\n".join(f"// {name}\n\n{(folder / name).read_text()}" for name in SOURCES)


def build_descriptor_set() -> str:
    """The services and everything they are made of as protobuf JSON, dependencies first."""
    found: dict[str, FileDescriptor] = {}
    for service in SERVICES:
        _collect(service, found)
    described = FileDescriptorSet()
    for descriptor in found.values():
        descriptor.CopyToProto(described.file.add())
    return json_format.MessageToJson(described, indent=None)


def _collect(descriptor: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    for dependency in descriptor.dependencies:
        _collect(dependency, found)
    found[descriptor.name] = descriptor
