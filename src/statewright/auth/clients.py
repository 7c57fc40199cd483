"""Machine clients, and how their secrets are checked (docs/reference/authentication.md#token-endpoint,
docs/reference/authentication.md#clients).
"""

import asyncio
import hashlib
import secrets
from typing import Protocol

import bcrypt
from msgspec import Struct

from statewright.ids import TenantId
from statewright.settings import Secret, Settings

MAX_SECRET_BYTES = 72
"""Bytes of a secret that bcrypt looks at."""
BCRYPT_COST = 10
"""Logarithm of the rounds: about 80 ms of one core. Secrets made by the service have 256 bits."""
_MAX_CONCURRENT_CHECKS = 2
"""Verifications that may run at a time, so that a flood of guesses leaves threads for other work."""
_MAX_REMEMBERED = 1024
"""Correct secrets whose digests are kept, to recognise them without bcrypt."""


class Client(Struct, frozen=True, kw_only=True):
    """A machine client. Its work is attributed to the user ``user_id``."""

    id: str
    tenant: TenantId
    user_id: str
    roles: tuple[str, ...]
    secret_hash: Secret


class ClientStore(Protocol):
    """Finds clients by id, over all tenants."""

    async def find(self, client_id: str) -> Client | None:
        """The client with this id."""
        ...


class FixedClients:
    """A store of exactly these clients."""

    def __init__(self, *clients: Client) -> None:
        self._clients = {client.id: client for client in clients}

    async def find(self, client_id: str) -> Client | None:
        """The client with this id."""
        return self._clients.get(client_id)


class ClientSecrets:
    """Checks client secrets, never on the event loop.

    An unknown client costs as much time as a wrong secret. A right secret is remembered as a digest, keyed with a
    random key of this process and bound to the stored hash: a new secret or a deleted client makes the digest useless
    at once, and the quicker answer reveals only what the answer itself says.
    """

    def __init__(self, store: ClientStore) -> None:
        self._store = store
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CHECKS)
        self._dummy_hash = Secret(bcrypt.gensalt(BCRYPT_COST).decode() + "." * 31)

    async def authenticate(self, client_id: str, secret: str) -> Client | None:
        """The client, if it is known and ``secret`` is its secret."""
        client = await self._store.find(client_id)
        stored = self._dummy_hash if client is None else client.secret_hash
        return client if await self._matches(secret, stored) else None

    async def _matches(self, secret: str, stored: Secret) -> bool:
        digest = hashlib.blake2b(f"{stored.reveal()} {secret}".encode(), key=self._key).digest()
        if digest in self._known:
            return True
        async with self._semaphore:
            matches = await asyncio.to_thread(matches_hash, secret, stored)
        if matches:
            self._remember(digest)
        return matches

    def _remember(self, digest: bytes) -> None:
        if len(self._known) >= _MAX_REMEMBERED:
            del self._known[next(iter(self._known))]  # the oldest
        self._known[digest] = None


async def load_bootstrap_client(settings: Settings) -> Client | None:
    """The client of the settings, its secret hashed; ``None`` when there is none."""
    if settings.iam_mode != "jwt" or settings.bootstrap_client_secret is None:
        return None
    return Client(
        id=settings.bootstrap_client_id,
        tenant=TenantId(settings.bootstrap_tenant_id),
        user_id=settings.bootstrap_user_id,
        roles=settings.bootstrap_roles,
        secret_hash=await asyncio.to_thread(hash_secret, settings.bootstrap_client_secret.reveal()),
    )


def hash_secret(secret: str) -> Secret:
    """The bcrypt hash to store. Takes time: call it in a thread. ``ValueError`` beyond :data:`MAX_SECRET_BYTES`."""
    return Secret(bcrypt.hashpw(secret.encode(), bcrypt.gensalt(BCRYPT_COST)).decode())


def matches_hash(secret: str, stored: Secret) -> bool:
    """Whether ``secret`` is the one that was hashed. Takes the same time for every answer: call it in a thread."""
    given = secret.encode()
    # A longer secret is never correct, but finding that out must not be quicker.
    matches = bcrypt.checkpw(given[:MAX_SECRET_BYTES], stored.reveal().encode())
    return matches and len(given) <= MAX_SECRET_BYTES
