"""What every picture is made of, whatever language the definition is in.

A node or edge is known by its number: names never become ids of DOT or SVG. What changes while the definition stays —
counts, the current state, where tokens are — is not part of a drawing but a mark put on the drawn picture, so that it
never costs a new layout.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

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
