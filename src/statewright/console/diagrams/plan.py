"""How much of a picture is drawn, and what the page needs for that.

Small pictures are drawn with everything, larger ones with straight edges and without labels, and of still larger ones
the neighbourhood of one node. A layout that takes too long is given up by the page, which then tries the next lower
tier, once: so a plan has one attempt or two.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct, to_builtins

from statewright.console.diagrams.drawing import Drawing, Marks, find_neighbourhood, write_dot
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

Tier: TypeAlias = Literal[1, 2, 3]

WHOLE: Final = (120, 200)
"""Nodes and edges up to which everything is drawn."""
PLAIN: Final = (400, 800)
"""Nodes and edges up to which the whole is drawn without labels."""


class Attempt(Struct, frozen=True, kw_only=True):
    """A layout to try. ``left_out``: how many nodes it does not show."""

    tier: Tier
    dot: str
    nodes: tuple[int, ...]
    left_out: int = 0


class Plan(Struct, frozen=True, kw_only=True):
    """What is tried, the most telling first, and the drawing that it is of."""

    drawing: Drawing
    attempts: tuple[Attempt, ...]
    focus: int | None

    @property
    def tier(self) -> Tier:
        """That of the first attempt."""
        return self.attempts[0].tier

    @property
    def left_out(self) -> int:
        """How many nodes the first attempt does not show."""
        return self.attempts[0].left_out


def plan_drawing(drawing: Drawing, *, focus: int | None = None, is_neighbourhood: bool = False) -> Plan:
    """What to try for a drawing. ``focus`` is the node in view; ``is_neighbourhood``: no more than is near it."""
    centre = focus if focus is not None else drawing.start
    tier = 3 if is_neighbourhood and centre is not None else choose_tier(drawing)
    tiers = (tier, tier + 1) if tier < 3 else (tier,)
    attempts = tuple(_build_attempt(drawing, each, centre) for each in tiers)
    return Plan(drawing=drawing, attempts=attempts, focus=centre)


def choose_tier(drawing: Drawing) -> int:
    """The tier by the size alone."""
    for tier, (nodes, edges) in enumerate((WHOLE, PLAIN), start=1):
        if len(drawing.nodes) <= nodes and len(drawing.edges) <= edges:
            return tier
    return 3


def _build_attempt(drawing: Drawing, tier: int, centre: int | None) -> Attempt:
    everything = tuple(range(len(drawing.nodes)))
    if tier == 1:
        return Attempt(tier=1, dot=write_dot(drawing), nodes=everything)
    if tier == 2:
        return Attempt(tier=2, dot=write_dot(drawing, is_plain=True), nodes=everything)
    near = find_neighbourhood(drawing, centre or 0) if drawing.nodes else ()
    chosen = frozenset(near)
    inside = sum(edge.source in chosen and edge.target in chosen for edge in drawing.edges)
    dot = write_dot(drawing, nodes=near, is_plain=inside > WHOLE[1])
    return Attempt(tier=3, dot=dot, nodes=near, left_out=len(drawing.nodes) - len(near))


def write_plan(plan: Plan) -> str:
    """What the script of the page reads: attempts, and of every node and edge in them its name, link and ends."""
    drawing = plan.drawing
    nodes = sorted({number for attempt in plan.attempts for number in attempt.nodes})
    chosen = frozenset(nodes)
    attempts: list[JsonValue] = [
        {"tier": attempt.tier, "dot": attempt.dot, "leftOut": attempt.left_out} for attempt in plan.attempts
    ]
    edges: JsonObject = {
        f"e{number}": {"name": edge.name, "href": edge.href, "ends": [f"n{edge.source}", f"n{edge.target}"]}
        for number, edge in enumerate(drawing.edges)
        if edge.source in chosen and edge.target in chosen
    }
    document: JsonObject = {
        "attempts": attempts,
        "focus": None if plan.focus is None else f"n{plan.focus}",
        "nodes": {f"n{each}": {"name": drawing.nodes[each].name, "href": drawing.nodes[each].href} for each in nodes},
        "edges": edges,
        "marked": drawing.has_marks,
    }
    return encode(document).decode()


def write_marks(marks: Marks) -> str:
    """What the script of the page reads to put marks on a picture, again and again."""
    drawn: JsonObject = to_builtins(
        {f"n{number}": mark for number, mark in marks.nodes.items()}
        | {f"e{number}": mark for number, mark in marks.edges.items()}
    )
    return encode(drawn).decode()
