"""Nets: what a definition of any of the process languages is compiled into (docs/reference/kernel.md#nets).

A node has an arrival rule (when do tokens make it fire?), an activity (what is done then?) and a routing rule (where do
tokens go afterwards?). How data reaches an activity and what its result changes is the language's business: see
:mod:`statewright.net.language`.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.net.durations import Delay
from statewright.net.identifiers import NodeId


class AnyInput(Struct, frozen=True):
    """Every token that arrives fires the node."""


class AllInputs(Struct, frozen=True):
    """Tokens wait until every source of one of the sets has sent one; the oldest of each are taken together.

    The sets are tried in order. A token counts for the node it comes from.
    """

    sets: tuple[tuple[NodeId, ...], ...]


class BranchJoin(Struct, frozen=True):
    """Tokens wait until all branches of the activation they belong to have arrived.

    Such a node has no activity: its work is to wait. ``unmatched`` is the reason to fail when a token belongs to no
    activation that ends here.
    """

    unmatched: str


Arrival: TypeAlias = AnyInput | AllInputs | BranchJoin


class NoActivity(Struct, frozen=True):
    """No activity: the node completes as soon as it fires. Its work is its data rule and its routing."""


class Task(Struct, frozen=True):
    """Work for the job queue. ``retries``: attempts after the first before a failure counts."""

    kind: str
    retries: int = 0


class HumanTask(Struct, frozen=True):
    """Work for a person. ``kind``: the form or list it belongs to, maybe empty."""

    kind: str = ""


class Wait(Struct, frozen=True):
    """The token waits until a signal comes."""


class SubNet(Struct, frozen=True):
    """Another net, run as an instance of its own and awaited. ``net`` names its definition."""

    net: str


Activity: TypeAlias = NoActivity | Task | HumanTask | Wait | SubNet


class Arc(Struct, frozen=True):
    """A connection to another node. ``guard``: an expression of the language; ``None``: always open."""

    target: NodeId
    guard: str | None = None


class Routing(Struct, frozen=True, kw_only=True):
    """Which arcs a token takes when the activity is done.

    ``FIRST``: the first whose guard holds; later ones are not evaluated. ``EVERY``: all whose guard holds. ``ALL``:
    all, whatever their guards.
    """

    mode: Literal["FIRST", "EVERY", "ALL"] = "FIRST"
    arcs: tuple[Arc, ...] = ()
    unmatched: str | None = None
    """Why the node fails when it has arcs and none is taken; ``None``: the token ends."""
    stays: bool = False
    """Whether a token without any arc remains at the node for ever, or ends."""
    join_node: NodeId | None = None
    """The node that collects the branches this one opens, one branch per arc taken; ``None``: they are independent."""


class BoundaryTimer(Struct, frozen=True, kw_only=True):
    """Runs while the activity does. Interrupting, it ends the activity and moves the token; else it adds a token."""

    delay: Delay
    target: NodeId
    interrupting: bool = False


class Node(Struct, frozen=True, kw_only=True):
    """Where tokens arrive, an activity is done, and tokens leave."""

    id: NodeId
    arrival: Arrival = AnyInput()
    activity: Activity = NoActivity()
    routing: Routing = Routing()
    timers: tuple[BoundaryTimer, ...] = ()
    ends: bool = False
    """Whether completing this node completes the instance at once."""
    successor: str | None = None
    """At an end: the definition of which an instance is started then, and not awaited."""
    defect: str | None = None
    """Why the node cannot be entered: it fails as soon as it is."""

    @property
    def waits_for_outside(self) -> bool:
        """Whether an instance waits for the outside world, not for a worker, while it is here."""
        return isinstance(self.activity, HumanTask | Wait)


class Net(Struct, frozen=True, kw_only=True):
    """A compiled definition; immutable, shared by all its instances."""

    nodes: Mapping[NodeId, Node]
    entries: tuple[NodeId, ...]
    ending: Literal["END_NODE", "QUIESCENCE"] = "END_NODE"
    """``QUIESCENCE``: the instance is complete when no token works or waits for others."""
    max_entries: int = 10_000
    """Nodes that may be entered for one event before the instance fails: a loop without activities would never pause.
    """
    node_label: str = "node"
    """What the language calls a node, for messages."""
