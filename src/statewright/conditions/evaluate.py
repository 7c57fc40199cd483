"""Conditions judged in memory: a plan compiled to closures over one document and its metadata.

What a condition means is defined here: searches by other means, as in SQL, must agree with it
(docs/reference/conditions.md#conditions). Below are the tests of one stored value
(docs/reference/conditions.md#values, docs/reference/conditions.md#which-stored-values-an-operator-can-match), then
those of a whole plan.
"""

import math
import operator
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias, TypeVar, assert_never

from msgspec import UNSET

from statewright.conditions.paths import Found, Lookup, Path, compile_collect, compile_lookup, has_wildcard
from statewright.conditions.plan import (
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    Branch,
    Branches,
    Characters,
    EvaluationError,
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
    Visits,
)
from statewright.conditions.planning import UUID, UUID_CHARS, build_plan
from statewright.conditions.syntax import Condition, Order
from statewright.conditions.texts import Count, compile_text_test
from statewright.entity import EntityMeta
from statewright.jsonval.numbers import Number
from statewright.jsonval.temporals import parse_temporal
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import DeclaredField

Operand = TypeVar("Operand")

Comparisons: TypeAlias = tuple[tuple[Order, Operand], ...]

ValueTest = Callable[[Found], bool]

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
        case Numbers(comparisons=((Order.EQUALS, int(expected)),)) if abs(expected) < _MAX_SMALL:
            return _compile_number_equality(expected)
        case Numbers(comparisons=comparisons):
            return _compile_number_test(comparisons)
        case Texts(comparisons=((Order.EQUALS, expected),)):
            return _compile_text_equality(expected)
        case Texts(comparisons=comparisons):
            return _compile_string_test(compile_comparisons(comparisons))
        case Matching(operator=text_operator, operand=operand):
            return _compile_string_test(compile_text_test(text_operator, operand).holds)
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


_MAX_SMALL: Final = 10**40
"""Whole operands below it are compared with a stored number of any class in no time."""


def _compile_number_equality(expected: int) -> ValueTest:
    """Equality is the most frequent test, so it is spared a call. Only a number equals a number, or ``True``."""

    def test(value: Found) -> bool:
        return value == expected and value.__class__ is not bool

    return test


def _compile_number_test(comparisons: Comparisons[Number]) -> ValueTest:
    """A number is compared with an operand of its own class: Python would convert a whole number of thousands of digits
    for each comparison with a decimal one.
    """
    wholes = [bound for order, operand in comparisons if (bound := _compare_wholes(order, operand)) is not None]
    compare_whole: Callable[[Any], bool] = _always if not wholes else compile_comparisons(tuple(wholes))
    compare_decimal: Callable[[Any], bool] = compile_comparisons(
        tuple([(order, Decimal(operand)) for order, operand in comparisons])
    )  # Any: type checkers do not see what the class test ensures

    def test(value: Found) -> bool:
        kind = value.__class__
        return compare_whole(value) if kind is int else kind is Decimal and compare_decimal(value)

    return test


def _always(_: object) -> bool:
    return True


def _compare_wholes(order: Order, operand: Number) -> tuple[Order, float | int] | None:
    """What has to hold of a whole number; ``None``: nothing."""
    if isinstance(operand, int):
        return order, operand
    if operand.adjusted() > _MAX_WHOLE_DIGITS:  # no stored number comes near
        return order, math.copysign(math.inf, operand)
    whole = int(operand.to_integral_value(ROUND_FLOOR, _FLOORING)) if operand.adjusted() >= 0 else -operand.is_signed()
    if whole == operand:
        return order, whole
    match order:
        case Order.NOT_EQUAL:
            return None
        case Order.EQUALS:
            return order, math.nan
        case Order.GREATER_THAN | Order.GREATER_OR_EQUAL:
            return Order.GREATER_THAN, whole
        case _:
            return Order.LESS_OR_EQUAL, whole


_MAX_WHOLE_DIGITS: Final = 10_500
"""More than any number has that can be stored (docs/reference/models.md#numbers)."""
_FLOORING: Final = Context(prec=2 * _MAX_WHOLE_DIGITS)


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
        stored = UUID.fullmatch(value.lower()) if isinstance(value, str) and len(value) == UUID_CHARS else None
        if stored is None or not stored[1].startswith(branch.version):
            return False
        return (stored[0] == branch.expected) is branch.equal

    return test


