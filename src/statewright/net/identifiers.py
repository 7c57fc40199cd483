"""Identifiers of what the kernel creates, counted from the event's moment so that the kernel stays a function.

An event carries the first of a range of free 128-bit numbers, whose first 48 bits are the milliseconds of its instant;
whatever the kernel creates is numbered upwards from there and written as a ULID (docs/reference/steps.md#conventions,
docs/reference/steps.md#as-entities). The same number written as a UUID is the id of an entity.
"""

from typing import Final, NewType
from uuid import UUID

from msgspec import Struct

NodeId = NewType("NodeId", str)
"""Chosen by the author of a definition."""
ExecutionId = NewType("ExecutionId", str)
"""One entry into a node; also the id of the token that made it."""
WorkId = NewType("WorkId", str)
"""A task in the job queue, or a task for a person."""
TimerId = NewType("TimerId", str)
ActivationId = NewType("ActivationId", str)
"""One pass over a node that opens branches."""
ScopeId = NewType("ScopeId", str)
"""One pass over the body of a loop."""

IDS_PER_MOMENT: Final = 1 << 32
"""How many numbers from :attr:`Moment.first_id` on must be free; no event can use up more."""

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32."""
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_DIGITS: Final = {character: value for value, character in enumerate(_ALPHABET)}
_ULID_LENGTH: Final = 26
_ULID_SPACE: Final = 1 << 128


class Moment(Struct, frozen=True, kw_only=True):
    """When an event arrives, and the ids it may use."""

    at: int
    """Microseconds since 1970-01-01T00:00:00Z."""
    first_id: int
    """The first of :data:`IDS_PER_MOMENT` free numbers."""


class IdGenerator:
    """Gives the ids of one moment, in rising order."""

    def __init__(self, moment: Moment) -> None:
        self._next = moment.first_id

    @property
    def upcoming(self) -> int:
        """The first number that was not given."""
        return self._next

    def __call__(self) -> str:
        number = self._next
        self._next = number + 1
        return format_ulid(number)


def format_ulid(number: int) -> str:
    """26 characters of Crockford's base 32; in order when the numbers are."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def parse_ulid(text: str) -> int | None:
    """The number a ULID writes, ``None`` for any other text; letters of both cases are read."""
    if len(text) != _ULID_LENGTH:
        return None
    number = 0
    for character in text.upper():
        digit = _DIGITS.get(character)
        if digit is None:
            return None
        number = number << 5 | digit
    return number if number < _ULID_SPACE else None


def ulid_to_uuid(text: str) -> str | None:
    """The UUID of the same 128 bits, ``None`` when ``text`` is no ULID."""
    number = parse_ulid(text)
    return None if number is None else str(UUID(int=number))


def uuid_to_ulid(text: str) -> str:
    """The ULID of the same 128 bits. Raises ValueError when ``text`` is no UUID."""
    return format_ulid(UUID(text).int)
