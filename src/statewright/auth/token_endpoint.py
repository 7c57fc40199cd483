"""``POST /oauth/token`` without a web framework around it (RFC 6749, RFC 8693; spec/auth-and-operations.md §6).

Clients prove themselves first, and only by HTTP Basic; then the grant decides. Every answer is JSON, errors in the flat
form of OAuth. :class:`MockTokenEndpoint` stands in where nothing is verified anyway.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from statewright.auth import exchange, form, jws
from statewright.auth.basic import credentials
from statewright.auth.clients import Client
from statewright.auth.tokens import TokenIssuer, TokenRules
from statewright.entity import Principal
from statewright.identity import Clock

_SECOND = 1_000_000
"""Microseconds."""


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A request as the door received it. ``query`` is the raw query string, without the question mark."""

    authorization: str | None
    content_type: str | None
    body: bytes
    query: str


class TokenReply(Struct, frozen=True):
    """Status and JSON body of the answer; its content type is ``application/json``."""

    status: int
    body: bytes


class TokenService(Protocol):
    """What answers token requests."""

    async def token(self, request: TokenRequest) -> TokenReply:
        """The answer; never an exception for anything that the request says."""
        ...


class SecretCheck(Protocol):
    """Who knows the secrets of clients."""

    async def authenticate(self, client_id: str, secret: str) -> Client | None:
        """The client, if this is its secret."""
        ...


class _Granted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    token_type: str
    expires_in: int
    issued_token_type: str = ""


class _Refused(Exception):
    """An answer in the form of OAuth errors."""

    def __init__(self, status: int, error: str, description: str = "") -> None:
        super().__init__(error)
        self.reply = _reply(status, {"error": error, "error_description": description or error})


class TokenEndpoint:
    """Issues tokens in jwt mode."""

    def __init__(self, clients: SecretCheck, issuer: TokenIssuer, trusted: exchange.TrustedKeys, clock: Clock) -> None:
        self._clients = clients
        self._issuer = issuer
        self._trusted = trusted
        self._clock = clock
        self._grants: Mapping[str, Callable[[Client, Mapping[str, str]], Awaitable[_Granted]]] = {
            "client_credentials": self._client_credentials,
            exchange.GRANT_TYPE: self._token_exchange,
        }

    async def token(self, request: TokenRequest) -> TokenReply:
        """The answer to one request."""
        try:
            client = await self._client(request.authorization)
            fields = _fields(request)
            grant = self._grants.get(fields.get("grant_type", ""), _unsupported)
            return _reply(200, await grant(client, fields))
        except _Refused as refused:
            return refused.reply

    async def _client(self, authorization: str | None) -> Client:
        for claimed in credentials(authorization):
            client = await self._clients.authenticate(claimed.client_id, claimed.secret.reveal())
            if client is not None:
                return client
        raise _Refused(401, "invalid_client")

    async def _client_credentials(self, client: Client, _fields: Mapping[str, str]) -> _Granted:
        return self._granted(self._issuer.for_client(client))

    async def _token_exchange(self, client: Client, fields: Mapping[str, str]) -> _Granted:
        try:
            subject = await exchange.verified_subject(fields, client=client, trusted=self._trusted, now=self._clock())
        except exchange.TenantMismatch as mismatch:
            raise _Refused(403, "access_denied", str(mismatch)) from None
        except exchange.InvalidGrant as invalid:
            raise _Refused(400, "invalid_grant", str(invalid)) from None
        granted = self._granted(self._issuer.on_behalf(subject, client))
        return msgspec.structs.replace(granted, issued_token_type=exchange.TOKEN_TYPE)

    def _granted(self, token: str | None) -> _Granted:
        if token is None:
            raise _Refused(500, "server_error")
        return _Granted(access_token=token, token_type="Bearer", expires_in=self._issuer.expiry_seconds)  # noqa: S106


class MockTokenEndpoint:
    """Gives everybody a token that nobody verifies, so that clients with a token step work in mock mode (§30).

    It is unsigned (``alg`` is ``none``), and no server in jwt mode accepts it. Its claims describe the mock principal.
    """

    def __init__(self, principal: Principal, rules: TokenRules, clock: Clock) -> None:
        self._principal = principal
        self._rules = rules
        self._clock = clock

    async def token(self, request: TokenRequest) -> TokenReply:
        """A token, whatever the request says."""
        del request
        now, who = self._clock() // _SECOND, self._principal
        claims: dict[str, object] = {
            "sub": who.id, "caas_user_id": who.id, "caas_org_id": who.tenant, "iss": self._rules.issuer,
            "scopes" if who.kind == "service" else "user_roles": who.roles,
            "iat": now, "exp": now + self._rules.expiry_seconds,
        }  # fmt: skip
        token = jws.encode_unsigned({"alg": "none", "typ": "JWT"}, claims) + "."
        return _reply(
            200,
            _Granted(access_token=token, token_type="Bearer", expires_in=self._rules.expiry_seconds),  # noqa: S106
        )


async def _unsupported(_client: Client, _fields: Mapping[str, str]) -> _Granted:
    raise _Refused(400, "unsupported_grant_type")


def _fields(request: TokenRequest) -> dict[str, str]:
    try:
        return form.parameters(content_type=request.content_type, body=request.body, query=request.query)
    except form.UnreadableForm:
        raise _Refused(400, "unsupported_grant_type") from None


def _reply(status: int, content: _Granted | dict[str, str]) -> TokenReply:
    return TokenReply(status, msgspec.json.encode(content))
