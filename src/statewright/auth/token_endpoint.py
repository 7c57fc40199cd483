"""``POST /oauth/token`` without a web framework around it (RFC 6749, RFC 8693;
docs/reference/authentication.md#token-endpoint).

Clients authenticate first, and only by HTTP Basic; then the grant decides. Every answer is JSON, errors in the flat
form of OAuth. In mock mode, where no token is verified, :class:`MockTokenEndpoint` takes the place of the real one.
Parameters come from a form body, urlencoded or multipart, and from the query string.
"""

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from email.parser import BytesParser
from typing import Protocol
from urllib.parse import parse_qsl, unquote_plus

import msgspec
from msgspec import Struct

from statewright.auth import exchange, jws
from statewright.auth.clients import Client
from statewright.auth.tokens import TokenIssuer, TokenRules
from statewright.entity import Principal
from statewright.ids import Clock
from statewright.settings import Secret

_SCHEME = "Basic "
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Credentials(Struct, frozen=True):
    """A client id and its secret, not checked yet."""

    client_id: str
    secret: Secret


def parse_credentials(authorization: str | None) -> tuple[Credentials, ...]:
    """The credentials that the header may mean, the likeliest first; empty when it is absent or malformed.

    RFC 6749 §2.3.1 has both halves form-encoded, but many clients do not encode them. Where that makes a difference,
    both readings count.
    """
    if authorization is None or not authorization.startswith(_SCHEME):
        return ()
    try:
        text = base64.b64decode(authorization.removeprefix(_SCHEME), validate=True).decode()
    except (binascii.Error, ValueError):
        return ()
    client_id, colon, secret = text.partition(":")
    if not colon:
        return ()
    encoded, plain = (_form_decode(client_id), _form_decode(secret)), (client_id, secret)
    readings = dict.fromkeys((encoded, plain))
    return tuple(Credentials(name, Secret(key)) for name, key in readings if name is not None and key is not None)


def _form_decode(text: str) -> str | None:
    """The text without its form encoding; ``None`` when it is not form-encoded."""
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


MAX_BODY_BYTES = 1 << 20
"""Largest body of a token request (docs/reference/authentication.md#token-endpoint)."""
_MAX_PARAMETERS = 100


class UnreadableForm(ValueError):
    """The body is too large, or not what its content type says."""


def parse_parameters(*, content_type: str | None, body: bytes, query: str) -> dict[str, str]:
    """The parameters by name. The body wins over the query, the first value over later ones. Raises
    :class:`UnreadableForm`.

    A body of any other content type has no parameters.
    """
    if len(body) > MAX_BODY_BYTES:
        raise UnreadableForm("the body is too large")
    pairs = [*_parse_body(content_type or "", body), *_parse_pairs(query)]
    return dict(reversed(pairs))


def _parse_body(content_type: str, body: bytes) -> list[tuple[str, str]]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        try:
            return _parse_pairs(body.decode())
        except UnicodeDecodeError as undecodable:
            raise UnreadableForm("the body is not UTF-8") from undecodable
    return _parse_parts(content_type, body) if media_type == "multipart/form-data" else []


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError as too_many:
        raise UnreadableForm("too many parameters") from too_many


def _parse_parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of RFC 7578, which are parts of a MIME message; files among them are passed over."""
    if "\r" in content_type or "\n" in content_type:
        raise UnreadableForm("the content type is malformed")
    message = BytesParser().parsebytes(
        b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body
    )
    if not message.is_multipart():
        raise UnreadableForm("the body is not multipart")
    parts: list[Message] = message.get_payload()  # type: ignore[assignment]  # that is what a multipart payload is
    return [(_field_name(part), _field_text(part)) for part in parts if _field_name(part) and not part.get_filename()]


def _field_name(part: Message) -> str:
    name = part.get_param("name", header="content-disposition")
    return name if isinstance(name, str) else ""


def _field_text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        raise UnreadableForm("a field is multipart itself")
    try:
        return raw.decode()
    except UnicodeDecodeError as undecodable:
        raise UnreadableForm("a field is not UTF-8") from undecodable


_SECOND_US = 1_000_000


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A token request as the HTTP server received it. ``query`` is the raw query string, without the question mark."""

    authorization: str | None
    content_type: str | None
    body: bytes
    query: str


class TokenReply(Struct, frozen=True):
    """Status and JSON body of the answer; its content type is ``application/json``."""

    status: int
    body: bytes


class TokenService(Protocol):
    """Answers token requests."""

    async def issue(self, request: TokenRequest) -> TokenReply:
        """The answer; never an exception for anything that the request says."""
        ...


