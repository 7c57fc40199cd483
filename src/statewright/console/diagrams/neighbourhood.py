"""What is near a node: as much of a large picture as can be drawn and read."""

from collections.abc import Sequence
from typing import Final

from statewright.console.diagrams.drawing import Drawing

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
