"""Conditions as SQL over the rows of entities, current or past (docs/adr/0007-search-in-sql.md#decision).

SQL only narrows: it selects every entity for which the plan holds, and the predicate compiled from the same plan has
the last word. When each part has an exact form, the selection is the result and nothing needs to be judged again.
A part without an exact form contributes the tightest term that is implied by it. Because a plan holds no negation,
AND and OR of such terms are implied by the whole.

Alternatives that ask one place for one of many values become a set (below).

Columns used: ``document``, ``id``, ``state``, ``transition``, ``transaction_id``, ``created_at``, ``valid_from``.

Alternatives that ask one place for one of many values, put together to a set.

Clients have no IN operator, so they write long ORs. PostgreSQL compares with all values of an array at once, and looks
each of them up where there is an index; an OR of thousands would take longer to plan than to run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct

from statewright.conditions.paths import EACH, Path, Step, has_wildcard, split_at_wildcards
from statewright.conditions.plan import (
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    Branch,
    Branches,
    FieldPresence,
    FieldTest,
    Leaf,
    Matching,
    MetaTest,
    Numbers,
    Plan,
    Texts,
    Unanswerable,
)
from statewright.conditions.sql_terms import (
    ANYTHING,
    DOCUMENT,
    FALSE,
    HEAD_CHARS,
    TRUE,
    Argument,
    Parameters,
    SqlValue,
    Term,
    Unsendable,
    column,
    element,
    is_sendable,
    join_all,
    join_any,
    resolve_place,
)
from statewright.conditions.sql_values import compile_instant_term, compile_string_term, compile_value_term, is_moderate
from statewright.conditions.syntax import MetaField, Order
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue


class OneOf(Struct, frozen=True):
    """The value at the place is one of these texts or numbers."""

    place: Path | MetaField
    texts: tuple[str, ...]
    numbers: tuple[Decimal, ...]


def collect_alternatives(parts: Sequence[Plan]) -> tuple[list[OneOf], list[Plan]]:
    """The alternatives, those put together that only differ in the value they equal, and the others."""
    sets: dict[Path | MetaField, list[FieldTest | MetaTest]] = {}
    others: list[Plan] = []
    for part in parts:
        place = _find_place(part)
        if place is not None and isinstance(part, FieldTest | MetaTest) and all(map(_is_equality, part.branches)):
            sets.setdefault(place, []).append(part)
        else:
            others.append(part)
    several = {place: leaves for place, leaves in sets.items() if len(leaves) > 1}
    others += [leaves[0] for leaves in sets.values() if len(leaves) == 1]
    return [_build_one_of(place, (leaf.branches for leaf in leaves)) for place, leaves in several.items()], others


def _find_place(part: Plan) -> Path | MetaField | None:
    match part:
        case FieldTest(path=path) if not has_wildcard(path) and all(map(_is_sendable_step, path.steps)):
            return path
        case MetaTest(field=field) if not field.is_time:
            return field
        case _:
            return None


def _is_sendable_step(step: object) -> bool:
    return not isinstance(step, str) or is_sendable(step)


def _is_equality(branch: Branch) -> bool:
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return is_sendable(text)
        case Numbers(comparisons=((Order.EQUALS, number),)):
            return is_moderate(number)
        case _:
            return False


def _build_one_of(place: Path | MetaField, leaves: Iterable[Branches]) -> OneOf:
    texts: dict[str, None] = {}
    numbers: dict[Decimal, None] = {}
    for branches in leaves:
        for branch in branches:
            match branch:
                case Texts(comparisons=((_, text),)):
                    texts[text] = None
                case Numbers(comparisons=((_, number),)):
                    numbers[Decimal(number)] = None
                case _:
                    pass
    return OneOf(place, tuple(texts), tuple(numbers))


COLUMNS: Final[Mapping[MetaField, str]] = {
    MetaField.ID: "id",
    MetaField.STATE: "state",
    MetaField.CREATION_DATE: "created_at",
    MetaField.LAST_UPDATE_TIME: "valid_from",
    MetaField.TRANSITION: "transition",
    MetaField.TRANSACTION_ID: "transaction_id",
}

_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class SqlFilter(Struct, frozen=True):
    """A boolean expression that every matching entity satisfies, and its arguments, numbered from ``first``.

    ``residual`` are the parts of the plan that it only approximates. Without any, it is the condition itself.
    """

    text: str
    args: tuple[Argument, ...]
    residual: tuple[Leaf, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether only matching entities satisfy it."""
        return not self.residual


