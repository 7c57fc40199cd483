"""From text to graph: marks, warnings, limits, and texts that want too much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.flows.compiling import compile_flow
from statewright.flows.errors import FlowError
from statewright.flows.graph import Graph, Node


def the_task(graph: Graph, name: str) -> Node:
    return next(node for node in graph.nodes if node.name == name)


def warnings_of(text: str) -> list[str]:
    return [warning.code for warning in compile_flow(text).warnings]


def test_marks_stand_on_the_step() -> None:
    graph = compile_flow("A → * ? `$.x` B → > C")
    assert (the_task(graph, "B").iterate, the_task(graph, "B").guard) == (True, "$.x")
    assert the_task(graph, "C").merge


def test_marks_of_a_subflow_stand_on_its_fork() -> None:
    fork = compile_flow("A → * ? `$.x` { B C } → D").nodes[2]
    assert (fork.kind, fork.iterate, fork.guard, fork.partner) == ("fork", True, "$.x", 5)


def test_a_merging_destination_marks_every_consumer() -> None:
    graph = compile_flow("A → > :x\n:x → B;\n:x → C")
    assert the_task(graph, "B").merge
    assert the_task(graph, "C").merge
    assert not the_task(graph, "A").merge


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("A → B", []),
        (":x → A → B → :x ;\nC", ["UNREACHABLE", "UNREACHABLE"]),
        ("A → :x B → C → :x", ["ENDLESS_CYCLE", "END_UNREACHABLE"]),
        ("A → :again B → ? `$.more` C → :again ;\nD", ["ENDLESS_CYCLE"]),
        ("@task A ()\n@task A ()\nA", ["DUPLICATE_DECLARATION"]),
        ("? `$[?(@.a and @.b or @.c)]` A", ["MIXED_OPERATORS"]),
    ],
)
def test_what_may_be_meant_otherwise_is_warned_of(text: str, codes: list[str]) -> None:
    assert warnings_of(text) == codes


def test_a_warning_names_place_and_task() -> None:
    warning = compile_flow(":x → A → :x ;\nC").warnings[0]
    assert (warning.position.line, warning.position.column) == (1, 6)
    assert warning.text == "task A cannot be reached from the start"


def test_back_edges_lead_to_a_node_on_the_way() -> None:
    graph = compile_flow("A → :again B :done → ? `$.more` C → :again ;\n:done → D")
    assert graph.back_edges == {(3, 2)}


def test_a_declared_subflow_is_expanded_at_each_use_with_labels_of_its_own() -> None:
    graph = compile_flow("@task X { A :x → B ; :x → C }\nX → X")
    assert [node.name for node in graph.nodes if node.kind == "task"] == ["A", "B", "C", "A", "B", "C"]


@pytest.mark.parametrize(
    "text",
    [
        " → ".join(f"t{number}" for number in range(10_001)),
        "\n".join(["@task A0 { x x }", *(f"@task A{n} {{ A{n - 1} A{n - 1} }}" for n in range(1, 30)), "A29"]),
        "\n".join([*(f"t{n} → :x ;" for n in range(600)), *(f":x → u{n} ;" for n in range(600))]),
        "{" * 65 + "A" + "}" * 65,
        "A " * (512 * 1024 + 1),
    ],
    ids=["nodes", "expansion", "edges", "depth", "text"],
)
def test_a_flow_has_limits(text: str) -> None:
    with pytest.raises(FlowError) as caught:
        compile_flow(text)
    assert caught.value.code == "LIMIT"


def test_a_long_chain_compiles() -> None:
    graph = compile_flow(" → ".join(f"t{number}" for number in range(9_998)))
    assert len(graph.nodes) == 10_000
    assert len(graph.edges) == 9_999


NAMES = ["A", "B", "<- c: 3 ->", "<u.json>", "? `$.a`", "(- a: 1 -)", '({"b":2})']
MARKS = [" → ", "->", ":x", ":y", ":start", ":end", "{", "}", "[", "]", "|", ">", "*", ";", "\n", " "]
DECLARATIONS = ["@task A", "@task B = A", "@flow f", "'''doc'''"]
FRAGMENTS = st.sampled_from([*NAMES, *MARKS, *DECLARATIONS])


def compile_or_refuse(text: str) -> Graph | FlowError:
    try:
        return compile_flow(text)
    except FlowError as refused:
        return refused


@given(st.lists(FRAGMENTS, max_size=25).map("".join))
def test_any_text_is_a_flow_or_is_refused_at_a_place_in_it(text: str) -> None:
    graph = compile_or_refuse(text)
    if isinstance(graph, FlowError):
        lines = text.split("\n")
        assert 1 <= graph.position.line <= len(lines)
        assert 1 <= graph.position.column <= len(lines[graph.position.line - 1]) + 1
        return
    assert graph.nodes[0].kind == "start"
    assert graph.nodes[-1].kind == "end"
    assert [node.index for node in graph.nodes] == list(range(len(graph.nodes)))
    assert all(source < len(graph.nodes) and target < len(graph.nodes) for source, target in graph.edges)
