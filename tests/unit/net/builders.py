"""Small nets, and a language whose values travel along edges, to show that the kernel needs no shared variables."""

from collections.abc import Sequence
from typing import TypeVar

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import (
    HOLD,
    Arc,
    Completed,
    Concluded,
    ElementResult,
    Language,
    Net,
    Node,
    NodeId,
    Note,
    Performed,
    Problem,
    Routing,
    Verdict,
    Visit,
    WorkId,
    conclude_by_language,
)
from statewright.net.effects import Effect, EnqueueTask, RecordEntry
from statewright.net.local import LocalRun
from statewright.net.nodes import Activity, AnyInput, Arrival, BoundaryTimer, NoActivity

NOTHING, EACH = NoActivity(), AnyInput()
E = TypeVar("E")
AT = 1_700_000_000_000_000


class Letters(Language):
    """Values are texts. A node appends its own name to those that fire it; guards name what a value must contain.

    The guard ``?`` is a problem, and so are completing the node ``broken`` and building an input for ``unreadable``.
    Loops go over the letters of a text. With ``stalls``, an instance in which tokens wait for ever fails.
    """

    def __init__(self) -> None:
        self.stalls = False

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> "JsonValue | Problem":
        if node.id == "unreadable":
            return Problem("unreadable input")
        return "+".join(str(payload) for payload in payloads)

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        node, output = visit.node, visit.output
        if node.id == "broken":
            return Problem("broken by design")
        value = node.id if output is None else str(output)
        return Completed(data={**data, node.id: value}, payloads=(value,), output=value)

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        seen = visit.outgoing or visit.payloads
        return Problem("no such guard") if guard == "?" else any(guard in str(payload) for payload in seen)

    def inscribe(self, expression: str, data: JsonObject, visit: Visit) -> "JsonValue | Problem":
        return "".join(str(payload) for payload in visit.outgoing).upper()

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        return {**data, **changes}

    def perform(self, data: JsonObject, visit: Visit) -> Performed:
        """Work done at once marks the data; it is a problem at ``broken`` and where the guard ``?`` says so."""
        return Performed(notes=(Note(kind="noted", changes={"performed": visit.node.id}),), output=visit.input)

    def assign(self, expression: str, data: JsonObject, visit: Visit) -> "JsonObject | Problem":
        return {expression: visit.node.id}

    def admit(self, rule: str, data: JsonObject, visit: Visit) -> Verdict:
        """The rule names a member that the data must have, or after ``!`` must not have."""
        return Verdict(allows=rule[1:] not in data if rule.startswith("!") else rule in data)

    def find_changes(self, before: JsonObject, after: JsonObject) -> frozenset[str] | None:
        return frozenset(name for name in {*before, *after} if before.get(name) != after.get(name))

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue]:
        return list(str(visit.input))

    def collect(self, data: JsonObject, visit: Visit, results: Sequence[ElementResult]) -> JsonValue:
        return ",".join(str(result.payloads[0]) for result in results)

    def conclude(
        self, data: JsonObject, yielded: tuple[JsonValue, ...] | None, waiting: Sequence[NodeId]
    ) -> Concluded | Problem | None:
        if waiting and self.stalls:
            return Problem(f"stalled at {', '.join(waiting)}")
        return None if waiting else Concluded(result=list(yielded or ()))


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
    settings = {"entries": (nodes[0].id,), "on_failure": HOLD, "ending": conclude_by_language} | members
    return Net(nodes={node.id: node for node in nodes}, **settings)  # type: ignore[arg-type]


class Player(LocalRun):
    """Runs a net event by event."""

    def __init__(self, net: Net, language: Letters | None = None) -> None:
        self.language = language or Letters()
        super().__init__(net, lambda _: self.language, {}, at=AT)
        self.open: dict[str, WorkId] = {}
        """Tasks that were begun, by input."""

    def _note(self, effect: Effect) -> None:
        super()._note(effect)
        if isinstance(effect, EnqueueTask):
            self.open[str(effect.input)] = effect.task

    def told(self, kind: type[E]) -> list[E]:
        """The effects of the last event that are of this kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def inputs(self, node: str) -> list[JsonValue]:
        """With what a node was entered at the last event."""
        return [entry.input for entry in self.told(RecordEntry) if entry.node == node and entry.element is None]

    def open_at(self, node: str) -> list[WorkId]:
        """The tasks of a node that were begun and not closed, the oldest first."""
        return [task.task for task in self.tasks.values() if task.node == node]

    def task_at(self, node: str) -> WorkId:
        """The only one of them."""
        (task,) = self.open_at(node)
        return task
