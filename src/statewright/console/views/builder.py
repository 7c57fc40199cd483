"""The condition builder as its template sees it: a tree of nodes with what each may be changed to. Pure."""

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.conditions import (
    LIFECYCLE_FIELDS,
    LIFECYCLE_TIMES,
    OPERATORS,
    PRESENCE,
    TEXTS,
    Condition,
    Group,
    Lifecycle,
    Simple,
    Verbatim,
    offer_operators,
    show_operand,
)

_TIME_OPERATORS: Final = tuple(operator for operator in OPERATORS if operator not in TEXTS)


class BuilderNode(Struct, frozen=True, kw_only=True):
    """A part of a condition. ``place`` names it in the form."""

    place: str
    kind: str = ""
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
            offered = offer_operators(declared) if declared else OPERATORS
            leaf = _build_leaf(place, condition, condition.path, offered)
            return replace(leaf, kind="simple", is_unknown=bool(condition.path) and declared is None)
        case Lifecycle():
            offered = _TIME_OPERATORS if condition.field in LIFECYCLE_TIMES else OPERATORS
            leaf = _build_leaf(place, condition, condition.field, offered)
            return replace(leaf, kind="lifecycle", subjects=LIFECYCLE_FIELDS)
        case Verbatim():
            return BuilderNode(place=place, kind="json", text=condition.text)
        case _:
            assert_never(condition)


def _build_leaf(place: str, leaf: Simple | Lifecycle, subject: str, offered: tuple[str, ...]) -> BuilderNode:
    return BuilderNode(
        place=place,
        operator=leaf.operator,
        operators=offered if leaf.operator in offered else (*offered, leaf.operator),
        subject=subject,
        operand=show_operand(leaf.value),
        takes_operand=leaf.value is not None or leaf.operator in PRESENCE,  # what came without one keeps none
    )
