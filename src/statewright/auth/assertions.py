"""Clients that authenticate by a signature in place of a secret: ``private_key_jwt`` (RFC 7523;
docs/reference/authentication.md#private-keys-of-clients).

The key is one that the client's tenant trusts for audience ``client``, and whose list of issuers names the client: a
key that was registered for subject tokens alone, or for another client, must not make anybody a client. An assertion is
meant for this service, lives shortly, and counts once.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

from statewright.auth import keys
from statewright.auth.clients import Client, ClientStore
from statewright.auth.keys import TrustedKey, TrustedKeys
from statewright.auth.principals import Claims, text_claim
from statewright.ids import TenantId
from statewright.telemetry import logs

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_LIFETIME_S: Final = 3600
"""Seconds that an assertion may still live: so long it is remembered."""
MAX_CHARACTERS: Final = 16_384

_SECOND_US: Final = 1_000_000

log = logs.logger(__name__)


class InvalidAssertion(Exception):
    """The assertion proves nothing. The message is for the log."""


class AssertionLog(Protocol):
    """Remembers assertions, over all nodes."""

    async def record(self, tenant: TenantId, client: str, digest: bytes, *, expires_at: int, now: int) -> bool:
        """Whether this one was not there before."""
        ...


class ClientAssertions:
    """Authenticates clients by assertions that are meant for ``audience``."""

    def __init__(self, clients: ClientStore, trusted: TrustedKeys, used: AssertionLog, audience: str) -> None:
        self._clients = clients
        self._trusted = trusted
        self._used = used
        self._audience = audience

    async def authenticate(self, form: Mapping[str, str], now: int) -> Client | None:
        """The client whose assertion is in the form, at ``now`` (microseconds since 1970); None when it proves
        nothing.
        """
        try:
            return await self._verify(form, now)
        except InvalidAssertion as invalid:
            log.info("client_assertion_refused", reason=str(invalid))
            return None

    async def _verify(self, form: Mapping[str, str], now: int) -> Client:
        token = _parse_assertion(form)
        client_id = text_claim(token.claims, "sub")
        if not client_id or text_claim(token.claims, "iss") != client_id:
            raise InvalidAssertion("iss and sub are not both the client")
        if form.get("client_id", client_id) != client_id:
            raise InvalidAssertion("client_id is another than sub")
        client = await self._clients.find(client_id)
        if client is None:
            raise InvalidAssertion("unknown client")
        key = await self._trusted.find(client.tenant, token.kid)
        _require_key(key, client_id, token, now)
        expires_at, assertion_id = self._check_claims(token.claims, now)
        digest = hashlib.sha256(assertion_id.encode("utf-8", "surrogatepass")).digest()
        if not await self._used.record(client.tenant, client_id, digest, expires_at=expires_at, now=now):
            raise InvalidAssertion("it was used before")
        return client

    def _check_claims(self, claims: Claims, now: int) -> tuple[int, str]:
        """Until when the assertion is to be remembered, and its id."""
        now_s = now // _SECOND_US
        problem = keys.find_time_problem(claims, now_s)
        if problem is not None:
            raise InvalidAssertion(problem)
        expires_s = keys.get_expiry(claims)
        if expires_s > now_s + MAX_LIFETIME_S + keys.MAX_CLOCK_SKEW_S:
            raise InvalidAssertion("it lives too long")
        if not keys.is_meant_for(self._audience, claims.get("aud")):
            raise InvalidAssertion("it is meant for another service")
        assertion_id = text_claim(claims, "jti")
        if not assertion_id:
            raise InvalidAssertion("missing jti")
        return (expires_s + 2 * keys.MAX_CLOCK_SKEW_S) * _SECOND_US, assertion_id


def _parse_assertion(form: Mapping[str, str]) -> keys.Jws:
    if form.get("client_assertion_type") != ASSERTION_TYPE:
        raise InvalidAssertion("unsupported client_assertion_type")
    text = form.get("client_assertion", "")
    if len(text) > MAX_CHARACTERS:
        raise InvalidAssertion("it is too long")
    try:
        token = keys.parse(text)
    except keys.MalformedToken as malformed:
        raise InvalidAssertion(f"malformed: {malformed}") from None
    if not token.is_rs256:
        raise InvalidAssertion("unsupported algorithm")
    if not token.kid:
        raise InvalidAssertion("missing kid")
    return token


def _require_key(key: TrustedKey | None, client_id: str, token: keys.Jws, now: int) -> None:
    if key is None or not key.active or not key.valid_from <= now < key.valid_to:
        raise InvalidAssertion("no trusted key that counts now")
    if key.audience != "client" or client_id not in key.issuers:
        raise InvalidAssertion("the key is not registered for this client")
    if not keys.is_signed_by(key.public, token):
        raise InvalidAssertion("bad signature")
