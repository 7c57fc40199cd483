"""Sources of a node's bearer token."""

import asyncio
import base64
import inspect
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

Token: TypeAlias = "str | Callable[[], str | Awaitable[str]] | ClientCredentials | None"  # noqa: S105  # a type
"""What users pass: the token, a plain or async function that makes one, client credentials, or None for no token."""

REFRESH_MARGIN_S: Final = 60
"""Time before its expiry at which a token is renewed (docs/reference/grpc.md#applications-in-the-field)."""

FETCH_TIMEOUT_S: Final = 10


class TokenUnavailable(Exception):
    """The token endpoint refused, or did not answer."""


class ClientCredentials(Struct, frozen=True, kw_only=True):
    """Credentials of an OAuth 2 client; ``token_url`` is for example ``http://localhost:8080/api/oauth/token``."""

    client_id: str
    client_secret: str
    token_url: str


class TokenSource(Protocol):
    """Makes the token for a new stream."""

    async def get_token(self) -> str | None:
        """A token believed to be valid; None to go without. Raises :class:`TokenUnavailable`."""
        ...

    def invalidate(self) -> None:
        """Do not use the last token again: the server refused it."""
        ...


def make_token_source(token: Token) -> TokenSource:
    """The source for what a user passed."""
    if isinstance(token, ClientCredentials):
        return OAuthToken(token)
    return ProvidedToken(token)


class ProvidedToken:
    """A fixed token, or one made anew by the user's function for every stream."""

    def __init__(self, token: str | Callable[[], str | Awaitable[str]] | None) -> None:
        self._token = token

    async def get_token(self) -> str | None:
        try:
            made = self._token() if callable(self._token) else self._token
            return await made if inspect.isawaitable(made) else made
        except Exception as error:  # a user's function may fail in any way, and may fare better next time
            raise TokenUnavailable(f"no token: {error!r}") from error

    def invalidate(self) -> None:
        """Does nothing: no token is kept here."""


class OAuthToken:
    """A token granted for client credentials, used until shortly before it expires."""

    def __init__(self, credentials: ClientCredentials) -> None:
        self._credentials = credentials
        self._token: str | None = None
        self._expires = 0.0

    async def get_token(self) -> str | None:
        if self._token is None or time.monotonic() >= self._expires:
            grant = await asyncio.to_thread(_fetch, self._credentials)
            self._token = grant.access_token
            self._expires = time.monotonic() + max(grant.expires_in - REFRESH_MARGIN_S, grant.expires_in / 2)
        return self._token

    def invalidate(self) -> None:
        self._token = None


class _Grant(Struct, frozen=True):
    access_token: str
    expires_in: float = 300


def _fetch(credentials: ClientCredentials) -> _Grant:
    request = _build_request(credentials)
    try:
        with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_S) as reply:  # noqa: S310  # the scheme was checked
            return msgspec.json.decode(reply.read(), type=_Grant)
    except (OSError, msgspec.DecodeError) as error:
        raise TokenUnavailable(f"no token from {credentials.token_url}: {error}") from error


def _build_request(credentials: ClientCredentials) -> urllib.request.Request:
    if not credentials.token_url.startswith(("http://", "https://")):
        raise TokenUnavailable(f"not an HTTP address: {credentials.token_url}")
    basic = base64.b64encode(f"{credentials.client_id}:{credentials.client_secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
    form = urlencode({"grant_type": "client_credentials"}).encode()
    return urllib.request.Request(credentials.token_url, data=form, headers=headers, method="POST")  # noqa: S310
