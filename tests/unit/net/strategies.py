"""Nets of all rules: arrivals, guards, outcomes, queues, loops over tasks and over parts of the net, cycles."""

from typing import Literal

from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.net import (
    AllInputs,
    AnyInput,
    Arc,
    Body,
    BoundaryTimer,
    Delay,
    HumanTask,
    Many,
    Net,
    NoActivity,
    Node,
    NodeId,
    Outcome,
    Routing,
    SubNet,
    Task,
    Wait,
)
from statewright.net.nodes import Activity

MAX_VISITS = 6
MAX_ENTRIES = 150
A_SECOND = Delay(0, 1_000_000)
FAILURES: list[Literal["FAIL", "GO_ON"]] = ["FAIL", "FAIL", "GO_ON"]
GUARDS = [None, None, None, "n", "zzz", "?"]


@st.composite
def nets(draw: st.DrawFn, *, acyclic: bool = False) -> Net:
    """A net of a few nodes, of which the first is the entry and the last yields the result."""
    names = [NodeId(f"n{index}") for index in range(draw(st.integers(2, 6)))]
    edges = [
        (a, b)
        for a in range(len(names))
        for b in range(len(names))
        if (a < b if acyclic else a != b) and draw(st.integers(0, 2)) == 0
    ]
    nodes = [draw(_nodes(names, index, edges)) for index in range(len(names))]
    extra = [part for node in nodes if isinstance(node.activity, Many) for part in _list_body(node)]
    return Net(
        nodes={node.id: node for node in [*nodes, *extra]},
        entries=(names[0],),
        ending="QUIESCENCE",
        on_failure=draw(st.sampled_from(["HOLD", "DRAIN", "DRAIN"])),
        max_visits=MAX_VISITS,
        max_entries=MAX_ENTRIES,
    )


@st.composite
def _nodes(draw: st.DrawFn, names: list[NodeId], index: int, edges: list[tuple[int, int]]) -> Node:
    forward = tuple(names[a] for a, b in edges if b == index and a < index)
    back = tuple((names[a],) for a, b in edges if b == index and a >= index)
    sets = (forward, *back) if forward else back
    joins = bool(sets) and index > 0 and draw(st.booleans())
    arcs = tuple(draw(_arcs(names[b], is_back=b < index)) for a, b in edges if a == index)
    later = names[index + 1 :]
    has_timer = bool(later) and draw(st.integers(0, 4)) == 0
    return Node(
        id=names[index],
        arrival=AllInputs(sets) if joins else AnyInput(),
        activity=draw(_activities(names[index])),
        routing=Routing(mode=draw(st.sampled_from(["ALL", "ALL", "EVERY", "FIRST"])), arcs=arcs),
        skip_unless=draw(st.sampled_from(GUARDS)),
        concurrency=draw(st.sampled_from([None, 1])),
        timers=(draw(_timers(later)),) if has_timer else (),
        yields=index == len(names) - 1,
    )


@st.composite
def _timers(draw: st.DrawFn, targets: list[NodeId]) -> BoundaryTimer:
    return BoundaryTimer(delay=A_SECOND, target=draw(st.sampled_from(targets)), interrupting=draw(st.booleans()))


@st.composite
def _arcs(draw: st.DrawFn, target: NodeId, *, is_back: bool) -> Arc:
    usual: tuple[Outcome, ...] = ("DONE",) if is_back else ("DONE", "SKIPPED")
    on = draw(st.sampled_from([usual, usual, usual, ("FAILED",), ("DONE", "SKIPPED", "FAILED")]))
    return Arc(target, guard=draw(st.sampled_from([None, None, "n", "zzz"])), on=on)


@st.composite
def _activities(draw: st.DrawFn, name: NodeId) -> Activity:
    kind = draw(st.sampled_from(["nothing", "task", "task", "person", "each", "passes", "signal", "child"]))
    limit = draw(st.sampled_from([None, 1, 2]))
    on_failure = draw(st.sampled_from(FAILURES))
    match kind:
        case "task":
            return Task(f"do {name}")
        case "person":
            return HumanTask()
        case "signal":
            return Wait()
        case "child":
            return SubNet("other")
        case "each":
            return Many(Task(f"each {name}"), limit, on_failure)
        case "passes":
            return Many(Body((NodeId(f"{name}-left"), NodeId(f"{name}-right"))), limit, on_failure)
        case _:
            return NoActivity()


def _list_body(owner: Node) -> list[Node]:
    """Two nodes that meet in a third, where the loop of ``owner`` is one over a part of the net."""
    if not isinstance(owner.activity, Many) or not isinstance(owner.activity.body, Body):
        return []
    left, right = owner.activity.body.entries
    join = NodeId(f"{owner.id}-join")
    routing = Routing(mode="ALL", arcs=(Arc(join),))
    first = Node(id=left, activity=Task(f"do {left}"), routing=routing)
    meeting = Node(id=join, arrival=AllInputs(((left, right),)), yields=True)
    return [first, replace(first, id=right, activity=Many(Task(f"each {right}"), 1)), meeting]
