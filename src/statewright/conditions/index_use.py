"""What declared indexes are to a search: whether its plan may be kept whatever its operands are (docs/adr/0013)."""

from collections.abc import Set
from enum import Enum, auto
from typing import Literal, TypeAlias

from statewright.conditions.paths import Path
from statewright.conditions.plan import AllOf, Branch, FieldTest, Matching, Numbers, Plan, Texts
from statewright.conditions.sql_terms import HEAD_CHARS, is_sendable
from statewright.conditions.sql_texts import find_successor
from statewright.conditions.sql_values import is_moderate
from statewright.conditions.vocabulary import Order, TextOperator

FieldKind = Literal["TEXT", "NUMBER"]
IndexedField: TypeAlias = tuple[Path, FieldKind]


class IndexUse(Enum):
    """How an index answers a search."""

    VALUE = auto()
    """Every match has a certain value in one of the fields."""
    RUN = auto()
    """The matches are one run of the entries of an index: it reads nothing but matches."""


def find_index_use(plan: Plan, fields: Set[IndexedField]) -> IndexUse | None:
    """How indexes on the fields answer the plan; None when another plan could be better for other operands."""
    parts = plan.parts if isinstance(plan, AllOf) else (plan,)
    tests = [part for part in parts if isinstance(part, FieldTest) and len(part.branches) == 1]
    if any(_is_value(test.path, test.branches[0], fields) for test in tests):
        return IndexUse.VALUE
    return IndexUse.RUN if tests and len(tests) == len(parts) and _is_run(tests, fields) else None


def _is_value(path: Path, branch: Branch, fields: Set[IndexedField]) -> bool:
    match branch:
        case Texts(comparisons=((Order.EQUALS, text),)):
            return _is_indexable(text) and (path, "TEXT") in fields
        case Numbers(comparisons=((Order.EQUALS, number),)):
            return is_moderate(number) and (path, "NUMBER") in fields
        case _:
            return False


def _is_run(tests: list[FieldTest], fields: Set[IndexedField]) -> bool:
    path = tests[0].path
    if any(test.path != path for test in tests):
        return False
    branches = [test.branches[0] for test in tests]
    if (path, "TEXT") in fields and all(map(_is_run_of_texts, branches)):
        return True
    return (path, "NUMBER") in fields and all(map(_is_run_of_numbers, branches))


def _is_run_of_texts(branch: Branch) -> bool:
    match branch:
        case Texts(comparisons=comparisons):
            return all(order is not Order.NOT_EQUAL and _is_indexable(text) for order, text in comparisons)
        case Matching(operator=TextOperator.STARTS_WITH, operand=text):
            return bool(text) and _is_indexable(text) and bool(find_successor(text))
        case _:
            return False


def _is_run_of_numbers(branch: Branch) -> bool:
    return isinstance(branch, Numbers) and all(
        order is not Order.NOT_EQUAL and is_moderate(number) for order, number in branch.comparisons
    )


def _is_indexable(text: str) -> bool:
    return len(text) < HEAD_CHARS and is_sendable(text)
