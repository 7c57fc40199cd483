"""The keys of identity providers, as they are fetched and kept (docs/reference/oidc.md#keys).

A source is a discovery document by its URI and the key set that it leads to. Tenants that have registered the same URI
share it. Its keys count for some minutes. Before that time is over they are fetched again, when one of them is used;
afterwards they are not used, except while the provider fails, and then for a limited time. Whoever knows the name of an
issuer can send tokens with ids of keys that do not exist: so a source is asked for unknown keys now and then, not for
each of them.
"""

import asyncio
import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth.providers import (
    MAX_DISCOVERY_BYTES,
    MAX_KEY_SET_BYTES,
    Discovery,
    UnusableDocument,
    read_discovery,
    read_key_set,
)
from statewright.egress import Egress, HttpFailure, HttpRequest, HttpResponse
from statewright.ids import Clock
from statewright.instants import to_us
from statewright.loop.lru import LruCache
from statewright.telemetry import logs

KEY_LIFETIME: Final = timedelta(minutes=5)
REFRESH_AHEAD: Final = timedelta(minutes=1)
"""Before the end of their life keys that are used are fetched again."""
KEY_SET_TIMEOUT_S: Final = 10.0
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)
"""Between attempts at a provider that fails; each pause is twice as long as the one before."""
ABSENCE: Final = timedelta(seconds=30)
"""For so long a key that was looked for and not found is not looked for again."""
MAX_LOOKS: Final = 5
LOOK_INTERVAL: Final = timedelta(seconds=10)
"""Looks for unknown keys that a source allows at once, and the time after which it allows one more."""
_MAX_ABSENT: Final = 1000
_KEY_SET_TYPES: Final = frozenset({"application/json", "application/jwk-set+json"})

FetchFault = Literal["discovery", "jwks", "issuer_pin_mismatch"]

log = logs.logger(__name__)


class FetchPolicy(Struct, frozen=True, kw_only=True, eq=False):
    """How providers are asked: ``discovery`` and ``key_sets`` send the requests, within ``timeout_s``. Keys are used
    for ``grace`` beyond their life while the provider fails.
    """

    discovery: Egress
    key_sets: Egress
    timeout_s: float
    grace: timedelta


