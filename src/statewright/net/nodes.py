"""The nodes of nets, which definitions of the process languages are compiled into (docs/reference/kernel.md#nets).

A node has an arrival rule (when do tokens make it fire?), an activity (what is done then?) and a routing rule (where do
tokens go afterwards?). How data reaches an activity and what its result changes is the language's business: see
:mod:`statewright.net.language`.
"""

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from statewright.net.durations import Delay
from statewright.net.marking import NodeId, Outcome


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


class RoundJoin(Struct, frozen=True):
    """Tokens are collected in rounds, one from each of ``sources``. A round fires the node once, when ``count`` of them
    have sent one; what the others send is absorbed, and ends the round with the last of them. A second token from a
    source waits for the next round. Those from elsewhere take no part, and fire the node by themselves.

    ``on_incomplete``: what becomes of the tokens of a round that cannot fire any more.
    """

    sources: tuple[NodeId, ...]
    count: int
    on_incomplete: Literal["FAIL", "FIRE", "DISCARD"] = "FAIL"


Arrival: TypeAlias = AnyInput | AllInputs | BranchJoin | RoundJoin


class NoActivity(Struct, frozen=True):
    """No activity: the node completes as soon as it fires. Its work is its data rule and its routing."""


class Inline(Struct, frozen=True):
    """Work that the language does at once (:meth:`~statewright.net.language.DataRules.perform`)."""


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


class Body(Struct, frozen=True):
    """A part of the same net, run once for each element of a loop: a token goes to each of ``entries``, and a node in
    it yields the result. Nothing else leads into it or out of it.
    """

    entries: tuple[NodeId, ...]


class Many(Struct, frozen=True):
    """A loop over the items of the input: the body, which may be another net, is done for each of them, ``limit`` at
    once (1: one after the other; ``None``: all). The guard of the node is one of its items.

    ``on_failure``: whether an element that fails fails the instance, the loop goes on without it, or it begins no
    others and the node fails once those that run have ended. In the first case what the others come to is kept, and a
    restart does only those again that have no result. Nets that route failures have loops of the other two kinds.
    """

    body: Task | SubNet | Body
    limit: int | None = None
    on_failure: Literal["FAIL", "GO_ON", "STOP"] = "FAIL"


Activity: TypeAlias = NoActivity | Inline | Task | HumanTask | Wait | SubNet | Many


class Arc(Struct, frozen=True):
    """A connection to another node. ``guard``: an expression of the language; ``None``: always open.

    An arc that leads back into a loop is one for ``DONE`` alone, whose source is a set of its own at the target
    (:class:`AllInputs`): then the target does not wait for its other inputs again, and skipping a node is the way out.
    """

    target: NodeId
    guard: str | None = None
    on: tuple[Outcome, ...] = ("DONE", "SKIPPED")
    """The outcomes after which it can be taken. A failure for which an arc is taken does not fail the instance."""
    payload: str | None = None
    """An expression of the language: what the token carries; ``None``: what the result of the node says."""
    assignment: str | None = None
    """An expression of the language: what taking the arc changes in the shared data."""
    source: NodeId | None = None
    """The node that the token counts for at a target that waits for several; ``None``: the one it leaves."""


class Routing(Struct, frozen=True, kw_only=True):
    """Which arcs a token takes when the activity is done.

    ``FIRST``: the first whose guard holds; later ones are not evaluated. ``EVERY``: all whose guard holds. ``ALL``:
    all, whatever their guards. Arcs for other outcomes than that of the node do not count.
    """

    mode: Literal["FIRST", "EVERY", "ALL"] = "FIRST"
    arcs: tuple[Arc, ...] = ()
    unmatched: str | None = None
    """Why the node fails when it has arcs and none is taken; ``None``: the token ends."""
    stays: bool = False
    """Whether a token without any arc remains at the node for ever, or ends."""
    join_node: NodeId | None = None
    """The node that collects the branches this one opens, one branch per arc taken; ``None``: they are independent."""


