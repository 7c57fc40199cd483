"""Machine clients and the proof that somebody knows a client's secret (spec/auth-and-operations.md §6, §8, §9)."""

import asyncio
import hashlib
import secrets
from typing import Protocol

import bcrypt
from msgspec import Struct

from statewright.identity import TenantId
from statewright.settings import Secret, Settings

LONGEST_SECRET = 72
"""Bytes that bcrypt looks at."""
COST = 10
"""Logarithm of the rounds: about 80 ms of one core. Secrets made by the service have 256 bits."""
_AT_ONCE = 2
"""Verifications that may run side by side, so that a flood of guesses leaves threads to everybody else."""
_REMEMBERED = 1024
"""Secrets found right, to be recognised without bcrypt."""


class Client(Struct, frozen=True, kw_only=True):
    """A machine client. ``user_id`` is whom its work is attributed to."""

    id: str
    tenant: TenantId
    user_id: str
    roles: tuple[str, ...]
    secret_hash: Secret


class ClientStore(Protocol):
    """Where clients are found by id, over all tenants."""

    async def find(self, client_id: str) -> Client | None:
        """The client with this id."""
        ...


class FixedClients:
    """The clients given, and no others."""

    def __init__(self, *clients: Client) -> None:
        self._clients = {client.id: client for client in clients}

    async def find(self, client_id: str) -> Client | None:
        """The client with this id."""
        return self._clients.get(client_id)


class ClientSecrets:
    """Checks client secrets, never on the event loop.

    An unknown client costs as much time as a wrong secret. A right secret is remembered as a digest, keyed with a
    random key of this process and bound to the stored hash: a new secret or a deleted client makes the memory worthless
    at once, and the quicker answer tells a caller only what the answer itself tells.
    """

    def __init__(self, store: ClientStore) -> None:
        self._store = store
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._nobody = Secret(bcrypt.gensalt(COST).decode() + "." * 31)

    async def authenticate(self, client_id: str, secret: str) -> Client | None:
        """The client, if it is known and ``secret`` is its secret."""
        client = await self._store.find(client_id)
        stored = self._nobody if client is None else client.secret_hash
        return client if await self._matches(secret, stored) else None

    async def _matches(self, secret: str, stored: Secret) -> bool:
        digest = hashlib.blake2b(f"{stored.reveal()} {secret}".encode(), key=self._key).digest()
        if digest in self._known:
            return True
        async with self._turn:
            matches = await asyncio.to_thread(matches_hash, secret, stored)
        if matches:
            self._remember(digest)
        return matches

    def _remember(self, digest: bytes) -> None:
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]  # the oldest
        self._known[digest] = None


async def bootstrap_client(settings: Settings) -> Client | None:
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
    """The bcrypt hash to store. Takes time: call it in a thread. ``ValueError`` beyond :data:`LONGEST_SECRET`."""
    return Secret(bcrypt.hashpw(secret.encode(), bcrypt.gensalt(COST)).decode())


def matches_hash(secret: str, stored: Secret) -> bool:
    """Whether ``secret`` is the one that was hashed. Takes the same time for every answer: call it in a thread."""
    given = secret.encode()
    # A longer secret is never right, but finding that out must not be quicker.
    matches = bcrypt.checkpw(given[:LONGEST_SECRET], stored.reveal().encode())
    return matches and len(given) <= LONGEST_SECRET