def compile_sql(plan: Plan, *, first: int = 1, names: Mapping[str, str] = MappingProxyType({})) -> SqlFilter:
    """The plan as SQL whose parameters begin at ``$first``; ``names`` says what stands for a member name instead of a
    parameter. Never raises.
    """
    parameters = Parameters(first, names)
    residual: list[Leaf] = []
    term = _compile_term(plan, parameters, residual)
    return SqlFilter(term.text, parameters.values, tuple(residual))


def _compile_term(plan: Plan, parameters: Parameters, residual: list[Leaf]) -> Term:
    match plan:
        case AllOf(parts=parts):
            return join_all([_compile_term(part, parameters, residual) for part in parts])
        case AnyOf(parts=parts):
            sets, others = collect_alternatives(parts)
            terms = [_compile_one_of(one, parameters) for one in sets]
            return join_any([*terms, *(_compile_term(part, parameters, residual) for part in others)])
        case _:
            term = _compile_leaf(plan, parameters)
            if not term.is_exact:
                residual.append(plan)
            return term


def _compile_one_of(one: OneOf, parameters: Parameters) -> Term:
    if isinstance(one.place, MetaField):
        return _compile_column_set(one.place, one.texts, parameters)
    place = resolve_place(DOCUMENT, one.place.steps, parameters)
    terms: list[Term] = []
    short = tuple(text for text in one.texts if len(text) < HEAD_CHARS)
    long = tuple(text for text in one.texts if len(text) >= HEAD_CHARS)
    if short:
        terms.append(Term(f"{place.string.head} = ANY ({parameters.bind(short, 'text[]')})"))
    if long:
        terms.append(Term(f"{place.string.whole} = ANY ({parameters.bind(long, 'text[]')})"))
    if one.numbers:
        terms.append(Term(f"{place.number} = ANY ({parameters.bind(one.numbers, 'numeric[]')})"))
    return join_any(terms)


def _compile_column_set(field: MetaField, texts: tuple[str, ...], parameters: Parameters) -> Term:
    name = COLUMNS[field]
    if field not in (MetaField.ID, MetaField.TRANSACTION_ID):
        return Term(f"{column(name).whole} = ANY ({parameters.bind(texts, 'text[]')})")
    ids = tuple(text for text in texts if _UUID.fullmatch(text))
    return Term(f"{name} = ANY ({parameters.bind(ids, 'uuid[]')})") if ids else FALSE


def _compile_leaf(leaf: Leaf, parameters: Parameters) -> Term:
    """The leaf's own form, or nothing at all where it has a value that cannot be sent."""
    count = parameters.count
    try:
        return _compile_sendable_leaf(leaf, parameters)
    except Unsendable:
        parameters.truncate(count)
        return ANYTHING


def _compile_sendable_leaf(leaf: Leaf, parameters: Parameters) -> Term:
    match leaf:
        case FieldTest():
            return _compile_field(leaf, parameters)
        case FieldPresence():
            return _compile_presence(leaf, parameters)
        case ArrayTest():
            return _compile_array(leaf, parameters)
        case MetaTest():
            return _compile_meta(leaf, parameters)
        case Unanswerable():
            return ANYTHING
        case _:
            assert_never(leaf)


def _compile_field(leaf: FieldTest, parameters: Parameters) -> Term:
    if not has_wildcard(leaf.path):
        return compile_value_term(leaf.branches, resolve_place(DOCUMENT, leaf.path.steps, parameters), parameters)
    # Containment is any-element equality, by value and by kind, at less than half the cost of expanding the array.
    contained = [_compile_containment(branch, leaf.path, parameters) for branch in leaf.branches]
    terms = [term for term in contained if term is not None]
    rest = tuple(branch for branch, term in zip(leaf.branches, contained, strict=True) if term is None)
    return join_any([*terms, _compile_any_element(leaf.path, rest, parameters)] if rest else terms)


