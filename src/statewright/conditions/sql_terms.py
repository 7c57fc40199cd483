"""The pieces that a condition in SQL is put together from: parameters, places in a row, and boolean terms.

Whatever comes from a user is a parameter, member names included; the text of a statement is made of our own constants.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from statewright.conditions.paths import MAX_STEPS, Wildcard

Argument: TypeAlias = str | int | Decimal | tuple[str, ...] | tuple[Decimal, ...]
"""A value beside the text of a statement; JSON is passed as its text."""

MAX_ARGUMENTS: Final = 4000
"""Of one condition. PostgreSQL takes 65535, but long before that planning costs more than it saves."""


class Unsendable(ValueError):
    """A value that PostgreSQL could not take, or one too many; the part it belongs to stays out of the SQL."""


class Binder(Protocol):
    """Gives a value a place in a statement."""

    def bind(self, value: Argument, kind: str) -> str:
        """How the statement refers to the value; ``kind`` is its SQL type."""
        ...

    def name(self, member: str) -> str:
        """How the statement refers to the name of a member."""
        ...


class Parameters:
    """Numbered parameters, ``$first`` being the first; equal values share a number. Member names in ``names`` are none
    of them: there it says what stands for them.
    """

    def __init__(self, first: int = 1, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self._first = first
        self._names = names
        self._numbers: dict[tuple[str, Argument], int] = {}

    def bind(self, value: Argument, kind: str) -> str:
        """``$n::kind``. Raises :class:`Unsendable`."""
        if isinstance(value, str) and not is_sendable(value):
            raise Unsendable("a text with a NUL character or a lone surrogate")
        key = (kind, value)
        if key not in self._numbers and len(self._numbers) >= MAX_ARGUMENTS:
            raise Unsendable("too many operands")
        number = self._numbers.setdefault(key, len(self._numbers) + self._first)
        return f"${number}::{kind}"

    def name(self, member: str) -> str:
        """What stands for the name of a member. Raises :class:`Unsendable`."""
        return self._names.get(member) or self.bind(member, "text")

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._numbers)

    @property
    def values(self) -> tuple[Argument, ...]:
        """In order of their numbers."""
        return tuple(value for _, value in self._numbers)

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` only: PostgreSQL refuses a parameter that its statement does not mention."""
        while len(self._numbers) > count:
            self._numbers.popitem()


class Term(Struct, frozen=True):
    """A boolean expression. ``NULL`` counts as false, which is sound because terms are never negated as a whole.

    A term that is not exact holds for all rows it should hold for, and for others.
    """

    text: str
    is_exact: bool = True

    def mark_inexact(self) -> "Term":
        """The same, not exact."""
        return Term(self.text, is_exact=False)


TRUE: Final = Term("true")
FALSE: Final = Term("false")
ANYTHING: Final = Term("true", is_exact=False)
"""Says nothing at all."""


def join_all(terms: Iterable[Term]) -> Term:
    """The conjunction."""
    return _join_terms([term for term in terms if term is not TRUE], "AND", TRUE)


def join_any(terms: Iterable[Term]) -> Term:
    """The disjunction."""
    return _join_terms([term for term in terms if term is not FALSE], "OR", FALSE)


class Text(Struct, frozen=True):
    """A stored text in SQL, compared by code points. SQL NULL where there is none.

    ``head`` is its beginning, which is what declared indexes hold: an entry of theirs must fit on a page. It compares
    with anything shorter than itself as the whole does.
    """

    whole: str
    head: str

    def choose_expression(self, operand: str) -> str:
        """What to compare with the operand."""
        return self.head if len(operand) < HEAD_CHARS else self.whole


HEAD_CHARS: Final = 256
"""Characters; in UTF-8 up to four times as many bytes, and 2700 fit into an entry."""


def column(name: str) -> Text:
    """A column of text, which is never null."""
    return Text(f'({name} COLLATE "C")', f'({name} COLLATE "C")')


class SqlValue(Struct, frozen=True):
    """A JSON value in SQL: as ``jsonb``, and as text (of strings and other scalars). SQL NULL where there is none."""

    json: str
    text: str

    @property
    def is_array(self) -> str:
        return f"jsonb_typeof({self.json}) = 'array'"

    @property
    def string(self) -> Text:
        """The stored string; NULL for other kinds of values.

        Its head and the next two expressions are those of declared indexes, too.
        """
        value = f"CASE WHEN jsonb_typeof({self.json}) = 'string' THEN {self.text} END"
        return Text(f'({value} COLLATE "C")', f'(left({value}, {HEAD_CHARS}) COLLATE "C")')

    @property
    def number(self) -> str:
        """The stored number, exact; NULL for other kinds of values."""
        return f"(CASE WHEN jsonb_typeof({self.json}) = 'number' THEN ({self.json})::numeric END)"

    @property
    def boolean(self) -> str:
        """The stored boolean; NULL for other kinds of values."""
        return f"(CASE WHEN jsonb_typeof({self.json}) = 'boolean' THEN ({self.json})::boolean END)"


DOCUMENT: Final = SqlValue("document", "(document #>> '{}')")


def element(name: str) -> SqlValue:
    """The value column of an expanded array."""
    return SqlValue(name, f"({name} #>> '{{}}')")


def resolve_place(base: SqlValue, steps: Sequence[str | int | Wildcard], binder: Binder) -> SqlValue:
    """Where the steps, none of them a wildcard, lead from ``base``. Raises :class:`Unsendable`."""
    if len(steps) > MAX_STEPS:
        raise Unsendable("a path deeper than any document")  # of an array's elements
    place = base
    for step in steps:
        place = _append_member(place, step, binder) if isinstance(step, str) else _append_item(place, step, binder)
    return place


def is_sendable(text: str) -> bool:
    """Whether PostgreSQL can take the text: UTF-8, without NUL."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _append_member(place: SqlValue, name: str, binder: Binder) -> SqlValue:
    # Not `#>`: it takes a name of digits for an index when it meets an array.
    key = binder.name(name)
    return SqlValue(f"({place.json} -> {key})", f"({place.json} ->> {key})")


def _append_item(place: SqlValue, index: int | Wildcard, binder: Binder) -> SqlValue:
    if isinstance(index, Wildcard):
        raise TypeError("a wildcard leads to many places")
    # Not `-> index`: it takes a scalar for an array of one.
    position = binder.bind(f'{{"i":{index}}}', "jsonb")
    return element(f"jsonb_path_query_first({place.json}, 'strict $[$i]', {position}, true)")


def _join_terms(terms: Sequence[Term], operator: str, neutral: Term) -> Term:
    if not terms:
        return neutral
    if len(terms) == 1:
        return terms[0]
    text = f" {operator} ".join(term.text for term in terms)
    return Term(f"({text})", is_exact=all(term.is_exact for term in terms))
