"""Conditions as SQL over the rows of entities, current or past (spec/search.md §18).

SQL only narrows: it selects every entity for which the plan holds, and the predicate compiled from the same plan has
the last word. When each part has an exact form, the selection is the result and nothing needs to be judged again.
A part without an exact form contributes the tightest term that is implied by it. Because a plan holds no negation,
AND and OR of such terms are implied by the whole.

Columns used: ``document``, ``id``, ``state``, ``transition``, ``transaction_id``, ``created_at``, ``valid_from``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct

from statewright.conditions.lookup import has_wildcard
from statewright.conditions.metafields import MetaField
from statewright.conditions.operators import Order
from statewright.conditions.paths import EACH, Path, Step, Wildcard
from statewright.conditions.plan import (
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    Branch,
    Branches,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Numbers,
    Plan,
    Texts,
    Unanswerable,
)
from statewright.conditions.sql_sets import OneOf, gathered
from statewright.conditions.sql_terms import (
    ANYTHING,
    DOCUMENT,
    FALSE,
    HEAD,
    TRUE,
    Argument,
    Parameters,
    Place,
    Term,
    Unsendable,
    all_of,
    any_of,
    column,
    element,
    is_sendable,
    place_of,
)
from statewright.conditions.sql_values import instant_term, is_moderate, string_term, value_term
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue

Leaf = FieldTest | FieldPresence | ArrayTest | MetaTest | Unanswerable

COLUMNS: Final[Mapping[MetaField, str]] = {
    MetaField.ID: "id",
    MetaField.STATE: "state",
    MetaField.CREATION_DATE: "created_at",
    MetaField.LAST_UPDATE_TIME: "valid_from",
    MetaField.TRANSITION: "transition",
    MetaField.TRANSACTION_ID: "transaction_id",
}

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Narrowing(Struct, frozen=True):
    """A boolean expression that every matching entity satisfies, and its arguments, numbered from ``first``.

    ``loose`` are the parts of the plan that it only approximates. Without any, it is the condition itself.
    """

    text: str
    args: tuple[Argument, ...]
    loose: tuple[Leaf, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether only matching entities satisfy it."""
        return not self.loose


def compile_sql(plan: Plan, *, first: int = 1, names: Mapping[str, str] = MappingProxyType({})) -> Narrowing:
    """The plan as SQL whose parameters begin at ``$first``; ``names`` says what stands for a member name instead of a
    parameter. Never raises.
    """
    parameters = Parameters(first, names)
    loose: list[Leaf] = []
    term = _term(plan, parameters, loose)
    return Narrowing(term.text, parameters.values, tuple(loose))


def _term(plan: Plan, parameters: Parameters, loose: list[Leaf]) -> Term:
    match plan:
        case AllOf(parts=parts):
            return all_of([_term(part, parameters, loose) for part in parts])
        case AnyOf(parts=parts):
            sets, others = gathered(parts)
            terms = [_one_of(one, parameters) for one in sets]
            return any_of([*terms, *(_term(part, parameters, loose) for part in others)])
        case _:
            term = _leaf(plan, parameters)
            if not term.is_exact:
                loose.append(plan)
            return term


def _one_of(one: OneOf, parameters: Parameters) -> Term:
    if isinstance(one.place, MetaField):
        return _column_in(one.place, one.texts, parameters)
    place = place_of(DOCUMENT, one.place.steps, parameters)
    terms: list[Term] = []
    short = tuple(text for text in one.texts if len(text) < HEAD)
    long = tuple(text for text in one.texts if len(text) >= HEAD)
    if short:
        terms.append(Term(f"{place.string.head} = ANY ({parameters.bind(short, 'text[]')})"))
    if long:
        terms.append(Term(f"{place.string.whole} = ANY ({parameters.bind(long, 'text[]')})"))
    if one.numbers:
        terms.append(Term(f"{place.number} = ANY ({parameters.bind(one.numbers, 'numeric[]')})"))
    return any_of(terms)


def _column_in(field: MetaField, texts: tuple[str, ...], parameters: Parameters) -> Term:
    name = COLUMNS[field]
    if field not in (MetaField.ID, MetaField.TRANSACTION_ID):
        return Term(f"{column(name).whole} = ANY ({parameters.bind(texts, 'text[]')})")
    ids = tuple(text for text in texts if _UUID.fullmatch(text))
    return Term(f"{name} = ANY ({parameters.bind(ids, 'uuid[]')})") if ids else FALSE


def _leaf(leaf: Leaf, parameters: Parameters) -> Term:
    """The leaf's own form, or nothing at all where it has a value that cannot be sent."""
    count = len(parameters.values)
    try:
        return _sendable_leaf(leaf, parameters)
    except Unsendable:
        parameters.forget_after(count)
        return ANYTHING


