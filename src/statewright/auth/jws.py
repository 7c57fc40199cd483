"""Signed tokens in their compact form, RS256 only (RFC 7515, RFC 7519; docs/reference/authentication.md#access-tokens).

Parsing and verifying are separate steps here, because the order of the checks is part of the contract: an unknown
key must be told from a bad signature, and a malformed token from an unsupported algorithm. JWT libraries do both in one
call, in an order of their own, or skip characters that are no base64 (docs/adr/0022). The cryptography is that of
``cryptography``.
"""

import base64
import re
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from statewright.auth.principals import Claims, text_claim

ALGORITHM: Final = "RS256"
MAX_CLOCK_SKEW_S: Final = 30
"""Seconds by which the clocks of issuer and verifier may differ."""

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: handed out as `object` only
_PADDING: Final = PKCS1v15()
_HASH: Final = SHA256()


class MalformedToken(ValueError):
    """Not three base64url parts of which the first two are JSON objects."""


class Jws(Struct, frozen=True):
    """A parsed token, nothing about it verified."""

    header: Claims
    claims: Claims
    signed: bytes
    signature: bytes

    @property
    def is_rs256(self) -> bool:
        """Whether the algorithm is the only one accepted. ``none`` and the HMAC family must never get further."""
        return self.header.get("alg") == ALGORITHM

    @property
    def kid(self) -> str:
        """The key id; empty when there is none."""
        return text_claim(self.header, "kid")


def parse(token: str) -> Jws:
    """The parts of a token. Raises :class:`MalformedToken`, whose text says which part is wrong and holds nothing of
    it.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise MalformedToken("not three parts")
    header, claims = _decode_object(parts[0], "header"), _decode_object(parts[1], "claims")
    if "crit" in header:
        raise MalformedToken("critical extensions are not understood")  # RFC 7515 §4.1.11
    return Jws(header, claims, f"{parts[0]}.{parts[1]}".encode(), _decode_base64url(parts[2], "signature"))


def is_signed_by(key: RSAPublicKey, jws: Jws) -> bool:
    """Whether the signature is that of ``key``."""
    try:
        key.verify(jws.signature, jws.signed, _PADDING, _HASH)
    except InvalidSignature:
        return False
    return True


def encode(claims: Claims, *, kid: str, key: RSAPrivateKey) -> str:
    """A token with these claims, signed with ``key``."""
    signed = encode_unsigned({"alg": ALGORITHM, "kid": kid, "typ": "JWT"}, claims)
    return f"{signed}.{encode_base64url(key.sign(signed.encode(), _PADDING, _HASH))}"


def encode_unsigned(header: Claims, claims: Claims) -> str:
    """The first two parts of a token: what is signed."""
    return f"{encode_base64url(msgspec.json.encode(header))}.{encode_base64url(msgspec.json.encode(claims))}"


def encode_base64url(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def find_time_problem(claims: Claims, now: int) -> str | None:
    """Why the token is not valid at ``now`` (seconds since 1970), in the phrases of
    docs/reference/authentication.md#token-exchange; ``None`` if it is.
    """
    expires, issued, begins = (to_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None:
        return "missing exp claim"
    if now > expires + MAX_CLOCK_SKEW_S:
        return "token expired"
    if issued is None:
        return "missing iat claim"
    if issued > now + MAX_CLOCK_SKEW_S:
        return "iat is in the future"
    if begins is not None and now < begins - MAX_CLOCK_SKEW_S:
        return "token not yet valid (nbf)"
    return None


def get_expiry(claims: Claims) -> int:
    """``exp`` in seconds since 1970, of claims that have no time problem."""
    return to_seconds(claims.get("exp")) or 0


def is_meant_for(audience: str, claim: object) -> bool:
    """Whether the claim ``aud`` is ``audience``, or a list that contains it."""
    return claim == audience or (isinstance(claim, list) and audience in claim)


def to_seconds(value: object) -> int | None:
    """A time claim in whole seconds, fractions cut off; ``None`` for what is no number, as booleans in JSON."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _decode_base64url(part: str, name: str) -> bytes:
    if len(part) % 4 == 1 or not _BASE64URL.fullmatch(part):
        raise MalformedToken(f"{name} is not base64url")
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _decode_object(part: str, name: str) -> Claims:
    try:
        return _OBJECT.decode(_decode_base64url(part, name))
    except MalformedToken:
        raise
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise MalformedToken(f"{name} is not a JSON object") from None
