"""An independent evaluator for small flows, to hold the kernel to: no tokens, no events, no net.

A flow without cycles is evaluated node by node in the order of its edges; a subflow is skipped, or run for each
element, by evaluating its part of the graph on its own. Tasks answer a function of their number and input.
"""

from statewright.flows import FlowGraph
from statewright.flows.guards import parse_guard
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue


class Failed(Exception):
    """A node failed."""


def answer(index: int, given: JsonValue) -> JsonValue:
    """What the task with this number answers."""
    match index % 5:
        case 0:
            return {}
        case 1:
            return given
        case 2:
            return [{"n": index}, {"m": index}, {}]
        case 3:
            return {"n": index}
        case _:
            return {"of": len(given) if isinstance(given, list | dict) else 0, f"k{index}": 1}


class Oracle:
    """Evaluates one graph. ``asked`` counts the invocations of each node by input."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.asked: list[tuple[int, str]] = []

    def run(self, flow_input: JsonValue) -> JsonValue:
        """The result of the flow."""
        last = len(self.graph.nodes) - 1
        edges: dict[tuple[int, int], JsonValue] = {}
        self._send(edges, 0, flow_input)
        self._evaluate(edges, 1, last)
        return self._take(edges, last)

    def _evaluate(self, edges: dict[tuple[int, int], JsonValue], first: int, last: int) -> None:
        """The nodes from ``first`` up to ``last``, each when all its inputs are there."""
        todo = list(range(first, last))
        while todo:
            ready = [index for index in todo if all((source, index) in edges for source in self._sources(index))]
            ready = [index for index in ready if self._sources(index)]
            if not ready:
                return
            index = ready[0]
            node = self.graph.nodes[index]
            end = node.end if isinstance(node.end, int) else index
            self._send(edges, end, self._visit(index, self._take(edges, index)))
            todo = [other for other in todo if not index <= other <= end]

    def _visit(self, index: int, given: JsonValue) -> JsonValue:
        node = self.graph.nodes[index]
        if node.kind == "literal":
            return node.value
        if not node.is_iterated:
            if node.condition is not None and not parse_guard(node.condition).holds(given):
                return given
            return self._do(index, given)[0]
        items = given if isinstance(given, list) else [given]
        columns = self._count_columns(index)
        rows = []
        for item in items:
            if node.condition is not None and not parse_guard(node.condition).holds(item):
                rows.append([item] * columns)
            else:
                rows.append(self._do(index, item, columns, is_element=True))
        table = [[row[column] for row in rows] for column in range(columns)]
        return table[0] if columns == 1 else table

    def _count_columns(self, index: int) -> int:
        end = self.graph.nodes[index].end
        if not isinstance(end, int) or self.graph.nodes[end].is_merged:
            return 1
        return len(self._sources(end))

    def _do(self, index: int, given: JsonValue, columns: int = 1, *, is_element: bool = False) -> list[JsonValue]:
        node = self.graph.nodes[index]
        if node.kind == "task":
            self.asked.append((index, show(given)))
            output = answer(index, given)
            return [output if is_element or isinstance(output, dict | list) else [output]]
        assert isinstance(node.end, int)
        edges: dict[tuple[int, int], JsonValue] = {}
        self._send(edges, index, given)
        self._evaluate(edges, index + 1, node.end)
        if columns > 1:
            return [edges[source, node.end] for source in self._sources(node.end)]
        return [self._take(edges, node.end)]

    def _sources(self, index: int) -> list[int]:
        return [source for source, target in self.graph.edges if target == index]

    def _send(self, edges: dict[tuple[int, int], JsonValue], source: int, value: JsonValue) -> None:
        for one, target in self.graph.edges:
            if one == source:
                edges[one, target] = value

    def _take(self, edges: dict[tuple[int, int], JsonValue], index: int) -> JsonValue:
        values = [edges[source, index] for source in self._sources(index)]
        value: JsonValue = values[0]
        if len(values) > 1:
            full = [one for one in values if one != {}]
            value = full if len(full) > 1 else full[0] if full else {}
        if not self.graph.nodes[index].is_merged or isinstance(value, dict):
            return value
        merged: dict[str, JsonValue] = {}
        for part in flatten(value):
            if not isinstance(part, dict):
                raise Failed(index)
            merged.update(part)
        return merged


def show(value: JsonValue) -> str:
    """The same text for equal values."""
    return encode(value)


def flatten(value: JsonValue) -> list[JsonValue]:
    """The parts of an array, and of those within."""
    if not isinstance(value, list):
        return [value]
    return [part for item in value for part in flatten(item)]
