"""Conditions that differ in their operands only are planned and compiled once (docs/adr/0021-a-search-is-one-type.md).

Applications ask the same few questions with other values. A condition is split into its *shape* (groups, paths,
operators, kinds of operands) and its operands. A shape is compiled with marks for operands, and the place of each mark
among the arguments shows where an operand belongs.

That takes for granted that no operand of a kind steers the compilation. So only those are taken for which that is so: a
plain text or number, where the declared types leave no choice of what it could mean. All else, and every condition that
would be refused, is compiled each time, to a template without operands. What both ways make of a condition is the same,
as a test over random conditions shows.

Only :mod:`~statewright.conditions.search` uses this module.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, count
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.conditions.checks import check
from statewright.conditions.paths import MAX_CACHED_PATH_CHARS, has_wildcard, parse_path, types_at
from statewright.conditions.plan import Leaf, Plan, describe_leaf
from statewright.conditions.planning import Fields, build_plan, format_operand
from statewright.conditions.sql import compile_sql
from statewright.conditions.sql_terms import HEAD_CHARS, Argument, is_sendable
from statewright.conditions.sql_values import LAST_CHARACTER, find_successor, is_moderate
from statewright.conditions.syntax import COMPARISONS, MAX_DEPTH, RANGES, Condition, Group, Simple
from statewright.failures import Failure
from statewright.jsonval.numbers import NUMERIC_TYPES, parse_number
from statewright.jsonval.values import DataType, JsonObject, JsonValue

MAX_OPERANDS: Final = 32
MAX_SQL_CHARS: Final = 16_000
"""Characters of compiled SQL that are worth remembering: memory is finite, and others write conditions."""

TEXT_TESTS: Final = frozenset(
    ("CONTAINS", "STARTS_WITH", "ENDS_WITH", "NOT_CONTAINS", "NOT_STARTS_WITH", "NOT_ENDS_WITH")
)
"""Text operators that look at the stored string alone, whatever is declared, and treat all operands alike."""

_GROUPS: Final = ("AND", "OR")
_ONE_OPERAND: Final = frozenset((*COMPARISONS, *TEXT_TESTS))
_TEXT, _NUMBER = "text", "number"

Operand: TypeAlias = str
"""As an argument: a number is its text."""

TEXT_MARK: Final = "\ue000"
_END: Final = "a"
_DIGITS: Final = 30
FIRST_NUMBER: Final = 10**_DIGITS
"""Marks of numbers begin here, beyond all operands that are taken."""
NUMBER_MARK: Final = str(FIRST_NUMBER)[:-3]


class Arguments(Struct, frozen=True, kw_only=True):
    """How arguments are put together of operands: ``pick`` from the operands, their ``successors``, the sets of
    ``texts`` and ``numbers`` among them, and what is ``fixed``, in this order.
    """

    successors: tuple[int, ...] = ()
    texts: tuple[tuple[int, ...], ...] = ()
    numbers: tuple[tuple[int, ...], ...] = ()
    fixed: tuple[Argument, ...]
    pick: tuple[int, ...]

    def fill(self, operands: Sequence[Operand]) -> list[Argument]:
        """The arguments for these operands."""
        values: list[Argument] = [*operands]
        for index in self.successors:
            values.append(find_successor(operands[index]))  # noqa: PERF401 - nearly always none
        if self.texts or self.numbers:
            values += [tuple(dict.fromkeys([operands[index] for index in members])) for members in self.texts]
            values += [
                tuple(dict.fromkeys([Decimal(operands[index]) for index in members])) for members in self.numbers
            ]
        values += self.fixed
        return [values[index] for index in self.pick]


class SqlCondition(Struct, frozen=True):
    """A boolean expression that every entity satisfies for which a condition of one shape holds."""

    text: str
    arguments: Arguments
    residual: tuple[Leaf, ...]

    @property
    def is_exact(self) -> bool:
        """Whether no other entity satisfies it."""
        return not self.residual

    def describe_residual(self) -> tuple[str, ...]:
        """The parts of the condition that SQL only approximates, in words."""
        return tuple(dict.fromkeys(map(describe_leaf, self.residual)))


class Template(Struct, frozen=True, eq=False):
    """What conditions of one shape have in common. ``plan`` is theirs but for the operands, of which it has marks."""

    plan: Plan
    operands: int = 0
    """How many there are; none when the plan is that of one condition."""

    def compile(self, *, first: int, names: Mapping[str, str]) -> SqlCondition:
        """As ``compile_sql``, with places for the operands."""
        compiled = compile_sql(self.plan, first=first, names=names)
        arguments = locate_arguments(compiled.args, self.operands)
        assert arguments is not None, "a template whose marks cannot be found is not built"  # noqa: S101
        return SqlCondition(compiled.text, arguments, compiled.residual)


def read_shape(raw: JsonValue, operands: list[Operand], depth: int = 0) -> Hashable | None:
    """What tells the condition from others but for its operands, which are added; None when it is none for a template.

    As :func:`~statewright.conditions.wire.parse` reads it, members with other names have no say beside those with the
    primary ones.
    """
    if not isinstance(raw, dict) or depth > MAX_DEPTH:
        return None
    kind = raw.get("type")
    if kind == "simple":
        return _read_leaf_shape(raw, operands)
    operator, children = raw.get("operator"), raw.get("conditions")
    if kind != "group" or not isinstance(operator, str) or operator not in _GROUPS:
        return None
    if not isinstance(children, list) or not children:
        return None
    shapes: list[Hashable] = [operator]
    for child in children:
        shape = read_shape(child, operands, depth + 1)
        if shape is None or len(operands) > MAX_OPERANDS:
            return None
        shapes.append(shape)
    return tuple(shapes)


def _read_leaf_shape(raw: JsonObject, operands: list[Operand]) -> Hashable | None:
    path, operator, value = raw.get("jsonPath"), raw.get("operatorType"), raw.get("value")
    if not isinstance(path, str) or not isinstance(operator, str) or len(path) > MAX_CACHED_PATH_CHARS:
        return None
    if operator in _ONE_OPERAND:
        kind = _read_operand(value, operands)
    elif operator in RANGES and isinstance(value, list) and len(value) == 2:
        kind = _read_operand(value[0], operands)
        if kind != _read_operand(value[1], operands):
            return None
    else:
        return None
    return None if kind is None else (path, operator, kind)


def _read_operand(value: JsonValue, operands: list[Operand]) -> str | None:
    """The kind of an operand, which is added; None when it may mean something peculiar."""
    if isinstance(value, str):
        # `isascii` is the cheaper check, and is enough for nearly all texts.
        if not 0 < len(value) < HEAD_CHARS or "\0" in value or not (value.isascii() or _is_well_formed(value)):
            return None
        operands.append(value)
        return _TEXT
    if type(value) is int and -FIRST_NUMBER < value < FIRST_NUMBER:
        operands.append(str(value))
        return _NUMBER
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < _DIGITS:
        number = parse_number(format_operand(value))
        if number is not None and is_moderate(number):
            operands.append(str(Decimal(number)))
            return _NUMBER
    return None


def _is_well_formed(text: str) -> bool:
    return is_sendable(text) and text[-1] != LAST_CHARACTER and TEXT_MARK not in text


def build_template(condition: Condition, declared: Fields) -> Template | None:
    """What conditions of this shape have in common in a model; None when operands could steer the compilation, when the
    condition would be refused, or when it is too much to be remembered.
    """
    if not _is_parametric(condition, declared):
        return None
    marks = count()
    sample = _mark_operands(condition, marks)
    try:
        check(sample, declared)
    except Failure:
        return None
    plan = build_plan(sample, declared)
    compiled = compile_sql(plan)
    if not compiled.is_exact or len(compiled.text) > MAX_SQL_CHARS:
        return None
    operands = next(marks)
    return None if locate_arguments(compiled.args, operands) is None else Template(plan, operands)


def _is_parametric(condition: Condition, declared: Fields) -> bool:
    """Whether operands have one meaning only, for what the model declares."""
    if isinstance(condition, Group):
        return all(_is_parametric(child, declared) for child in condition.conditions)
    path = parse_path(condition.path) if isinstance(condition, Simple) else None
    if path is None or not isinstance(condition, Simple) or has_wildcard(path):
        return False
    if TEXT_MARK in condition.path or NUMBER_MARK in condition.path:
        return False
    operator, value = condition.operator, condition.value
    sample = value[0] if isinstance(value, list) else value
    if operator in TEXT_TESTS:
        return isinstance(sample, str)
    types = types_at(path, declared) - {DataType.NULL}
    return types == {DataType.STRING} if isinstance(sample, str) else bool(types) and types <= NUMERIC_TYPES


def _mark_operands(condition: Condition, marks: Iterator[int]) -> Condition:
    """The condition with a mark for each operand, numbered as they are collected."""
    if isinstance(condition, Group):
        parts = tuple([_mark_operands(child, marks) for child in condition.conditions])
        return Group(operator=condition.operator, conditions=parts)
    assert isinstance(condition, Simple)  # noqa: S101 - its shape says so
    value = condition.value
    operand = [_mark_operand(one, marks) for one in value] if isinstance(value, list) else _mark_operand(value, marks)
    return Simple(path=condition.path, operator=condition.operator, value=operand)


def _mark_operand(value: JsonValue, marks: Iterator[int]) -> JsonValue:
    number = next(marks)
    return f"{TEXT_MARK}{number}{_END}" if isinstance(value, str) else FIRST_NUMBER + number


def locate_arguments(arguments: Sequence[Argument], operands: int) -> Arguments | None:
    """Where the marks are; None when one has been made into something that is not known here."""
    if not operands:
        return Arguments(fixed=tuple(arguments), pick=tuple(range(len(arguments))))
    successors: list[int] = []
    texts: list[tuple[int, ...]] = []
    numbers: list[tuple[int, ...]] = []
    fixed: list[Argument] = []
    places: list[tuple[int, int]] = []  # which of these, 0 being the operands, and where in it
    for argument in arguments:
        if isinstance(argument, tuple):
            members = tuple([member for one in argument if (member := _read_mark(one)) is not None])
            if len(members) < len(argument):
                return None
            kind, sets = (2, texts) if isinstance(argument[0], str) else (3, numbers)
            places.append((kind, len(sets)))
            sets.append(members)
        elif (operand := _read_mark(argument)) is not None:
            places.append((0, operand))
        elif isinstance(argument, str) and TEXT_MARK in argument:
            before = argument[:-1] + _END
            operand = _read_mark(before)
            if operand is None or find_successor(before) != argument:
                return None
            places.append((1, len(successors)))
            successors.append(operand)
        else:
            places.append((4, len(fixed)))
            fixed.append(argument)
    starts = [0, *accumulate((operands, len(successors), len(texts), len(numbers)))]
    return Arguments(
        successors=tuple(successors),
        texts=tuple(texts),
        numbers=tuple(numbers),
        fixed=tuple(fixed),
        pick=tuple([starts[kind] + place for kind, place in places]),
    )


def _read_mark(argument: Argument) -> int | None:
    """The number of the operand that is marked so."""
    if isinstance(argument, tuple):
        return None
    text = str(argument)
    if text.startswith(NUMBER_MARK) and text.isdigit() and len(text) == _DIGITS + 1:
        return int(text) - FIRST_NUMBER
    number = text[1:-1]
    return int(number) if text[:1] == TEXT_MARK and text[-1:] == _END and number.isdigit() else None
