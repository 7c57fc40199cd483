"""Pages as lists of processes count them (docs/reference/steps.md#rest)."""

from typing import Final

from msgspec import Struct

DEFAULT_PAGE_SIZE: Final = 20
MAX_PAGE_SIZE: Final = 1_000
_MAX_OFFSET: Final = 2**31


class PageRequest(Struct, frozen=True):
    """A page by its number, from zero, and its size."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """How many items come before it; an absurd number is as good as any beyond the end."""
        return min(self.number * self.size, _MAX_OFFSET)


def normalize_page(number: int, size: int) -> PageRequest:
    """A negative number is 0; a size of 0 or less is 20, and none is above 1,000."""
    return PageRequest(max(number, 0), DEFAULT_PAGE_SIZE if size <= 0 else min(size, MAX_PAGE_SIZE))