def _compile_any_element(path: Path, branches: Branches, parameters: Parameters) -> Term:
    expansion, place = _expand_path(path, parameters)
    term = compile_value_term(branches, place, parameters)
    return Term(f"EXISTS (SELECT FROM {expansion} WHERE {term.text})", is_exact=term.is_exact)


def _compile_containment(branch: Branch, path: Path, parameters: Parameters) -> Term | None:
    value = _get_equal_value(branch)
    if value is None or any(isinstance(step, int) for step in path.steps):
        return None
    if not all(is_sendable(text) for text in (value, *path.steps) if isinstance(text, str)):
        raise Unsendable("as JSON it would get past the parameters")
    document = encode(_nest_value(path.steps, value)).decode()
    return Term(f"document @> {parameters.bind(document, 'jsonb')}")


def _get_equal_value(branch: Branch) -> JsonValue:
    """The one value that satisfies the branch; None when there are many, or none that can be sent."""
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return text
        case Numbers(comparisons=((Order.EQUALS, number),)):
            return number if is_moderate(number) else None
        case Booleans(expected=expected):
            return expected
        case _:
            return None


def _nest_value(steps: Sequence[Step], value: JsonValue) -> JsonValue:
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def _compile_presence(leaf: FieldPresence, parameters: Parameters) -> Term:
    if leaf.path is None:
        return TRUE if leaf.is_null else FALSE
    if not has_wildcard(leaf.path):
        text = resolve_place(DOCUMENT, leaf.path.steps, parameters).text
        return Term(f"{text} IS NULL" if leaf.is_null else f"{text} IS NOT NULL")
    expansion, place = _expand_path(leaf.path, parameters)
    operator = "=" if leaf.is_null else "<>"
    some = Term(f"EXISTS (SELECT FROM {expansion} WHERE jsonb_typeof({place.json}) {operator} 'null')")
    if not leaf.is_null:
        return some
    first = resolve_place(DOCUMENT, leaf.path.steps[: leaf.path.steps.index(EACH)], parameters)
    return join_any([Term(f"({first.is_array}) IS NOT TRUE"), some])


def _compile_array(leaf: ArrayTest, parameters: Parameters) -> Term:
    if not has_wildcard(leaf.path):
        return _compile_positions(leaf, resolve_place(DOCUMENT, leaf.path.steps, parameters), parameters)
    expansion, place = _expand_path(leaf.path, parameters)
    term = _compile_positions(leaf, place, parameters)
    return Term(f"EXISTS (SELECT FROM {expansion} WHERE {term.text})", is_exact=term.is_exact)


def _compile_positions(leaf: ArrayTest, array: SqlValue, parameters: Parameters) -> Term:
    return join_all(
        [
            compile_value_term(branches, resolve_place(array, (index,), parameters), parameters)
            for index, branches in leaf.positions
        ]
    )


def _expand_path(path: Path, parameters: Parameters) -> tuple[str, SqlValue]:
    """A FROM list with a row per value at the path, and that value. What is no array expands to nothing."""
    before, *pieces = split_at_wildcards(path.steps)
    array = resolve_place(DOCUMENT, before, parameters)
    items: list[str] = []
    for number, piece in enumerate(pieces, start=1):
        item = f"e{number}.item"
        items.append(f"jsonb_array_elements(CASE WHEN {array.is_array} THEN {array.json} END) AS e{number} (item)")
        array = resolve_place(element(item), piece, parameters)
    return ", ".join(items), array


def _compile_meta(leaf: MetaTest, parameters: Parameters) -> Term:
    name = COLUMNS[leaf.field]
    if leaf.field.is_time:
        return compile_instant_term(leaf.branches, name, parameters)
    if leaf.field in (MetaField.ID, MetaField.TRANSACTION_ID):
        return join_any([_compile_uuid_column(branch, name, parameters) for branch in leaf.branches])
    return compile_string_term(leaf.branches, column(name), parameters)


def _compile_uuid_column(branch: Branch, name: str, parameters: Parameters) -> Term:
    """Equality as an index knows it: a text that is no canonical UUID equals none."""
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return Term(f"{name} = {parameters.bind(text, 'uuid')}") if _UUID.fullmatch(text) else FALSE
        case Texts() | Matching():
            return compile_string_term((branch,), column(f"{name}::text"), parameters)
        case _:
            return FALSE
