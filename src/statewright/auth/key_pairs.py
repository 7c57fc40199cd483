"""Key pairs as they are stored (docs/reference/authentication.md#keys)."""

from msgspec import Struct

from statewright.auth.encryption import Encrypted
from statewright.auth.keys import Audience


class KeyPair(Struct, frozen=True, kw_only=True):
    """A pair: ``public_key`` as DER, SubjectPublicKeyInfo; ``private_key`` encrypted, None for a configured key. Times
    in microseconds since 1970; ``is_unlimited`` as in ``SigningKey``.
    """

    kid: str
    audience: Audience
    public_key: bytes
    private_key: Encrypted | None
    active: bool
    valid_from: int
    valid_to: int
    is_unlimited: bool = False