class Admission(Struct, frozen=True, kw_only=True):
    """Whether a token may fire a node, asked when it is its turn and again when what the rule looks at has changed."""

    rule: str
    """An expression of the language."""
    on_deny: Literal["WAIT", "DISCARD"] = "WAIT"
    watches: frozenset[str] | None = None
    """The parts of the data that the rule can see, as :meth:`~statewright.net.language.AdmissionRules.find_changes`
    names them; ``None``: all.
    """


class BoundaryTimer(Struct, frozen=True, kw_only=True):
    """Runs while the activity does. Interrupting, it ends the activity and moves the token; else it adds a token."""

    delay: Delay
    target: NodeId
    interrupting: bool = False


_ANSWERED_FROM_OUTSIDE: Final = (HumanTask, Wait)


class Node(Struct, frozen=True, kw_only=True):
    """Where tokens arrive, an activity is done, and tokens leave."""

    id: NodeId
    arrival: Arrival = AnyInput()
    activity: Activity = NoActivity()
    routing: Routing = Routing()
    skip_unless: str | None = None
    """A guard: where it does not hold when tokens fire the node, the activity is not begun, and the outcome is
    ``SKIPPED``.
    """
    concurrency: int | None = None
    """How many activities may run at once (in one scope); tokens queue up behind them. ``None``: any number."""
    admission: Admission | None = None
    """``None``: every token is admitted. In a net with a capacity only."""
    time_limit: Delay | None = None
    """How long a token may wait for admission, and how long the activity may take, before the one or the other fails.
    """
    keeps_input: bool = False
    """Whether the input of the activity is kept from its beginning on, since it cannot be built once more."""
    timers: tuple[BoundaryTimer, ...] = ()
    yields: bool = False
    """Whether its payloads are the result of the instance, or of a pass over the body of a loop. The last ones count.
    """
    ends: bool = False
    """Whether completing this node completes the instance at once."""
    successor: str | None = None
    """At an end: the definition of which an instance is started then, and not awaited."""
    defect: str | None = None
    """Why the node cannot be entered: it fails as soon as it is."""

    @property
    def waits_for_outside(self) -> bool:
        """Whether an instance waits for the outside world, not for a worker, while it is here."""
        return isinstance(self.activity, _ANSWERED_FROM_OUTSIDE)


_Name = TypeVar("_Name", bound=str)


def order_backwards(targets: Mapping[_Name, Collection[_Name]]) -> list[_Name]:
    """The nodes of a graph, by their targets, so that each comes after those it leads to, as far as cycles let it."""
    order: list[_Name] = []
    seen: set[_Name] = set()
    for root in targets:
        pending = [(root, iter(targets[root]))] if root not in seen else []
        seen.add(root)
        while pending:
            name, rest = pending[-1]
            target = next((one for one in rest if one not in seen), None)
            if target is None:
                order.append(name)
                pending.pop()
            else:
                seen.add(target)
                pending.append((target, iter(targets[target])))
    return order


def rank_nodes(nodes: Mapping[NodeId, Node]) -> dict[NodeId, int]:
    """A rank for each node: lower than those of all it leads to, but for those that lead back to it, whose is equal.

    By the algorithm of Kosaraju: in the time that it takes to look at each arc twice.
    """
    sources: dict[NodeId, list[NodeId]] = {name: [] for name in nodes}
    targets = {name: [one for one in _list_targets(node) if one in nodes] for name, node in nodes.items()}
    for name, found in targets.items():
        for target in found:
            sources[target].append(name)
    ranks: dict[NodeId, int] = {}
    for root in reversed(order_backwards(targets)):
        pending = [root] if root not in ranks else []
        while pending:
            name = pending.pop()
            if name not in ranks:
                ranks[name] = ranks.get(root, len(ranks))
                pending.extend(sources[name])
    return ranks


def _list_targets(node: Node) -> list[NodeId]:
    """Each once, in an order that is the same in every process."""
    found = [*(arc.target for arc in node.routing.arcs), *(timer.target for timer in node.timers)]
    return list(dict.fromkeys(found))
