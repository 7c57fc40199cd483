"""Generated flows without cycles run as an independent evaluator says, whatever the order of the tasks
(docs/reference/flows.md#at-run-time)."""

import os
import random
from collections import Counter

import pytest

from statewright.flows import FlowLimits, LocalInstance, compile_graph, compile_text, list_failures
from statewright.net import marking_from_document, marking_to_document
from tests.unit.flows.oracle import Failed, Oracle, answer, show

FLOWS = int(os.environ.get("FLOWS", "1000"))
BATCHES = 10
GUARDS = ["$.n", "$[?(@.n>3)]", "$.never", "$[*]", "$[0]"]


def write_flow(random_: random.Random, depth: int = 0) -> str:
    """Statements of a scope, with labels that lead forward only."""
    lines = []
    labels = [f"x{depth}{index}" for index in range(random_.randint(0, 2))]
    for index in range(random_.randint(1, 3)):
        steps = [write_step(random_, depth) for _ in range(random_.randint(1, 3))]
        source, target = "", ""
        if index == 0:
            steps[-1] += "".join(f" :{label}" for label in labels[:1])
        elif labels and random_.random() < 0.5:
            source = f":{labels[0]} → "
        elif depth == 0 and random_.random() < 0.2:
            source = '<[{"n":4},{"m":1}]> → '
        if random_.random() < 0.2:
            target = " → > :end"
        lines.append(f"{source}{' → '.join(steps)}{target} ;")
    return "\n".join(lines)


def write_step(random_: random.Random, depth: int) -> str:
    mark = random_.choice(["", "", "", "*", "*", ">"])
    guard = f"? `{random_.choice(GUARDS)}` " if random_.random() < 0.3 else ""
    body = "T"
    if depth < 2 and random_.random() < 0.35:
        body = f"{{ {write_flow(random_, depth + 1)} }}"
    elif random_.random() < 0.15:
        body = "T|T"
    return f"{mark} {guard}{body}"


def finish(instance: LocalInstance, random_: random.Random) -> list[tuple[int, str]]:
    """Answer all tasks in any order, some only after a failure; what was answered."""
    asked = []
    while True:
        while instance.open:
            invocation = random_.choice(instance.open)
            if random_.random() < 0.05:
                instance.fail(invocation.task, "boom")
                continue
            asked.append((invocation.node.index, show(invocation.input)))
            instance.complete(invocation.task, answer(invocation.node.index, invocation.input))
            if random_.random() < 0.1:
                stored = marking_to_document(instance.marking)
                instance.marking = marking_from_document(stored, instance.marking.data)
        if not any(reason == "boom" for _, reason in list_failures(instance)):
            return asked
        assert instance.restart()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_flow_comes_to_what_the_oracle_says(batch: int):
    for number in range(FLOWS // BATCHES):
        random_ = random.Random(batch * 1_000_000 + number)
        text = write_flow(random_)
        graph = compile_text(text)
        oracle = Oracle(graph)
        flow_input = random_.choice([{}, {"n": 1}, [{"n": 5}, {"m": 2}], []])
        try:
            expected = oracle.run(flow_input)
        except Failed:
            expected = None
        instance = LocalInstance(compile_graph(graph, FlowLimits(iteration=random_.choice([None, 1, 2]))), flow_input)
        asked = finish(instance, random_)
        if expected is None:
            assert instance.status == "FAILED", text
            assert any("MERGE_TYPE" in why for _, why in list_failures(instance)), text
        else:
            assert (instance.status, instance.marking.reason) == ("COMPLETED", None), text
            assert instance.result == expected, text
            assert Counter(asked) == Counter(oracle.asked), text
