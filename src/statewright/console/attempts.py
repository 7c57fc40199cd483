"""How often one address may fail to log in (docs/console.md#login)."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from statewright.addresses import name_address
from statewright.lru import LruCache

MAX_FAILURES: Final = 10
WITHIN_S: Final = 60.0
MAX_ADDRESSES: Final = 4096


class LoginAttempts:
    """Failures by address in this process, of IPv6 by site. An attempt counts as a failure until it has succeeded, so
    that many at the same time are no way around.
    """

    def __init__(self, read_clock: Callable[[], float] = monotonic) -> None:
        self._failures: LruCache[str, deque[float]] = LruCache(MAX_ADDRESSES)
        self._read_clock = read_clock

    def begin(self, address: str) -> bool:
        """Whether another attempt may be made now."""
        address, now = name_address(address), self._read_clock()
        known = self._failures.get(address)
        if known is None:
            known = deque[float]()
            self._failures.put(address, known)
        while known and known[0] <= now - WITHIN_S:
            known.popleft()
        if len(known) >= MAX_FAILURES:
            return False
        known.append(now)
        return True

    def succeed(self, address: str) -> None:
        """The last attempt was none of guessing."""
        known = self._failures.get(name_address(address))
        if known:
            known.pop()
