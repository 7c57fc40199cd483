"""What every picture is made of, whatever language the definition is in.

A node or edge is known by its number: names never become ids of DOT or SVG. What changes while the definition stays —
counts, the current state, where tokens are — is not part of a drawing but a mark put on the drawn picture, so that it
never costs a new layout.

Members of documents that come from the API, by the type they should have; anything else is as good as absent.

DOT text of a drawing. Ids are numbers; every text of others goes through :func:`quote_label`.

Colours are left to the style sheet: nodes and edges carry classes, and what the layout puts into the SVG as colours is
dropped by the page. ``rankdir`` is left to the page, too, which knows its width.

What is near a node: as much of a large picture as can be drawn and read.

How much of a picture is drawn, and what the page needs for that.

Small pictures are drawn with everything, larger ones with straight edges and without labels, and of still larger ones
the neighbourhood of one node. A layout that takes too long is given up by the page, which then tries the next lower
tier, once: so a plan has one attempt or two.
"""

import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, to_builtins

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

Shape: TypeAlias = Literal["state", "final", "start", "box", "decision", "bar", "circle", "end", "place"]
"""``state``: rounded; ``final``: rounded, double border; ``bar``: of a gateway or a transition of a net; ``end``: a
double circle.
"""


class Node(Struct, frozen=True, kw_only=True):
    """A node. ``name`` is what the table calls it, ``label`` what the picture says, ``classes`` are for the styles.

    ``href``: where a click leads; within the page to the row of the table, unless it says otherwise.
    """

    name: str
    label: str
    shape: Shape
    classes: tuple[str, ...] = ()
    href: str = ""


class Edge(Struct, frozen=True, kw_only=True):
    """An edge between two nodes by their numbers; ``name`` and ``label`` as of a node."""

    source: int
    target: int
    name: str = ""
    label: str = ""
    classes: tuple[str, ...] = ()
    href: str = ""


