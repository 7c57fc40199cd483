"""Machine clients, how their secrets are checked, and how fast they may be guessed
(docs/reference/authentication.md#token-endpoint, docs/reference/authentication.md#clients,
docs/reference/authentication.md#guesses).

A source of guesses is a client id or an address. It has some failures free, for people who mistype and deployments that
start with an old secret; then every further failure is followed by a pause, twice as long as the one before, in which
the source is refused without looking at what it says. A success of a client id ends its pauses; without any guess for a
while the failures are forgotten. What is remembered of sources is bounded, whatever strangers invent.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

import bcrypt
from msgspec import Struct

from statewright.ids import TenantId
from statewright.loop.lru import LruCache
from statewright.network.sockets import name_address
from statewright.settings import Secret, Settings
from statewright.telemetry import logs

MAX_SOURCES: Final = 4096
FORGET_AFTER_S: Final = 300.0
"""Without a guess in so long, the failures of a source are forgotten."""

log = logs.logger(__name__)


class TooManyGuesses(Exception):
    """A source has to wait before it is listened to again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many failed or simultaneous attempts; wait {wait_s:.1f} s")
        self.wait_s = wait_s


class Allowance(Struct, frozen=True, kw_only=True):
    """What one source may do; times in seconds."""

    free_failures: int
    simultaneous: int
    first_pause_s: float = 0.5
    longest_pause_s: float = 10.0


class _Source(Struct):
    failures: int = 0
    under_way: int = 0
    paused_until: float = 0.0
    last: float = 0.0


