"""A guard, from its text to its verdict."""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from statewright.flows.guards.building import GuardBuilder, notice_mixed_operators
from statewright.flows.guards.paths import Query, wrap
from statewright.flows.guards.reading import GuardReader
from statewright.flows.guards.values import MAX_SELECTED, limit_values
from statewright.jsonval.values import JsonValue


class Guard(Struct, frozen=True):
    """A guard, ready to be asked."""

    path: Query
    mixes_operators: bool
    """Whether ``and`` and ``or`` meet without brackets, where a reader may take their order for another."""

    def holds(self, value: JsonValue, limit: int = MAX_SELECTED) -> bool:
        """Whether anything is selected. Raises :class:`~statewright.flows.guards.GuardTooBroad` when it looks at more
        than ``limit`` values.
        """
        with limit_values(limit):
            return any(True for _ in self.path.iterate(wrap(value)))


_READER: Final = GuardReader(GuardBuilder())


@lru_cache(maxsize=4096)
def parse_guard(text: str) -> Guard:
    """A guard from its text. Raises :class:`~statewright.flows.guards.MalformedGuard`."""
    with notice_mixed_operators() as seen:
        path = _READER.read(text)
    return Guard(path, bool(seen))
