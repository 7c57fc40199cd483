"""The authorization code flow with PKCE (RFC 7636), as far as it needs no network (docs/console.md#login)."""

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType, convert

from statewright.jsonval.codec import decode_stored
from statewright.jsonval.scanning import MalformedJson
from statewright.jsonval.values import JsonObject
from statewright.operations.records import Value

FLOW_S: Final = 600
"""How long somebody may take to log in at the provider."""
CALLBACK: Final = "/console/login/callback"
SECOND_US: Final = 1_000_000
SKEW_S: Final = 30
_VERIFIER_BYTES: Final = 48


class Provider(Protocol):
    """A provider of logins as its discovery document describes it."""

    @property
    def id(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def issuer(self) -> str: ...
    @property
    def authorization_endpoint(self) -> str: ...
    @property
    def end_session_endpoint(self) -> str: ...


class Offer(Protocol):
    """A provider on the page of the login."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...


class LoginProviders(Protocol):
    """The providers by which one may log in: registered, active, and with a client of the console."""

    def list_offers(self) -> Sequence[Offer]: ...

    async def discover(self, provider_id: str) -> Provider | None:
        """None where there is no such provider, or it cannot be reached."""
        ...

    async def request_tokens(self, provider_id: str, form: Mapping[str, str]) -> "JsonObject | None":
        """What the token endpoint answers; None where it refuses or fails."""
        ...


class LoginFlow(Struct, frozen=True, kw_only=True):
    """One login under way at a provider, kept in a cookie of the browser that began it."""

    provider: str
    state: str
    nonce: str
    verifier: str
    target: str
    """The page to come back to."""
    ends_at: int

    def encode(self) -> bytes:
        """To be sealed."""
        return msgspec.json.encode(self)


def begin_flow(provider_id: str, target: str, now: int) -> LoginFlow:
    """A flow with fresh secrets; ``now`` in microseconds since 1970."""
    state, nonce, verifier = (secrets.token_urlsafe(size) for size in (24, 24, _VERIFIER_BYTES))
    return LoginFlow(
        provider=provider_id,
        state=state,
        nonce=nonce,
        verifier=verifier,
        target=target,
        ends_at=now + FLOW_S * SECOND_US,
    )


def decode_flow(plain: bytes, now: int) -> LoginFlow | None:
    """The flow of a cookie, if it has not taken too long."""
    flow = msgspec.json.decode(plain, type=LoginFlow)
    return flow if now < flow.ends_at else None


def build_authorization_url(provider: Provider, flow: LoginFlow, public_url: str) -> str:
    """Where the browser goes to log in."""
    challenge = urlsafe_b64encode(hashlib.sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
    query = urlencode(
        {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": f"{public_url}{CALLBACK}",
            "scope": "openid",
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
    )
    separator = "&" if "?" in provider.authorization_endpoint else "?"
    return f"{provider.authorization_endpoint}{separator}{query}"


def build_code_form(flow: LoginFlow, code: str, public_url: str) -> dict[str, str]:
    """What the token endpoint is told for a code."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": f"{public_url}{CALLBACK}",
        "code_verifier": flow.verifier,
    }


def build_logout_url(provider: Provider, public_url: str) -> str:
    """Where the login at the provider itself is ended; empty where it offers no such page."""
    if not provider.end_session_endpoint.startswith(("https://", "http://")):
        return ""
    query = urlencode({"client_id": provider.client_id, "post_logout_redirect_uri": f"{public_url}/console/login"})
    return f"{provider.end_session_endpoint}{'&' if '?' in provider.end_session_endpoint else '?'}{query}"


class Claims(Struct, frozen=True, kw_only=True):
    """What a JWT says, as far as a login needs it; None: nothing."""

    iss: Value = None
    sub: Value = None
    aud: Value = None
    azp: Value | UnsetType = UNSET
    exp: Value = None
    nonce: Value = None


def read_claims(token: str) -> Claims | None:
    """The claims of a JWT, without looking at its signature: that is up to the API. None for what is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = decode_stored(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, MalformedJson):
        return None
    return convert(claims, Claims) if isinstance(claims, dict) else None


def find_id_token_fault(claims: Claims | None, provider: Provider, nonce: str, now: int) -> str | None:
    """Why an ID token that came from the token endpoint is not the answer to this flow (OpenID Connect Core 3.1.3.7);
    ``now`` in microseconds since 1970.
    """
    if claims is None:
        return "malformed"
    audiences = claims.aud if isinstance(claims.aud, list) else [claims.aud]
    if claims.iss != provider.issuer:
        return "issuer"
    if provider.client_id not in audiences or claims.azp not in (UNSET, provider.client_id):
        return "audience"
    if not isinstance(claims.nonce, str) or not secrets.compare_digest(claims.nonce.encode(), nonce.encode()):
        return "nonce"
    if not isinstance(claims.exp, int | Decimal) or claims.exp + SKEW_S <= now // SECOND_US:
        return "expired"
    return None


def read_expiry(claims: Claims | None) -> int | None:
    """When a token ends, in microseconds since 1970; None where it does not say."""
    expiry = None if claims is None else claims.exp
    return int(expiry * SECOND_US) if isinstance(expiry, int | Decimal) and not isinstance(expiry, bool) else None
