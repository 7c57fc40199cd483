"""What is wrong with a condition, and which failure each consumer makes of it (spec/search.md §9).

A check yields *findings* in the order in which they are to be reported; a consumer takes the first, or all. Between the
checks of form and those against the schema, §9.1 has the model looked up, hence two functions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum, auto
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.conditions.metafields import META_FIELDS
from statewright.conditions.operands import accepts, operand_text
from statewright.conditions.operators import COMPARISONS, OPERATORS, PRESENCE, RANGES, TextOperator
from statewright.conditions.paths import Path, is_field, is_known, parse_path, types_at
from statewright.conditions.patterns import pattern_defect
from statewright.conditions.syntax import Array, Condition, Function, Group, Lifecycle, Simple
from statewright.failures import BadRequest, ConditionTypeMismatch, Failure, InvalidCondition, InvalidFieldPath
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.values import JsonValue
from statewright.schema.flatten import Declared

Leaf: TypeAlias = Simple | Lifecycle


class Defect(Enum):
    """The kinds of findings."""

    UNSUPPORTED = auto()
    """A group operator that is none, or a function where none can be called."""
    OPERATOR = auto()
    ARITY = auto()
    OBJECT_OPERAND = auto()
    PATTERN = auto()
    PATH = auto()
    META_FIELD = auto()
    OPERAND_TYPE = auto()


class Finding(Struct, frozen=True):
    """One thing that is wrong."""

    defect: Defect
    message: str


Outcomes = Mapping[Defect, Callable[[str], Failure]]

SEARCH: Final[Outcomes] = {
    Defect.UNSUPPORTED: BadRequest,
    Defect.OPERATOR: BadRequest,
    Defect.ARITY: BadRequest,
    Defect.OBJECT_OPERAND: InvalidCondition,
    Defect.PATTERN: InvalidCondition,
    Defect.PATH: InvalidFieldPath,
    Defect.META_FIELD: InvalidFieldPath,
    Defect.OPERAND_TYPE: ConditionTypeMismatch,
}
"""Search and conditional delete (spec/search.md §9.2)."""

STATISTICS: Final[Outcomes] = {
    **SEARCH,
    Defect.UNSUPPORTED: InvalidCondition,
    Defect.OPERATOR: InvalidCondition,
    Defect.ARITY: InvalidCondition,
}
"""Grouped statistics (spec/search.md §9.2)."""

_PRESENCE_ONLY: Final = "only IS_NULL and NOT_NULL apply to it"


def check(condition: Condition, declared: Mapping[str, Declared]) -> None:
    """Everything that search and conditional delete refuse, form first. Raises the failures of :data:`SEARCH`."""
    check_form(condition)
    check_against(condition, declared)


def check_form(condition: Condition) -> None:
    """What can be told without the model (spec/search.md §9.1 step 6). Raises the failures of :data:`SEARCH`."""
    _refuse_first(form_findings(condition), SEARCH)


def check_against(condition: Condition, declared: Mapping[str, Declared]) -> None:
    """What needs the model (spec/search.md §9.1 steps 8-10). Raises the failures of :data:`SEARCH`."""
    unknown = unknown_paths(condition, declared)
    if unknown:
        raise InvalidFieldPath(f"condition references unknown field path(s): {', '.join(unknown)}")
    for finding in pattern_findings(condition):
        raise InvalidCondition(f"invalid regex pattern in condition: {finding.message}")
    _refuse_first(_schema_findings(condition, declared), SEARCH)


def check_statistics(condition: Condition) -> None:
    """What grouped statistics refuse: data paths and their operands are not looked at (spec/entities.md §14.3)."""
    for findings in (form_findings, pattern_findings, meta_findings):
        _refuse_first(findings(condition), STATISTICS)


def unknown_paths(condition: Condition, declared: Mapping[str, Declared]) -> tuple[str, ...]:
    """The paths, as written, that the schema does not have, each once; an empty path is not reported."""
    paths = {part.path: None for part in parts_of(condition) if isinstance(part, Simple | Array) and part.path.strip()}
    return tuple(path for path in paths if not _is_known(path, declared))


def parts_of(condition: Condition) -> Iterator[Condition]:
    """The condition and all below it, depth first in document order."""
    yield condition
    if isinstance(condition, Group):
        for child in condition.conditions:
            yield from parts_of(child)


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """The comparisons of the condition, in document order."""
    for part in parts_of(condition):
        if isinstance(part, Simple | Lifecycle):
            yield part


def form_findings(condition: Condition) -> Iterator[Finding]:
    """Operators that do not exist and operands that no operator of the kind can take."""
    for part in parts_of(condition):
        match part:
            case Group(operator=operator) if operator not in ("AND", "OR"):
                yield Finding(Defect.UNSUPPORTED, f'unknown group operator "{operator}"; valid: AND, OR')
            case Function():
                yield Finding(Defect.UNSUPPORTED, 'condition type "function" is supported only as a whole criterion')
            case Array(values=values) if any(isinstance(value, dict) for value in values):
                yield _object_operand(part)
            case Simple() | Lifecycle():
                yield from _leaf_form(part)
            case _:
                pass


def pattern_findings(condition: Condition) -> Iterator[Finding]:
    """Regular expressions that do not compile."""
    for leaf in leaves_of(condition):
        if leaf.operator != TextOperator.MATCHES_PATTERN:
            continue
        pattern = operand_text(leaf.value)
        if defect := pattern_defect(pattern):
            yield Finding(Defect.PATTERN, f'invalid MATCHES_PATTERN regex "{pattern}": {defect}')


def meta_findings(condition: Condition) -> Iterator[Finding]:
    """Metadata fields that do not exist, and operands of instants that are none."""
    for leaf in leaves_of(condition):
        if isinstance(leaf, Lifecycle):
            yield from _meta_leaf(leaf)


def _refuse_first(findings: Iterable[Finding], outcomes: Outcomes) -> None:
    for finding in findings:
        raise outcomes[finding.defect](finding.message)


def _leaf_form(leaf: Leaf) -> Iterator[Finding]:
    if leaf.operator not in OPERATORS:
        problem = f'unknown operatorType "{leaf.operator}"' if leaf.operator else "missing operatorType"
        yield Finding(Defect.OPERATOR, f"{problem}; valid: {', '.join(OPERATORS)}")
    elif isinstance(leaf.value, dict):
        yield _object_operand(leaf)
    elif leaf.operator in RANGES and not (isinstance(leaf.value, list) and len(leaf.value) == 2):
        yield Finding(Defect.ARITY, f"operator {leaf.operator} requires exactly two operands in an array")


def _object_operand(part: Simple | Lifecycle | Array) -> Finding:
    place = part.field if isinstance(part, Lifecycle) else part.path
    return Finding(Defect.OBJECT_OPERAND, f'condition value is an object, which equals nothing: "{place}"')


def _is_known(text: str, declared: Mapping[str, Declared]) -> bool:
    path = parse_path(text)
    return path is not None and is_known(path, declared)


def _schema_findings(condition: Condition, declared: Mapping[str, Declared]) -> Iterator[Finding]:
    for leaf in leaves_of(condition):
        if isinstance(leaf, Lifecycle):
            yield from _meta_leaf(leaf)
        elif path := parse_path(leaf.path):
            yield from _data_leaf(leaf, path, declared)


def _data_leaf(leaf: Simple, path: Path, declared: Mapping[str, Declared]) -> Iterator[Finding]:
    if leaf.operator in PRESENCE:
        return
    if not is_field(path, declared):
        yield Finding(Defect.PATH, f"field path {leaf.path} is an object or array: {_PRESENCE_ONLY}")
        return
    types = types_at(path, declared)
    for operand in _misfits(leaf, types) if types else ():
        text = operand_text(operand)
        names = ", ".join(declared_type for declared_type in DataType if declared_type in types)
        yield Finding(Defect.OPERAND_TYPE, f'operand "{text}" of {leaf.path} fits none of its declared types [{names}]')


def _meta_leaf(leaf: Lifecycle) -> Iterator[Finding]:
    field = META_FIELDS.get(leaf.field)
    if field is None:
        yield Finding(Defect.META_FIELD, f'unknown meta filter field "{leaf.field}": invalid field path')
        return
    for index, operand in enumerate(_operands(leaf)):
        if not _fits(operand, field.types):  # every operand fits a text
            text = operand_text(operand)
            message = f'operand[{index}] {text} parses into no temporal type for field "{leaf.field}"'
            yield Finding(Defect.OPERAND_TYPE, f"{message}: condition type mismatch")


def _misfits(leaf: Leaf, types: Set[DataType]) -> Iterator[JsonValue]:
    return (operand for operand in _operands(leaf) if not _fits(operand, types))


def _operands(leaf: Leaf) -> list[JsonValue]:
    """The operands that the types of the field have a say in; those of text and presence operators are free."""
    if leaf.operator in COMPARISONS or leaf.operator in RANGES:
        return leaf.value if isinstance(leaf.value, list) else [leaf.value]
    return []


def _fits(operand: JsonValue, types: Set[DataType]) -> bool:
    return operand is None or accepts(types, operand_text(operand))