def _sendable_leaf(leaf: Leaf, parameters: Parameters) -> Term:
    match leaf:
        case FieldTest():
            return _field(leaf, parameters)
        case FieldPresence():
            return _presence(leaf, parameters)
        case ArrayTest():
            return _array(leaf, parameters)
        case MetaTest():
            return _meta(leaf, parameters)
        case Unanswerable():
            return ANYTHING
        case _:
            assert_never(leaf)


def _field(leaf: FieldTest, parameters: Parameters) -> Term:
    if not has_wildcard(leaf.path):
        return value_term(leaf.branches, place_of(DOCUMENT, leaf.path.steps, parameters), parameters)
    # Containment is any-element equality, by value and by kind, at less than half the cost of expanding the array.
    contained = [_containment(branch, leaf.path, parameters) for branch in leaf.branches]
    terms = [term for term in contained if term is not None]
    rest = tuple(branch for branch, term in zip(leaf.branches, contained, strict=True) if term is None)
    return any_of([*terms, _any_element(leaf.path, rest, parameters)] if rest else terms)


def _any_element(path: Path, branches: Branches, parameters: Parameters) -> Term:
    expansion, place = _expanded(path, parameters)
    term = value_term(branches, place, parameters)
    return Term(f"EXISTS (SELECT FROM {expansion} WHERE {term.text})", is_exact=term.is_exact)


def _containment(branch: Branch, path: Path, parameters: Parameters) -> Term | None:
    value = _equalled(branch)
    if value is None or any(isinstance(step, int) for step in path.steps):
        return None
    if not all(is_sendable(text) for text in (value, *path.steps) if isinstance(text, str)):
        raise Unsendable("as JSON it would get past the parameters")
    document = encode(_nested(path.steps, value)).decode()
    return Term(f"document @> {parameters.bind(document, 'jsonb')}")


def _equalled(branch: Branch) -> JsonValue:
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


def _nested(steps: Sequence[Step], value: JsonValue) -> JsonValue:
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def _presence(leaf: FieldPresence, parameters: Parameters) -> Term:
    if leaf.path is None:
        return TRUE if leaf.is_null else FALSE
    if not has_wildcard(leaf.path):
        text = place_of(DOCUMENT, leaf.path.steps, parameters).text
        return Term(f"{text} IS NULL" if leaf.is_null else f"{text} IS NOT NULL")
    expansion, place = _expanded(leaf.path, parameters)
    operator = "=" if leaf.is_null else "<>"
    some = Term(f"EXISTS (SELECT FROM {expansion} WHERE jsonb_typeof({place.json}) {operator} 'null')")
    if not leaf.is_null:
        return some
    first = place_of(DOCUMENT, leaf.path.steps[: leaf.path.steps.index(EACH)], parameters)
    return any_of([Term(f"({first.is_array}) IS NOT TRUE"), some])


def _array(leaf: ArrayTest, parameters: Parameters) -> Term:
    if not has_wildcard(leaf.path):
        return _positions(leaf, place_of(DOCUMENT, leaf.path.steps, parameters), parameters)
    expansion, place = _expanded(leaf.path, parameters)
    term = _positions(leaf, place, parameters)
    return Term(f"EXISTS (SELECT FROM {expansion} WHERE {term.text})", is_exact=term.is_exact)


def _positions(leaf: ArrayTest, array: Place, parameters: Parameters) -> Term:
    return all_of(
        [value_term(branches, place_of(array, (index,), parameters), parameters) for index, branches in leaf.positions]
    )


def _expanded(path: Path, parameters: Parameters) -> tuple[str, Place]:
    """A FROM list with a row per value at the path, and that value. What is no array expands to nothing."""
    before, *pieces = _between_wildcards(path.steps)
    array = place_of(DOCUMENT, before, parameters)
    items: list[str] = []
    for number, piece in enumerate(pieces, start=1):
        item = f"e{number}.item"
        items.append(f"jsonb_array_elements(CASE WHEN {array.is_array} THEN {array.json} END) AS e{number} (item)")
        array = place_of(element(item), piece, parameters)
    return ", ".join(items), array


def _between_wildcards(steps: Iterable[Step]) -> list[list[str | int]]:
    pieces: list[list[str | int]] = [[]]
    for step in steps:
        if isinstance(step, Wildcard):
            pieces.append([])
        else:
            pieces[-1].append(step)
    return pieces


def _meta(leaf: MetaTest, parameters: Parameters) -> Term:
    name = COLUMNS[leaf.field]
    if leaf.field.is_time:
        return instant_term(leaf.branches, name, parameters)
    if leaf.field in (MetaField.ID, MetaField.TRANSACTION_ID):
        return any_of([_uuid_column(branch, name, parameters) for branch in leaf.branches])
    return string_term(leaf.branches, column(name), parameters)


def _uuid_column(branch: Branch, name: str, parameters: Parameters) -> Term:
    """Equality as an index knows it: a text that is no canonical UUID equals none."""
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return Term(f"{name} = {parameters.bind(text, 'uuid')}") if _UUID.fullmatch(text) else FALSE
        case Texts() | Matching():
            return string_term((branch,), column(f"{name}::text"), parameters)
        case _:
            return FALSE
