"""Many deadlines with few timers.

A timer of the event loop for each of very many short pieces of work takes longer than much of what it limits. Here
deadlines that end in the same ``RESOLUTION_S`` share one, so an item may expire up to that much late, and never early.
"""

import asyncio
from types import TracebackType
from typing import Final, Protocol

from msgspec import Struct

RESOLUTION_S: Final = 0.02


class Lease(Struct):
    """What counts before ``until``, by the loop's clock, and is renewed."""

    until: float = 0.0


class Expiring(Protocol):
    """What has a deadline."""

    def expire(self) -> None:
        """The deadline is over."""
        ...


class Deadlines:
    """The items that wait for their deadlines, by the loop's clock. To be used within one event loop."""

    def __init__(self) -> None:
        self._buckets: dict[int, set[Expiring]] = {}

    def add(self, item: Expiring, at: float) -> int:
        """Have the item expire at that time; the bucket by which it can be withdrawn."""
        bucket = int(at / RESOLUTION_S) + 1
        items = self._buckets.get(bucket)
        if items is None:
            self._buckets[bucket] = {item}
            asyncio.get_running_loop().call_at(bucket * RESOLUTION_S, self._expire, bucket)
        else:
            items.add(item)
        return bucket

    def discard(self, item: Expiring, bucket: int) -> None:
        """Withdraw an item."""
        items = self._buckets.get(bucket)
        if items is not None:
            items.discard(item)

    def limit(self, span_s: float) -> "Limit":
        """``with`` it: after the span the block is cancelled, and ``TimeoutError`` raised at its end."""
        return Limit(self, span_s)

    def _expire(self, bucket: int) -> None:
        for item in self._buckets.pop(bucket):
            item.expire()


class Limit:
    """One limited block. It tells its own cancellation from others as ``asyncio.timeout`` does."""

    __slots__ = ("_bucket", "_cancelling", "_deadlines", "_is_expired", "_span_s", "_task")

    def __init__(self, deadlines: Deadlines, span_s: float) -> None:
        self._deadlines = deadlines
        self._span_s = span_s
        self._is_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be limited")
        self._task = task
        self._cancelling = task.cancelling()
        self._bucket = self._deadlines.add(self, asyncio.get_running_loop().time() + self._span_s)

    def expire(self) -> None:
        """Time is up."""
        self._is_expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.discard(self, self._bucket)
        if not self._is_expired:
            return
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
