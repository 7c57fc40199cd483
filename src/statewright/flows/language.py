"""What flows plug into the kernel: values along edges, no shared variables (docs/reference/flows.md#at-run-time).

What travels along edges: objects and arrays (docs/reference/flows.md#values).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from statewright.evaluation.costs import Turn
from statewright.flows.builtin_tasks import BUILTIN_TASKS
from statewright.flows.graph import FlowGraph, FlowNode, describe
from statewright.flows.guards import (
    MAX_SELECTED,
    Guard,
    GuardTooBroad,
    MalformedGuard,
    count_parsing_steps,
    parse_guard,
)
from statewright.jsonval.values import JsonObject, JsonValue, merge_shallow
from statewright.loop.turns import TurnExceeded
from statewright.net import Completed, Concluded, ElementResult, Language, Node, NodeId, Problem, Visit


def to_flow_value(output: JsonValue) -> JsonValue:
    """What a task answered as a value: nothing is ``{}``, another scalar an array of it."""
    if output is None:
        return {}
    return output if isinstance(output, dict | list) else [output]


def combine(values: Sequence[JsonValue]) -> JsonValue:
    """What a node sees of the values on its edges: without the empty objects, and one alone as it is."""
    full = [value for value in values if value != {}]
    if not full:
        return {}
    return full[0] if len(full) == 1 else full


def merge(value: JsonValue) -> "JsonObject | None":
    """An array as one object, later members winning, nested arrays flattened. ``None``: that cannot be."""
    if isinstance(value, dict):
        return value
    merged: JsonObject = {}
    for part in _flatten(value):
        if not isinstance(part, dict):
            return None
        merged |= part
    return merged


def _flatten(value: JsonValue) -> Iterator[JsonValue]:
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, list):
            rest.extend(reversed(part))
        else:
            yield part


INPUT: Final = "input"
"""The member of the data of an instance that holds what the flow was started with."""
MAX_OPERATION_SELECTED: Final = 2_000_000
"""Values that the guards of one operation on an instance may look at together."""
ELEMENTS_PER_NODE: Final = 20
"""Elements that looking at a node counts as, in a turn."""
MERGE_TYPE: Final = "MERGE_TYPE: only objects can be merged"


class FlowLanguage(Language):
    """The language of one flow."""

    def __init__(
        self,
        graph: FlowGraph,
        columns: Mapping[NodeId, int],
        guards: dict[str, Guard],
        turn_elements: int | None = None,
    ) -> None:
        self._graph = graph
        self._columns = columns
        self._guards = guards
        self._turn = None if turn_elements is None else Turn(turn_elements)
        self._selectable = MAX_OPERATION_SELECTED

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> "JsonValue | Problem":
        """The values taken from the edges as one, merged where the node asks for it."""
        self._spend(ELEMENTS_PER_NODE)
        flow_node = self._get_node(node)
        if flow_node.kind == "start":
            return data.get(INPUT, {})
        if node.id in self._columns:
            return list(payloads)  # each edge is a column of the result
        value = combine(payloads) if len(payloads) != 1 else payloads[0]
        if not flow_node.is_merged:
            return value
        merged = merge(value)
        return Problem(MERGE_TYPE) if merged is None else merged

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        """The output of a node, for all its edges; of a skipped one, its input. Raises ``TurnExceeded``."""
        self._spend(ELEMENTS_PER_NODE)
        if visit.node.id in self._columns:
            return Completed(data=data, payloads=visit.payloads, output=visit.input)
        output = self._compute_output(visit)
        return Completed(data=data, payloads=(output,), output=output)

    def _compute_output(self, visit: Visit) -> JsonValue:
        node = self._get_node(visit.node)
        if visit.outcome == "SKIPPED":
            return visit.input
        if node.kind == "literal":
            return node.value  # type: ignore[return-value] # a literal has one
        if node.base in BUILTIN_TASKS and visit.output is None:
            return visit.input
        if node.kind == "write":
            return visit.output if isinstance(visit.output, dict | list) else {}
        if visit.element is not None:
            return {} if visit.output is None else visit.output
        if node.kind in ("task", "read") or node.is_iterated:
            return to_flow_value(visit.output)
        return visit.input

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        """Whether the query selects anything of the input. Raises ``TurnExceeded``."""
        self._spend(ELEMENTS_PER_NODE)
        try:
            parsed = self._guards.get(guard)
            if parsed is None:
                self._spend(count_parsing_steps(guard))
                parsed = self._guards[guard] = parse_guard(guard)
            limit = min(MAX_SELECTED, self._selectable if self._turn is None else self._turn.left)
            holds, selected = parsed.judge(visit.input, limit)
        except MalformedGuard as defect:
            return Problem(f"GUARD: {defect}")
        except GuardTooBroad as defect:
            if self._turn is not None:
                raise TurnExceeded from None
            return Problem(f"GUARD: {defect}")
        self._selectable -= selected
        self._spend(selected)
        return holds

    def collect(self, data: JsonObject, visit: Visit, results: Sequence[ElementResult]) -> JsonValue:
        """The results in the order of the elements; a column for each edge into the join of an iterated subflow."""
        end = self._get_node(visit.node).end
        columns = self._columns.get(NodeId(str(end)), 0) if isinstance(end, int) else 0
        if not columns:
            return [result.payloads[0] if result.payloads else {} for result in results]
        rows = [
            result.payloads if len(result.payloads) == columns else (combine(result.payloads),) * columns
            for result in results
        ]
        return [[row[column] for row in rows] for column in range(columns)]

    def conclude(
        self, data: JsonObject, yielded: tuple[JsonValue, ...] | None, waiting: Sequence[NodeId]
    ) -> Concluded | Problem | None:
        """The last value of the end, ``{}`` where nothing leads to it; stalled when values are left on edges."""
        names = ", ".join(describe(self._graph.nodes[int(node)]) for node in waiting)
        if yielded is not None:
            warning = f"values are left at {names}" if names else None
            return Concluded(result=yielded[0] if yielded else {}, warning=warning)
        return Problem(f"STALLED: values wait for others at {names}") if names else Concluded(result={})

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        """Members are replaced."""
        return merge_shallow(data, changes)

    def _spend(self, elements: int) -> None:
        if self._turn is not None:
            self._turn.spend(elements)

    def _get_node(self, node: Node) -> FlowNode:
        return self._graph.nodes[int(node.id)]