class ClientAuthenticator(Protocol):
    """Authenticates clients by their secrets."""

    async def authenticate(self, client_id: str, secret: str) -> Client | None:
        """The client, if this is its secret."""
        ...


class _TokenGrant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    token_type: str
    expires_in: int
    issued_token_type: str = ""


class _OAuthError(Exception):
    """The request is refused with this OAuth error."""

    def __init__(self, status: int, error: str, description: str = "") -> None:
        super().__init__(error)
        self.reply = _build_reply(status, {"error": error, "error_description": description or error})


class TokenEndpoint:
    """The token endpoint of jwt mode."""

    def __init__(
        self, clients: ClientAuthenticator, issuer: TokenIssuer, trusted: exchange.TrustedKeys, clock: Clock
    ) -> None:
        self._clients = clients
        self._issuer = issuer
        self._trusted = trusted
        self._clock = clock
        self._grants: Mapping[str, Callable[[Client, Mapping[str, str]], Awaitable[_TokenGrant]]] = {
            "client_credentials": self._grant_client_credentials,
            exchange.GRANT_TYPE: self._grant_token_exchange,
        }

    async def issue(self, request: TokenRequest) -> TokenReply:
        """The answer to one request."""
        try:
            client = await self._authenticate_client(request.authorization)
            fields = _read_fields(request)
            grant = self._grants.get(fields.get("grant_type", ""), _reject_grant_type)
            return _build_reply(200, await grant(client, fields))
        except _OAuthError as refused:
            return refused.reply

    async def _authenticate_client(self, authorization: str | None) -> Client:
        for claimed in parse_credentials(authorization):
            client = await self._clients.authenticate(claimed.client_id, claimed.secret.reveal())
            if client is not None:
                return client
        raise _OAuthError(401, "invalid_client")

    async def _grant_client_credentials(self, client: Client, _fields: Mapping[str, str]) -> _TokenGrant:
        return self._build_grant(self._issuer.issue_for_client(client))

    async def _grant_token_exchange(self, client: Client, fields: Mapping[str, str]) -> _TokenGrant:
        try:
            subject = await exchange.verify_subject(fields, client=client, trusted=self._trusted, now=self._clock())
        except exchange.TenantMismatch as mismatch:
            raise _OAuthError(403, "access_denied", str(mismatch)) from None
        except exchange.InvalidGrant as invalid:
            raise _OAuthError(400, "invalid_grant", str(invalid)) from None
        granted = self._build_grant(self._issuer.issue_on_behalf(subject, client))
        return msgspec.structs.replace(granted, issued_token_type=exchange.TOKEN_TYPE)

    def _build_grant(self, token: str | None) -> _TokenGrant:
        if token is None:
            raise _OAuthError(500, "server_error")
        return _TokenGrant(access_token=token, token_type="Bearer", expires_in=self._issuer.expiry_seconds)  # noqa: S106


class MockTokenEndpoint:
    """Issues tokens that are never verified, so that clients that need a token work in mock mode
    (docs/reference/authentication.md#differences-from-other-servers).

    It is unsigned (``alg`` is ``none``), and no server in jwt mode accepts it. Its claims describe the mock principal.
    """

    def __init__(self, principal: Principal, rules: TokenRules, clock: Clock) -> None:
        self._principal = principal
        self._rules = rules
        self._clock = clock

    async def issue(self, request: TokenRequest) -> TokenReply:
        """A token, whatever the request says."""
        del request
        now, who = self._clock() // _SECOND_US, self._principal
        claims: dict[str, object] = {
            "sub": who.id, "caas_user_id": who.id, "caas_org_id": who.tenant, "iss": self._rules.issuer,
            "scopes" if who.kind == "service" else "user_roles": who.roles,
            "iat": now, "exp": now + self._rules.expiry_seconds,
        }  # fmt: skip
        token = jws.encode_unsigned({"alg": "none", "typ": "JWT"}, claims) + "."
        return _build_reply(
            200,
            _TokenGrant(access_token=token, token_type="Bearer", expires_in=self._rules.expiry_seconds),  # noqa: S106
        )


async def _reject_grant_type(_client: Client, _fields: Mapping[str, str]) -> _TokenGrant:
    raise _OAuthError(400, "unsupported_grant_type")


def _read_fields(request: TokenRequest) -> dict[str, str]:
    try:
        return parse_parameters(content_type=request.content_type, body=request.body, query=request.query)
    except UnreadableForm:
        raise _OAuthError(400, "unsupported_grant_type") from None


def _build_reply(status: int, content: _TokenGrant | dict[str, str]) -> TokenReply:
    return TokenReply(status, msgspec.json.encode(content))
