"""Finding runs that could never end.

An edge leads from a state to the target of each of its unguarded transitions that fire by themselves: neither manual
nor disabled, without criterion, scheduled ones included. A cycle of such edges is a loop that nothing stops
(spec/workflows.md §5.4). States are visited in the order of their names and edges in declaration order, so the same
cycle is found every time.
"""

from collections.abc import Mapping, Sequence

from statewright.workflow.definition import Transition, Workflow

Edges = Mapping[str, Sequence[str]]


def find_cycle(workflow: Workflow) -> tuple[str, ...] | None:
    """The states of the first cycle, its first state repeated at the end; ``None`` when there is none."""
    edges = {
        name: [transition.next for transition in state.transitions if _always_fires(transition)]
        for name, state in workflow.states.items()
    }
    finished: set[str] = set()
    for start in sorted(edges):
        cycle = _walk(start, edges, finished)
        if cycle is not None:
            return cycle
    return None


def _always_fires(transition: Transition) -> bool:
    return not transition.manual and not transition.disabled and transition.criterion is None


def _walk(start: str, edges: Edges, finished: set[str]) -> tuple[str, ...] | None:
    """Depth first from ``start``; what is left for good is added to ``finished``. A loop: chains may be very long."""
    if start in finished:
        return None
    path = {start: iter(edges[start])}
    while path:
        here = next(reversed(path))
        target = next(path[here], None)
        if target is None:
            finished.add(here)
            path.popitem()
        elif target in path:
            states = list(path)
            return (*states[states.index(target) :], target)
        elif target not in finished:
            path[target] = iter(edges.get(target, ()))
    return None
