"""The identity providers of all tenants, as the database has them, and their keys.

Rows are read again when a change is announced, when announcements may have been missed, when a token names a key that
is not known, and every second. So a provider that one node registers, changes or invalidates is so on all of them
within a second, and within milliseconds as a rule. Keys are each node's own to fetch.

A second look for keys that a token names and this process does not know.

What other nodes have changed is announced, and read again every second; a token can be faster. So before it is refused
the database is read again, and then the identity providers are asked that its issuer may be one of. Requests that come
while that goes on share the next look, and only so many wait: anybody can send tokens with ids that do not exist.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from statewright.auth.providers import KnownProvider, Provider
from statewright.ids import Clock
from statewright.instants import to_rfc3339
from statewright.loop.background import log_failures, repeat
from statewright.operations.identity_answers import FetchedKeys
from statewright.services.auth.key_ring import LOOK_INTERVAL, LiveKeyRing
from statewright.services.auth.key_sources import FetchPolicy, KeySource, hash_text
from statewright.storage.auth.providers import StoredProviders
from statewright.telemetry import logs

MAX_CANDIDATES_ASKED: Final = 20
"""Sources that are asked for the unknown key of one token."""

log = logs.logger(__name__)


class ProviderKeys:
    """The keys of a source that count for one provider: those that were fetched after ``since``."""

    __slots__ = ("since", "source")

    def __init__(self, source: KeySource, since: int) -> None:
        self.source = source
        self.since = since

    def find_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The key with this id, if it counts at ``now``."""
        return self.source.find_key(kid, now, since=self.since)


class _Known(KnownProvider, frozen=True, eq=False):
    keys: ProviderKeys


class LiveProviders:
    """Keeps the active providers of all tenants as the database has them."""

    def __init__(self, store: StoredProviders, policy: FetchPolicy, clock: Clock) -> None:
        self.generation = 0
        self.hits = self.misses = 0
        self.faults: Counter[str] = Counter()
        """Failed fetches, by what could not be had."""
        self.changed = asyncio.Event()
        """Set it to have the rows read again."""
        self._store = store
        self._policy = policy
        self._clock = clock
        self._lock = asyncio.Lock()
        self._revision: int | None = None
        self._known: dict[str, _Known] = {}
        self._sources: dict[str, KeySource] = {}
        self._by_issuer: dict[str, list[_Known]] = {}
        self._undiscovered: list[_Known] = []
        self._is_indexed = False
        self._mismatched: set[str] = set()
        self._looks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """Active providers of all tenants."""
        return len(self._known)

    @property
    def requests(self) -> Counter[str]:
        """Outcomes of the requests to providers."""
        return self._policy.discovery.outcomes + self._policy.key_sets.outcomes

    def find_candidates(self, issuer: str) -> Sequence[_Known]:
        """The providers whose tokens name ``issuer``."""
        if not self._is_indexed:
            self._build_index()
        return self._by_issuer.get(issuer, ())

    def find_provider(self, provider_id: str) -> Provider | None:
        """The active provider with this id, of whichever tenant."""
        known = self._known.get(provider_id)
        return None if known is None else known.provider

    def describe_keys(self, provider_id: str) -> FetchedKeys:
        """What this node has of the keys of an active provider, and why not, of another nothing."""
        known = self._known.get(provider_id)
        if known is None:
            return FetchedKeys()
        source, issuers = known.keys.source, known.provider.issuers
        problem = source.problem
        if problem is None and issuers and source.issuer not in (None, *issuers):
            problem = f"the document names another issuer: {source.issuer}"
        at = None if source.fetched_at is None else to_rfc3339(source.fetched_at)
        return FetchedKeys(issuer=source.issuer, fetched_at=at, problem=problem)

    async def follow(self) -> None:
        """Keep the providers as the database has them, and fetch what is missing, until cancelled."""
        await repeat(
            self.run_once, LOOK_INTERVAL, log=log, failure="providers_not_read", spread=(0.9, 1.0), wake=self.changed
        )

    async def run_once(self) -> None:
        """Read the rows, if there are others, and begin to fetch what has not been fetched yet."""
        await self.refresh()
        now = self._clock()
        for known in self._known.values():
            if known.keys.source.needs_attempt or not self._is_fetched(known):
                known.keys.source.refresh_soon(now)
        for id_ in [known.provider.id for known in self._known.values() if _find_new_issuer(known) is not None]:
            await self.record_issuer(id_)

    async def refresh(self) -> None:
        """Take over what is stored now."""
        async with self._lock:
            revision = await self._store.read_revision()
            if revision != self._revision:
                self._take_over(await self._store.list_active())
                self._revision = revision

    async def fetch_keys(self, provider_id: str) -> None:
        """Ask a provider for its keys now, whatever is known of them. A failure is logged."""
        known = self._known.get(provider_id)
        if known is not None:
            await known.keys.source.refresh()

    async def record_issuer(self, provider_id: str) -> bool:
        """Have the database know which issuer the document of a provider names; whether it is free for the provider to
        claim, also when that was found out and recorded before.
        """
        known = self._known.get(provider_id)
        issuer = None if known is None or known.provider.issuers else known.keys.source.issuer
        if known is None or issuer is None:
            return True
        is_free = await self._store.record_issuer(known.provider, issuer, now=self._clock())
        if not is_free:
            log.warning("oidc_provider_shadowed", provider=provider_id, tenant=known.provider.tenant)
        await self.refresh()
        return is_free

    async def learn(self, kid: str, issuer: str) -> None:
        """Ask the providers that ``issuer`` may be one of for a key that is not known; until one has it, or none."""
        now = self._clock()
        candidates = (*self.find_candidates(issuer), *self._undiscovered)
        wanted = {
            known.keys.source.uri: known.keys
            for known in candidates
            if not known.provider.issuers or issuer in known.provider.issuers
            if known.keys.source.may_learn(kid, now, since=known.keys.since)
        }
        asked = list(wanted.values())[:MAX_CANDIDATES_ASKED]
        pending = {asyncio.create_task(keys.source.learn(kid, since=keys.since), name="unknown-key") for keys in asked}
        self._looks |= pending
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            self._looks -= done
            if any(keys.find_key(kid, self._clock()) is not None for keys in asked):
                break
        for task in pending:  # they end by themselves, for who asks next
            task.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """Fetch nothing more."""
        for source in self._sources.values():
            source.close()
        for task in tuple(self._looks):
            task.cancel()
        await self._policy.discovery.close()
        await self._policy.key_sets.close()

    def _is_fetched(self, known: _Known) -> bool:
        fetched_at = known.keys.source.fetched_at
        return fetched_at is not None and fetched_at >= known.keys.since

    def _take_over(self, providers: Sequence[Provider]) -> None:
        before = self._known
        self._known = {provider.id: self._build_known(provider, before.get(provider.id)) for provider in providers}
        used = {provider.uri for provider in providers}
        for uri in self._sources.keys() - used:
            self._sources.pop(uri).close()
        self._touch()

    def _build_known(self, provider: Provider, before: _Known | None) -> _Known:
        if before is not None and before.provider == provider:
            return before
        now = self._clock()
        source = self._sources.get(provider.uri)
        if source is None:
            source = self._sources[provider.uri] = KeySource(
                provider.uri, self._policy, self._clock, changed=self._touch, failed=self._count_fault
            )
        since = 0 if before is None else before.keys.since
        if self._revision is not None and provider.keys_since > (0 if before is None else before.provider.keys_since):
            since = now
        if before is not None and provider.reloaded_at > before.provider.reloaded_at:
            source.retry_soon()
        return _Known(provider, ProviderKeys(source, since))

    def _touch(self) -> None:
        self.generation += 1
        self._is_indexed = False

    def _count_fault(self, fault: str) -> None:
        self.faults[fault] += 1

    def _build_index(self) -> None:
        self._by_issuer, self._undiscovered, self._is_indexed = {}, [], True
        for known in sorted(self._known.values(), key=lambda known: _find_new_issuer(known) is not None):
            provider, issuer = known.provider, known.keys.source.issuer
            if issuer is None:
                self._undiscovered.append(known)
            elif provider.issuers and issuer not in provider.issuers:
                self._report_mismatch(provider, issuer)
            else:
                for name in provider.issuers or (issuer,):
                    self._by_issuer.setdefault(name, []).append(known)

    def _report_mismatch(self, provider: Provider, issuer: str) -> None:
        if provider.id in self._mismatched:
            return
        self._mismatched.add(provider.id)
        self._count_fault("issuer_pin_mismatch")
        expected = [hash_text(each) for each in provider.issuers]
        log.warning("oidc_issuer_mismatch", provider=provider.id, issuer=hash_text(issuer), expected=expected)


