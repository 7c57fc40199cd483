"""Requests reach what the policy permits, and nothing else (docs/reference/egress.md)."""

import asyncio
import ssl
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import httpcore
import pytest

from statewright.egress import Egress, EgressPolicy, HttpFailure, HttpRequest, HttpResponse
from statewright.egress.connecting import CheckedBackend
from tests.certificates import Authority
from tests.integration.egress.conftest import PERMITTED, REFUSED, Names, open_egress, respond, serve
from tests.service import eventually


async def send(egress: Egress, url: str, **members: object) -> HttpResponse | HttpFailure:
    return await egress.send(HttpRequest(url=url, **members))


def reason_of(outcome: HttpResponse | HttpFailure) -> str:
    assert isinstance(outcome, HttpFailure), f"there is a response: {outcome}"
    return outcome.reason


async def test_a_response_has_status_headers_and_body():
    answer = respond(b'{"a": 1}', status="404 Not Found", Content_Type="Application/JSON; charset=utf-8", X="1")
    async with serve(answer) as server, open_egress() as egress:
        response = await send(egress, server.url(path="/a?b=c"))
    assert isinstance(response, HttpResponse)
    assert (response.status, response.media_type, response.body) == (404, "application/json", b'{"a": 1}')
    assert response.get_header("x") == "1"
    assert server.requests[0][1].startswith("GET /a?b=c HTTP/1.1\r\n")


async def test_method_headers_and_body_arrive():
    async with serve(respond()) as server, open_egress(Names(api_test=[[PERMITTED]])) as egress:
        await send(egress, server.url("api.test"), method="DELETE", headers=(("X-One", "1"), ("X-One", "2")))
    head = server.requests[0][1]
    assert head.startswith("DELETE / HTTP/1.1\r\n")
    assert f"Host: api.test:{server.port}\r\n" in head
    assert "X-One: 1\r\nX-One: 2\r\n" in head


async def test_what_is_private_is_not_reached():
    async with serve(respond()) as server, open_egress() as egress:
        assert reason_of(await send(egress, server.url(REFUSED))) == "address_refused"
    assert server.connections == []


async def test_what_is_private_is_reached_where_everything_is_permitted():
    egress = Egress(EgressPolicy(is_open=True))
    async with serve(respond()) as server:
        assert isinstance(await send(egress, server.url(REFUSED)), HttpResponse)
        assert await egress.check(server.url("no.such.name.test")) is None
    await egress.close()


async def test_every_address_of_a_name_must_be_permitted():
    names = Names(both_test=[[PERMITTED, REFUSED]])
    async with serve(respond()) as server, open_egress(names) as egress:
        assert reason_of(await send(egress, server.url("both.test"))) == "address_refused"
    assert server.connections == []


async def test_a_name_that_changes_after_it_was_checked_leads_nowhere_else():
    """DNS rebinding: there is no second look-up between the check and the connection."""
    names = Names(rebinding_test=[[PERMITTED], [REFUSED]])
    async with serve(respond(Connection="close")) as server, open_egress(names) as egress:
        first = await send(egress, server.url("rebinding.test"))
        second = await send(egress, server.url("rebinding.test"))
    assert isinstance(first, HttpResponse)
    assert reason_of(second) == "address_refused"
    assert names.asked == ["rebinding.test"] * 2
    assert server.connections == [PERMITTED]


async def test_the_next_address_of_a_name_is_tried_when_one_does_not_answer():
    async with serve(respond()) as server:
        names = Names(two_test=[["::ffff:127.0.0.1", PERMITTED]])
        async with open_egress(names) as egress:
            assert isinstance(await send(egress, server.url("two.test")), HttpResponse)


async def test_a_name_that_does_not_exist():
    async with open_egress(Names()) as egress:
        assert reason_of(await send(egress, "http://nowhere.test/")) == "name_unresolved"
        failure = await egress.check("http://nowhere.test/")
    assert failure is not None
    assert failure.reason == "name_unresolved"


async def test_localhost_by_any_spelling_is_not_reached():
    """Names that the resolver of the system understands as addresses."""
    egress = Egress(EgressPolicy())
    async with serve(respond()) as server:
        for host in ("localhost", "127.1", "2130706433", "0x7f000001", "127.0.0.1", "0", "[::ffff:7f00:1]"):
            outcome = await send(egress, server.url(host))
            assert reason_of(outcome) in {"address_refused", "name_unresolved", "url_malformed"}, host
    await egress.close()
    assert server.connections == []