class GuessLimiter:
    """Sources of one kind. ``clock`` gives seconds that only grow."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float] = monotonic) -> None:
        self._allowance = allowance
        self._clock = clock
        self._sources: LruCache[str, _Source] = LruCache(MAX_SOURCES)

    def __len__(self) -> int:
        return len(self._sources)

    def require(self, name: str) -> None:
        """Raises :class:`TooManyGuesses` while the source has to wait."""
        source = self._find(name)
        wait_s = source.paused_until - self._clock()
        if source.under_way >= self._allowance.simultaneous:
            wait_s = max(wait_s, self._allowance.first_pause_s)
        if wait_s > 0:
            raise TooManyGuesses(wait_s)

    def begin(self, name: str) -> None:
        """A guess of the source is going to be looked at."""
        self._find(name).under_way += 1

    def end(self, name: str) -> None:
        """It has been looked at. The source may have been forgotten meanwhile."""
        source = self._find(name)
        source.under_way = max(0, source.under_way - 1)

    def record_failure(self, name: str) -> None:
        """The source has guessed wrong."""
        source, allowance = self._find(name), self._allowance
        source.failures += 1
        excess = source.failures - allowance.free_failures
        if excess == 1:  # once, not for every guess that follows
            log.warning("guesses_paused", source=name, failures=source.failures)
        if excess > 0:
            pause_s = allowance.first_pause_s * 2 ** min(excess - 1, 16)
            source.paused_until = self._clock() + min(pause_s, allowance.longest_pause_s)

    def record_success(self, name: str) -> None:
        """The source knew the secret."""
        source = self._find(name)
        source.failures, source.paused_until = 0, 0.0

    def _find(self, name: str) -> _Source:
        now = self._clock()
        source = self._sources.get(name)
        if source is None:
            source = _Source(last=now)
            self._sources.put(name, source)
        elif now - source.last > FORGET_AFTER_S:
            source.failures, source.paused_until = 0, 0.0
        source.last = now
        return source


MAX_SECRET_BYTES: Final = 72
"""Bytes of a secret that bcrypt looks at."""
BCRYPT_COST: Final = 10
"""Logarithm of the rounds: about 80 ms of one core. Secrets made by the service have 256 bits."""
_MAX_CONCURRENT_CHECKS: Final = 2
"""Verifications that may run at a time, so that a flood of guesses leaves threads for other work."""
_MAX_REMEMBERED: Final = 1024
"""Secrets whose digests are kept, right ones and wrong ones each, to recognise them without bcrypt."""

_MAX_WAITING: Final = 64
"""Secrets that may wait for their verification; more are refused at once."""

CLIENT_ALLOWANCE: Final = Allowance(free_failures=5, simultaneous=4)
ADDRESS_ALLOWANCE: Final = Allowance(free_failures=20, simultaneous=16)
"""More than for a client: behind a proxy all clients have one address."""


class Client(Struct, frozen=True, kw_only=True):
    """A machine client. Its work is attributed to the user ``user_id``. Times in microseconds since 1970."""

    id: str
    tenant: TenantId
    user_id: str
    roles: tuple[str, ...]
    secret_hash: Secret
    created_at: int = 0
    updated_at: int = 0


class ClientStore(Protocol):
    """Finds clients by id, over all tenants."""

    async def find(self, client_id: str) -> Client | None:
        """The client with this id."""
        ...


class ClientSecrets:
    """Checks client secrets, never on the event loop.

    An unknown client costs as much time as a wrong secret. What was found is remembered as a digest, keyed with a
    random key of this process and bound to client and stored hash: a new secret or a deleted client makes the digest
    useless at once, and the quicker answer reveals only what the answer itself says. So only secrets that are new cost
    a verification; how many of those a client or an address may try is limited, and whoever is known is not held up by
    them. Requests that bring the same secret at the same time share one verification.
    """

    def __init__(self, store: ClientStore) -> None:
        self._store = store
        self._key = secrets.token_bytes(32)
        self._right: LruCache[bytes, bool] = LruCache(_MAX_REMEMBERED)
        self._wrong: LruCache[bytes, bool] = LruCache(_MAX_REMEMBERED)
        self._under_way: dict[bytes, asyncio.Task[bool]] = {}
        self._clients = GuessLimiter(CLIENT_ALLOWANCE)
        self._addresses = GuessLimiter(ADDRESS_ALLOWANCE)
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CHECKS)
        self._dummy_hash = Secret(bcrypt.gensalt(BCRYPT_COST).decode() + "." * 31)

    async def authenticate(self, client_id: str, secret: str, address: str = "") -> Client | None:
        """The client, if it is known and ``secret`` is its secret. Raises :class:`TooManyGuesses`."""
        client = await self._store.find(client_id)
        stored = self._dummy_hash if client is None else client.secret_hash
        return client if await self._matches(client_id, secret, stored, name_address(address)) else None

    async def _matches(self, client_id: str, secret: str, stored: Secret, address: str) -> bool:
        text = "\0".join((stored.reveal(), client_id, secret))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key).digest()
        if self._right.get(digest) or self._wrong.get(digest):
            return self._right.peek(digest) is not None
        check = self._under_way.get(digest)
        if check is None:
            self._clients.require(client_id)
            self._addresses.require(address)
            if len(self._under_way) >= _MAX_WAITING:
                raise TooManyGuesses(CLIENT_ALLOWANCE.first_pause_s)
            check = self._begin_check(digest, client_id, secret, stored, address)
        return await asyncio.shield(check)  # its client may go away while others wait for the same

    def _begin_check(
        self, digest: bytes, client_id: str, secret: str, stored: Secret, address: str
    ) -> "asyncio.Task[bool]":
        """It counts from now on, not from its first step: others may ask before that."""
        self._clients.begin(client_id)
        self._addresses.begin(address)

        def end(_check: object) -> None:
            del self._under_way[digest]
            self._clients.end(client_id)
            self._addresses.end(address)

        check = asyncio.create_task(self._verify(digest, client_id, secret, stored, address), name="client-secret")
        self._under_way[digest] = check
        check.add_done_callback(end)
        return check

    async def _verify(self, digest: bytes, client_id: str, secret: str, stored: Secret, address: str) -> bool:
        async with self._semaphore:
            matches = await asyncio.to_thread(matches_hash, secret, stored)
        if matches:
            self._right.put(digest, True)
            self._clients.record_success(client_id)
        else:
            self._wrong.put(digest, True)
            self._clients.record_failure(client_id)
            self._addresses.record_failure(address)
        return matches


async def load_bootstrap_client(settings: Settings, stored: Client | None = None, *, now: int = 0) -> Client | None:
    """The client of the settings, its secret hashed; ``None`` when there is none. It is ``stored``, the client with
    this id so far, where the settings say nothing else: hashes of one secret differ.
    """
    if settings.iam_mode != "jwt" or settings.bootstrap_client_secret is None:
        return None
    secret = settings.bootstrap_client_secret.reveal()
    if stored is not None and await _is_as_configured(settings, stored, secret):
        return stored
    return Client(
        id=settings.bootstrap_client_id,
        tenant=TenantId(settings.bootstrap_tenant_id),
        user_id=settings.bootstrap_user_id,
        roles=settings.bootstrap_roles,
        secret_hash=await asyncio.to_thread(hash_secret, secret),
        created_at=now,
        updated_at=now,
    )


async def _is_as_configured(settings: Settings, stored: Client, secret: str) -> bool:
    named = (settings.bootstrap_tenant_id, settings.bootstrap_user_id, settings.bootstrap_roles)
    if named != (stored.tenant, stored.user_id, stored.roles):
        return False
    return await asyncio.to_thread(matches_hash, secret, stored.secret_hash)


_ID_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
_ID_CHARACTERS: Final = 16
_SECRET_BYTES: Final = 32


def make_client_id() -> str:
    """A new id: 80 random bits in base32hex."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARACTERS))


def make_secret() -> Secret:
    """A new secret: 256 random bits in hex."""
    return Secret(secrets.token_hex(_SECRET_BYTES))


def hash_secret(secret: str) -> Secret:
    """The bcrypt hash to store. Takes time: call it in a thread. ``ValueError`` beyond :data:`MAX_SECRET_BYTES`."""
    return Secret(bcrypt.hashpw(secret.encode(), bcrypt.gensalt(BCRYPT_COST)).decode())


def matches_hash(secret: str, stored: Secret) -> bool:
    """Whether ``secret`` is the one that was hashed. Takes the same time for every answer: call it in a thread."""
    given = secret.encode()
    # A longer secret is never correct, but finding that out must not be quicker.
    matches = bcrypt.checkpw(given[:MAX_SECRET_BYTES], stored.reveal().encode())
    return matches and len(given) <= MAX_SECRET_BYTES
