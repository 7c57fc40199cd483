"""Small nets, and a language whose values travel along edges, to show that the kernel needs no shared variables."""

from collections.abc import Sequence

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import (
    Arc,
    Completed,
    KernelResult,
    Marking,
    Moment,
    Net,
    Node,
    NodeId,
    Problem,
    Routing,
    advance,
    start,
)
from statewright.net.events import Event
from statewright.net.identifiers import IDS_PER_MOMENT
from statewright.net.nodes import Activity, AnyInput, Arrival, BoundaryTimer, NoActivity

NOTHING, EACH = NoActivity(), AnyInput()
AT = 1_700_000_000_000_000


class Letters:
    """Values are texts. A node appends its own name to those that fire it; guards name what a value must contain.

    The guard ``?`` is a problem, and so is completing the node ``broken``.
    """

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        return "+".join(str(payload) for payload in payloads)

    def complete(self, data: JsonObject, node: Node, output: JsonValue, at: int) -> Completed | Problem:
        if node.id == "broken":
            return Problem("broken by design")
        value = node.id if output is None else str(output)
        return Completed(data={**data, node.id: value}, payloads=(value,), output=value)

    def evaluate_guard(self, guard: str, data: JsonObject, payloads: Sequence[JsonValue], at: int) -> bool | Problem:
        return Problem("no such guard") if guard == "?" else any(guard in str(payload) for payload in payloads)

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        return {**data, **changes}


def a_node(
    name: str,
    *targets: str,
    activity: Activity = NOTHING,
    arrival: Arrival = EACH,
    routing: Routing | None = None,
    timers: tuple[BoundaryTimer, ...] = (),
    ends: bool = False,
    successor: str | None = None,
) -> Node:
    """A node that sends a token to each of ``targets``, unless it has a routing of its own."""
    return Node(
        id=NodeId(name),
        arrival=arrival,
        activity=activity,
        routing=routing or Routing(mode="ALL", arcs=arcs(*targets)),
        timers=timers,
        ends=ends,
        successor=successor,
    )


def arcs(*targets: str) -> tuple[Arc, ...]:
    """Arcs as ``target`` or ``guard->target``."""
    pairs = [target.rpartition("->") for target in targets]
    return tuple(Arc(NodeId(target), guard if arrow else None) for guard, arrow, target in pairs)


def a_net(*nodes: Node, **members: object) -> Net:
    """A net that starts at the first node and is complete when nothing moves, unless told otherwise."""
    settings = {"entries": (nodes[0].id,), "ending": "QUIESCENCE"} | members
    return Net(nodes={node.id: node for node in nodes}, **settings)  # type: ignore[arg-type]


class Player:
    """Runs a net event by event; ids and instants are counted up."""

    def __init__(self, net: Net, language: Letters | None = None) -> None:
        self.net = net
        self.language = language or Letters()
        self.count = 0
        self.marking = Marking(data={})
        self.effects: tuple[object, ...] = ()

    def start(self) -> "Player":
        return self.take(start(self.net, self.language, {}, self.moment()))

    def play(self, event: Event) -> "Player":
        return self.take(advance(self.net, self.language, self.marking, event, self.moment()))

    def take(self, step: KernelResult) -> "Player":
        self.marking, self.effects = step.marking, step.effects
        return self

    def moment(self) -> Moment:
        self.count += 1
        return Moment(at=AT + self.count, first_id=(AT // 1000 << 80) + self.count * IDS_PER_MOMENT)

    def told(self, kind: type) -> list[object]:
        """The effects of the last event that are of this kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]
