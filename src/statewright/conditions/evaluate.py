"""Conditions judged in memory: a plan compiled to closures over one document and its metadata.

What a condition means is defined here: searches by other means, as in SQL, must agree with it
(docs/reference/conditions.md#conditions). Below are the tests of one stored value
(docs/reference/conditions.md#values, docs/reference/conditions.md#which-stored-values-an-operator-can-match), then
those of a whole plan.
"""

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias, TypeVar, assert_never

from msgspec import UNSET

from statewright.conditions.paths import Found, Path, compile_collect, compile_lookup, has_wildcard
from statewright.conditions.plan import (
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    Branch,
    Branches,
    Characters,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Numbers,
    Plan,
    Temporals,
    Texts,
    Unanswerable,
    Uuids,
)
from statewright.conditions.planning import UUID, build_plan
from statewright.conditions.syntax import Condition
from statewright.conditions.texts import compile_text_test
from statewright.conditions.vocabulary import Order
from statewright.entity import EntityMeta
from statewright.jsonval.numbers import Number
from statewright.jsonval.temporals import parse_temporal
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.flatten import DeclaredField
from statewright.turns import TurnExceeded

Operand = TypeVar("Operand")

Comparisons: TypeAlias = tuple[tuple[Order, Operand], ...]

ValueTest = Callable[[Found], bool]

_NUMBER_CLASSES: Final = frozenset((int, Decimal))
"""Looked up by class, because ``bool`` is an ``int`` for ``isinstance``."""

_COMPARE: Final[dict[Order, Callable[[Any, Any], bool]]] = {  # Any: operators say nothing about their operands
    Order.EQUALS: operator.eq,
    Order.NOT_EQUAL: operator.ne,
    Order.GREATER_THAN: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
    Order.LESS_THAN: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
}


def compile_value_test(branches: Branches) -> ValueTest:
    """Whether a stored value satisfies some branch; null and unset satisfy none."""
    tests = [_compile_branch_test(branch) for branch in branches]
    if len(tests) == 1:
        return tests[0]

    def satisfies_any(value: Found) -> bool:
        return any(test(value) for test in tests)

    return satisfies_any


def compile_instant_test(branches: Branches) -> Callable[[int], bool]:
    """Whether an instant in epoch milliseconds satisfies some branch."""
    tests = [compile_comparisons(branch.comparisons) for branch in branches if isinstance(branch, Temporals)]
    return lambda instant: any(test(instant) for test in tests)


def compile_comparisons(comparisons: Comparisons[Operand]) -> Callable[[Operand], bool]:
    """Whether a value of the operands' kind satisfies all comparisons, of which there are one or two."""
    (order, operand), *rest = comparisons
    compare = _COMPARE[order]
    if not rest:
        return lambda value: compare(value, operand)
    second, limit = _COMPARE[rest[0][0]], rest[0][1]
    return lambda value: compare(value, operand) and second(value, limit)


def _compile_branch_test(branch: Branch) -> ValueTest:
    match branch:
        case Numbers(comparisons=((Order.EQUALS, expected),)):
            return _compile_number_equality(expected)
        case Numbers(comparisons=comparisons):
            return _compile_number_test(comparisons)
        case Texts(comparisons=((Order.EQUALS, expected),)):
            return _compile_text_equality(expected)
        case Texts(comparisons=comparisons):
            return _compile_string_test(compile_comparisons(comparisons))
        case Matching(operator=text_operator, operand=operand):
            return _compile_string_test(compile_text_test(text_operator, operand))
        case Temporals(subtype=subtype, comparisons=comparisons):
            return _compile_temporal_test(subtype, compile_comparisons(comparisons))
        case Characters(comparisons=comparisons):
            return _compile_character_test(compile_comparisons(comparisons))
        case Uuids():
            return _compile_uuid_test(branch)
        case Booleans(expected=expected):
            return _compile_boolean_test(expected=expected)
        case _:
            assert_never(branch)


def _compile_number_equality(expected: Number) -> ValueTest:
    """Equality is the most frequent test, so it is spared a call. Only a number equals a number, or ``True``."""

    def test(value: Found) -> bool:
        return value == expected and value.__class__ is not bool

    return test


