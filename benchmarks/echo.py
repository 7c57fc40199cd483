"""Round trips per second on one bidirectional stream: the bare transport, and callouts over it.

``measure_echo`` is the floor: opaque bytes of the size of a callout, no CloudEvent, no JSON, one task.
``measure_dispatch`` sends real callouts through the dispatcher, the member stream and back. The client is another
process in both, since it stands for another machine. Run as a program it takes turns between the two:

    python -m benchmarks.echo
"""

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio
import msgspec
import uvloop

from statewright.api.grpc.members import KeepAlive, MemberStreams
from statewright.api.grpc.server import CloudEventsService, GrpcListenConfig, start_grpc_server
from statewright.compute.callout import Callout
from statewright.compute.members import UNKNOWN_ORIGIN, Dispatcher, Member, MemberOrigin, Members
from statewright.entity import Principal
from statewright.ids import IdSource, TenantId
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.proto.cyoda_cloud_api_pb2_grpc import CloudEventsServiceStub

METHOD = "/benchmarks.Echo/echo"
TENANT = TenantId("bench")
DOCUMENT = (
    b'{"number":"R-100","total":12.5,"lines":[' + b",".join(b'{"sku":"A-%d","count":1}' % n for n in range(12)) + b"]}"
)
"""About 400 bytes."""

ids = IdSource()


class Measured(msgspec.Struct, frozen=True):
    """Round trips per second, and processor time of this process for each, in microseconds."""

    rate: float
    cpu_us: float


class Meter:
    """Counts round trips from its making on."""

    def __init__(self) -> None:
        self.count = 0
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    def read(self) -> Measured:
        return Measured(self.count / self.elapsed, (time.process_time() - self._cpu_began) / self.count * 1e6)


class AwaitedMembers(Members):
    """Tells when the first member has joined."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = asyncio.Event()

    def join(
        self, tenant: TenantId, tags: Iterable[str], *, member_id: str, origin: MemberOrigin = UNKNOWN_ORIGIN
    ) -> Member:
        member = super().join(tenant, tags, member_id=member_id, origin=origin)
        self.joined.set()
        return member


class Everybody:
    """Takes every caller for a calculation member."""

    def authenticate(self, authorization: str | None) -> Principal:
        return Principal(id="bench", name="bench", kind="service", tenant=TENANT, roles=("ROLE_M2M",))

    async def authenticate_later(self, authorization: str | None) -> Principal:
        """The same."""
        return self.authenticate(authorization)


async def measure_echo(*, in_flight: int, seconds: float, size: int = 1000) -> Measured:
    """A bare stream; the server asks, the client echoes."""
    measured: asyncio.Future[Measured] = asyncio.get_running_loop().create_future()
    message = bytes(size)

    async def serve(answers: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        for _ in range(in_flight):
            await context.write(message)
        meter = Meter()
        async for _ in answers:
            meter.count += 1
            if meter.elapsed > seconds:
                break
            await context.write(message)
        measured.set_result(meter.read())

    service, _, method = METHOD.removeprefix("/").partition("/")
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {method: grpc.stream_stream_rpc_method_handler(serve)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with _client("echo", port):
        result = await measured
    await server.stop(0)
    return result


async def measure_dispatch(*, in_flight: int, seconds: float) -> Measured:
    """Callouts through the dispatcher and one member's stream."""
    members = AwaitedMembers()
    authenticator = Everybody()
    config = GrpcListenConfig(host="127.0.0.1", port=0)
    streams = MemberStreams(members, authenticator, keep_alive=KeepAlive(), message_bytes=config.limits.message_bytes)
    server = await start_grpc_server(CloudEventsService(streams), config, authenticator)
    dispatcher = Dispatcher(members)
    async with _client("member", server.port):
        await members.joined.wait()
        result = await _closed_loop(lambda: dispatcher.dispatch(a_callout()), in_flight=in_flight, seconds=seconds)
    await server.stop(streams, dispatcher, grace=0)
    return result


async def _closed_loop(call: Callable[[], Awaitable[object]], *, in_flight: int, seconds: float) -> Measured:
    meter = Meter()

    async def caller() -> None:
        while meter.elapsed < seconds:
            await call()
            meter.count += 1

    async with asyncio.TaskGroup() as callers:
        for _ in range(in_flight):
            callers.create_task(caller())
    return meter.read()


def a_callout() -> Callout:
    entity_id = ids()
    meta = b'{"id":"%b","modelKey":{"name":"invoice","version":1},"state":"NEW"}' % entity_id.encode()
    return Callout(
        kind="processor",
        request_id=ids(),
        tenant=TENANT,
        name="price",
        tags=("billing",),
        tags_text="billing",
        timeout_ms=30_000,
        entity_id=entity_id,
        workflow="invoice-flow",
        transition="submit",
        state_from="NEW",
        state_to="SUBMITTED",
        target="",
        transaction_id=entity_id,
        parameters="",
        payload=b'{"type":"JSON","data":%b,"meta":%b}' % (DOCUMENT, meta),
        principal=Principal(id="alice", name="Alice", kind="user", tenant=TENANT, roles=("ROLE_USER",)),
        tx_token=None,
    )


@asynccontextmanager
async def _client(role: str, port: int) -> AsyncIterator[None]:
    """The other side, in a process of its own."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.echo", role, str(port))
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def _echo(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(METHOD)()
        # The server may end the measurement between the two.
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            while isinstance(message := await call.read(), bytes):
                await call.write(message)


class _Request(msgspec.Struct, rename="camel"):
    request_id: str
    entity_id: str
    payload: msgspec.Raw


async def _member(port: int) -> None:
    """The leanest member: it sends the document back as it came."""
    requests, encode = msgspec.json.Decoder(_Request), msgspec.json.Encoder().encode
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = CloudEventsServiceStub(channel).startStreaming()
        await call.write(CloudEvent(type="CalculationMemberJoinEvent", text_data='{"tags": ["billing"]}'))
        await call.read()
        while isinstance(event := await call.read(), CloudEvent):
            if event.type != "EntityProcessorCalculationRequest":
                continue
            asked = requests.decode(event.text_data)
            answer = {
                "requestId": asked.request_id,
                "entityId": asked.entity_id,
                "success": True,
                "payload": asked.payload,
            }
            await call.write(CloudEvent(type="EntityProcessorCalculationResponse", text_data=encode(answer).decode()))


async def _compare(rounds: int = 5, seconds: float = 2.0) -> None:
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)  # much as the service sets it
    for in_flight in (1, 16, 64):
        echo, dispatch = [], []
        for _ in range(rounds):
            echo.append(await measure_echo(in_flight=in_flight, seconds=seconds))
            dispatch.append(await measure_dispatch(in_flight=in_flight, seconds=seconds))
        floor, ours = _median(echo), _median(dispatch)
        print(
            f"{in_flight:3} in flight: echo {floor.rate:6.0f}/s {floor.cpu_us:4.0f} us, "
            f"dispatch {ours.rate:6.0f}/s {ours.cpu_us:4.0f} us, ratio {ours.rate / floor.rate:.2f}"
        )


def _median(rounds: list[Measured]) -> Measured:
    return Measured(statistics.median(r.rate for r in rounds), statistics.median(r.cpu_us for r in rounds))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["echo", port]:
            uvloop.run(_echo(int(port)))
        case ["member", port]:
            uvloop.run(_member(int(port)))
        case _:
            uvloop.run(_compare())
