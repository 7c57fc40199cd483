"""How fast secrets may be guessed (docs/reference/authentication.md#guesses).

A source of guesses is a client id or an address. It has some failures free, for people who mistype and deployments that
start with an old secret; then every further failure is followed by a pause, twice as long as the one before, in which
the source is refused without looking at what it says. A success of a client id ends its pauses; without any guess for a
while the failures are forgotten. What is remembered of sources is bounded, whatever strangers invent.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

from msgspec import Struct

from statewright import logs
from statewright.lru import LruCache

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
