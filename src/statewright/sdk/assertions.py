"""Clients that sign in place of sending a secret: ``private_key_jwt`` (RFC 7523;
docs/reference/authentication.md#private-keys-of-clients).
"""

import time
import uuid
from typing import Final

from msgspec import Struct

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
