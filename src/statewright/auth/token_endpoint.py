"""``POST /oauth/token`` without a web framework around it (RFC 6749, RFC 8693;
docs/reference/authentication.md#token-endpoint).

Clients authenticate first, by HTTP Basic, in the form or by a signature; then the grant decides. Every answer is JSON,
errors in the flat form of OAuth. In mock mode, where no token is verified, :class:`MockTokenEndpoint` takes the place
of the real one. Parameters come from a form body, urlencoded or multipart, and from the query string; credentials never
from the latter, which is logged by whatever it passes.

A token exchange has a subject token, which says for whom the client acts
(docs/reference/authentication.md#token-exchange). Only keys that the client's own tenant has registered as trusted
count. Neither first-party nor federated tokens are subject tokens, and a subject token is no bearer token.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from email.parser import BytesHeaderParser
from math import ceil
from typing import Final, NoReturn, Protocol
from urllib.parse import parse_qsl, unquote_plus

import msgspec
from msgspec import Struct

from statewright.auth import keys
from statewright.auth.clients import Client, TooManyGuesses
from statewright.auth.keys import TrustedKey, TrustedKeys
from statewright.auth.principals import Claims, text_claim
from statewright.auth.tokens import TokenIssuer, TokenRules
from statewright.entity import Principal
from statewright.failures import StorageUnavailable
from statewright.ids import Clock
from statewright.settings import Secret

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"  # noqa: S105 (a name, no secret)


class InvalidGrant(Exception):
    """The subject token cannot be exchanged; the message goes to the client."""


class TenantMismatch(InvalidGrant):
    """The subject belongs to another tenant than the client."""


async def verify_subject(form: Mapping[str, str], *, client: Client, trusted: TrustedKeys, now: int) -> Claims:
    """The claims of the subject token; ``now`` in microseconds since 1970. Raises :class:`InvalidGrant` for the first
    check that fails.
    """
    if form.get("subject_token_type") != TOKEN_TYPE:
        raise InvalidGrant("unsupported subject_token_type")
    token = _parse_subject_token(form.get("subject_token", ""))
    key = _require_usable(await trusted.find(client.tenant, token.kid), now)
    _check_claims(token, key, now)
    if text_claim(token.claims, "caas_org_id") != client.tenant:
        raise TenantMismatch("tenant mismatch")
    return token.claims


def _parse_subject_token(token: str) -> keys.Jws:
    try:
        parsed = keys.parse(token)
    except keys.MalformedToken:
        raise InvalidGrant("invalid subject token") from None
    if not parsed.is_rs256:
        raise InvalidGrant("unsupported token algorithm")
    if not parsed.kid:
        raise InvalidGrant("missing kid in subject token")
    return parsed


def _require_usable(key: TrustedKey | None, now: int) -> TrustedKey:
    if key is None or now > key.valid_to:
        raise InvalidGrant("unknown trusted key")
    if not key.active:
        raise InvalidGrant("trusted key is inactive")
    if now < key.valid_from:
        raise InvalidGrant("trusted key not yet valid")
    return key


def _check_claims(token: keys.Jws, key: TrustedKey, now: int) -> None:
    if not keys.is_signed_by(key.public, token):
        raise InvalidGrant("signature verification failed")
    if key.issuers and text_claim(token.claims, "iss") not in key.issuers:
        raise InvalidGrant("untrusted token issuer")
    problem = keys.find_time_problem(token.claims, now // _SECOND_US)
    if problem is not None:
        raise InvalidGrant(problem)
    if not text_claim(token.claims, "sub"):
        raise InvalidGrant("subject token missing sub claim")


MAX_BODY_BYTES: Final = 1 << 20
"""Largest body of a token request."""
_MAX_INLINE_BYTES: Final = 64 * 1024
"""A larger body is read in a thread: to undo the escapes of a mebibyte takes 70 ms."""
_MAX_PARAMETERS: Final = 100
_MAX_HEAD_BYTES: Final = 1024
"""Of a part of a multipart body, whose head has no more to say than a name."""
_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})
_SCHEME: Final = "Basic "
_FORM: Final = "application/x-www-form-urlencoded"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Credentials(Struct, frozen=True):
    """A client id and its secret, not checked yet."""

    client_id: str
    secret: Secret


class UnreadableForm(ValueError):
    """The body is too large, or not what its content type says."""


def parse_basic(authorization: str) -> tuple[Credentials, ...]:
    """The credentials that the header may mean, the likeliest first; empty when it is malformed.

    RFC 6749 §2.3.1 has both halves form-encoded, but many clients do not encode them. Where that makes a difference,
    both readings count.
    """
    if not authorization.startswith(_SCHEME):
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


def read_posted(form: Mapping[str, str]) -> tuple[Credentials, ...]:
    """The credentials in the body of the request (``client_secret_post``); empty when there are none."""
    if "client_id" not in form or "client_secret" not in form:
        return ()
    return (Credentials(form["client_id"], Secret(form["client_secret"])),)


def _form_decode(text: str) -> str | None:
    """The text without its form encoding; ``None`` when it is not form-encoded."""
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


def parse_form(content_type: str | None, body: bytes) -> dict[str, str]:
    """The parameters in a body, the first value of each. Raises :class:`UnreadableForm`."""
    if len(body) > MAX_BODY_BYTES:
        raise UnreadableForm("the body is too large")
    return dict(reversed(_parse_body(content_type or "", body)))


def parse_query(query: str) -> dict[str, str]:
    """The parameters in a query, the first value of each. Raises :class:`UnreadableForm`."""
    return dict(reversed(_parse_pairs(query)))


def _parse_body(content_type: str, body: bytes) -> list[tuple[str, str]]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == _FORM:
        try:
            return _parse_pairs(body.decode())
        except UnicodeDecodeError as undecodable:
            raise UnreadableForm("the body is not UTF-8") from undecodable
    if media_type == "multipart/form-data":
        return _parse_parts(content_type, body)
    if body.strip():
        raise UnreadableForm(f"the body is no form: its content type must be {_FORM}")
    return []


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError as too_many:
        raise UnreadableForm("too many parameters") from too_many


def _parse_parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The fields of RFC 7578; files among them are passed over.

    Strangers send them: a parser of mail takes a second for a mebibyte of short lines.
    """
    boundary = _read_boundary(content_type)
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary, _MAX_PARAMETERS + 1)
    if not parts:
        raise UnreadableForm("the body is not multipart")
    fields: list[tuple[str, str]] = []
    for count, part in enumerate(parts):
        if part.startswith(b"--"):
            return fields
        if count == _MAX_PARAMETERS:
            raise UnreadableForm("too many parameters")
        head, _, content = part.partition(b"\r\n\r\n")
        name = _read_field_name(head)
        if name:
            fields.append((name, _read_field(content)))
    raise UnreadableForm("the body is not multipart: it has no end")


