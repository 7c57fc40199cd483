"""An independent evaluator for small flows, to hold the kernel to: no tokens, no events, no net.

A flow is evaluated as the language is described: every edge is a queue, and the lowest node that is ready takes its
values. A subflow is skipped, or run for each element, by evaluating its part of the graph on its own.
"""

from collections import Counter, deque

from statewright.flows import FlowGraph
from statewright.flows.guards import parse_guard
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue

Queues = dict[tuple[int, int], deque[JsonValue]]


class Failed(Exception):
    """A node failed."""


def answer(index: int, given: JsonValue) -> JsonValue:
    """What the task with this number answers."""
    match index % 7:
        case 0:
            return {}
        case 1:
            return given
        case 2:
            return [{"n": index}, {"m": index}, {}]
        case 3:
            return {"n": index}
        case 4:
            return {"of": len(given) if isinstance(given, list | dict) else 0, f"k{index}": 1}
        case _:
            count = given.get("n") if isinstance(given, dict) else None
            return {"n": count + 1 if isinstance(count, int) else 0}


class Oracle:
    """Evaluates one graph. ``asked`` counts the invocations of each node by input."""

    def __init__(self, graph: FlowGraph, max_visits: int) -> None:
        self.asked: list[tuple[int, str]] = []
        self._nodes = graph.nodes
        self._max_visits = max_visits
        self._sources: list[list[int]] = [[] for _ in graph.nodes]
        self._targets: list[list[int]] = [[] for _ in graph.nodes]
        for source, target in sorted(graph.edges):
            self._sources[target].append(source)
            self._targets[source].append(target)
        self._back: set[tuple[int, int]] = set()
        self._find_back(0, set(), set())
        self._forward = [
            [source for source in sources if (source, target) not in self._back]
            for target, sources in enumerate(self._sources)
        ]

    def _find_back(self, node: int, seen: set[int], path: set[int]) -> None:
        """Depth first from the start: what leads to a node on the way leads back."""
        seen.add(node)
        for target in self._targets[node]:
            if target in path | {node}:
                self._back.add((node, target))
            elif target not in seen:
                self._find_back(target, seen, path | {node})

    def run(self, flow_input: JsonValue) -> JsonValue:
        """The result of the flow. Raises :class:`Failed`."""
        last = len(self._nodes) - 1
        ends = self._evaluate(0, last, flow_input)
        return self._combine(last, ends[-1]) if ends else {}

    def _evaluate(self, first: int, last: int, given: JsonValue) -> list[list[JsonValue]]:
        """A scope from the node that it begins with: what its end takes each time that it is ready."""
        queues: Queues = {}
        visits: Counter[int] = Counter()
        self._send(queues, first, given)
        ends: list[list[JsonValue]] = []
        while (ready := self._find_ready(queues, first + 1, last)) is not None:
            index, values = ready
            if index == last:
                ends.append(values)
                continue
            visits[index] += 1
            if visits[index] > self._max_visits:
                raise Failed(index)
            output, is_skipped = self._visit(index, self._combine(index, values))
            end = self._nodes[index].end
            self._send(queues, end if isinstance(end, int) else index, output, is_skipped=is_skipped)
        return ends

    def _find_ready(self, queues: Queues, first: int, last: int) -> tuple[int, list[JsonValue]] | None:
        for index in sorted({target for (_, target), queue in queues.items() if queue and first <= target <= last}):
            for source in self._sources[index]:
                if (source, index) in self._back and queues.get((source, index)):
                    return index, [queues[source, index].popleft()]
            if all(queues.get((source, index)) for source in self._forward[index]):
                return index, [queues[source, index].popleft() for source in self._forward[index]]
        return None

    def _visit(self, index: int, given: JsonValue) -> tuple[JsonValue, bool]:
        """What a node gives on, and whether it was skipped."""
        node = self._nodes[index]
        if node.kind == "literal":
            return node.value, False  # type: ignore[return-value] # a literal has one
        if not node.is_iterated:
            if not self._holds(index, given):
                return given, True
            return self._do(index, given)[0], False
        items = given if isinstance(given, list) else [given]
        columns = self._count_columns(index)
        rows = [
            self._do(index, item, columns, is_element=True) if self._holds(index, item) else [item] * columns
            for item in items
        ]
        table: list[JsonValue] = [[row[column] for row in rows] for column in range(columns)]
        return (table[0] if columns == 1 else table), False

    def _holds(self, index: int, given: JsonValue) -> bool:
        guard = self._nodes[index].condition
        return guard is None or parse_guard(guard).holds(given)

    def _count_columns(self, index: int) -> int:
        end = self._nodes[index].end
        if not isinstance(end, int) or self._nodes[end].is_merged:
            return 1
        return len(self._sources[end])

    def _do(self, index: int, given: JsonValue, columns: int = 1, *, is_element: bool = False) -> list[JsonValue]:
        node = self._nodes[index]
        if node.kind == "task":
            self.asked.append((index, show(given)))
            output = answer(index, given)
            return [output if is_element or isinstance(output, dict | list) else [output]]
        assert isinstance(node.end, int)
        values = self._evaluate(index, node.end, given)[-1]
        return values if columns > 1 else [self._combine(node.end, values)]

    def _send(self, queues: Queues, source: int, value: JsonValue, *, is_skipped: bool = False) -> None:
        for target in self._targets[source]:
            if not (is_skipped and (source, target) in self._back):
                queues.setdefault((source, target), deque()).append(value)

    def _combine(self, index: int, values: list[JsonValue]) -> JsonValue:
        value: JsonValue = values[0]
        if len(values) > 1:
            full: list[JsonValue] = [one for one in values if one != {}]
            value = full if len(full) > 1 else full[0] if full else {}
        if not self._nodes[index].is_merged or isinstance(value, dict):
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