def _find_new_issuer(known: _Known) -> str | None:
    """The issuer that a provider has published, which is not on record yet: it comes after those that are."""
    provider, issuer = known.provider, known.keys.source.issuer
    return None if provider.issuers or issuer == provider.discovered else issuer


MAX_WAITING: Final = 200
LOOK_PAUSE: Final = timedelta(milliseconds=100)
"""Between two looks at the database."""
LOOK_TIMEOUT: Final = timedelta(seconds=2)
LEARN_TIMEOUT: Final = timedelta(seconds=25)
"""Longer than a provider may take for its two documents."""


class KeyFinder:
    """Looks for keys in the database and at identity providers."""

    def __init__(self, ring: LiveKeyRing, providers: LiveProviders) -> None:
        self._ring = ring
        self._providers = providers
        self._looks = SharedLooks(self._read_database, LOOK_PAUSE)
        self._waiting = 0

    def may_find(self, kid: str, issuer: str) -> bool:
        """Whether there is room for one more who waits."""
        del kid, issuer
        return self._waiting < MAX_WAITING

    async def look_for(self, kid: str, issuer: str) -> None:
        """Learn what there is to be learnt of a key."""
        self._waiting += 1
        try:
            with log_failures(log, "key_not_looked_for"):
                await self._looks.wait()
                async with asyncio.timeout(LEARN_TIMEOUT.total_seconds()):
                    await self._providers.learn(kid, issuer)
        finally:
            self._waiting -= 1

    async def _read_database(self) -> None:
        async with asyncio.timeout(LOOK_TIMEOUT.total_seconds()):
            await self._ring.refresh()
            await self._providers.refresh()


class SharedLooks:
    """Looks one after the other, with a pause between them. Who waits gets one that began after it came."""

    def __init__(self, look: Callable[[], Awaitable[None]], pause: timedelta) -> None:
        self._look = look
        self._pause_s = pause.total_seconds()
        self._begun = 0
        self._ended_at = float("-inf")
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Returns when a look has ended. Raises what it raises."""
        came = self._begun
        async with self._lock:
            if self._begun > came:
                return
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._ended_at + self._pause_s - loop.time()))
            self._begun += 1
            try:
                await self._look()
            finally:
                self._ended_at = loop.time()
