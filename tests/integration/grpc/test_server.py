"""The server around the service: discovery, health, addresses, limits (docs/reference/grpc.md#service,
docs/reference/grpc.md#limits-and-shutdown, docs/reference/grpc.md#leniencies).
"""

import asyncio
import socket
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from statewright.api.grpc.server import SERVICE_NAME, GrpcListenConfig
from statewright.network.tls import build_server_context
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.certificates import Authority
from tests.integration.grpc.door import PATIENCE, Door, a_channel, an_open_door


async def test_reflection_lists_the_service(door: Door):
    async with a_channel(door) as channel:
        call = ServerReflectionStub(channel).ServerReflectionInfo(iter([ServerReflectionRequest(list_services="")]))
        answer = await call.read()
        names = {service.name for service in answer.list_services_response.service}
    assert {"org.cyoda.cloud.api.grpc.CloudEventsService", "grpc.health.v1.Health"} <= names


async def test_reflection_describes_the_six_methods_as_they_are_spelled(door: Door):
    async with a_channel(door) as channel:
        asked = ServerReflectionRequest(file_containing_symbol=SERVICE_NAME)
        answer = await ServerReflectionStub(channel).ServerReflectionInfo(iter([asked])).read()
        file = FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
    assert [method.name for method in file.service[0].method] == [
        "startStreaming",
        "entityModelManage",
        "entityManage",
        "entityManageCollection",
        "entitySearch",
        "entitySearchCollection",
    ]


@pytest.mark.parametrize("service", ["", SERVICE_NAME])
async def test_health_says_serving(door: Door, service: str):
    async with a_channel(door) as channel:
        answer = await HealthStub(channel).Check(HealthCheckRequest(service=service), timeout=PATIENCE)
    assert answer.status == HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    ("credentials", "status"),
    [((("authorization", "Bearer acme"),), grpc.StatusCode.UNIMPLEMENTED), ((), grpc.StatusCode.UNAUTHENTICATED)],
)
@pytest.mark.parametrize("path", [f"/{SERVICE_NAME}/StartStreaming", "/no.such.Service/method", "/"])
async def test_an_unknown_method_is_unimplemented_and_strangers_are_not_told(
    door: Door, path: str, credentials: tuple[tuple[str, str], ...], status: grpc.StatusCode
):
    async with a_channel(door) as channel:
        call = channel.unary_unary(path, CloudEvent.SerializeToString, CloudEvent.FromString)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(CloudEvent(), timeout=PATIENCE, metadata=credentials)
    assert refused.value.code() == status


async def test_the_line_of_a_call_without_credentials_names_its_method(door: Door, capsys: pytest.CaptureFixture[str]):
    async with a_channel(door) as channel:
        call = channel.unary_unary(f"/{SERVICE_NAME}/entityManage", CloudEvent.SerializeToString, CloudEvent.FromString)
        with pytest.raises(grpc.aio.AioRpcError):
            await call(CloudEvent(), timeout=PATIENCE)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "authentication_failed" in line]
    assert f"method=/{SERVICE_NAME}/entityManage" in line


async def test_strangers_who_go_on_and_on_are_one_line(door: Door, capsys: pytest.CaptureFixture[str]):
    async with a_channel(door) as channel:
        call = channel.unary_unary(f"/{SERVICE_NAME}/entityManage", CloudEvent.SerializeToString, CloudEvent.FromString)
        for _ in range(50):
            with pytest.raises(grpc.aio.AioRpcError):
                await call(CloudEvent(), timeout=PATIENCE)
    assert capsys.readouterr().out.count("authentication_failed") <= 5  # one in ten seconds
    assert door.server.load.incidents["authentication_failed"] == 50


async def test_localhost_listens_on_both_loopbacks():
    async with an_open_door(listening=GrpcListenConfig(host="localhost", port=0)) as door:
        for address in ("127.0.0.1", "[::1]") if socket.has_ipv6 else ("127.0.0.1",):
            async with grpc.aio.insecure_channel(f"{address}:{door.server.port}") as channel:
                answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=PATIENCE)
                assert answer.status == HealthCheckResponse.SERVING


async def test_clients_that_trust_its_certificate_reach_it_by_tls(tmp_path: Path):
    authority = Authority(tmp_path)
    tls = build_server_context(authority.issue_tls(), protocols=("h2",))
    async with an_open_door(listening=GrpcListenConfig(host="localhost", port=0, tls=tls)) as door:
        credentials = grpc.ssl_channel_credentials(authority.pem)
        for address in ("127.0.0.1", "[::1]") if socket.has_ipv6 else ("127.0.0.1",):
            async with grpc.aio.secure_channel(f"{address}:{door.server.port}", credentials) as channel:
                answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=PATIENCE)
                assert answer.status == HealthCheckResponse.SERVING


async def test_a_port_that_is_taken_stops_the_start_and_is_named():
    async with an_open_door() as door:
        port = door.server.port
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with an_open_door(listening=GrpcListenConfig(host="127.0.0.1", port=port)):
                pass


async def test_several_servers_may_share_a_port_when_asked_to():
    listening = GrpcListenConfig(host="127.0.0.1", port=0, reuse_port=True)
    async with an_open_door(listening=listening) as one:
        shared = GrpcListenConfig(host="127.0.0.1", port=one.server.port, reuse_port=True)
        async with an_open_door(listening=shared) as two:
            assert one.server.port == two.server.port


async def test_a_client_may_ping_without_pause_and_without_a_call(door: Door):
    answered = await pinged(door, times=50)
    assert answered == [PING_FRAME] * 50


SETTINGS_FRAME, PING_FRAME, GOAWAY_FRAME = 4, 6, 7
"""Frame types of HTTP/2 (RFC 9113 §6)."""


async def pinged(door: Door, *, times: int) -> list[int]:
    """Types of the frames with which the server answers so many pings; fewer when it goes away."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.server.port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + a_frame(SETTINGS_FRAME))
        answers: list[int] = []
        while len(answers) < times and GOAWAY_FRAME not in answers:
            writer.write(a_frame(PING_FRAME, b"12345678"))
            answers.append(await next_frame(reader, PING_FRAME, GOAWAY_FRAME))
        writer.close()
        return answers


def a_frame(kind: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + kind.to_bytes(1) + bytes(5) + payload


async def next_frame(reader: asyncio.StreamReader, *kinds: int) -> int:
    """The type of the next frame that is of one of the types."""
    while True:
        header = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(header[:3]))
        if header[3] in kinds:
            return header[3]
