"""Which branches a join still waits for, for who looks at an instance from outside."""

from msgspec import Struct

from statewright.net.identifiers import NodeId
from statewright.net.marking import Marking


class MissingBranch(Struct, frozen=True, kw_only=True):
    """A branch that has not reached its join. ``index`` counts from 0, as its gateway opened the branches; ``nodes``
    are those at which its tokens rest, none when all of them have ended elsewhere.
    """

    index: int
    nodes: tuple[NodeId, ...]


class OpenJoin(Struct, frozen=True, kw_only=True):
    """A join that some of the branches of one pass have reached, ``arrived`` in number."""

    node: NodeId
    arrived: int
    missing: tuple[MissingBranch, ...]


def list_open_joins(marking: Marking) -> tuple[OpenJoin, ...]:
    """The joins that have not released although branches have arrived, in the order in which these were opened."""
    found: list[OpenJoin] = []
    for activation in marking.activations:
        if not 0 < len(activation.arrived) < activation.size:
            continue
        nodes: dict[int, list[NodeId]] = {
            index: [] for index in range(activation.size) if index not in activation.arrived
        }
        for token in marking.tokens:
            for branch in token.branches:
                if branch.activation == activation.id and branch.index in nodes:
                    nodes[branch.index].append(token.node)
        missing = tuple(
            MissingBranch(index=index, nodes=tuple(dict.fromkeys(places))) for index, places in nodes.items()
        )
        found.append(OpenJoin(node=activation.join, arrived=len(activation.arrived), missing=missing))
    return tuple(found)
