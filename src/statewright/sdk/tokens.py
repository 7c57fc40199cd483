"""Sources of the bearer tokens of clients and nodes.

Clients that sign in place of sending a secret: ``private_key_jwt`` (RFC 7523;
docs/reference/authentication.md#private-keys-of-clients).
"""

import asyncio
import base64
import inspect
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote_plus

import httpx
import msgspec
from msgspec import Struct

from statewright.sdk.endpoint import NO_FILES, Address, Tls, advise_on_tls
from statewright.sdk.errors import TokenUnavailable

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFETIME_S: Final = 60
"""Of an assertion, which counts once: it has only to reach the service."""


class ClientKey(Struct, frozen=True, kw_only=True):
    """An OAuth 2 client that signs with ``private_key``, an RSA key as PEM whose public half its tenant trusts as
    ``key_id``. ``audience`` is the issuer of the service (``STATEWRIGHT_JWT_ISSUER``). Without ``token_url`` tokens
    come from the service that they are for. Needs the extra ``keys``: ``pip install "statewright[keys]"``.
    """

    client_id: str
    key_id: str
    private_key: str
    audience: str = "cyoda"
    token_url: str = ""

    def __repr__(self) -> str:
        return f"ClientKey(client_id={self.client_id!r}, key_id={self.key_id!r})"


def sign_assertion(client: ClientKey) -> str:
    """A new assertion. Raises ``TokenUnavailable`` where the key or the library for it is missing."""
    try:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import RSAKey
    except ModuleNotFoundError:
        message = 'signing needs pip install "statewright[keys]"'
        raise TokenUnavailable(message, was_refused=True) from None
    now = int(time.time())
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": client.audience,
        "iat": now,
        "exp": now + LIFETIME_S,
        "jti": str(uuid.uuid4()),
    }
    try:
        return jwt.encode({"alg": "RS256", "kid": client.key_id}, claims, RSAKey.import_key(client.private_key))
    except (JoseError, ValueError, TypeError):  # what it says could quote the key
        raise TokenUnavailable("the private key of the client is no RSA key in PEM", was_refused=True) from None


Token: TypeAlias = "str | Callable[[], str | Awaitable[str]] | ClientCredentials | ClientKey | None"  # noqa: S105  # a type
"""What users pass: the token, a plain or async function that makes one, a client with its secret or its key, or None
for no token.
"""

TOKEN_VARIABLES: Final = (
    "STATEWRIGHT_TOKEN",
    "STATEWRIGHT_API_TOKEN",
    "STATEWRIGHT_COMPUTE_TOKEN",
    "CYODA_COMPUTE_TOKEN",
)
"""The first is the one to use; the others stay for a release, and for nodes of the dialect."""

TOKEN_FILE_VARIABLE: Final = "STATEWRIGHT_TOKEN_FILE"  # noqa: S105 - names of variables
CLIENT_ID_VARIABLE: Final = "STATEWRIGHT_CLIENT_ID"
CLIENT_SECRET_VARIABLE: Final = "STATEWRIGHT_CLIENT_SECRET"  # noqa: S105
CLIENT_SECRET_FILE_VARIABLE: Final = "STATEWRIGHT_CLIENT_SECRET_FILE"  # noqa: S105
SIGNING_KEY_FILE_VARIABLE: Final = "STATEWRIGHT_CLIENT_SIGNING_KEY_FILE"
SIGNING_KEY_ID_VARIABLE: Final = "STATEWRIGHT_CLIENT_SIGNING_KEY_ID"
AUDIENCE_VARIABLE: Final = "STATEWRIGHT_TOKEN_AUDIENCE"

REFRESH_MARGIN_S: Final = 60
"""Time before its expiry at which a token is renewed (docs/reference/grpc.md#applications-in-the-field)."""

FETCH_TIMEOUT_S: Final = 10
LOOP_TIMEOUT_S: Final = 30
"""Seconds that a thread waits for the event loop to make a token."""


class ClientCredentials(Struct, frozen=True, kw_only=True):
    """Credentials of an OAuth 2 client. Without ``token_url`` tokens come from the service that they are for; it is
    for example ``http://localhost:8080/api/oauth/token``.
    """

    client_id: str
    client_secret: str
    token_url: str = ""

    def __repr__(self) -> str:
        return f"ClientCredentials(client_id={self.client_id!r})"


