"""Lists that are read a page at a time, by key (docs/reference/operations.md#lists).

A page begins behind the key of the last row of the page before it, so rows that come or go never make another one
appear twice or be left out.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from statewright.operations.records import MAX_COUNT

Item = TypeVar("Item")
Key = TypeVar("Key")


class PageRequest(Struct, Generic[Key], frozen=True, kw_only=True):
    """Which page is wanted: ``size`` rows behind the one with the key ``after``, None for the first page."""

    size: int
    after: Key | None = None
    counts: bool = False
    """Whether the total is wanted, too."""

    @property
    def count_up_to(self) -> int:
        """Rows to count: one more than are told, to know that there are more."""
        return MAX_COUNT + 1


class Page(Struct, Generic[Item, Key], frozen=True, kw_only=True):
    """Some rows, and the key after which the list goes on; None when it does not."""

    items: Sequence[Item]
    last_key: Key | None
    total: int | None = None


def build_page(
    request: PageRequest[Key], found: Sequence[Item], get_key: Callable[[Item], Key], total: int | None = None
) -> Page[Item, Key]:
    """The page from rows that were read in order: one more than its size, if there are so many."""
    items = found[: request.size]
    goes_on = len(found) > request.size
    return Page(items=items, last_key=get_key(items[-1]) if goes_on else None, total=total)
