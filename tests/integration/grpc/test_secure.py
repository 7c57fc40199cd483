"""The same server over TLS, for grpcio's clients and for strangers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from grpc_h2 import listener
from grpc_h2_testing.echo import PATIENCE, Client, House, a_house, status, until
from grpc_h2_testing.wire import PREFACE
from statewright.network.tls import Tls, build_server_context
from tests.certificates import Authority

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def encrypted(tls: Tls) -> AsyncIterator[House]:
    async with a_house(tls=build_server_context(tls, protocols=("h2",))) as house:
        yield house


@asynccontextmanager
async def a_client(
    house: House, authority: Authority, identity: tuple[Path, Path] | None = None
) -> AsyncIterator[Client]:
    """One that trusts the authority, and has the certificate and key of its ``identity``."""
    certificate, key = (None, None) if identity is None else (file.read_bytes() for file in identity)
    credentials = grpc.ssl_channel_credentials(authority.pem, key, certificate)
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
    async with grpc.aio.secure_channel(f"localhost:{house.port}", credentials, options=options) as channel:
        yield Client(channel)


async def test_calls_of_all_kinds_are_answered(authority: Authority):
    async with encrypted(authority.issue_tls()) as house, a_client(house, authority) as client:
        assert await client.say(b"x") == b"x"
        assert await client.tell("sum", iter([bytes(MIB)] * 3)) == b"3 %d" % (3 * MIB)
        assert [len(message) async for message in client.listen("count", b"3 1000000")] == [1_000_000] * 3
        chat = client.meet()
        await chat.write(b"still here")
        assert await chat.read() == b"still here"
        assert await status(client.call("refuse", b"no")) == grpc.StatusCode.FAILED_PRECONDITION


async def test_a_server_of_another_authority_is_not_trusted(authority: Authority, tmp_path: Path):
    async with encrypted(authority.issue_tls()) as house, a_client(house, Authority(tmp_path)) as client:
        assert await status(client.say(b"x")) == grpc.StatusCode.UNAVAILABLE


async def test_plaintext_is_not_answered(authority: Authority):
    async with (
        encrypted(authority.issue_tls()) as house,
        grpc.aio.insecure_channel(f"127.0.0.1:{house.port}") as channel,
    ):
        assert await status(Client(channel).say(b"x")) == grpc.StatusCode.UNAVAILABLE


async def test_only_clients_of_the_authority_are_let_in(authority: Authority, tmp_path: Path):
    clients, strangers = Authority(tmp_path, "clients"), Authority(tmp_path, "strangers")
    async with encrypted(authority.issue_tls(client_ca=clients.file)) as house:
        for identity in (None, strangers.issue("stranger")):
            async with a_client(house, authority, identity) as client:
                assert await status(client.say(b"x")) == grpc.StatusCode.UNAVAILABLE
        async with a_client(house, authority, clients.issue("known")) as client:
            assert await client.say(b"x") == b"x"
        assert len(house.echo.contexts) == 1


@pytest.mark.parametrize("protocols", [[], ["http/1.1"]])
async def test_a_client_that_does_not_agree_to_http2_is_dropped(authority: Authority, protocols: list[str]):
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if protocols:
        context.set_alpn_protocols(protocols)
    async with encrypted(authority.issue_tls()) as house, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("localhost", house.port, ssl=context)
        with suppress(ConnectionError):
            writer.write(PREFACE)
            assert await reader.read() == b""
        await until(lambda: house.server.connections == 0)


async def test_old_versions_of_tls_are_refused(authority: Authority):
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    async with encrypted(Tls(certificate=certificate, key=key, min_version="1.3")) as house:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", house.port, ssl=context)
    async with encrypted(Tls(certificate=certificate, key=key, min_version="1.2")) as house:
        _, writer = await asyncio.open_connection("localhost", house.port, ssl=context)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        writer.close()


async def test_one_that_never_shakes_hands_is_dropped(authority: Authority, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "TLS_HANDSHAKE_TIMEOUT_S", 0.1)
    async with encrypted(authority.issue_tls()) as house, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        assert await reader.read() == b""
        writer.close()


async def test_a_server_that_stops_finishes_what_has_begun(authority: Authority):
    async with encrypted(authority.issue_tls()) as house, a_client(house, authority) as client:
        calls = [client.call("wait", bytes(8 * MIB)), client.call("wait", b"y")]
        await house.echo.until_running(2)
        stop = asyncio.create_task(house.server.stop(PATIENCE))
        house.echo.released.set()
        assert [len(answer) for answer in await asyncio.gather(*calls)] == [8 * MIB, 1]
        async with asyncio.timeout(PATIENCE):
            await stop


async def test_a_server_that_cannot_wait_says_so(authority: Authority):
    async with encrypted(authority.issue_tls()) as house, a_client(house, authority) as client:
        call = client.call("wait")
        await house.echo.until_running(1)
        await house.server.stop(0.05)
        assert await status(call) == grpc.StatusCode.UNAVAILABLE
