"""The subject token of a token exchange, which says for whom a client acts (RFC 8693;
docs/reference/authentication.md#token-exchange).

Only keys that the client's own tenant has registered as trusted count. Neither first-party nor federated tokens are
subject tokens, and a subject token is no bearer token.
"""

from collections.abc import Mapping
from typing import Final

from statewright.auth import keys
from statewright.auth.clients import Client
from statewright.auth.principals import Claims, text_claim
from statewright.auth.trusted_keys import TrustedKey, TrustedKeys

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"  # noqa: S105 (a name, no secret)
_SECOND_US: Final = 1_000_000


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