class Drawing(Struct, frozen=True, kw_only=True):
    """A whole picture. ``has_marks``: nodes keep a second line free for counts and badges."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    start: int | None = None
    """The node to begin with: where a picture opens, and what is drawn of one that is too large."""
    has_marks: bool = False


class Mark(Struct, frozen=True, kw_only=True):
    """What is put on a drawn node or edge: classes, a short text, and the same in words for those who cannot see it."""

    classes: tuple[str, ...] = ()
    note: str = ""
    words: str = ""


class Marks(Struct, frozen=True, kw_only=True):
    """Marks by the numbers of nodes and edges."""

    nodes: Mapping[int, Mark] = {}
    edges: Mapping[int, Mark] = {}


MAX_LABEL_CHARS: Final = 48
"""Of a longer label the beginning is drawn; the table has it whole."""

PLACEHOLDER: Final = "00 000 000"
"""The second line of a node, replaced by its mark: as wide as most of them are."""

TOKENS: Final = "●●●●●"
"""What stands in a place of a net until its mark replaces it."""

_SHAPES: Final[dict[Shape, str]] = {
    "state": 'shape=box style=rounded margin="0.16,0.08"',
    "final": 'shape=box style=rounded peripheries=2 margin="0.16,0.08"',
    "start": "shape=point width=0.13",
    "box": 'shape=box margin="0.16,0.08"',
    "decision": 'shape=diamond margin="0.04,0.02"',
    "bar": "shape=box height=0.34 width=0.1 margin=0.06 style=filled",
    "circle": "shape=circle margin=0.02",
    "end": "shape=doublecircle margin=0.02",
    "place": "shape=circle margin=0.02 width=0.4",
}
_SECOND_LINES: Final[dict[Shape, str]] = {
    **dict.fromkeys(("state", "final", "box"), PLACEHOLDER),
    **dict.fromkeys(("bar", "circle"), "0 000"),
}
"""Of nodes that have a label; what has none is too small for a mark."""
_HEADER: Final = (
    "digraph {",
    '  graph [bgcolor=transparent pad=0.1 nodesep=0.35 ranksep=0.5 fontname="Helvetica" fontsize=12]',
    '  node [fontname="Helvetica" fontsize=13 height=0.3]',
    '  edge [fontname="Helvetica" fontsize=12 arrowsize=0.7]',
)
_STRAIGHT: Final = "  graph [splines=line nslimit=1 nslimit1=1 mclimit=0.3]"
"""What tangled graphs need to be laid out in time."""
_HIDDEN_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_DRAWN_SELECTORS: Final = "\ufe0e"
"""Asks for the plain form of a sign, not the coloured one: ours, and harmless."""


def quote_label(text: str) -> str:
    """A text as a label in quotes: one line, cut, with nothing in it that DOT would read as an escape or an entity.

    Characters that cannot be seen are spelled out, as everywhere in the console.
    """
    shown = "".join(map(_show_character, text))
    cut = shown if len(shown) <= MAX_LABEL_CHARS else shown[: MAX_LABEL_CHARS - 1] + "…"
    escaped = cut.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _show_character(character: str) -> str:
    if character == _DRAWN_SELECTORS:
        return character
    return f"U+{ord(character):04X}" if unicodedata.category(character) in _HIDDEN_CATEGORIES else character


def write_dot(drawing: Drawing, *, nodes: Collection[int] | None = None, is_plain: bool = False) -> str:
    """The text of a drawing, or of some of its ``nodes`` and the edges between them, with the numbers that they have in
    the whole. ``is_plain``: straight edges without labels, which is quick to lay out.
    """
    drawn = range(len(drawing.nodes)) if nodes is None else sorted(nodes)
    chosen = frozenset(drawn)
    lines = [*_HEADER, *([_STRAIGHT] if is_plain else [])]
    lines += [f"  n{number} [{_write_node(number, drawing)}]" for number in drawn]
    lines += [
        f"  n{edge.source} -> n{edge.target} [{_write_edge(number, edge, is_plain=is_plain)}]"
        for number, edge in enumerate(drawing.edges)
        if edge.source in chosen and edge.target in chosen
    ]
    return "\n".join([*lines, "}", ""])


def _write_node(number: int, drawing: Drawing) -> str:
    node = drawing.nodes[number]
    return " ".join(
        [f'id="n{number}"', *_write_classes(node.classes), _SHAPES[node.shape], _write_lines(node, drawing)]
    )


def _write_lines(node: Node, drawing: Drawing) -> str:
    if node.shape == "start":
        return 'label=""'
    label = quote_label(node.label)
    if node.shape == "place":
        return f'label="{TOKENS}"'
    if drawing.has_marks and node.label and (line := _SECOND_LINES.get(node.shape)):
        label = f'{label[:-1]}\\n{line}"'
    return f"label={label}"


def _write_edge(number: int, edge: Edge, *, is_plain: bool) -> str:
    return " ".join(
        [
            f'id="e{number}"',
            *_write_classes(edge.classes),
            *([f"label={quote_label(edge.label)}"] if edge.label and not is_plain else []),
        ]
    )


def _write_classes(classes: tuple[str, ...]) -> Iterator[str]:
    if classes:
        yield f'class="{" ".join(classes)}"'


STEPS: Final = 2
"""How many edges away a node may be, along them or against them."""
MAX_NODES: Final = 60


def find_neighbourhood(drawing: Drawing, focus: int) -> tuple[int, ...]:
    """The nodes at most :data:`STEPS` edges from ``focus`` against and along the edges, at most :data:`MAX_NODES`, the
    near ones first kept; in order of their numbers.
    """
    found = {focus}
    forwards, backwards = [focus], [focus]
    successors, predecessors = _index_edges(drawing)
    for _ in range(STEPS):
        forwards = _step(forwards, successors, found)
        backwards = _step(backwards, predecessors, found)
    return tuple(sorted(found))


def _step(border: Sequence[int], ways: dict[int, list[int]], found: set[int]) -> list[int]:
    """Goes on from the border, and adds to what was found while there is room."""
    reached: list[int] = []
    for node in border:
        for other in ways.get(node, ()):
            if other not in found and len(found) < MAX_NODES:
                found.add(other)
                reached.append(other)
    return reached


def _index_edges(drawing: Drawing) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    successors: dict[int, list[int]] = {}
    predecessors: dict[int, list[int]] = {}
    for edge in drawing.edges:
        successors.setdefault(edge.source, []).append(edge.target)
        predecessors.setdefault(edge.target, []).append(edge.source)
    return successors, predecessors


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
