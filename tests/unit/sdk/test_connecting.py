"""Endpoints, pauses and tokens."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.sdk.endpoint import MAX_PAUSE_S, MIN_PAUSE_S, BackOff, UnusableEndpoint, get_first_set, parse_endpoint
from statewright.sdk.errors import TokenUnavailable
from statewright.sdk.session import describe_rejection
from statewright.sdk.tokens import ClientCredentials, make_token_source


@pytest.mark.parametrize(
    ("text", "target", "is_encrypted"),
    [
        ("localhost:9090", "localhost:9090", False),
        ("localhost", "localhost:9090", False),
        ("http://10.0.0.1:1234", "10.0.0.1:1234", False),
        ("https://grpc.example.org", "grpc.example.org:443", True),
        ("https://grpc.example.org:8443/", "grpc.example.org:8443", True),
        ("[::1]:9090", "[::1]:9090", False),
        ("grpc://[::1]", "[::1]:9090", False),
    ],
)
def test_an_endpoint_is_a_host_or_an_address(text, target, is_encrypted):
    endpoint = parse_endpoint(text)
    assert (endpoint.target, endpoint.is_encrypted) == (target, is_encrypted)


@pytest.mark.parametrize("text", ["", "ftp://host", "host:port", "host:99999", "http://"])
def test_other_texts_are_no_endpoints(text):
    with pytest.raises(UnusableEndpoint, match="not an endpoint"):
        parse_endpoint(text)


def test_the_first_variable_that_is_set_counts():
    assert get_first_set({"A": "", "B": "b", "C": "c"}, ("A", "B", "C")) == "b"
    assert get_first_set({}, ("A",)) is None


def test_pauses_double_up_to_the_longest():
    pauses = BackOff(chance=lambda: 0.0)
    assert [pauses.next() for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, MAX_PAUSE_S, MAX_PAUSE_S]


def test_success_makes_the_next_pause_a_short_one():
    pauses = BackOff(chance=lambda: 0.0)
    for _ in range(5):
        pauses.next()
    pauses.reset()
    assert pauses.next() == MIN_PAUSE_S


@given(st.floats(0, 1, exclude_max=True))
def test_chance_shortens_a_pause_by_half_at_most(chance):
    assert MIN_PAUSE_S / 2 <= BackOff(chance=lambda: chance).next() <= MIN_PAUSE_S


async def test_a_fixed_token_stays_as_it_is():
    source = make_token_source("t-1")
    source.invalidate()
    assert await source.get_token() == "t-1"
    assert await make_token_source(None).get_token() is None


async def test_a_function_makes_every_token_anew():
    made = iter(["t-1", "t-2"])
    source = make_token_source(lambda: next(made))
    assert [await source.get_token(), await source.get_token()] == ["t-1", "t-2"]


async def test_a_function_may_be_async():
    async def make() -> str:
        return "t-1"

    assert await make_token_source(make).get_token() == "t-1"


async def test_a_function_that_fails_means_no_token():
    def make() -> str:
        raise OSError("vault is sealed")

    with pytest.raises(TokenUnavailable, match="vault is sealed"):
        await make_token_source(make).get_token()


class TokenEndpoint(HTTPServer):
    """Grants t-1, t-2 and so on, or answers as it is told to."""

    expires_in = 300
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), GrantHandler)
        self.seen: list[tuple[str | None, bytes]] = []

    @property
    def credentials(self) -> ClientCredentials:
        url = f"http://127.0.0.1:{self.server_port}/api/oauth/token"
        return ClientCredentials(client_id="node", client_secret="secret", token_url=url)


class GrantHandler(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers["Authorization"], body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(
            b'{"access_token": "t-%d", "expires_in": %d}' % (len(self.server.seen), self.server.expires_in)
        )

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def a_token_endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_client_credentials_are_exchanged_once_and_the_token_is_kept():
    with a_token_endpoint() as server:
        source = make_token_source(server.credentials)
        assert [await source.get_token(), await source.get_token()] == ["t-1", "t-1"]
    assert server.seen == [("Basic bm9kZTpzZWNyZXQ=", b"grant_type=client_credentials")]


async def test_a_rejected_token_is_replaced():
    with a_token_endpoint() as server:
        source = make_token_source(server.credentials)
        await source.get_token()
        source.invalidate()
        assert await source.get_token() == "t-2"


async def test_an_expired_token_is_replaced():
    with a_token_endpoint() as server:
        server.expires_in = 0
        source = make_token_source(server.credentials)
        assert [await source.get_token(), await source.get_token()] == ["t-1", "t-2"]


async def test_a_refusal_of_the_token_endpoint_means_no_token():
    with a_token_endpoint() as server:
        server.status = 401
        with pytest.raises(TokenUnavailable, match="401"):
            await make_token_source(server.credentials).get_token()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "http://127.0.0.1:1/token"])
async def test_an_unreachable_or_odd_token_endpoint_means_no_token(url):
    credentials = ClientCredentials(client_id="node", client_secret="secret", token_url=url)
    with pytest.raises(TokenUnavailable):
        async with asyncio.timeout(10):
            await make_token_source(credentials).get_token()


def test_a_port_that_speaks_no_grpc_is_told_as_such():
    metadata = grpc.aio.Metadata()
    other = grpc.aio.AioRpcError(grpc.StatusCode.UNIMPLEMENTED, metadata, metadata, "Received http2 header")
    assert describe_rejection(other).startswith("Received http2 header; is this the gRPC port of the service?")
    silent = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, "connection refused")
    assert describe_rejection(silent) == "connection refused"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate", "STATEWRIGHT_CA names the authority"),
        ("certificate verify failed: self-signed certificate", "STATEWRIGHT_CA names the authority"),
        ("Hostname Verification Check failed.", "must have a name that the certificate has"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "that port speaks no TLS"),
        ("illegal request line", "that port may speak TLS"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "STATEWRIGHT_CLIENT_CERT"),
    ],
)
def test_what_is_wrong_with_tls_is_told_with_what_to_do(reason, told):
    metadata = grpc.aio.Metadata()
    silent = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, reason)
    assert describe_rejection(silent).startswith(f"{reason.rstrip('.')}; ")
    assert told in describe_rejection(silent)
