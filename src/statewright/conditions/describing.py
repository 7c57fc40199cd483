"""Leaves of a plan in words, for whoever wants to know what a database could not do alone."""

from typing import assert_never

from statewright.conditions.paths import Path, Wildcard
from statewright.conditions.plan import (
    ArrayTest,
    Booleans,
    Branch,
    Characters,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Numbers,
    Temporals,
    Texts,
    Unanswerable,
    Uuids,
)

Leaf = FieldTest | FieldPresence | ArrayTest | MetaTest | Unanswerable


def described(leaf: Leaf) -> str:
    """``$.scanned: ZONED_DATE_TIME GREATER_THAN`` and the like; operands are left out."""
    match leaf:
        case FieldTest(path=path, branches=branches):
            return f"{written(path)}: {_alternatives(branches)}"
        case ArrayTest(path=path):
            return f"{written(path)}: elements by position"
        case FieldPresence(path=path, is_null=is_null):
            return f"{written(path) if path else '(no path)'}: {'IS_NULL' if is_null else 'NOT_NULL'}"
        case MetaTest(field=field, branches=branches):
            return f"@{field.value}: {_alternatives(branches)}"
        case Unanswerable(reason=reason):
            return reason
        case _:
            assert_never(leaf)


def written(path: Path) -> str:
    """The path as a condition may have it."""
    return "$" + "".join(_step(step) for step in path.steps)


def _step(step: str | int | Wildcard) -> str:
    match step:
        case str():
            return f".{step}"
        case int():
            return f"[{step}]"
        case _:
            return step.value


def _alternatives(branches: tuple[Branch, ...]) -> str:
    return " or ".join(_branch(branch) for branch in branches)


def _branch(branch: Branch) -> str:
    match branch:
        case Matching(operator=operator):
            return operator.value
        case Temporals(subtype=subtype, comparisons=comparisons):
            return f"{subtype.value} {_orders(comparisons)}"
        case Numbers(comparisons=comparisons):
            return f"number {_orders(comparisons)}"
        case Texts(comparisons=comparisons):
            return f"text {_orders(comparisons)}"
        case Characters(comparisons=comparisons):
            return f"character {_orders(comparisons)}"
        case Uuids(equal=equal):
            return "UUID EQUALS" if equal else "UUID NOT_EQUAL"
        case Booleans():
            return "boolean EQUALS"
        case _:
            assert_never(branch)


def _orders(comparisons: tuple[tuple[object, object], ...]) -> str:
    return " and ".join(str(order) for order, _ in comparisons)
