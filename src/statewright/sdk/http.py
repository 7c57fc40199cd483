"""The way back to the server over HTTP."""

import asyncio
import concurrent.futures
import ssl
import threading
from typing import Final

import httpx

from statewright.sdk.client import Answer
from statewright.sdk.operations import Call
from statewright.sdk.refusals import Unreachable
from statewright.sdk.tokens import TokenSource, TokenUnavailable

HTTP_VARIABLES: Final = ("STATEWRIGHT_COMPUTE_HTTP_BASE", "CYODA_COMPUTE_HTTP_BASE")

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 90.0
"""As long as a transaction token is good for: a joined request may itself wait for processors."""

TOKEN_SECONDS: Final = 30.0

KEPT_SECONDS: Final = 2.0
"""Shorter than servers keep idle connections, so that none is taken that is just being closed."""

PATIENCE: Final = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)

LIMITS: Final = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_SECONDS)
"""No limit to connections: a request may wait for one that it causes, and functions are limited already."""

UNAUTHORIZED: Final = 401


class UnusableAddress(ValueError):
    """A text that is no HTTP address."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not an HTTP address (http://host:port/api): {text}")


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
        self._making = threading.Lock()
        self._blocking: httpx.Client | None = None
        self._async: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"HttpTransport({self._base!r})"

    def send(self, call: Call) -> Answer:
        """Wait for the answer in this thread.

        Raises ``Unreachable``; ``RuntimeError`` on the event loop, which must not wait.
        """
        if _is_on_a_loop():
            raise RuntimeError("this client would hold up the node: async functions use context.async_client")
        with self._making:
            client = self._blocking = self._blocking or httpx.Client(
                timeout=PATIENCE, limits=LIMITS, verify=self._trusted
            )
        token = self._token_for_a_thread()
        answer = _sent(client, self._request(client, call, token))
        if answer.status == UNAUTHORIZED and token is not None:
            self._loop.call_soon_threadsafe(self._tokens.rejected)
            newer = self._token_for_a_thread()
            if newer != token:
                return _sent(client, self._request(client, call, newer))
        return answer

    async def send_async(self, call: Call) -> Answer:
        """The same on the event loop."""
        client = self._async = self._async or httpx.AsyncClient(timeout=PATIENCE, limits=LIMITS, verify=self._trusted)
        token = await self._token()
        answer = await _sent_async(client, self._request(client, call, token))
        if answer.status == UNAUTHORIZED and token is not None:
            self._tokens.rejected()
            newer = await self._token()
            if newer != token:
                return await _sent_async(client, self._request(client, call, newer))
        return answer

    async def close(self) -> None:
        """Ends all connections."""
        if self._blocking is not None:
            self._blocking.close()
        if self._async is not None:
            await self._async.aclose()

    @property
    def _trusted(self) -> ssl.SSLContext | bool:
        return ssl.create_default_context() if self._base.startswith("https") else False

    def _request(self, client: httpx.Client | httpx.AsyncClient, call: Call, token: str | None) -> httpx.Request:
        headers = {"Accept": "application/json", "Content-Type": "application/json", **call.headers}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return client.build_request(
            call.method, f"{self._base}{call.path}", params=call.query or None, content=call.body, headers=headers
        )

    async def _token(self) -> str | None:
        try:
            return await self._tokens.token()
        except TokenUnavailable as error:
            raise Unreachable(str(error)) from error

    def _token_for_a_thread(self) -> str | None:
        asked = asyncio.run_coroutine_threadsafe(self._token(), self._loop)
        try:
            return asked.result(TOKEN_SECONDS)
        except concurrent.futures.TimeoutError as error:
            asked.cancel()
            raise Unreachable("no token in time") from error


def _sent(client: httpx.Client, request: httpx.Request) -> Answer:
    try:
        response = client.send(request)
    except httpx.HTTPError as error:
        raise _unreachable(request, error) from error
    return Answer(response.status_code, response.content)


async def _sent_async(client: httpx.AsyncClient, request: httpx.Request) -> Answer:
    try:
        response = await client.send(request)
    except httpx.HTTPError as error:
        raise _unreachable(request, error) from error
    return Answer(response.status_code, response.content)


def _unreachable(request: httpx.Request, error: httpx.HTTPError) -> Unreachable:
    place = f"{request.url.scheme}://{request.url.netloc.decode()}"
    return Unreachable(f"{request.method} {request.url.path} at {place}: {error or type(error).__name__}")


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
