"""Conditions that differ in their operands only are planned and compiled once.

Applications ask the same few questions with other values. A condition is split into its *shape* (groups, paths,
operators, kinds of operands) and its operands. A shape is compiled with marks for operands, and the place of each mark
among the arguments shows where an operand belongs.

That takes for granted that no operand of a kind steers the compilation. So only those are taken for which that is so: a
plain text or number, where the declared types leave no choice of what it could mean. All else, and every condition that
would be refused, is left to the long way, which stays the measure: text and arguments are the same, as a test over
random conditions shows.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from statewright.conditions.checks import check
from statewright.conditions.lookup import has_wildcard
from statewright.conditions.marks import FIRST_NUMBER, NUMBER_MARK, TEXT_MARK, Arguments, Operand, arguments_of, marked
from statewright.conditions.operands import operand_text
from statewright.conditions.operators import COMPARISONS, RANGES
from statewright.conditions.paths import WORTH_REMEMBERING, parse_path, types_at
from statewright.conditions.plan import Plan
from statewright.conditions.planning import Fields, plan_of
from statewright.conditions.sql import compile_sql
from statewright.conditions.sql_terms import HEAD, is_sendable
from statewright.conditions.sql_texts import LAST_CHARACTER
from statewright.conditions.sql_values import is_moderate
from statewright.conditions.syntax import DEPTH_LIMIT, Condition, Group, Simple
from statewright.conditions.wire import parse
from statewright.failures import Failure
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.numbers import NUMERIC_TYPES, parse_number
from statewright.jsonval.values import JsonObject, JsonValue

MOST_TEMPLATES: Final = 512
MOST_OPERANDS: Final = 32
LONGEST: Final = 16_000
"""Characters of compiled SQL that are worth remembering: memory is finite, and others write conditions."""

TEXT_TESTS: Final = frozenset(
    ("CONTAINS", "STARTS_WITH", "ENDS_WITH", "NOT_CONTAINS", "NOT_STARTS_WITH", "NOT_ENDS_WITH")
)
"""Text operators that look at the stored string alone, whatever is declared, and treat all operands alike."""

_GROUPS: Final = ("AND", "OR")
_ONE_OPERAND: Final = frozenset((*COMPARISONS, *TEXT_TESTS))
_TEXT, _NUMBER = "text", "number"
_DIGITS: Final = 30


class Expression(Struct, frozen=True):
    """A condition of one shape as an exact boolean expression."""

    text: str
    arguments: Arguments


class Template(Struct, frozen=True, eq=False):
    """What conditions of one shape have in common. ``plan`` is theirs but for the operands, of which it has marks."""

    plan: Plan
    operands: int
    """How many there are."""

    def compile(self, *, first: int = 1, names: Mapping[str, str] = MappingProxyType({})) -> Expression | None:
        """As ``compile_sql``; None when the shape is not worth it."""
        narrowing = compile_sql(self.plan, first=first, names=names)
        if not narrowing.is_exact or len(narrowing.text) > LONGEST:
            return None
        arguments = arguments_of(narrowing.args, self.operands)
        return None if arguments is None else Expression(narrowing.text, arguments)


class Filled:
    """A condition that needs no check, for a model that declares certain fields: a template with operands."""

    __slots__ = ("_declared", "_plan", "_question", "operands", "template")

    def __init__(self, template: Template, question: "Shaped", declared: Fields) -> None:
        self.template = template
        self.operands = question.operands
        self._question = question
        self._declared = declared
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        """The plan, which is made when somebody asks for it."""
        if self._plan is None:
            self._plan = plan_of(self._question.condition, self._declared)
        return self._plan


class _Known(Struct, frozen=True):
    """A shape in a model. That the fields are held here is what makes their identity a key."""

    declared: Fields
    template: Template | None


_known: OrderedDict[tuple[int, Hashable], _Known] = OrderedDict()


class Shaped:
    """A condition as its shape and its operands. It has no defect of form."""

    __slots__ = ("_condition", "_raw", "operands", "shape")

    def __init__(self, raw: JsonValue, shape: Hashable, operands: Sequence[Operand]) -> None:
        self._raw = raw
        self._condition: Condition | None = None
        self.shape = shape
        self.operands = operands

    @property
    def condition(self) -> Condition:
        """The condition, which is parsed when somebody asks for it."""
        if self._condition is None:
            self._condition = parse(self._raw)
        return self._condition


def shaped(raw: JsonValue) -> Shaped | None:
    """The condition that the JSON value describes, split so; None when it is not of a kind that templates are made for,
    or not written in the plain way, or none at all.
    """
    operands: list[Operand] = []
    shape = _shape(raw, operands, 0)
    return None if shape is None else Shaped(raw, shape, operands)


def filled(question: Shaped, declared: Fields) -> Filled | None:
    """The condition as a template with operands, when it is one that ``check`` accepts and that can be one.

    ``declared`` must never change.
    """
    key = id(declared), question.shape
    known = _known.get(key)
    if known is None:
        known = _known[key] = _Known(declared, _template(question.condition, declared))
        if len(_known) > MOST_TEMPLATES:
            _known.popitem(last=False)
    else:
        _known.move_to_end(key)
    return None if known.template is None else Filled(known.template, question, declared)


def _shape(raw: JsonValue, operands: list[Operand], depth: int) -> Hashable | None:
    """What tells the condition from others but for its operands, which are added; None when it is none for a template.

    As :func:`parse` reads it, members with other names have no say beside those with the primary ones.
    """
    if not isinstance(raw, dict) or depth > DEPTH_LIMIT:
        return None
    kind = raw.get("type")
    if kind == "simple":
        return _shape_of_leaf(raw, operands)
    operator, children = raw.get("operator"), raw.get("conditions")
    if kind != "group" or not isinstance(operator, str) or operator not in _GROUPS:
        return None
    if not isinstance(children, list) or not children:
        return None
    shapes: list[Hashable] = [operator]
    for child in children:
        shape = _shape(child, operands, depth + 1)
        if shape is None or len(operands) > MOST_OPERANDS:
            return None
        shapes.append(shape)
    return tuple(shapes)


def _shape_of_leaf(raw: JsonObject, operands: list[Operand]) -> Hashable | None:
    path, operator, value = raw.get("jsonPath"), raw.get("operatorType"), raw.get("value")
    if not isinstance(path, str) or not isinstance(operator, str) or len(path) > WORTH_REMEMBERING:
        return None
    if operator in _ONE_OPERAND:
        kind = _operand(value, operands)
    elif operator in RANGES and isinstance(value, list) and len(value) == 2:
        kind = _operand(value[0], operands)
        if kind != _operand(value[1], operands):
            return None
    else:
        return None
    return None if kind is None else (path, operator, kind)


def _operand(value: JsonValue, operands: list[Operand]) -> str | None:
    """The kind of an operand, which is added; None when it may mean something peculiar."""
    if isinstance(value, str):
        # `isascii` spares nearly everybody the second question.
        if not 0 < len(value) < HEAD or "\0" in value or not (value.isascii() or _is_well_formed(value)):
            return None
        operands.append(value)
        return _TEXT
    if type(value) is int and -FIRST_NUMBER < value < FIRST_NUMBER:
        operands.append(str(value))
        return _NUMBER
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < _DIGITS:
        number = parse_number(operand_text(value))
        if number is not None and is_moderate(number):
            operands.append(str(Decimal(number)))
            return _NUMBER
    return None


def _is_well_formed(text: str) -> bool:
    return is_sendable(text) and text[-1] != LAST_CHARACTER and TEXT_MARK not in text


def _template(condition: Condition, declared: Fields) -> Template | None:
    if not _is_parametric(condition, declared):
        return None
    marks = count()
    sample = marked(condition, marks)
    try:
        check(sample, declared)
    except Failure:
        return None
    template = Template(plan_of(sample, declared), next(marks))
    return template if template.compile() is not None else None


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
