"""Pages as the step engine counts them (spec/step-engine.md §11)."""

from typing import Final

from msgspec import Struct

DEFAULT_SIZE: Final = 20
MAX_SIZE: Final = 1_000
_LAST_OFFSET: Final = 2**31


class Page(Struct, frozen=True):
    """A page by its number, from zero, and its size."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """How many items come before it; an absurd number is as good as any beyond the end."""
        return min(self.number * self.size, _LAST_OFFSET)


def page_of(number: int, size: int) -> Page:
    """A negative number is 0; a size of 0 or less is 20, and none is above 1,000."""
    return Page(max(number, 0), DEFAULT_SIZE if size <= 0 else min(size, MAX_SIZE))