def _read_boundary(content_type: str) -> bytes:
    if "\r" in content_type or "\n" in content_type:
        raise UnreadableForm("the content type is malformed")
    message = Message()
    message["content-type"] = content_type
    boundary = message.get_boundary()
    if not boundary:
        raise UnreadableForm("the content type names no boundary")
    return boundary.encode("latin-1", "replace")


def _read_field_name(head: bytes) -> str:
    """The name of a field, empty for a file and for what has none."""
    if len(head) > _MAX_HEAD_BYTES:
        raise UnreadableForm(f"the head of a field is longer than {_MAX_HEAD_BYTES} bytes")
    message = BytesHeaderParser().parsebytes(head.lstrip(b" \t").removeprefix(b"\r\n"))
    if str(message.get("content-transfer-encoding", "binary")).strip().lower() not in _PLAIN_ENCODINGS:
        raise UnreadableForm("a field has a transfer encoding")
    name = message.get_param("name", header="content-disposition")
    return name if isinstance(name, str) and not message.get_filename() else ""


def _read_field(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as undecodable:
        raise UnreadableForm("a field is not UTF-8") from undecodable


_SECOND_US: Final = 1_000_000
_NOT_STORED: Final = {"cache-control": "no-store", "pragma": "no-cache"}
"""RFC 6749 §5.1."""
_CHALLENGE: Final = {"www-authenticate": 'Basic realm="statewright", charset="UTF-8"'}
"""RFC 6749 §5.2."""

_HOW_TO_AUTHENTICATE: Final = (
    "send the client id and secret by HTTP Basic, or as client_id and client_secret in the form, or a client_assertion"
)


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A token request as the HTTP server received it. ``query`` is the raw query string, without the question mark,
    ``address`` that of the client.
    """

    authorization: str | None
    content_type: str | None
    body: bytes
    query: str
    address: str = ""


class TokenReply(Struct, frozen=True):
    """Status, JSON body and headers of the answer; its content type is ``application/json``."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class TokenService(Protocol):
    """Answers token requests."""

    async def issue(self, request: TokenRequest) -> TokenReply:
        """The answer; never an exception for anything that the request says."""
        ...


class ClientAuthenticator(Protocol):
    """Authenticates clients by their secrets."""

    async def authenticate(self, client_id: str, secret: str, address: str = "") -> Client | None:
        """The client, if this is its secret. Raises :class:`TooManyGuesses`."""
        ...


class AssertionAuthenticator(Protocol):
    """Authenticates clients by signatures."""

    async def authenticate(self, form: Mapping[str, str], now: int) -> Client | None:
        """The client that an assertion in the form proves."""
        ...


class _TokenGrant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    token_type: str
    expires_in: int
    issued_token_type: str = ""


class _OAuthError(Exception):
    """The request is refused with this OAuth error."""

    def __init__(
        self, status: int, error: str, description: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error)
        self.reply = _build_reply(status, {"error": error, "error_description": description or error}, headers or {})


class TokenEndpoint:
    """The token endpoint of jwt mode."""

    def __init__(
        self,
        clients: ClientAuthenticator,
        issuer: TokenIssuer,
        trusted: TrustedKeys,
        clock: Clock,
        assertions: AssertionAuthenticator | None = None,
    ) -> None:
        self._clients = clients
        self._assertions = assertions
        self._issuer = issuer
        self._trusted = trusted
        self._clock = clock
        self._grants: Mapping[str, Callable[[Client, Mapping[str, str]], Awaitable[_TokenGrant]]] = {
            "client_credentials": self._grant_client_credentials,
            GRANT_TYPE: self._grant_token_exchange,
        }

    async def issue(self, request: TokenRequest) -> TokenReply:
        """The answer to one request."""
        try:
            form, fault = await _read_form(request)
            client = await self._authenticate(request, form, fault)
            fields = _read_fields(request, form, fault)
            grant = self._grants.get(fields.get("grant_type", ""))
            if grant is None:
                self._refuse_grant(fields)
            return _build_reply(200, await grant(client, fields))
        except _OAuthError as refused:
            return refused.reply
        except StorageUnavailable as away:
            return _OAuthError(503, "temporarily_unavailable", away.message, {"retry-after": "1"}).reply

    async def _authenticate(
        self, request: TokenRequest, form: Mapping[str, str], fault: UnreadableForm | None
    ) -> Client:
        if "client_assertion" not in form:
            return await self._authenticate_client(_list_credentials(request, form, fault), request.address)
        if request.authorization is not None or "client_secret" in form:
            raise _refuse_two_ways()
        client = None if self._assertions is None else await self._assertions.authenticate(form, self._clock())
        if client is None:
            raise _refuse_client("the client assertion proves nothing; the log says why")
        return client

    async def _authenticate_client(self, claimed: tuple[Credentials, ...], address: str) -> Client:
        try:
            for credentials in claimed:
                client = await self._clients.authenticate(credentials.client_id, credentials.secret.reveal(), address)
                if client is not None:
                    return client
        except TooManyGuesses as excess:
            wait = {"retry-after": str(ceil(excess.wait_s))}
            raise _OAuthError(429, "temporarily_unavailable", str(excess), wait) from None
        raise _refuse_client("the client is unknown, or its secret is another")

    def _refuse_grant(self, fields: Mapping[str, str]) -> NoReturn:
        named, offered = fields.get("grant_type"), " and ".join(self._grants)
        fault = f'grant_type "{named[:100]}" is not offered' if named else "grant_type is missing"
        raise _OAuthError(400, "unsupported_grant_type", f"{fault}; offered are {offered}")

    async def _grant_client_credentials(self, client: Client, _fields: Mapping[str, str]) -> _TokenGrant:
        return self._build_grant(self._issuer.issue_for_client(client))

    async def _grant_token_exchange(self, client: Client, fields: Mapping[str, str]) -> _TokenGrant:
        try:
            subject = await verify_subject(fields, client=client, trusted=self._trusted, now=self._clock())
        except TenantMismatch as mismatch:
            raise _OAuthError(403, "access_denied", str(mismatch)) from None
        except InvalidGrant as invalid:
            raise _OAuthError(400, "invalid_grant", str(invalid)) from None
        granted = self._build_grant(self._issuer.issue_on_behalf(subject, client))
        return msgspec.structs.replace(granted, issued_token_type=TOKEN_TYPE)

    def _build_grant(self, token: str | None) -> _TokenGrant:
        if token is None:
            raise _OAuthError(500, "server_error", "no key of this service may sign now")
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
        token = keys.encode_unsigned({"alg": "none", "typ": "JWT"}, claims) + "."
        return _build_reply(
            200,
            _TokenGrant(access_token=token, token_type="Bearer", expires_in=self._rules.expiry_seconds),  # noqa: S106
        )


async def _read_form(request: TokenRequest) -> tuple[dict[str, str], UnreadableForm | None]:
    """The parameters in the body, and what is wrong with it: that is told after the client has proved to be one."""
    content_type, body = request.content_type, request.body
    try:
        if len(body) <= _MAX_INLINE_BYTES:
            return parse_form(content_type, body), None
        return await asyncio.to_thread(parse_form, content_type, body), None
    except UnreadableForm as unreadable:
        return {}, unreadable


def _list_credentials(
    request: TokenRequest, form: Mapping[str, str], fault: UnreadableForm | None
) -> tuple[Credentials, ...]:
    if request.authorization is None:
        posted = read_posted(form)
        if not posted:
            reason = f" ({fault})" if fault else ""
            raise _refuse_client(f"there are no credentials{reason}: {_HOW_TO_AUTHENTICATE}")
        return posted
    if "client_secret" in form:
        raise _refuse_two_ways()
    claimed = parse_basic(request.authorization)
    if not claimed:
        raise _refuse_client(f"the Authorization header has no Basic credentials: {_HOW_TO_AUTHENTICATE}")
    return claimed


def _refuse_two_ways() -> _OAuthError:
    return _OAuthError(400, "invalid_request", "the client authenticates in two ways at once (RFC 6749 2.3)")


def _refuse_client(description: str) -> _OAuthError:
    return _OAuthError(401, "invalid_client", description, _CHALLENGE)


def _read_fields(request: TokenRequest, form: Mapping[str, str], fault: UnreadableForm | None) -> Mapping[str, str]:
    """The parameters of the grant; those of the body win over those of the query."""
    try:
        if fault is not None:
            raise fault
        return {**parse_query(request.query), **form}
    except UnreadableForm as unreadable:
        raise _OAuthError(400, "unsupported_grant_type", str(unreadable)) from None


def _build_reply(
    status: int, content: _TokenGrant | dict[str, str], headers: Mapping[str, str] | None = None
) -> TokenReply:
    return TokenReply(status, msgspec.json.encode(content), {**_NOT_STORED, **(headers or {})})
