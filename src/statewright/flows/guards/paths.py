"""What guards are made of: paths that select values, and tests of one value.

Paths are those of jsonpath-ng, which gives each value the context it was found in. Ours select one value after the
other, so that a guard ends with the first: nothing is looked at for which the verdict does not ask.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from jsonpath_ng.jsonpath import DatumInContext, JSONPath, This

from statewright.evaluation.costs import Entry
from statewright.flows.guards.values import FUNCTIONS, get_budget, get_element, get_member, spend
from statewright.jsonval.values import JsonValue, is_whole

Datum: TypeAlias = DatumInContext
"""A value where it was found: beside the one it was found in, up to the whole input."""

_HERE: Final = This()


def wrap(value: JsonValue) -> Datum:
    """The whole input."""
    return DatumInContext(value, path=_HERE)


def get_value(datum: Datum) -> JsonValue:
    """The value itself."""
    value: JsonValue = datum.value
    return value


class Query(JSONPath):
    """A path, or a part of one."""

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """What is selected, one after the other. Raises :class:`~statewright.flows.guards.GuardTooBroad`."""
        raise NotImplementedError

    def find(self, data: object) -> list[Datum]:
        """All that is selected."""
        return list(self.iterate(DatumInContext.wrap(data)))

    def iterate_values(self, datum: Datum) -> Iterator[JsonValue]:
        """The values that are selected."""
        return (get_value(found) for found in self.iterate(datum))


class Constant:
    """A value that is written in a guard."""

    def __init__(self, value: JsonValue) -> None:
        self.value = value

    def iterate_values(self, _datum: Datum) -> Iterator[JsonValue]:
        """The value."""
        yield self.value


Operand: TypeAlias = Query | Constant


class Start(Query):
    """Where a path begins: at the whole input, or at the value that is looked at."""

    def __init__(self, *, is_root: bool) -> None:
        self._is_root = is_root

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """That value."""
        budget = get_budget()
        budget.spend(1)
        if self._is_root:  # the library's own Root goes back step by step, and guards have hundreds of parts
            datum = DatumInContext.wrap(budget.root)
        yield datum


class Part(Query):
    """A part that selects values within the one it is given, by that value alone."""

    def __init__(self, select: Callable[[JsonValue], Iterable[JsonValue]]) -> None:
        self._select = select

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """The selected values, in the context of the given one."""
        for value in spend(self._select(get_value(datum))):
            yield DatumInContext(value, path=_HERE, context=datum)


class Lookup(Query):
    """A path as a name or an index: each text or whole number that it selects."""

    def __init__(self, path: Query) -> None:
        self._path = path

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """The members or elements."""
        value = get_value(datum)
        for key in self._path.iterate_values(datum):
            found: Sequence[JsonValue] = ()
            if isinstance(key, str):
                found = get_member(value, key)
            elif is_whole(key):
                found = get_element(value, key)
            for each in spend(found):
                yield DatumInContext(each, path=_HERE, context=datum)


class Call(Query):
    """A function of the value; of what an argument selects, the first counts."""

    def __init__(self, name: str, arguments: Sequence[Operand]) -> None:
        self._entry = FUNCTIONS[name]
        self._arguments = arguments

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """The result, or nothing for a value that the function is not for."""
        arguments = [next(argument.iterate_values(datum), None) for argument in self._arguments]
        given = get_value(datum)
        get_budget().charge(self._entry.cost(given, arguments))
        for value in spend(self._entry.call(given, arguments)):
            yield DatumInContext(value, path=_HERE, context=datum)


class Chain(Query):
    """One part after the other, however many there are."""

    def __init__(self, parts: Sequence[Query]) -> None:
        self._parts = parts

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """What the last part selects."""
        pending = [iter((datum,))]
        while pending:
            found = next(pending[-1], None)
            if found is None:
                pending.pop()
            elif len(pending) > len(self._parts):
                yield found
            else:
                pending.append(self._parts[len(pending) - 1].iterate(found))


class Union(Query):
    """What each of several parts selects, in their order."""

    def __init__(self, parts: Sequence[Query]) -> None:
        self._parts = parts

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """The selected values."""
        return (found for part in self._parts for found in part.iterate(datum))


class Filter(Query):
    """Selects the value itself, in its own context, if a test holds for it."""

    def __init__(self, test: "Predicate") -> None:
        self._test = test

    def iterate(self, datum: Datum) -> Iterator[Datum]:
        """The value, or nothing."""
        if self._test.holds(datum):
            yield datum


class Predicate(Protocol):
    """A condition of one value."""

    def holds(self, datum: Datum) -> bool:
        """Whether the condition holds. Raises :class:`~statewright.flows.guards.GuardTooBroad`."""
        ...


class Exists:
    """An operand alone: a path that selects anything, or a constant that is true."""

    def __init__(self, operand: Operand) -> None:
        self.operand = operand

    def holds(self, datum: Datum) -> bool:
        """Whether there is such a value."""
        if isinstance(self.operand, Constant):
            get_budget().spend(1)
            return bool(self.operand.value)
        return any(True for _ in self.operand.iterate(datum))


class Compares:
    """Whether one pair of the values of two operands compares so."""

    def __init__(self, left: Operand, comparison: Entry, right: Operand) -> None:
        self._left, self._comparison, self._right = left, comparison, right

    def holds(self, datum: Datum) -> bool:
        """Whether there is such a pair."""
        budget, compare, cost = get_budget(), self._comparison.call, self._comparison.cost
        budget.spend(2)
        rights = list(self._right.iterate_values(datum))
        for one in self._left.iterate_values(datum):
            for other in rights:
                budget.charge(1 + cost(one, other))
                if compare(one, other):
                    return True
        return False


class Negation:
    """Whether a test does not hold."""

    def __init__(self, test: Predicate) -> None:
        self._test = test

    def holds(self, datum: Datum) -> bool:
        """The contrary."""
        return not self._test.holds(datum)


class AllOf:
    """Whether several tests hold."""

    def __init__(self, tests: Sequence[Predicate]) -> None:
        self._tests = tests

    def holds(self, datum: Datum) -> bool:
        """Whether all do."""
        return all(test.holds(datum) for test in self._tests)


class AnyOf:
    """Whether one of several tests holds."""

    def __init__(self, tests: Sequence[Predicate]) -> None:
        self._tests = tests

    def holds(self, datum: Datum) -> bool:
        """Whether one does."""
        return any(test.holds(datum) for test in self._tests)


class Brackets:
    """A test in brackets, so that ``and`` within does not count as one beside ``or`` around."""

    def __init__(self, test: Predicate) -> None:
        self._test = test

    def holds(self, datum: Datum) -> bool:
        """Whether the test within does."""
        return self._test.holds(datum)
