"""A cache of bounded size that drops what was used least recently."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _count_one(_value: object) -> int:
    return 1


class LruCache(Generic[K, V]):
    """At most ``max_weight`` of values, each counted as one or as what ``weigh`` makes of it.

    The last value that was put in always stays, also when it alone weighs more. To be used within one thread.
    """

    __slots__ = ("_max_weight", "_values", "_weigh", "_weight")

    def __init__(self, max_weight: int, weigh: Callable[[V], int] = _count_one) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now; ``None`` when there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def peek(self, key: K) -> V | None:
        """The value, without counting as used."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Add or replace a value, and drop the least recently used until the rest fits."""
        self.discard(key)
        self._values[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._max_weight and len(self._values) > 1:
            _, dropped = self._values.popitem(last=False)
            self._weight -= self._weigh(dropped)

    def keys(self) -> Collection[K]:
        """The keys of all values."""
        return self._values.keys()

    def discard(self, key: K) -> None:
        """Drop a value, if it is there."""
        if key in self._values:
            self._weight -= self._weigh(self._values.pop(key))

    def clear(self) -> None:
        """Drop everything."""
        self._values.clear()
        self._weight = 0
