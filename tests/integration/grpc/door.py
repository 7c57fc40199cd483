"""A real gRPC server with nothing behind it but members, and a client that speaks the bare protocol."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio
from msgspec import Struct

from statewright.api.grpc.members import KeepAlive, MemberStreams
from statewright.api.grpc.server import CloudEventsService, GrpcListenConfig, GrpcServer, start_grpc_server
from statewright.auth import AuthenticationFailed
from statewright.compute.callout import Callout, CalloutResult
from statewright.compute.members import UNKNOWN_ORIGIN, Dispatcher, Member, MemberOrigin, Members
from statewright.entity import Principal
from statewright.ids import TenantId
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub
from tests.unit.compute.builders import ACME, GLOBEX

PATIENCE = 10.0
"""Seconds after which a fact that has not come true is taken for a failure."""

UNHURRIED = KeepAlive(interval=60.0, timeout=180.0)
BRISK = KeepAlive(interval=0.05, timeout=0.3)


def document_in(reply: CalloutResult) -> JsonValue:
    """The document a processor answered with."""
    assert isinstance(reply.data, bytes)
    return decode(reply.data)


def a_node(tenant: TenantId = ACME, *roles: str) -> Principal:
    return Principal(id="node", name="node", kind="service", tenant=tenant, roles=roles or ("ROLE_M2M",))


TOKENS: Mapping[str, Principal] = {
    "Bearer acme": a_node(),
    "Bearer globex": a_node(GLOBEX),
    "Bearer person": a_node(ACME, "ROLE_USER", "ROLE_ADMIN"),
}


class KnownTokens:
    """An authenticator that knows some tokens by heart."""

    def __init__(self) -> None:
        self._principals = TOKENS
        self.asked = asyncio.Event()
        """Set as soon as a call has arrived."""

    def authenticate(self, authorization: str | None) -> Principal:
        self.asked.set()
        principal = self._principals.get(authorization or "")
        if principal is None:
            raise AuthenticationFailed("token-invalid")
        return principal

    async def authenticate_later(self, authorization: str | None) -> Principal:
        return self.authenticate(authorization)


class WatchedMembers(Members):
    """Members whose coming and going can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._change = asyncio.Event()

    def join(
        self, tenant: TenantId, tags: Iterable[str], *, member_id: str, origin: MemberOrigin = UNKNOWN_ORIGIN
    ) -> Member:
        member = super().join(tenant, tags, member_id=member_id, origin=origin)
        self._change.set()
        return member

    def leave(self, member: Member) -> None:
        super().leave(member)
        self._change.set()

    async def changed(self) -> None:
        """Returns after the next join or leave."""
        self._change.clear()
        await self._change.wait()


class Door(Struct, frozen=True, kw_only=True):
    """Everything a test may want to lay hands on."""

    members: WatchedMembers
    dispatcher: Dispatcher
    authenticator: KnownTokens
    streams: MemberStreams
    server: GrpcServer

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def ask(self, callout: Callout) -> asyncio.Task[CalloutResult]:
        """A callout under way."""
        return asyncio.create_task(self.dispatcher.dispatch(callout))

    async def stop(self, *, grace: float = 0.5) -> None:
        await self.server.stop(self.streams, self.dispatcher, grace=grace)


@asynccontextmanager
async def an_open_door(
    *, keep_alive: KeepAlive = UNHURRIED, listening: GrpcListenConfig | None = None
) -> AsyncIterator[Door]:
    members, authenticator = WatchedMembers(), KnownTokens()
    listening = listening or GrpcListenConfig(host="127.0.0.1", port=0)
    streams = MemberStreams(members, authenticator, keep_alive=keep_alive, message_bytes=listening.limits.message_bytes)
    server = await start_grpc_server(CloudEventsService(streams), listening, authenticator)
    door = Door(
        members=members,
        dispatcher=Dispatcher(members),
        authenticator=authenticator,
        streams=streams,
        server=server,
    )
    try:
        yield door
    finally:
        await door.stop(grace=0)


@asynccontextmanager
async def a_channel(door: Door) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(door.address, options=options) as channel:
        yield channel


class Wire:
    """One side of a member stream, event by event."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[CloudEvent, CloudEvent]") -> None:
        self.call = call

    async def send(self, event_type: str, **members: JsonValue) -> None:
        await self.send_event(CloudEvent(id="c", type=event_type, text_data=encode(members).decode()))

    async def send_event(self, event: CloudEvent) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.call.write(event)

    async def event(self, event_type: str) -> CloudEvent:
        """The next event, which must be of the type."""
        async with asyncio.timeout(PATIENCE):
            received = await self.call.read()
        assert isinstance(received, CloudEvent), f"the stream ended instead of {event_type}"
        assert received.type == event_type
        return received

    async def read(self, event_type: str) -> JsonObject:
        """The JSON of the next event, which must be of the type."""
        payload = decode((await self.event(event_type)).text_data)
        assert isinstance(payload, dict)
        return payload

    async def join(self, *tags: str) -> JsonObject:
        """Joins and returns the greeting."""
        await self.send("CalculationMemberJoinEvent", id="j-1", tags=list(tags))
        return await self.read("CalculationMemberGreetEvent")

    async def request(self, kind: str = "Processor") -> JsonObject:
        return await self.read(f"Entity{kind}CalculationRequest")

    async def answer(self, request: JsonObject, *, kind: str = "Processor", **members: JsonValue) -> None:
        """Answers a request successfully, unless ``members`` say otherwise."""
        echoed: JsonObject = {
            "id": "r-1",
            "requestId": request["requestId"],
            "entityId": request["entityId"],
            "success": True,
        }
        await self.send(f"Entity{kind}CalculationResponse", **(echoed | members))

    async def half_close(self) -> None:
        await self.call.done_writing()

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """The status the stream ends with; events until then are skipped."""
        async with asyncio.timeout(PATIENCE):
            with suppress(grpc.aio.AioRpcError):  # the status itself, when it is not OK
                while await self.call.read() is not grpc.aio.EOF:
                    pass
            return await self.call.code(), await self.call.details() or ""


@asynccontextmanager
async def a_stream(door: Door, *, token: str | None = "acme") -> AsyncIterator[Wire]:
    """A stream of its own connection, whose first event is still to come."""
    async with a_channel(door) as channel:
        metadata = [("authorization", f"Bearer {token}")] if token is not None else None
        call = CloudEventsServiceStub(channel).startStreaming(metadata=metadata)
        yield Wire(call)
        call.cancel()


@asynccontextmanager
async def a_member(door: Door, *tags: str, token: str = "acme") -> AsyncIterator[Wire]:
    """A stream that has joined and was greeted."""
    async with a_stream(door, token=token) as wire:
        await wire.join(*tags)
        yield wire