def _compile_number_test(comparisons: Comparisons[Number]) -> ValueTest:
    compare: Callable[[Any], bool] = compile_comparisons(
        comparisons
    )  # Any: type checkers do not see what the class test ensures

    def test(value: Found) -> bool:
        return value.__class__ in _NUMBER_CLASSES and compare(value)

    return test


def _compile_text_equality(expected: str) -> ValueTest:
    """Spared a call, as for numbers. Only a string equals a string."""

    def test(value: Found) -> bool:
        return value == expected

    return test


def _compile_string_test(compare: Callable[[str], bool]) -> ValueTest:
    def test(value: Found) -> bool:
        return isinstance(value, str) and compare(value)

    return test


def _compile_temporal_test(subtype: DataType, compare: Callable[[int], bool]) -> ValueTest:
    """A stored text takes part only as its own natural subtype (docs/reference/conditions.md#times)."""

    def test(value: Found) -> bool:
        temporal = parse_temporal(value) if isinstance(value, str) else None
        return temporal is not None and temporal.subtype is subtype and compare(temporal.epoch_ms)

    return test


def _compile_character_test(compare: Callable[[str], bool]) -> ValueTest:
    def test(value: Found) -> bool:
        return isinstance(value, str) and len(value) == 1 and compare(value)

    return test


def _compile_uuid_test(branch: Uuids) -> ValueTest:
    def test(value: Found) -> bool:
        stored = UUID.fullmatch(value.lower()) if isinstance(value, str) else None
        if stored is None or not stored[1].startswith(branch.version):
            return False
        return (stored[0] == branch.expected) is branch.equal

    return test


def _compile_boolean_test(*, expected: bool) -> ValueTest:
    def test(value: Found) -> bool:
        return value is expected

    return test


class EvaluationError(ValueError):
    """The condition cannot be judged: an unknown operator or metadata field, a function inside a group, a bad regex."""


MAX_VISITS: Final = 100_000_000
"""Elements of arrays that a condition may look at in one document, some ten seconds of work: each of its comparisons
looks at all of them. Of a text that a pattern is looked for in, 16 characters count as one.
"""

MAX_TURN_VISITS: Final = 100_000
"""Those that may be looked at within a turn of the event loop, in some 10 ms."""


_CHARS_PER_VISIT: Final = 16
"""Characters of a text that a pattern is looked for in, in the time of a visit."""


class TooManyVisits(EvaluationError):
    """A condition looks at too many elements of a document."""

    def __init__(self) -> None:
        super().__init__(f"the condition looks at more than {MAX_VISITS} elements of the document's arrays")


class Visits:
    """The elements of arrays that may still be looked at: within a turn of the event loop, or altogether."""

    __slots__ = ("_left", "within_turn")

    def __init__(self, *, within_turn: bool = False) -> None:
        self._left = MAX_TURN_VISITS if within_turn else MAX_VISITS
        self.within_turn = within_turn

    def spend(self, elements: int) -> None:
        """Account for elements. Raises ``TurnExceeded`` when there are more than a turn allows, else
        :class:`TooManyVisits`.
        """
        self._left -= elements
        if self._left < 0:
            raise TurnExceeded if self.within_turn else TooManyVisits


class Predicate(Protocol):
    """Whether a condition holds for a document and its metadata. The elements it looks at are accounted for in
    ``visits``, which may be shared with other conditions.
    """

    def __call__(self, document: JsonValue, meta: EntityMeta, visits: Visits | None = None, /) -> bool: ...


_Test: TypeAlias = Callable[[JsonValue, EntityMeta, Visits], bool]


def compile_predicate(condition: Condition, declared: Mapping[str, DeclaredField]) -> Predicate:
    """The condition as a function, to be used for many entities of the model that declares the fields.

    Never raises; what cannot be judged raises :class:`EvaluationError` when the predicate gets there.
    """
    return compile_plan(build_plan(condition, declared))


def compile_plan(plan: Plan) -> Predicate:
    """The plan as a function."""
    test = _compile_test(plan)

    def predicate(document: JsonValue, meta: EntityMeta, visits: Visits | None = None, /) -> bool:
        return test(document, meta, visits or Visits())

    return predicate


