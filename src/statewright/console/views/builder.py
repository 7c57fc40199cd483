"""The condition builder as its template sees it: a tree of nodes with what each may be changed to. Pure."""

from typing import Final, assert_never

from msgspec import Struct

from statewright.console.conditions import (
    COMPARISONS,
    LIFECYCLE_FIELDS,
    LIFECYCLE_TIMES,
    PRESENCE,
    RANGES,
    TEXTS,
    Condition,
    Group,
    Lifecycle,
    Simple,
    Verbatim,
    offer_operators,
    show_operand,
)

_TEXT_FIELD_OPERATORS: Final = (*COMPARISONS, *RANGES, *TEXTS, *PRESENCE)
_TIME_OPERATORS: Final = (*COMPARISONS, *RANGES, *PRESENCE)


class BuilderNode(Struct, frozen=True, kw_only=True):
    """A part of a condition. ``place`` names it in the form."""

    place: str
    kind: str
    operator: str = ""
    operators: tuple[str, ...] = ()
    subject: str = ""
    """Path or metadata field."""
    subjects: tuple[str, ...] = ()
    operand: str = ""
    takes_operand: bool = True
    text: str = ""
    children: "tuple[BuilderNode, ...]" = ()
    is_unknown: bool = False
    """Whether the path is none of the model."""


def build_nodes(condition: Condition, types: dict[str, tuple[str, ...]], place: str = "c") -> BuilderNode:
    """The tree of a condition. ``types`` are those of the declared paths."""
    match condition:
        case Group():
            parts = enumerate(condition.conditions)
            children = tuple(build_nodes(part, types, f"{place}.{number}") for number, part in parts)
            return BuilderNode(
                place=place, kind="group", operator=condition.operator, operators=("AND", "OR"), children=children
            )
        case Simple():
            declared = types.get(condition.path)
            return BuilderNode(
                place=place,
                kind="simple",
                operator=condition.operator,
                operators=_offer(offer_operators(declared) if declared else _TEXT_FIELD_OPERATORS, condition.operator),
                subject=condition.path,
                operand=show_operand(condition.value),
                takes_operand=_takes_operand(condition),
                is_unknown=bool(condition.path) and declared is None,
            )
        case Lifecycle():
            offered = _TIME_OPERATORS if condition.field in LIFECYCLE_TIMES else _TEXT_FIELD_OPERATORS
            return BuilderNode(
                place=place,
                kind="lifecycle",
                operator=condition.operator,
                operators=_offer(offered, condition.operator),
                subject=condition.field,
                subjects=LIFECYCLE_FIELDS,
                operand=show_operand(condition.value),
                takes_operand=_takes_operand(condition),
            )
        case Verbatim():
            return BuilderNode(place=place, kind="json", text=condition.text)
        case _:
            assert_never(condition)


def _takes_operand(leaf: Simple | Lifecycle) -> bool:
    """Whether there is a line for the operand. A comparison that came without one keeps none."""
    return leaf.value is not None or leaf.operator in PRESENCE


def _offer(offered: tuple[str, ...], chosen: str) -> tuple[str, ...]:
    return offered if chosen in offered else (*offered, chosen)