class KeySource:
    """What is published at ``uri``. ``changed`` is called when another issuer is."""

    def __init__(
        self,
        uri: str,
        policy: FetchPolicy,
        clock: Clock,
        *,
        changed: Callable[[], None],
        failed: Callable[[FetchFault], None],
    ) -> None:
        self.uri = uri
        self.issuer: str | None = None
        self.fetched_at: int | None = None
        """When the keys were asked for."""
        self.problem: str | None = None
        """Why the last attempt came to nothing."""
        self._keys: dict[str, RSAPublicKey] = {}
        self._policy = policy
        self._clock = clock
        self._changed = changed
        self._failed = failed
        self._begun = 0
        """How many fetches have begun."""
        self._failures = 0
        self._next_attempt = 0
        self._absent: LruCache[str, int] = LruCache(_MAX_ABSENT)
        self._looks = float(MAX_LOOKS)
        self._looked_at = clock()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def find_key(self, kid: str, now: int, *, since: int) -> RSAPublicKey | None:
        """The key with this id, if it counts at ``now`` and was fetched after ``since``."""
        if self.fetched_at is None or self.fetched_at < since:
            return None
        age = now - self.fetched_at
        if age > to_us(KEY_LIFETIME - REFRESH_AHEAD):
            self.refresh_soon(now)
            if age > to_us(KEY_LIFETIME) + (to_us(self._policy.grace) if self._failures else 0):
                return None
        return self._keys.get(kid)

    def may_learn(self, kid: str, now: int, *, since: int) -> bool:
        """Whether the source may be asked now for a key that it is not known to have."""
        if now < self._next_attempt:
            return False
        if self.fetched_at is None or self.fetched_at < since or now - self.fetched_at > to_us(KEY_LIFETIME):
            return True
        missed_at = self._absent.peek(kid)
        if missed_at is not None and now - missed_at < to_us(ABSENCE):
            return False
        return self._count_looks(now) >= 1

    async def learn(self, kid: str, *, since: int) -> None:
        """Ask for a key that was not known, if that may be done now."""
        begun = self._begun
        async with self._lock:
            now = self._clock()
            is_missing = self._begun == begun and self.find_key(kid, now, since=since) is None
            if is_missing and self.may_learn(kid, now, since=since):
                self._looks = self._count_looks(now) - 1
                self._looked_at = now
                await self._fetch()
            if kid not in self._keys and self._failures == 0:
                self._absent.put(kid, now)

    async def refresh(self) -> None:
        """Fetch everything again, whatever is known."""
        async with self._lock:
            await self._fetch()

    def refresh_soon(self, now: int) -> None:
        """Begin to fetch everything again, unless that goes on or the provider has just failed."""
        is_idle = not self._lock.locked() and (self._task is None or self._task.done())
        if is_idle and now >= self._next_attempt:
            self._task = asyncio.get_running_loop().create_task(self.refresh(), name="provider-keys")

    def retry_soon(self) -> None:
        """Begin to fetch everything again, also when the provider has just failed."""
        self._next_attempt = 0
        self.refresh_soon(self._clock())

    @property
    def needs_attempt(self) -> bool:
        """Whether nothing has been fetched yet, and it is time to try again."""
        return self.fetched_at is None and self._clock() >= self._next_attempt

    def close(self) -> None:
        """Fetch nothing more."""
        if self._task is not None:
            self._task.cancel()

    def _count_looks(self, now: int) -> float:
        return min(float(MAX_LOOKS), self._looks + (now - self._looked_at) / to_us(LOOK_INTERVAL))

    async def _fetch(self) -> None:
        self._begun += 1
        began = self._clock()
        try:
            discovery = await self._fetch_discovery()
            keys = await self._fetch_keys(discovery.jwks_uri)
        except UnusableDocument as unusable:
            self._failures += 1
            pause = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE)
            self._next_attempt = self._clock() + to_us(pause)
            self.problem = str(unusable)
            log.warning("oidc_fetch_failed", source=hash_text(self.uri), reason=self.problem)
            return
        self._failures, self._next_attempt, self.problem = 0, 0, None
        self._keys = {kid: _keep_same(self._keys.get(kid), key) for kid, key in keys.items()}
        self._absent.clear()
        self.fetched_at = began
        if self.issuer != discovery.issuer:
            self.issuer = discovery.issuer
            self._changed()

    async def _fetch_discovery(self) -> Discovery:
        request = HttpRequest(
            url=self.uri,
            headers=(("Accept", "application/json"),),
            timeout_s=self._policy.timeout_s,
            max_response_bytes=MAX_DISCOVERY_BYTES,
        )
        response = await self._policy.discovery.send(request)
        if isinstance(response, HttpFailure) or response.status >= 300:
            self._failed("discovery")
            what = response.reason if isinstance(response, HttpFailure) else f"status {response.status}"
            raise UnusableDocument(f"no discovery document: {what}")
        try:
            return read_discovery(response.body)
        except UnusableDocument:
            self._failed("discovery")
            raise

    async def _fetch_keys(self, uri: str) -> dict[str, RSAPublicKey]:
        request = HttpRequest(
            url=uri,
            headers=(("Accept", "application/jwk-set+json, application/json"),),
            timeout_s=KEY_SET_TIMEOUT_S,
            max_response_bytes=MAX_KEY_SET_BYTES,
        )
        response = await self._policy.key_sets.send(request)
        try:
            return await asyncio.to_thread(read_key_set, _take_key_set(response))
        except UnusableDocument:
            self._failed("jwks")
            raise


def _take_key_set(response: HttpResponse | HttpFailure) -> bytes:
    """The body of a response that may be a key set. Raises ``UnusableDocument``."""
    if isinstance(response, HttpFailure):
        raise UnusableDocument(f"no key set: {response.reason}")
    if response.status != 200 or response.media_type not in _KEY_SET_TYPES:
        raise UnusableDocument(f"no key set: status {response.status}, or no media type of one")
    return response.body


def _keep_same(known: RSAPublicKey | None, key: RSAPublicKey) -> RSAPublicKey:
    """The object that is known already, if it is the same key: tokens are remembered with it."""
    return known if known is not None and known.public_numbers() == key.public_numbers() else key


def hash_text(text: str) -> str:
    """What logs say of a URI or an issuer: enough to compare, and nothing of it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
