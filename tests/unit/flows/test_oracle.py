"""Generated flows come to what an independent evaluator says, in whatever order tasks end, with failures, stops and
restarts on the way (docs/reference/flows.md#at-run-time).
"""

import os
import random
from collections import Counter

import pytest

from statewright.flows import FlowLimits, LocalInstance, compile_graph, compile_text, list_failures
from statewright.net import marking_from_document, marking_to_document
from tests.unit.flows.oracle import Failed, Oracle, answer, show

FLOWS = int(os.environ.get("FLOWS", "5000"))
BATCHES = 10
MAX_VISITS = 6
GUARDS = ["$.n", "$[?(@.n>3)]", "$[?(@.n<3)]", "$.never", "$[*]", "$[0]"]
LOOP_GUARDS = ["$[?(@.n<3)]", "$[?(@.n<3)]", "$[?(@.n<1)]", "$.never", "$.n"]


def write_flow(random_: random.Random, depth: int = 0, *, can_loop: bool = True) -> str:
    """Statements of a scope, with labels that lead forward, and at most one loop."""
    lines = []
    label = f"x{depth}" if random_.random() < 0.5 else ""
    for index in range(random_.randint(1, 3 if depth == 0 else 2)):
        steps = [write_step(random_, depth) for _ in range(random_.choice((1, 1, 2, 3)))]
        source, target = "", ""
        if label and index == 0:
            steps[-1] += f" :{label}"
        elif label and random_.random() < 0.5:
            source = f":{label} → "
        elif depth == 0 and random_.random() < 0.2:
            source = '<[{"n":4},{"m":1}]> → '
        if random_.random() < 0.2:
            target = " → > :end"
        lines.append(f"{source}{' → '.join(steps)}{target} ;")
    if can_loop and random_.random() < 0.25:
        lines.append(write_loop(random_))
    return "\n".join(lines)


def write_loop(random_: random.Random) -> str:
    """A loop of tasks, each of whose rounds gives a value on, and what follows, up to the end of the scope.

    No other scope begins behind it: in which order the values of several rounds meet there is free.
    """
    merge, *body = random_.choice((">", "")), *["T"] * random_.randint(1, 2)
    follows = [random_.choice(("T", f"? `{random_.choice(GUARDS)}` T")) for _ in range(random_.randint(0, 2))]
    leading = f"{merge} ? `{random_.choice(LOOP_GUARDS)}` T → :again"
    return f"T → :again {' → '.join(body)} :round → {leading} ; :round → {' → '.join(['T', *follows])} ;"


def write_step(random_: random.Random, depth: int) -> str:
    mark = random_.choice(("", "", "", "*", "*", ">"))
    guard = f"? `{random_.choice(GUARDS)}` " if random_.random() < 0.3 else ""
    body = "T"
    if depth < 2 and random_.random() < 0.25:
        body = f"{{ {write_flow(random_, depth + 1, can_loop=mark == '*')} }}"
    elif random_.random() < 0.15:
        body = "T|T"
    return f"{mark} {guard}{body}"


def finish(instance: LocalInstance, random_: random.Random) -> list[tuple[int, str]]:
    """Answer all tasks in any order, some only after a failure or a stop; what was answered."""
    asked = []
    while True:
        while open_ := instance.open:
            invocation, chance = random_.choice(open_), random_.random()
            if chance < 0.04:
                instance.fail(invocation.task, "boom")
                continue
            if chance < 0.06:
                instance.terminate()
                continue
            asked.append((invocation.node.index, show(invocation.input)))
            instance.complete(invocation.task, answer(invocation.node.index, invocation.input))
            if chance > 0.95:
                stored = marking_to_document(instance.marking)
                instance.marking = marking_from_document(stored, instance.marking.data)
        if instance.status != "TERMINATED" and not any(reason == "boom" for _, reason in list_failures(instance)):
            return asked
        assert instance.restart()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_flow_comes_to_what_the_oracle_says(batch: int):
    for number in range(FLOWS // BATCHES):
        random_ = random.Random(batch * 1_000_000 + number)
        text = write_flow(random_)
        graph = compile_text(text)
        oracle = Oracle(graph, MAX_VISITS)
        flow_input = random_.choice([{}, {"n": 1}, [{"n": 5}, {"m": 2}], []])
        try:
            expected = oracle.run(flow_input)
        except Failed:
            expected = None
        limits = FlowLimits(iteration=random_.choice([None, 1, 2]), max_visits=MAX_VISITS)
        instance = LocalInstance(compile_graph(graph, limits), flow_input)
        asked = finish(instance, random_)
        if expected is None:
            assert instance.status == "FAILED", text
            assert all(why.startswith(("MERGE_TYPE", "VISIT_LIMIT")) for _, why in list_failures(instance)), text
        else:
            assert (instance.status, instance.marking.reason) == ("COMPLETED", None), text
            assert instance.result == expected, text
            assert Counter(asked) == Counter(oracle.asked), text
