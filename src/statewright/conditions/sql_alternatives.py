"""Alternatives that ask one place for one of many values, put together to a set.

Clients have no IN operator, so they write long ORs. PostgreSQL compares with all values of an array at once, and looks
each of them up where there is an index; an OR of thousands would take longer to plan than to run.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from msgspec import Struct

from statewright.conditions.paths import Path, has_wildcard
from statewright.conditions.plan import Branch, Branches, FieldTest, MetaTest, Numbers, Plan, Texts
from statewright.conditions.sql_terms import is_sendable
from statewright.conditions.sql_values import is_moderate
from statewright.conditions.vocabulary import MetaField, Order


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
