"""Nets of all rules: arrivals, guards, outcomes, queues, loops over tasks and over parts of the net, cycles."""

from typing import Literal

from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.net import (
    DRAIN,
    HOLD,
    ROUTE,
    Admission,
    AllInputs,
    AnyInput,
    Arc,
    Body,
    BoundaryTimer,
    Delay,
    HumanTask,
    Inline,
    Many,
    Net,
    NoActivity,
    Node,
    NodeId,
    Outcome,
    RoundJoin,
    Routing,
    SubNet,
    Task,
    Wait,
    conclude_by_language,
    judge_branches,
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
        ending=conclude_by_language,
        on_failure=draw(st.sampled_from([HOLD, DRAIN, DRAIN])),
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
    kind = draw(st.sampled_from(["nothing", "task", "task", "person", "each", "passes", "signal", "child", "children"]))
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
        case "children":
            return Many(SubNet("other"), limit, on_failure)
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


@st.composite
def routed_nets(draw: st.DrawFn) -> Net:
    """A net in which tokens take turns, are admitted and joined in rounds, and failures are routed."""
    names = [NodeId(f"n{index}") for index in range(draw(st.integers(2, 6)))]
    edges = [(a, b) for a in range(len(names)) for b in range(len(names)) if draw(st.integers(0, 2)) == 0]
    nodes = [draw(_routed_nodes(names, index, edges)) for index in range(len(names))]
    return Net(
        nodes={node.id: node for node in nodes},
        entries=(names[0],),
        ending=judge_branches,
        on_failure=ROUTE,
        fails_fast=draw(st.integers(0, 3)) == 0,
        capacity=draw(st.sampled_from([1, 2, 100])),
        on_pending=draw(st.sampled_from(["WAIT", "WAIT", "DISCARD", "FAIL"])),
        finalizer=draw(st.sampled_from([None, names[-1]])),
        time_limit=draw(st.sampled_from([None, None, A_SECOND])),
        max_visits=MAX_VISITS,
        max_runs=draw(st.sampled_from([None, 20])),
        max_entries=10_000,
    )


@st.composite
def _routed_nodes(draw: st.DrawFn, names: list[NodeId], index: int, edges: list[tuple[int, int]]) -> Node:
    sources = tuple(names[a] for a, b in edges if b == index)
    joins = len(sources) > 1 and draw(st.booleans())
    count = draw(st.integers(1, max(1, len(sources))))
    left_over = draw(st.sampled_from(["FAIL", "FIRE", "DISCARD"]))
    admission = draw(st.sampled_from([None, None, *_ADMISSIONS]))
    return Node(
        id=names[index],
        arrival=RoundJoin(sources, count, left_over) if joins else AnyInput(),
        activity=draw(_routed_activities(names[index])),
        admission=None if index == 0 else admission,
        time_limit=draw(st.sampled_from([None, None, A_SECOND])),
        keeps_input=draw(st.booleans()),
        routing=Routing(
            mode=draw(st.sampled_from(["EVERY", "EVERY", "FIRST"])),
            arcs=tuple(draw(_routed_arcs(names[b])) for a, b in edges if a == index),
            unmatched=draw(st.sampled_from([None, "NO_NEXT"])),
        ),
    )


_ADMISSIONS = [
    Admission(rule="n1", watches=frozenset({"n1"})),
    Admission(rule="!n1", watches=frozenset({"n1"})),
    Admission(rule="!n2", watches=frozenset({"n2", "n3"})),
    Admission(rule="patched"),
    Admission(rule="n2", on_deny="DISCARD"),
]


@st.composite
def _routed_arcs(draw: st.DrawFn, target: NodeId) -> Arc:
    return Arc(
        target,
        guard=draw(st.sampled_from([None, None, "n", "zzz", "?"])),
        on=("DONE", "FAILED"),
        assignment=draw(st.sampled_from([None, "n3"])),
    )


@st.composite
def _routed_activities(draw: st.DrawFn, name: NodeId) -> Activity:
    limit = draw(st.sampled_from([None, 1, 2]))
    match draw(st.sampled_from(["nothing", "inline", "task", "task", "each", "child", "children"])):
        case "task":
            return Task(f"do {name}")
        case "inline":
            return Inline()
        case "child":
            return SubNet("other")
        case "each":
            return Many(Task(f"each {name}"), limit, draw(st.sampled_from(["GO_ON", "STOP"])))
        case "children":
            return Many(SubNet("other"), limit, draw(st.sampled_from(["GO_ON", "STOP"])))
        case _:
            return NoActivity()
