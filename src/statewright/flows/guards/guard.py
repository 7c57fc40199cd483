"""A guard, from its text to its verdict."""

from functools import lru_cache

from lark.exceptions import VisitError
from msgspec import Struct

from statewright.flows.guards.building import GuardBuilder
from statewright.flows.guards.paths import Query, wrap
from statewright.flows.guards.reading import MalformedGuard, read_tree
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


@lru_cache(maxsize=4096)
def parse_guard(text: str) -> Guard:
    """A guard from its text. Raises :class:`~statewright.flows.guards.MalformedGuard`."""
    builder = GuardBuilder()
    try:
        path = builder.build(read_tree(text))
    except VisitError as failed:
        if isinstance(failed.orig_exc, MalformedGuard):
            raise failed.orig_exc from failed
        raise
    return Guard(path, builder.mixes_operators)
