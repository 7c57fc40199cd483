"""Diagrams, byte for byte."""

from statewright.flows.compiling import compile_flow
from statewright.flows.mermaid import draw_flow


def test_a_flow_is_drawn() -> None:
    assert draw_flow(compile_flow("A → { B C } → my:task")) == (
        "stateDiagram-v2\n"
        "  direction LR\n"
        '  state "A" as A.1\n'
        "  state _start_2_ <<fork>>\n"
        '  state "B" as B.3\n'
        '  state "C" as C.4\n'
        "  state _end_5_ <<join>>\n"
        '  state "my:task" as my_COLON_task.6\n'
        "  [*]-->A.1\n"
        "  A.1-->_start_2_\n"
        "  _start_2_-->B.3\n"
        "  _start_2_-->C.4\n"
        "  B.3-->_end_5_\n"
        "  C.4-->_end_5_\n"
        "  _end_5_-->my_COLON_task.6\n"
        "  my_COLON_task.6-->[*]\n"
    )


def test_what_is_read_written_and_repeated_is_drawn() -> None:
    lines = draw_flow(compile_flow("<in.json> → * a-b → <out.json> ; <[1]> → c"), is_horizontal=False).splitlines()
    assert lines[1:5] == [
        '  state "<in.json>" as resource.1',
        '  state "a-b" as a_HYPHEN_b.2',
        '  state "<out.json>" as resource.3',
        '  state "literal" as literal.4',
    ]
    assert "  resource.1-->a_HYPHEN_b.2 : each" in lines


def test_documentation_stands_once_beside_its_task() -> None:
    graph = compile_flow("@task C '''\n  Collects.\n  More. '''\nA → :x C\nB → :x")
    drawn = draw_flow(graph, with_docs=True)
    assert drawn.count("  note left of C.2\n    Collects.\n  end note\n") == 1


def test_an_instance_is_coloured_by_the_states_of_its_nodes() -> None:
    drawn = draw_flow(compile_flow("A → B → C"), statuses={1: "completed", 2: "active"})
    assert drawn.endswith(
        "  classDef active fill:#fde68a,color:#000\n  class B.2 active\n"
        "  classDef completed fill:#bbf7d0,color:#000\n  class A.1 completed\n"
    )
