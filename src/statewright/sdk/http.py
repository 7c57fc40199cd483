"""Requests of functions to the server, over HTTP."""

import asyncio
import concurrent.futures
import ssl
import threading
from typing import Final

import httpx

from statewright.sdk.client import HttpResponse
from statewright.sdk.errors import Unreachable
from statewright.sdk.operations import Call
from statewright.sdk.tokens import TokenSource, TokenUnavailable

HTTP_VARIABLES: Final = ("STATEWRIGHT_COMPUTE_HTTP_BASE", "CYODA_COMPUTE_HTTP_BASE")

CONNECT_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 90.0
"""The validity of a transaction token, since a joined request may itself wait for processors."""

TOKEN_TIMEOUT_S: Final = 30.0

KEEPALIVE_EXPIRY_S: Final = 2.0
"""Shorter than servers keep idle connections, so that none is used that the server is just closing."""

REQUEST_TIMEOUT: Final = httpx.Timeout(RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)

LIMITS: Final = httpx.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_EXPIRY_S)
"""No limit to connections: a request may wait for one that it causes, and functions are limited already."""

UNAUTHORIZED: Final = 401


class UnusableAddress(ValueError):
    """A text that is no HTTP address."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not an HTTP address (http://host:port/api): {text}")


def verify_peer(address: str) -> ssl.SSLContext | bool:
    """What a client checks the server's certificate with; to read the system's takes longer than many a request."""
    return ssl.create_default_context() if address.startswith("https") else False


class HttpTransport:
    """Connections of one node, made when the first function asks for them.

    ``base`` is the address of the REST API, context path included. Tokens are those of the node's stream; they are
    made on the event loop that runs when the transport is made.
    """

    def __init__(self, base: str, tokens: TokenSource) -> None:
        if not base.startswith(("http://", "https://")):
            raise UnusableAddress(base)
        self._base = base.rstrip("/")
        self._tokens = tokens
        self._loop = asyncio.get_running_loop()
        self._client_lock = threading.Lock()
        self._blocking: httpx.Client | None = None
        self._async: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"HttpTransport({self._base!r})"

    def send(self, call: Call) -> HttpResponse:
        """Wait for the answer in this thread.

        Raises ``Unreachable``; ``RuntimeError`` on the event loop, which must not wait.
        """
        if _is_on_event_loop():
            raise RuntimeError("this client would hold up the node: async functions use context.async_client")
        with self._client_lock:
            client = self._blocking = self._blocking or httpx.Client(
                timeout=REQUEST_TIMEOUT, limits=LIMITS, verify=verify_peer(self._base)
            )
        token = self._get_token_blocking()
        answer = _send(client, self._build_request(client, call, token))
        if answer.status == UNAUTHORIZED and token is not None:
            self._loop.call_soon_threadsafe(self._tokens.invalidate)
            newer = self._get_token_blocking()
            if newer != token:
                return _send(client, self._build_request(client, call, newer))
        return answer

    async def send_async(self, call: Call) -> HttpResponse:
        """Wait for the answer on the event loop. Raises ``Unreachable``."""
        client = self._async = self._async or httpx.AsyncClient(
            timeout=REQUEST_TIMEOUT, limits=LIMITS, verify=verify_peer(self._base)
        )
        token = await self._get_token()
        answer = await _send_async(client, self._build_request(client, call, token))
        if answer.status == UNAUTHORIZED and token is not None:
            self._tokens.invalidate()
            newer = await self._get_token()
            if newer != token:
                return await _send_async(client, self._build_request(client, call, newer))
        return answer

    async def close(self) -> None:
        """Ends all connections."""
        if self._blocking is not None:
            self._blocking.close()
        if self._async is not None:
            await self._async.aclose()

    def _build_request(self, client: httpx.Client | httpx.AsyncClient, call: Call, token: str | None) -> httpx.Request:
        headers = {"Accept": "application/json", "Content-Type": "application/json", **call.headers}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return client.build_request(
            call.method, f"{self._base}{call.path}", params=call.query or None, content=call.body, headers=headers
        )

    async def _get_token(self) -> str | None:
        try:
            return await self._tokens.get_token()
        except TokenUnavailable as error:
            raise Unreachable(str(error)) from error

    def _get_token_blocking(self) -> str | None:
        asked = asyncio.run_coroutine_threadsafe(self._get_token(), self._loop)
        try:
            return asked.result(TOKEN_TIMEOUT_S)
        except concurrent.futures.TimeoutError as error:
            asked.cancel()
            raise Unreachable("no token in time") from error


def _send(client: httpx.Client, request: httpx.Request) -> HttpResponse:
    try:
        response = client.send(request)
    except httpx.HTTPError as error:
        raise _to_unreachable(request, error) from error
    return HttpResponse(response.status_code, response.content)


async def _send_async(client: httpx.AsyncClient, request: httpx.Request) -> HttpResponse:
    try:
        response = await client.send(request)
    except httpx.HTTPError as error:
        raise _to_unreachable(request, error) from error
    return HttpResponse(response.status_code, response.content)


def _to_unreachable(request: httpx.Request, error: httpx.HTTPError) -> Unreachable:
    place = f"{request.url.scheme}://{request.url.netloc.decode()}"
    return Unreachable(f"{request.method} {request.url.path} at {place}: {error or type(error).__name__}")


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