class TokenSource(Protocol):
    """Makes the token for a request or a new stream."""

    async def get_token(self) -> str | None:
        """A token believed to be valid; None to go without. Raises :class:`TokenUnavailable`."""
        ...

    def get_token_blocking(self) -> str | None:
        """The same in a thread, which waits."""
        ...

    def invalidate(self) -> None:
        """Do not use the last token again: the server refused it. Safe in any thread."""
        ...


def make_token_source(token: Token, *, address: Address | None = None, tls: Tls = NO_FILES) -> TokenSource:
    """The source for what a user passed. ``address`` is the service whose token endpoint is asked when the credentials
    name none.
    """
    if isinstance(token, ClientCredentials | ClientKey):
        return OAuthToken(token, token.token_url or (f"{address.api}/oauth/token" if address else ""), tls)
    return ProvidedToken(token)


def read_token(environment: Mapping[str, str]) -> Token:
    """What the environment names: a token, a file that holds one (read anew each time), client credentials, or None.

    Raises ``ValueError`` for half of the credentials, and ``OSError``.
    """
    text = next((value for name in TOKEN_VARIABLES if (value := environment.get(name))), None)
    file = environment.get(TOKEN_FILE_VARIABLE)
    if file:
        return lambda: Path(file).read_text("utf-8").strip()
    return text or read_client_key(environment) or read_credentials(environment)


def read_credentials(environment: Mapping[str, str]) -> ClientCredentials | None:
    """The client that the environment names; its secret may stand in a file. Raises ``ValueError``, ``OSError``."""
    client_id = environment.get(CLIENT_ID_VARIABLE) or None
    secret = environment.get(CLIENT_SECRET_VARIABLE) or None
    if file := environment.get(CLIENT_SECRET_FILE_VARIABLE):
        secret = Path(file).read_text("utf-8").strip()
    if client_id is None and secret is None:
        return None
    if client_id is None or secret is None:
        missing = CLIENT_ID_VARIABLE if client_id is None else CLIENT_SECRET_VARIABLE
        raise ValueError(f"{missing} must be set, too")
    return ClientCredentials(client_id=client_id, client_secret=secret)


def read_client_key(environment: Mapping[str, str]) -> ClientKey | None:
    """The client that the environment names and its private key, in a file. Raises ``ValueError``, ``OSError``."""
    file = environment.get(SIGNING_KEY_FILE_VARIABLE)
    if not file:
        return None
    client_id, key_id = environment.get(CLIENT_ID_VARIABLE), environment.get(SIGNING_KEY_ID_VARIABLE)
    if not client_id or not key_id:
        raise ValueError(f"{SIGNING_KEY_ID_VARIABLE if client_id else CLIENT_ID_VARIABLE} must be set, too")
    audience = environment.get(AUDIENCE_VARIABLE) or "cyoda"
    return ClientKey(client_id=client_id, key_id=key_id, private_key=Path(file).read_text("utf-8"), audience=audience)


