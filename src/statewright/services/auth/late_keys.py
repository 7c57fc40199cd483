"""A second look for keys that a token names and this process does not know.

What other nodes have changed is announced, and read again every second; a token can be faster. So before it is refused
the database is read again, and then the identity providers are asked that its issuer may be one of. Requests that come
while that goes on share the next look, and only so many wait: anybody can send tokens with ids that do not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import log_failures
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.services.auth.live_providers import LiveProviders

MAX_WAITING: Final = 200
LOOK_PAUSE: Final = timedelta(milliseconds=100)
"""Between two looks at the database."""
LOOK_TIMEOUT: Final = timedelta(seconds=2)
LEARN_TIMEOUT: Final = timedelta(seconds=25)
"""Longer than a provider may take for its two documents."""

log = logs.logger(__name__)


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
