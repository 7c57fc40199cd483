"""Every edge is a queue: values come to a node in the order in which they left the one before it
(docs/reference/flows.md#at-run-time).
"""

import random
from collections import defaultdict

import pytest

from statewright.flows import FlowGraph, FlowLimits, FlowNode, LocalInstance, compile_graph
from statewright.flows.graph import Edge, find_back_edges
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.net.effects import RecordEntry, RecordExit

BATCHES = 10
GRAPHS_PER_BATCH = 300
GUARDS = (None, "$[?(@.n>0)]", "$[?(@.n>1)]", "$.never")


def a_graph(random_: random.Random) -> FlowGraph:
    """Tasks with edges anywhere, also back and to themselves."""
    count = random_.randint(2, 6)
    nodes = [FlowNode(index=0, kind="start")]
    for index in range(1, count + 1):
        marks = {"merge": random_.random() < 0.3, "guard": random_.choice(GUARDS)}
        nodes.append(FlowNode(index=index, kind="task", name="T", base="T", parameters={}, iterate=False, **marks))
    nodes.append(FlowNode(index=count + 1, kind="end", merge=False))
    edges: set[Edge] = {(random_.randint(0, index - 1), index) for index in range(1, count + 2)}
    for _ in range(random_.randint(1, count)):
        edges.add((random_.randint(1, count), random_.randint(1, count)))
    graph = FlowGraph(nodes=tuple(nodes), edges=tuple(sorted(edges)))
    return FlowGraph(nodes=graph.nodes, edges=graph.edges, back_edges=find_back_edges(graph))


class Journal:
    """Plays an instance, its tasks in any order; what came to its nodes and what left them, each in its order."""

    def __init__(self, graph: FlowGraph, random_: random.Random) -> None:
        self.arrived = defaultdict[int, list[bytes]](list)
        self.left = defaultdict[int, list[bytes]](list)
        self._nodes: dict[str, int] = {}
        limits = FlowLimits(max_visits=8)
        instance = LocalInstance(compile_graph(graph, limits), {"n": 3})
        self._note(instance)
        answers = 0
        while instance.open:
            invocation = random_.choice(instance.open)
            answers += 1
            if random_.random() < 0.05:
                instance.fail(invocation.task, "boom")
            else:
                instance.complete(invocation.task, answer(invocation.input, answers, random_))
            self._note(instance)
            if instance.status == "FAILED" and not instance.open and answers < 100 and instance.restart():
                self._note(instance)

    def _note(self, instance: LocalInstance) -> None:
        for effect in instance.effects:
            match effect:
                case RecordEntry(execution=execution, node=node, input=given):
                    self._nodes[execution] = int(node)
                    self.arrived[int(node)].append(encode(given))
                case RecordExit(execution=execution, status="COMPLETED" | "BYPASSED", output=output):
                    self.left[self._nodes[execution]].append(encode(output))
                case _:
                    pass


def answer(given: JsonValue, number: int, random_: random.Random) -> JsonValue:
    """Another value each time, of which loops come to their end."""
    n = given.get("n", 0) if isinstance(given, dict) else 0
    assert isinstance(n, int)
    value: JsonValue = {"n": n - 1, "answer": number}
    return value if random_.random() < 0.6 else [value, {"part": number}]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_values_on_an_edge_keep_their_order(batch: int):
    for number in range(GRAPHS_PER_BATCH):
        random_ = random.Random(batch * 1_000_000 + number)
        graph = a_graph(random_)
        journal = Journal(graph, random_)
        for node in graph.nodes[1:]:
            sources = graph.predecessors[node.index]
            if len(sources) != 1 or node.is_merged or (sources[0], node.index) in graph.back_edges or sources == [0]:
                continue
            came, left = list_once(journal.arrived[node.index]), list_once(journal.left[sources[0]])
            assert came == left[: len(came)], (graph.edges, node.index)


def list_once(values: list[bytes]) -> list[bytes]:
    """Each value once: what fails comes again."""
    return list(dict.fromkeys(values))
