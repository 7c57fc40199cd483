"""Keys, clocks and tokens for the tests of authentication. PyJWT mints the tokens: another hand than ours."""

import functools

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import structs

from statewright.auth import Client, KeyRing, SigningKey, TokenRules, TokenVerifier
from statewright.auth.clients import hash_secret
from statewright.auth.keys import compute_key_id
from statewright.ids import TenantId
from statewright.settings import Secret

NOW = 1_790_000_000
"""Seconds since 1970."""
FOREVER = (NOW + 10**9) * 1_000_000
RULES = TokenRules(issuer="cyoda", audience="", expiry_seconds=3600)
ABSENT = object()


class Clock:
    """Stands still until it is moved."""

    def __init__(self, seconds: float = NOW) -> None:
        self.seconds = seconds

    def __call__(self) -> int:
        return int(self.seconds * 1_000_000)


def rsa_key(name: str = "main", bits: int = 2048) -> rsa.RSAPrivateKey:
    """One key per name and process: making one takes a tenth of a second."""
    return _rsa_key(name, bits)


@functools.cache
def _rsa_key(_name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def pem(key: rsa.RSAPrivateKey, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    return key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()


def signing_key(name: str = "main", **changes: object) -> SigningKey:
    """The key of the settings, valid for ever; ``changes`` are fields."""
    key = _signing_key(name)
    return structs.replace(key, **changes) if changes else key


@functools.cache
def _signing_key(name: str) -> SigningKey:
    private = rsa_key(name)
    public = private.public_key()
    return SigningKey(
        kid=compute_key_id(public), public=public, private=private, audience="client", valid_to=FOREVER,
        is_unlimited=True,
    )  # fmt: skip


def claims(**changes: object) -> dict[str, object]:
    """Good claims; ``ABSENT`` removes one."""
    good: dict[str, object] = {
        "sub": "ann", "iss": "cyoda", "caas_org_id": "acme", "user_roles": ["ROLE_ADMIN"], "iat": NOW, "exp": NOW + 600,
    }  # fmt: skip
    return {name: value for name, value in (good | changes).items() if value is not ABSENT}


def minted(key: str = "main", *, header: dict[str, object] | None = None, **changes: object) -> str:
    """A token as an external tool mints it with the configured key."""
    private = rsa_key(key)
    kid = compute_key_id(private.public_key())
    return jwt.encode(claims(**changes), private, algorithm="RS256", headers={"kid": kid} | (header or {}))


def verifier(*keys: SigningKey, clock: Clock | None = None, rules: TokenRules = RULES) -> TokenVerifier:
    return TokenVerifier(KeyRing(*(keys or (signing_key(),))), rules, clock or Clock())


@functools.cache
def hashed(secret: str) -> Secret:
    return hash_secret(secret)


class FixedClients:
    """A store of exactly these clients."""

    def __init__(self, *clients: Client) -> None:
        self._clients = {client.id: client for client in clients}

    async def find(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)


def a_client(client_id: str = "robot", *, secret: str = "hunter2", tenant: str = "acme") -> Client:
    return Client(
        id=client_id, tenant=TenantId(tenant), user_id="operator", roles=("ROLE_M2M",), secret_hash=hashed(secret)
    )