class ProvidedToken:
    """A fixed token, or one made anew by the user's function for every request or stream."""

    def __init__(self, token: str | Callable[[], str | Awaitable[str]] | None) -> None:
        self._token = token

    async def get_token(self) -> str | None:
        made = self._make()
        try:
            token = await made if inspect.isawaitable(made) else made
        except Exception as error:  # a user's function may fail in any way, and may fare better next time
            raise TokenUnavailable(f"no token: {_describe(error)}") from error
        return _require_sendable(token)

    def get_token_blocking(self) -> str | None:
        made = self._make()
        if not inspect.isawaitable(made):
            return _require_sendable(made)
        if isinstance(made, Coroutine):
            made.close()
        raise TokenUnavailable("a client that waits in its thread needs a plain function for its tokens")

    def invalidate(self) -> None:
        """Does nothing: no token is kept here."""

    def _make(self) -> str | Awaitable[str] | None:
        try:
            return self._token() if callable(self._token) else self._token
        except Exception as error:  # likewise
            raise TokenUnavailable(f"no token: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    """What went wrong; not the whole of it, which may quote what was read."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def _require_sendable(token: str | None) -> str | None:
    """The token without white space around it. Raises ``TokenUnavailable`` for what no header can hold: who sends it
    would be told, and all who read his log, by a message that quotes it.
    """
    text = (token or "").strip()
    if not (text.isascii() and text.isprintable()):
        raise TokenUnavailable("the token has characters that no header can hold", was_refused=True)
    return text or None


class OAuthToken:
    """A token granted to a client, renewed shortly before it expires; one that cannot be renewed is used to
    its end.
    """

    def __init__(self, credentials: ClientCredentials | ClientKey, token_url: str, tls: Tls) -> None:
        self._credentials = credentials
        self._url = token_url
        self._tls = tls
        self._lock = threading.Lock()
        self._token: str | None = None
        self._renewal = self._expiry = 0.0

    async def get_token(self) -> str | None:
        token = self._token
        if token is not None and time.monotonic() < self._renewal:
            return token
        return await asyncio.to_thread(self.get_token_blocking)

    def get_token_blocking(self) -> str | None:
        with self._lock:  # so that many requests ask for one token
            now = time.monotonic()
            if self._token is None or now >= self._renewal:
                self._renew(now)
            return self._token

    def invalidate(self) -> None:
        self._token = None

    def _renew(self, now: float) -> None:
        try:
            grant = _fetch(self._credentials, self._url, self._tls)
        except TokenUnavailable as unavailable:
            if self._token is None or now >= self._expiry or unavailable.was_refused:
                raise
            return
        self._token = grant.access_token
        self._expiry = now + grant.expires_in
        self._renewal = now + max(grant.expires_in - REFRESH_MARGIN_S, grant.expires_in / 2)


class LoopTokens:
    """A source whose tokens are made on one event loop, for threads, too: a user's async function may belong to it."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens
        self._loop = asyncio.get_running_loop()

    async def get_token(self) -> str | None:
        return await self._tokens.get_token()

    def get_token_blocking(self) -> str | None:
        asked = asyncio.run_coroutine_threadsafe(self._tokens.get_token(), self._loop)
        try:
            return asked.result(LOOP_TIMEOUT_S)
        except TimeoutError as error:
            asked.cancel()
            raise TokenUnavailable("no token in time") from error

    def invalidate(self) -> None:
        self._tokens.invalidate()


class _Grant(Struct, frozen=True):
    access_token: str
    expires_in: float = 300


def _fetch(credentials: ClientCredentials | ClientKey, url: str, tls: Tls) -> _Grant:
    if not url.startswith(("http://", "https://")):
        raise TokenUnavailable(f"not an HTTP address: {url}", was_refused=True)
    headers, proof = _prove(credentials)
    try:
        reply = httpx.post(
            url,
            data={"grant_type": "client_credentials", **proof},
            headers={"Accept": "application/json", **headers},
            verify=tls.build_context() if url.startswith("https") else False,
            timeout=FETCH_TIMEOUT_S,
        )
    except httpx.HTTPError as error:
        raise TokenUnavailable(f"no token from {url}: {advise_on_tls(str(error) or type(error).__name__)}") from error
    return _read_grant(reply, url)


def _prove(credentials: ClientCredentials | ClientKey) -> tuple[dict[str, str], dict[str, str]]:
    """Headers and members of a form that authenticate the client."""
    if isinstance(credentials, ClientKey):
        return {}, {"client_assertion_type": ASSERTION_TYPE, "client_assertion": sign_assertion(credentials)}
    name, secret = quote_plus(credentials.client_id), quote_plus(credentials.client_secret)  # RFC 6749 §2.3.1
    basic = base64.b64encode(f"{name}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {basic}"}, {}


def _read_grant(reply: httpx.Response, url: str) -> _Grant:
    if not reply.is_success:
        was_refused = HTTPStatus.BAD_REQUEST <= reply.status_code < HTTPStatus.TOO_MANY_REQUESTS
        raise TokenUnavailable(
            f"no token from {url}: {reply.status_code} {_read_reason(reply)}", was_refused=was_refused
        )
    try:
        return msgspec.json.decode(reply.content, type=_Grant)
    except msgspec.DecodeError as error:
        raise TokenUnavailable(f"no token from {url}: {error}", was_refused=True) from error


class _OAuthError(Struct, frozen=True):
    error: str = ""
    error_description: str = ""


def _read_reason(reply: httpx.Response) -> str:
    try:
        found = msgspec.json.decode(reply.content, type=_OAuthError)
    except msgspec.DecodeError:
        return reply.reason_phrase
    return found.error_description or found.error or reply.reason_phrase
