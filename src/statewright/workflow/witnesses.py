"""Documents that criteria take, made from the criteria themselves (docs/reference/operations.md#checking-workflows).

A document is only a guess until the predicates of both criteria have said yes to it, so what is found is certain;
what is not found may be there all the same. That a criterion is never true is said only where its parts contradict
each other.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice, product
from typing import Final, TypeAlias

from statewright.conditions import (
    Condition,
    EvaluationError,
    Function,
    Group,
    Predicate,
    Simple,
    Visits,
    compile_predicate,
)
from statewright.conditions.paths import Path, has_wildcard, parse_path, types_at
from statewright.conditions.planning import split_range
from statewright.conditions.syntax import PRESENCE, RANGES
from statewright.entity import EntityMeta
from statewright.jsonval.numbers import NUMERIC_TYPES, Number
from statewright.jsonval.values import DataType, JsonObject, JsonValue, is_number
from statewright.schema import DeclaredField

MAX_GUESSES: Final = 64
"""Documents that are tried for a pair of criteria."""

MAX_BRANCHES: Final = 8
"""Ways of one condition to be true that are looked at."""

Assignment: TypeAlias = dict[str, JsonValue]
"""Values by the path, as written, at which they are to be."""

Declared: TypeAlias = Mapping[str, DeclaredField]

_NEW: Final = EntityMeta(id="", state="", creation_date=0, last_update_time=0, transition="", transaction_id="")
"""The metadata of the documents: criteria that look at it find nothing there."""

_MAX_INDEX: Final = 100


def find_common_witness(one: Condition, other: Condition, declared: Declared) -> "JsonObject | None":
    """A document that both conditions take; None when none was found. Members are not asked."""
    if isinstance(one, Function) or isinstance(other, Function):
        return None
    predicates = (compile_predicate(one, declared), compile_predicate(other, declared))
    ways = product(_satisfy(one, declared), _satisfy(other, declared))
    guesses = (guess for first, second in ways for guess in ({**first, **second}, {**second, **first}))
    for guess in islice(guesses, MAX_GUESSES):
        document = _build_document(guess)
        if document is not None and all(_holds(predicate, document) for predicate in predicates):
            return document
    return None


def _holds(predicate: Predicate, document: JsonObject) -> bool:
    try:
        return predicate(document, _NEW, Visits())
    except EvaluationError:
        return False


def _satisfy(condition: Condition, declared: Declared) -> list[Assignment]:
    """Ways in which the condition may become true, each a guess."""
    match condition:
        case Simple():
            return [{condition.path: value} for value in _guess_values(condition, declared)]
        case Group(operator="OR", conditions=children):
            found = [way for child in children for way in _satisfy(child, declared)]
            return found[:MAX_BRANCHES]
        case Group(conditions=children):
            ways: list[Assignment] = [{}]
            for child in children:
                ways = [{**way, **more} for way in ways for more in _satisfy(child, declared)][:MAX_BRANCHES]
            return ways
        case _:
            return [{}]


def _guess_values(leaf: Simple, declared: Declared) -> list[JsonValue]:
    """Values of the field for which the leaf may hold."""
    path = parse_path(leaf.path)
    types = types_at(path, declared) if path is not None else frozenset()
    value = leaf.value
    bounds = split_range(value) if leaf.operator in RANGES else None
    match leaf.operator:
        case "IS_NULL":
            return [None]
        case "NOT_NULL":
            return [_make_value(types)]
        case "NOT_EQUAL" | "INOT_EQUAL":
            return [_shift(value, 1), "other"]
        case "GREATER_THAN":
            return [_shift(value, 1)]
        case "LESS_THAN":
            return [_shift(value, -1)]
        case "BETWEEN" if bounds is not None:
            return [_find_middle(bounds[0], bounds[1])]
        case "BETWEEN_INCLUSIVE" if bounds is not None:
            return [_to_number(bounds[0])]
        case operator if operator.startswith(("NOT_", "INOT_")):
            return ["-"]
        case "LIKE":
            return [str(value).replace("%", "").replace("_", "a")]
        case "MATCHES_PATTERN":
            return [str(value).strip("^$")]
        case _:
            return [value, _to_number(value), str(value)]


def _make_value(types: frozenset[DataType]) -> JsonValue:
    return 1 if types & NUMERIC_TYPES else DataType.BOOLEAN in types or "x"


def _shift(value: JsonValue, by: int) -> JsonValue:
    number = _to_number(value)
    if isinstance(number, int | Decimal) and not isinstance(number, bool):
        return number + by
    return f"{value}z" if by > 0 else ""


def _find_middle(low: JsonValue, high: JsonValue) -> JsonValue:
    one, other = _to_number(low), _to_number(high)
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal):
        return (Decimal(one) + Decimal(other)) / 2
    return f"{low}a"


def _to_number(value: JsonValue) -> JsonValue:
    """The number that a text spells, since operands may be texts; else the value as it is."""
    if not isinstance(value, str) or not value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
        return value
    number = Decimal(value.strip())
    return int(number) if number == number.to_integral_value() else number


def _build_document(values: Assignment) -> "JsonObject | None":
    """The document with these values; None where they do not fit into one."""
    document: JsonObject = {}
    for text, value in values.items():
        path = parse_path(text)
        if path is None or not path.steps or not _put(document, path, value):
            return None
    return document


def _put(document: JsonObject, path: Path, value: JsonValue) -> bool:
    """Put a value at a path, making what is above it; whether there was place for it."""
    here: JsonValue = document
    for step, following in zip(path.steps, (*path.steps[1:], None), strict=True):
        inner: JsonValue = value if following is None else {} if isinstance(following, str) else []
        if isinstance(step, str) and isinstance(here, dict):
            if following is None or step not in here:
                here[step] = inner
            here = here[step]
        elif not isinstance(step, str) and isinstance(here, list):
            index = step if isinstance(step, int) else 0
            if not 0 <= index <= _MAX_INDEX:
                return False
            here = _put_item(here, index, inner, is_last=following is None)
        else:
            return False
    return True


def _put_item(items: "list[JsonValue]", index: int, value: JsonValue, *, is_last: bool) -> JsonValue:
    """What is at an index from now on: the value, unless something is there that the path only leads through."""
    items.extend([None] * (index + 1 - len(items)))
    if is_last or items[index] is None:
        items[index] = value
    return items[index]


# What can be told without a document.


def is_never_true(condition: Condition, declared: Declared) -> str | None:
    """Why no document can fulfil the condition; None when one may. What is said holds for fields of declared types."""
    leaves = [leaf for leaf in _list_demands(condition) if not _has_choice(leaf)]
    by_path: dict[str, list[Simple]] = {}
    for leaf in leaves:
        by_path.setdefault(leaf.path, []).append(leaf)
    for path, demands in by_path.items():
        parsed = parse_path(path)
        types = types_at(parsed, declared) if parsed is not None else frozenset()
        if _contradict(demands, types):
            return f"its demands on {path} contradict each other"
    return None


def _list_demands(condition: Condition) -> Iterator[Simple]:
    """The leaves that all have to hold."""
    if isinstance(condition, Simple):
        yield condition
    elif isinstance(condition, Group) and condition.operator == "AND":
        for child in condition.conditions:
            yield from _list_demands(child)


def _has_choice(leaf: Simple) -> bool:
    """Whether several values are looked at, any of which may do."""
    path = parse_path(leaf.path)
    return path is None or has_wildcard(path)


def _contradict(demands: list[Simple], types: frozenset[DataType]) -> bool:
    operators = {leaf.operator for leaf in demands}
    if "IS_NULL" in operators and ("NOT_NULL" in operators or any(_demands_value(leaf) for leaf in demands)):
        return True
    if types and types <= NUMERIC_TYPES | {DataType.NULL}:
        return _is_empty_interval(demands)
    if types and types <= {DataType.STRING, DataType.NULL}:
        return len({leaf.value for leaf in demands if leaf.operator == "EQUALS" and isinstance(leaf.value, str)}) > 1
    return False


def _demands_value(leaf: Simple) -> bool:
    return leaf.operator not in PRESENCE and leaf.value is not None and not leaf.operator.startswith(("NOT_", "INOT_"))


def _is_empty_interval(demands: list[Simple]) -> bool:
    lows: list[tuple[Number, bool]] = []
    highs: list[tuple[Number, bool]] = []
    for leaf in demands:
        bounds = split_range(leaf.value) if leaf.operator in RANGES else None
        low, high = (bounds[0], bounds[1]) if bounds is not None else (leaf.value, leaf.value)
        excludes = leaf.operator in {"GREATER_THAN", "LESS_THAN", "BETWEEN"}
        one, other = _to_number(low), _to_number(high)
        if leaf.operator in {"EQUALS", "GREATER_THAN", "GREATER_OR_EQUAL", *RANGES} and is_number(one):
            lows.append((one, excludes))
        if leaf.operator in {"EQUALS", "LESS_THAN", "LESS_OR_EQUAL", *RANGES} and is_number(other):
            highs.append((other, excludes))
    return any(low > high or (low == high and (open_ or closed)) for low, open_ in lows for high, closed in highs)
