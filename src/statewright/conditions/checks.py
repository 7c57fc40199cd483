"""What is wrong with a condition, and which failure each consumer makes of it
(docs/reference/search.md#order-of-checks).

A check yields *findings* in the order in which they are to be reported; a consumer takes the first, or all. Between the
checks of form and those against the schema, docs/reference/search.md#order-of-checks has the model looked up, hence
two functions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from difflib import get_close_matches
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.paths import Path, is_field, is_known, parse_path, types_at
from statewright.conditions.planning import accepts, format_operand, split_range
from statewright.conditions.syntax import (
    COMPARISONS,
    META_FIELDS,
    OPERATORS,
    PRESENCE,
    RANGES,
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    Simple,
    TextOperator,
)
from statewright.conditions.texts import find_like_defect, find_pattern_defect
from statewright.failures import (
    BadRequest,
    ConditionTypeMismatch,
    Failure,
    InvalidCondition,
    InvalidFieldPath,
)
from statewright.jsonval.values import DataType, JsonValue, guess_name
from statewright.schema.node import DeclaredField

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

SEARCH_FAILURES: Final[Outcomes] = {
    Defect.UNSUPPORTED: BadRequest,
    Defect.OPERATOR: BadRequest,
    Defect.ARITY: BadRequest,
    Defect.OBJECT_OPERAND: InvalidCondition,
    Defect.PATTERN: InvalidCondition,
    Defect.PATH: InvalidFieldPath,
    Defect.META_FIELD: InvalidFieldPath,
    Defect.OPERAND_TYPE: ConditionTypeMismatch,
}
"""Search and conditional delete (docs/reference/conditions.md#where-conditions-are-used)."""

STATISTICS_FAILURES: Final[Outcomes] = {
    **SEARCH_FAILURES,
    Defect.UNSUPPORTED: InvalidCondition,
    Defect.OPERATOR: InvalidCondition,
    Defect.ARITY: InvalidCondition,
}
"""Grouped statistics (docs/reference/conditions.md#where-conditions-are-used)."""

MAX_GUESSED: Final = 200
"""Fields of a model among which the one that was meant is looked for."""

MAX_GUESSED_CHARS: Final = 64
"""Characters of a path that is guessed."""

_PRESENCE_ONLY: Final = "only IS_NULL and NOT_NULL apply to it"


def check(condition: Condition, declared: Mapping[str, DeclaredField]) -> None:
    """Everything that search and conditional delete refuse, form first. Raises those of :data:`SEARCH_FAILURES`."""
    check_form(condition)
    check_against(condition, declared)


def check_form(condition: Condition) -> None:
    """What can be told without the model (docs/reference/search.md#order-of-checks step 6). Raises the failures of
    :data:`SEARCH_FAILURES`.
    """
    _refuse_first(find_form_defects(condition), SEARCH_FAILURES)


def check_against(condition: Condition, declared: Mapping[str, DeclaredField]) -> None:
    """What needs the model (docs/reference/search.md#order-of-checks steps 8-10). Raises the failures of
    :data:`SEARCH_FAILURES`.
    """
    unknown = find_unknown_paths(condition, declared)
    if unknown:
        guess = _guess_path(unknown[0], declared) if len(unknown) == 1 else ""
        raise InvalidFieldPath(f"condition references unknown field path(s): {', '.join(unknown)}{guess}")
    for finding in find_pattern_defects(condition):
        raise InvalidCondition(f"invalid regex pattern in condition: {finding.message}")
    _refuse_first(_find_schema_defects(condition, declared), SEARCH_FAILURES)


def check_statistics(condition: Condition) -> None:
    """What grouped statistics refuse: data paths and their operands are not looked at
    (docs/reference/entities.md#conditions-of-grouped-statistics).
    """
    for findings in (find_form_defects, find_pattern_defects, find_meta_defects):
        _refuse_first(findings(condition), STATISTICS_FAILURES)


def check_destructive(condition: Condition) -> None:
    """What requests that destroy refuse beside everything else: a part without a path, which says nothing of the
    document, and with ``IS_NULL`` is true of every entity (decision S16). Raises ``InvalidCondition``.
    """
    for part in walk_parts(condition):
        if isinstance(part, Simple | Array) and not part.path:
            raise InvalidCondition("a condition of a deletion needs a jsonPath in every part")


def find_unknown_paths(condition: Condition, declared: Mapping[str, DeclaredField]) -> tuple[str, ...]:
    """The paths, as written, that the schema does not have, each once; an empty path is not reported."""
    paths = {
        part.path: None for part in walk_parts(condition) if isinstance(part, Simple | Array) and part.path.strip()
    }
    return tuple(path for path in paths if not _is_known(path, declared))


def _guess_path(unknown: str, declared: Mapping[str, DeclaredField]) -> str:
    """The declared path that was probably meant; only where looking for it takes no time."""
    if len(declared) > MAX_GUESSED or len(unknown) > MAX_GUESSED_CHARS:
        return ""
    wanted = unknown.removeprefix("$.")
    names = [path.removeprefix("$.") for path in declared if len(path) <= MAX_GUESSED_CHARS]
    nearest = get_close_matches(wanted, names, n=1)
    return f"; did you mean $.{nearest[0]}?" if nearest and nearest[0] != wanted else ""  # not all names make a path


def walk_parts(condition: Condition) -> Iterator[Condition]:
    """The condition and all below it, depth first in document order."""
    yield condition
    if isinstance(condition, Group):
        for child in condition.conditions:
            yield from walk_parts(child)


def walk_leaves(condition: Condition) -> Iterator[Leaf]:
    """The comparisons of the condition, in document order."""
    for part in walk_parts(condition):
        if isinstance(part, Simple | Lifecycle):
            yield part


def find_form_defects(condition: Condition) -> Iterator[Finding]:
    """Operators that do not exist and operands that no operator of the kind can take."""
    for part in walk_parts(condition):
        match part:
            case Group(operator=operator) if operator not in ("AND", "OR"):
                yield Finding(Defect.UNSUPPORTED, f'unknown group operator "{operator}"; valid: AND, OR')
            case Function():
                yield Finding(Defect.UNSUPPORTED, 'condition type "function" is supported only as a whole criterion')
            case Array(values=values) if any(isinstance(value, dict) for value in values):
                yield _build_object_finding(part)
            case Simple() | Lifecycle():
                yield from _check_leaf_form(part)
            case _:
                pass


def find_pattern_defects(condition: Condition) -> Iterator[Finding]:
    """Regular expressions and globs that do not compile."""
    for leaf in walk_leaves(condition):
        if leaf.operator == TextOperator.MATCHES_PATTERN:
            pattern = format_operand(leaf.value)
            if defect := find_pattern_defect(pattern):
                yield Finding(Defect.PATTERN, f'invalid MATCHES_PATTERN regex "{pattern}": {defect}')
        elif leaf.operator == TextOperator.LIKE and (defect := find_like_defect(format_operand(leaf.value))):
            yield Finding(Defect.PATTERN, f"invalid LIKE pattern: {defect}")


def find_meta_defects(condition: Condition) -> Iterator[Finding]:
    """Metadata fields that do not exist, and operands of instants that are none."""
    for leaf in walk_leaves(condition):
        if isinstance(leaf, Lifecycle):
            yield from _check_meta_leaf(leaf)


def _refuse_first(findings: Iterable[Finding], outcomes: Outcomes) -> None:
    for finding in findings:
        raise outcomes[finding.defect](finding.message)


def _check_leaf_form(leaf: Leaf) -> Iterator[Finding]:
    if leaf.operator not in OPERATORS:
        problem = f'unknown operatorType "{leaf.operator}"' if leaf.operator else "missing operatorType"
        yield Finding(Defect.OPERATOR, f"{problem}; valid: {', '.join(OPERATORS)}")
    elif isinstance(leaf.value, dict):
        yield _build_object_finding(leaf)
    elif leaf.operator in RANGES and not (isinstance(leaf.value, list) and len(leaf.value) == 2):
        yield Finding(Defect.ARITY, f"operator {leaf.operator} requires exactly two operands in an array")


def _build_object_finding(part: Simple | Lifecycle | Array) -> Finding:
    place = part.field if isinstance(part, Lifecycle) else part.path
    return Finding(Defect.OBJECT_OPERAND, f'condition value is an object, which equals nothing: "{place}"')


def _is_known(text: str, declared: Mapping[str, DeclaredField]) -> bool:
    path = parse_path(text)
    return path is not None and is_known(path, declared)


def _find_schema_defects(condition: Condition, declared: Mapping[str, DeclaredField]) -> Iterator[Finding]:
    for leaf in walk_leaves(condition):
        if isinstance(leaf, Lifecycle):
            yield from _check_meta_leaf(leaf)
        elif path := parse_path(leaf.path):
            yield from _check_data_leaf(leaf, path, declared)


def _check_data_leaf(leaf: Simple, path: Path, declared: Mapping[str, DeclaredField]) -> Iterator[Finding]:
    if leaf.operator in PRESENCE:
        return
    if not is_field(path, declared):
        yield Finding(Defect.PATH, f"field path {leaf.path} is an object or array: {_PRESENCE_ONLY}")
        return
    types = types_at(path, declared)
    for operand in _find_mismatches(leaf, types) if types else ():
        text = format_operand(operand)
        names = ", ".join(declared_type for declared_type in DataType if declared_type in types)
        yield Finding(Defect.OPERAND_TYPE, f'operand "{text}" of {leaf.path} fits none of its declared types [{names}]')


def _check_meta_leaf(leaf: Lifecycle) -> Iterator[Finding]:
    field = META_FIELDS.get(leaf.field)
    if field is None:
        guess = guess_name(leaf.field, META_FIELDS)
        yield Finding(Defect.META_FIELD, f'unknown meta filter field "{leaf.field}": invalid field path{guess}')
        return
    for index, operand in enumerate(_list_operands(leaf)):
        if not _fits(operand, field.types):  # every operand fits a text
            text = format_operand(operand)
            message = f'operand[{index}] {text} parses into no temporal type for field "{leaf.field}"'
            yield Finding(Defect.OPERAND_TYPE, f"{message}: condition type mismatch")


def _find_mismatches(leaf: Leaf, types: Set[DataType]) -> Iterator[JsonValue]:
    return (operand for operand in _list_operands(leaf) if not _fits(operand, types))


def _list_operands(leaf: Leaf) -> list[JsonValue]:
    """The operands that the types of the field have a say in; those of text and presence operators are free."""
    if leaf.operator in COMPARISONS or leaf.operator in RANGES:
        return leaf.value if isinstance(leaf.value, list) else [leaf.value]
    return []


def _fits(operand: JsonValue, types: Set[DataType]) -> bool:
    return operand is None or accepts(types, format_operand(operand))


# What a workflow import says of a criterion (docs/reference/workflows.md#checks-of-criteria, decision W11): what can
# never be evaluated, whatever the data, and apart from that what matches nothing of the present model, which a
# processor or a later document may still change.


def find_criterion_defects(condition: Condition) -> Iterator[str]:
    """What makes the criterion fail whenever it is evaluated. A function is a criterion of its own and has none."""
    if not isinstance(condition, Function):
        yield from (finding.message for finding in _find_defects(_split_bounds(condition)))


class KnownFields:
    """The declared fields of a model with all objects and arrays above them, so that any path is found at once."""

    def __init__(self, declared: Mapping[str, DeclaredField]) -> None:
        self.declared = declared
        self._containers = {name[: found.start()] for name in declared for found in _BOUNDARY.finditer(name)}

    def has(self, text: str) -> bool:
        """Whether the path, as written, leads to a field or to something above one."""
        path = parse_path(text)
        return path is not None and (path.declared_as in self.declared or path.declared_as in self._containers)


_BOUNDARY: Final = re.compile(r"\.|\[\*\]")


CriterionDoubt: TypeAlias = Literal["INVALID_CRITERION", "PATH_NOT_IN_MODEL", "TYPE_MISMATCH", "FUNCTION_WITHOUT_TAGS"]
"""What may be the matter with a criterion that can be imported."""


def find_criterion_doubts(condition: Condition, fields: KnownFields) -> Iterator[tuple[CriterionDoubt, str]]:
    """Why the criterion, which can be evaluated, matches nothing of the model as it is now: fields that the model does
    not have, or not with such values; functions that no member knows, or that any may be asked for.
    """
    if isinstance(condition, Function):
        if not condition.name:
            message = "the function has no name, which is in function.name: no member knows it"
            yield "INVALID_CRITERION", message
        elif not condition.tags:
            message = f'function "{condition.name}" has no calculationNodesTags: any member of the tenant may be asked'
            yield "FUNCTION_WITHOUT_TAGS", message
        return
    for part in walk_parts(_split_bounds(condition)):
        if isinstance(part, Simple) and not part.path.strip() and part.operator != "IS_NULL":
            yield "PATH_NOT_IN_MODEL", "a simple condition has no jsonPath: it matches nothing"
        elif isinstance(part, Simple | Array) and part.path.strip() and not fields.has(part.path):
            yield "PATH_NOT_IN_MODEL", f'the model has no field "{part.path}"'
        elif isinstance(part, Simple) and (path := parse_path(part.path)):
            for finding in _check_data_leaf(part, path, fields.declared):
                yield "TYPE_MISMATCH", finding.message


def _find_defects(condition: Condition) -> Iterator[Finding]:
    for findings in (find_form_defects, _find_path_defects, find_pattern_defects, find_meta_defects):
        yield from findings(condition)


def _find_path_defects(condition: Condition) -> Iterator[Finding]:
    for part in walk_parts(condition):
        if isinstance(part, Simple | Array) and part.path.strip() and parse_path(part.path) is None:
            yield Finding(Defect.PATH, f'unsupported field path "{part.path}": invalid field path')


def _split_bounds(condition: Condition) -> Condition:
    """The same with ranges written ``"low,high"`` as ``["low", "high"]``: only criteria may have them as a text."""
    if isinstance(condition, Group):
        return replace(condition, conditions=tuple(map(_split_bounds, condition.conditions)))
    if isinstance(condition, Simple | Lifecycle) and condition.operator in RANGES and isinstance(condition.value, str):
        return replace(condition, value=split_range(condition.value) or condition.value)
    return condition