def _compile_boolean_test(*, expected: bool) -> ValueTest:
    def test(value: Found) -> bool:
        return value is expected

    return test


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
            return _compile_at(path, compile_value_test(branches), _compile_charge(branches))
        case FieldPresence():
            return _compile_presence(plan)
        case ArrayTest():
            return _compile_at(plan.path, _compile_array_test(plan), _compile_array_charge(plan))
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


_Charge: TypeAlias = Callable[[Found, Visits], None]
"""Accounts for the visits that a test of a value counts as, beside the one of the value."""

_FREE_VISITS: Final = 4
"""Those of a test that the visit of its value stands for."""
_BRANCHES_PER_VISIT: Final = 4
"""Kinds of values that a value is tested for in the time of a visit."""
_SHORT_CHARS: Final = (64, 32, 16, 8)


def _compile_charge(branches: Branches) -> _Charge | None:
    """What testing a value takes; ``None`` when that is next to nothing whatever the value is."""
    counts = [count for branch in branches if (count := BRANCH_COSTS[type(branch)](branch)) is not None]
    others = len(branches) // _BRANCHES_PER_VISIT
    if not counts and not others:
        return None
    free = next((chars for chars in _SHORT_CHARS if sum([count(chars) for count in counts]) <= _FREE_VISITS), -1)

    if not others and len(counts) == 1:  # as nearly all have
        return _compile_single_charge(counts[0], free)

    def charge(value: Found, visits: Visits) -> None:
        if others:
            visits.spend(others)
        if isinstance(value, str) and len(value) > free:
            visits.spend(sum([count(len(value)) for count in counts]))

    return charge


def _compile_single_charge(count: Count, free: int) -> _Charge:
    def charge(value: Found, visits: Visits) -> None:
        if type(value) is str and len(value) > free:
            visits.spend(count(len(value)))

    return charge


def _compile_array_charge(plan: ArrayTest) -> _Charge:
    charges = [
        (index, charge) for index, branches in plan.positions if (charge := _compile_charge(branches)) is not None
    ]
    positions = len(plan.positions)

    def charge_elements(array: Found, visits: Visits) -> None:
        if isinstance(array, list):
            visits.spend(min(positions, len(array)))
            for index, charge in charges:
                if index < len(array):
                    charge(array[index], visits)

    return charge_elements


def _count_nothing(_: Branch) -> None:
    """A number is compared with one of its class, a text as far as the operand goes, or by its length."""
    return


def _count_matching(branch: Branch) -> Count:
    assert isinstance(branch, Matching)  # noqa: S101 - the table says so
    return compile_text_test(branch.operator, branch.operand).count_visits


def _count_temporal(_: Branch) -> Count:
    """Recognising a time looks at all digits of its fraction."""
    return lambda chars: _TEMPORAL_VISITS + chars // _CHARS_PER_VISIT


_TEMPORAL_VISITS: Final = 20
_CHARS_PER_VISIT: Final = 16

BRANCH_COSTS: Final[Mapping[type[Branch], Callable[[Branch], Count | None]]] = {
    Numbers: _count_nothing,
    Temporals: _count_temporal,
    Texts: _count_nothing,
    Characters: _count_nothing,
    Uuids: _count_nothing,
    Booleans: _count_nothing,
    Matching: _count_matching,
}
"""What testing a text takes by its characters; ``None``: nothing that counts."""


def _compile_at(path: Path, test: ValueTest, charge: _Charge | None) -> _Test:
    """Whether some value at the path passes the test, which is paid for before."""
    if has_wildcard(path):
        values = compile_collect(path)
        if charge is not None:
            return lambda document, meta, visits: any(
                test(_pay(value, charge, visits)) for value in values(document, visits.spend) or ()
            )
        return lambda document, meta, visits: any(test(value) for value in values(document, visits.spend) or ())
    if charge is not None:
        return _compile_at_price(compile_lookup(path), test, charge)
    if len(path.steps) == 1 and isinstance(name := path.steps[0], str):
        return _compile_at_member(name, test)
    get = compile_lookup(path)
    return lambda document, meta, visits: test(get(document))


def _compile_at_price(find: Lookup, test: ValueTest, charge: _Charge) -> _Test:
    def holds(document: JsonValue, meta: EntityMeta, visits: Visits) -> bool:
        value = find(document)
        charge(value, visits)
        return test(value)

    return holds


def _pay(value: Found, charge: _Charge, visits: Visits) -> Found:
    """The value, accounted for."""
    charge(value, visits)
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
    test, charge = compile_value_test(plan.branches), _compile_charge(plan.branches)
    if charge is not None:
        return lambda document, meta, visits: test(_pay(read(meta), charge, visits))
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