async def test_a_check_sends_nothing():
    names = Names(good_test=[[PERMITTED]], bad_test=[[REFUSED]])
    async with serve(respond()) as server, open_egress(names) as egress:
        assert await egress.check(server.url("good.test")) is None
        failure = await egress.check(server.url("bad.test"))
    assert failure is not None
    assert failure.reason == "address_refused"
    assert server.connections == []


async def test_redirects_are_answers_unless_they_are_asked_for():
    async with serve(respond(status="302 Found", Location="/there")) as server, open_egress() as egress:
        response = await send(egress, server.url())
    assert isinstance(response, HttpResponse)
    assert response.status == 302
    assert len(server.requests) == 1


async def test_a_redirect_into_a_private_network_is_not_followed():
    async with serve(respond(b"secret")) as inside:
        redirect = respond(status="302 Found", Location=inside.url(REFUSED, "/latest/meta-data"))
        async with serve(redirect) as server, open_egress() as egress:
            outcome = await send(egress, server.url(), max_redirects=5)
    assert reason_of(outcome) == "address_refused"
    assert inside.connections == []


async def test_a_redirect_is_followed_and_carries_no_secret_to_another_host():
    async with serve(respond(b"there")) as other:
        redirect = respond(status="307 Temporary Redirect", Location=other.url("127.0.0.1", "/b"))
        async with serve(redirect) as server, open_egress() as egress:
            response = await send(
                egress, server.url(), max_redirects=1, headers=(("Authorization", "Bearer x"), ("Accept", "a/b"))
            )
    assert isinstance(response, HttpResponse)
    assert (response.body, response.url) == (b"there", other.url(path="/b"))
    assert "Bearer" in server.requests[0][1]
    assert "Bearer" not in other.requests[0][1]
    assert "Accept: a/b" in other.requests[0][1]


async def test_redirects_end():
    async with serve(respond(status="302 Found", Location="/")) as server, open_egress() as egress:
        assert reason_of(await send(egress, server.url(), max_redirects=3)) == "too_many_redirects"
    assert len(server.requests) == 4


async def test_hosts_that_are_not_named_are_not_reached_also_not_by_a_redirect():
    names = Names(good_test=[[PERMITTED]], other_test=[[PERMITTED]])
    async with serve(respond()) as other:
        redirect = respond(status="302 Found", Location=other.url("other.test"))
        async with serve(redirect) as server, open_egress(names, hosts=("good.test",)) as egress:
            assert reason_of(await send(egress, server.url("other.test"))) == "host_refused"
            assert reason_of(await send(egress, server.url("good.test"), max_redirects=1)) == "host_refused"
    assert other.connections == []


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def build_context(authority: Authority, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", names=names))
    return context


async def test_a_server_proves_the_name_that_was_called(authority: Authority):
    names = Names(idp_test=[[PERMITTED]], other_test=[[PERMITTED]])
    async with (
        serve(respond(b"ok"), tls=build_context(authority, "idp.test")) as server,
        open_egress(names, certificates=authority.file) as egress,
    ):
        response = await send(egress, server.url("idp.test", scheme="https"))
        impostor = await send(egress, server.url("other.test", scheme="https"))
    assert isinstance(response, HttpResponse)
    assert reason_of(impostor) == "tls_failed"
    assert "other.test" in str(impostor)


async def test_an_unknown_authority_is_not_believed(authority: Authority):
    names = Names(idp_test=[[PERMITTED]])
    async with serve(respond(), tls=build_context(authority, "idp.test")) as server, open_egress(names) as egress:
        outcome = await send(egress, server.url("idp.test", scheme="https"))
    assert reason_of(outcome) == "tls_failed"
    assert isinstance(outcome, HttpFailure)
    assert not outcome.was_sent


async def test_what_is_said_before_tls_is_no_answer():
    has_spoken, has_ended = asyncio.Event(), asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(respond(b"forged"))
        await writer.drain()
        has_spoken.set()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        has_ended.set()

    async with await asyncio.start_server(speak, PERMITTED, 0) as server:
        backend = CheckedBackend(EgressPolicy(networks=(ip_network(PERMITTED),)), Names())
        stream = await backend.connect_tcp(PERMITTED, server.sockets[0].getsockname()[1])
        await has_spoken.wait()
        await asyncio.to_thread(eventually, lambda: stream.get_extra_info("is_readable"))
        with pytest.raises(httpcore.ConnectError, match="before TLS"):
            await stream.start_tls(ssl.create_default_context(), "example.com", timeout=10)
        await has_ended.wait()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.2:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.2:1")
    async with serve(respond()) as server, open_egress() as egress:
        assert isinstance(await send(egress, server.url()), HttpResponse)