def _compile_test(plan: Plan) -> _Test:
    match plan:
        case FieldTest(path=path, branches=branches):
            reads_texts = any(isinstance(branch, Matching) for branch in branches)
            return _compile_at(path, compile_value_test(branches), reads_texts=reads_texts)
        case FieldPresence():
            return _compile_presence(plan)
        case ArrayTest():
            return _compile_at(plan.path, _compile_array_test(plan))
        case MetaTest():
            return _compile_meta(plan)
        case Unanswerable(reason=reason):
            return _compile_failure(reason)
        case AllOf(parts=parts):
            return _compile_all_of([_compile_test(part) for part in parts])
        case AnyOf(parts=parts):
            return _compile_any_of([_compile_test(part) for part in parts])
        case _:
            assert_never(plan)


def _compile_at(path: Path, test: ValueTest, *, reads_texts: bool = False) -> _Test:
    """Whether some value at the path passes the test, which ``reads_texts`` to their end."""
    if has_wildcard(path):
        values = compile_collect(path)
        if reads_texts:
            return lambda document, meta, visits: any(
                test(_charge_text(value, visits)) for value in values(document, visits.spend) or ()
            )
        return lambda document, meta, visits: any(test(value) for value in values(document, visits.spend) or ())
    if reads_texts:
        find = compile_lookup(path)
        return lambda document, meta, visits: test(_charge_text(find(document), visits))
    if len(path.steps) == 1 and isinstance(name := path.steps[0], str):
        return _compile_at_member(name, test)
    get = compile_lookup(path)
    return lambda document, meta, visits: test(get(document))


def _charge_text(value: Found, visits: Visits) -> Found:
    """The value, accounted for when it is a long text."""
    if isinstance(value, str) and len(value) > _CHARS_PER_VISIT:
        visits.spend(len(value) // _CHARS_PER_VISIT)
    return value


def _compile_at_member(name: str, test: ValueTest) -> _Test:
    """The most frequent place, spared a call."""

    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        return isinstance(document, dict) and test(document.get(name))

    return holds


def _compile_presence(plan: FieldPresence) -> _Test:
    wanted = plan.is_null
    if plan.path is None:
        return lambda document, meta, visits: wanted
    if has_wildcard(plan.path):
        return _compile_any_presence(plan.path, wanted=wanted)
    get = compile_lookup(plan.path)
    return lambda document, meta, visits: _is_null(get(document)) is wanted


def _compile_any_presence(path: Path, *, wanted: bool) -> _Test:
    """Whether some value is null, or is not. A missing array counts as one null, an empty one as nothing at all."""
    values = compile_collect(path)

    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        found = values(document, visits.spend)
        return wanted if found is None else any(_is_null(value) is wanted for value in found)

    return holds


def _is_null(value: Found) -> bool:
    return value is None or value is UNSET


def _compile_array_test(plan: ArrayTest) -> ValueTest:
    tests = [(index, compile_value_test(branches)) for index, branches in plan.positions]

    def test(array: Found) -> bool:
        return isinstance(array, list) and all(index < len(array) and holds(array[index]) for index, holds in tests)

    return test


def _compile_meta(plan: MetaTest) -> _Test:
    if plan.field.is_time:
        read_ms: Callable[[EntityMeta], int] = attrgetter(plan.field.value)
        is_due = compile_instant_test(plan.branches)
        return lambda document, meta, visits: is_due(read_ms(meta))
    read: Callable[[EntityMeta], str] = attrgetter(plan.field.value)
    test = compile_value_test(plan.branches)
    return lambda document, meta, visits: test(read(meta))


def _compile_failure(reason: str) -> _Test:
    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        raise EvaluationError(reason)

    return holds


def _compile_all_of(tests: list[_Test]) -> _Test:
    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        for test in tests:  # noqa: SIM110 - takes half the time of all() over a generator
            if not test(document, meta, visits):
                return False
        return True

    return holds


def _compile_any_of(tests: list[_Test]) -> _Test:
    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(document, meta, visits):
                return True
        return False

    return holds
