"""Texts to tokens, literals and graphs: limits, hostile input, warnings (docs/reference/flows.md)."""

import time

import pytest

from statewright.flows import (
    InvalidFlow,
    compile_graph,
    compile_text,
    graph_from_document,
    graph_to_document,
    render_diagram,
)
from statewright.flows.definition import FlowSource, check_source
from statewright.flows.literals import BadLiteral, read_json, read_yaml
from statewright.flows.process_language import FLOWS
from statewright.jsonval.values import JsonValue
from statewright.processes.language import source_to_text


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        (" delete: true ", {"delete": True}),
        (" {start: 1, end: 10} ", {"start": 1, "end": 10}),
        ("\n  start: 1\n  end: 10\n", {"start": 1, "end": 10}),
        ("\n  a:\n    - 1\n    - x\n", {"a": [1, "x"]}),
        ("at: 2020-01-01", {"at": "2020-01-01"}),
        ("a: yes", {"a": "yes"}),
        ("1: x", {"1": "x"}),
        ("a: 1.50", {"a": "1.50"}),
        ("a: 0x10", {"a": 16}),
        ("a: 0x_", {"a": "0x_"}),
        ("a: !!int 0ozz", {"a": "0ozz"}),
        (f"a: 0x{'f' * 5_000}", {"a": f"0x{'f' * 5_000}"}),
        ("a: .inf", {"a": ".inf"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: '1'", {"a": "1"}),
        ("a: 1e3", {"a": 1000}),
        ("a: !!str 12\nb: !!str 1e3", {"a": "12", "b": "1e3"}),
        ("a: ", {"a": None}),
        ("  a: 1\n  b: 2", {"a": 1, "b": 2}),
        ("  - 1\n  - 2\n", [1, 2]),
        ("\n  a: |\n    x\n", {"a": "x\n"}),
        (" {a: 1,\nb: 2} ", {"a": 1, "b": 2}),
    ],
)
def test_yaml_becomes_json(body: str, value: JsonValue):
    read = read_yaml(body)
    if body == "a: 1.50":
        assert str(read["a"]) == "1.50"  # type: ignore[call-overload,index]
    else:
        assert read == value


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("5", "scalar"),
        (" a: 1\nb: 2", "expected"),
        ("\ta: 1", "cannot start any token"),
        ("a: [1", "expected"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: !!python/object:os.system x", "not supported"),
        ("? [1]\n: 2", "a key must be a scalar"),
        ("a: 1\na: 2", "duplicate key"),
        ("a: &x\n  - *x", "nested too deeply"),
        ("[" * 400 + "]" * 400, "nested too deeply"),
        (
            "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "aliases repeat more than 10000 values",
        ),
        ("[" + "1," * 100_000 + "]", "more than 100000 values"),
        ('a: "\\0"', "cannot be stored"),
    ],
)
def test_yaml_that_is_no_value_is_refused(body: str, reason: str):
    with pytest.raises(BadLiteral) as refused:
        read_yaml(body)
    assert reason in str(refused.value)


STORED_BEFORE = ("A (- a: 1\nb: 2 -)", "A (-\ta: 1 -)", "A → { B → :x C → :x }")


@pytest.mark.parametrize("text", STORED_BEFORE)
def test_what_was_stored_before_it_was_refused_goes_on(text: str):
    source = FlowSource(id="f", text=text)
    with pytest.raises(InvalidFlow):
        check_source(source)
    assert FLOWS.compile_source(source_to_text(source), 1).version == 1


def test_json_is_read_as_everywhere_in_the_service():
    with pytest.raises(BadLiteral, match="duplicate"):
        read_json('{"a":1,"a":2}')
    with pytest.raises(BadLiteral):
        read_json('{"a":1e9999}')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A" * (1024 * 1024 + 1), "bytes"),
        ("A\n" * 10_001, "10000 nodes"),
        ("{" * 65 + "A" + "}" * 65, "nested more than 64 deep"),
        ("\n".join([f"A{n} → :x ;" for n in range(400)] + [f":x → B{n} ;" for n in range(400)]), "100000 edges"),
        ("".join(f"@task X{n} {{ X{n + 1} X{n + 1} }}\n" for n in range(40)) + "X0", "10000 nodes"),
        ("".join(f"@task X{n} {{ X{n + 1} }}\n" for n in range(100)) + "X0", "nested more than 64 deep"),
    ],
)
def test_a_flow_has_limits(text: str, reason: str):
    with pytest.raises(InvalidFlow) as refused:
        compile_text(text)
    assert refused.value.code == "LIMIT"
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500_000,
        "<" * 500_000,
        "'''" + "x" * 500_000,
        "`" * 499_999,
        "A" + " :x" * 300_000,
        "A (- " + "[" * 200_000,
        "A ({" + '"' * 500_000,
        "A ([" + "[" * 200_000 + "]" * 200_000 + "])",
        "A-" * 500_000,
        "A" * 1_000_000,
        "# " * 500_000,
        "> " * 300_000,
        "\n" * 1_000_000,
        "A → " * 200_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_texts_are_refused_in_time_that_their_length_explains(text: str):
    began = time.process_time()
    with pytest.raises(InvalidFlow):
        compile_text(text)
    assert time.process_time() - began < 30


def test_a_defect_names_its_place_the_piece_and_what_was_expected():
    with pytest.raises(InvalidFlow) as refused:
        compile_text("A →\n  ; B")
    error = refused.value
    assert (error.position.line, error.position.column) == (2, 3)
    assert error.piece == ";"
    assert "a task" in error.expected


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (":x → A → :x ; B", "1:6 A.1 cannot be reached from the start"),
        ("A → :x B → C → :x", "1:12 the cycle from C.3 to B.2 has no exit: guard what leads back"),
        ("A → :x B → * ? `$.n` C → :x", "the cycle from C.3 to B.2 has no exit"),
        ("A → :x ; :x → B :y → ? `$.n` C → :x", "no path leads from the start to the end"),
        ("@task A (- x: 1 -)\n@task A (- x: 2 -)\nA", "2:1 task A is declared again; this one counts"),
        ("? `$[?(@.a and @.b or @.c)]` A", "1:3 the guard mixes and with or"),
    ],
)
def test_what_is_hardly_meant_is_a_warning(text: str, warning: str):
    assert any(warning in one for one in compile_text(text).warnings)


def test_a_loop_with_a_guarded_way_back_gives_no_warning():
    assert compile_text("A → :x B :y → ? `$.n` C → :x ; :y → D").warnings == ()


def test_the_compiled_form_is_that_of_the_reference():
    graph = compile_text("@flow orders\n@task X = A (- fruit: fig -) '''Peel it'''\n? `$.a` X → {B}")
    assert graph_to_document(graph) == {
        "name": "orders",
        "doc": None,
        "nodes": [
            {"index": 0, "kind": "start"},
            {
                "index": 1,
                "kind": "task",
                "name": "X",
                "base": "A",
                "parameters": {"fruit": "fig"},
                "merge": False,
                "iterate": False,
                "guard": "$.a",
                "doc": "Peel it",
                "line": 3,
                "column": 9,
            },
            {
                "index": 2,
                "kind": "fork",
                "end": 4,
                "merge": False,
                "iterate": False,
                "guard": None,
                "line": 3,
                "column": 13,
            },
            {
                "index": 3,
                "kind": "task",
                "name": "B",
                "base": "B",
                "parameters": {},
                "merge": False,
                "iterate": False,
                "guard": None,
                "doc": None,
                "line": 3,
                "column": 14,
            },
            {"index": 4, "kind": "join", "fork": 2, "merge": False},
            {"index": 5, "kind": "end", "merge": False},
        ],
        "edges": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]],
        "backEdges": [],
        "warnings": [],
    }


@pytest.mark.parametrize("damage", [{}, {"nodes": []}, {"nodes": [{"index": 1, "kind": "start"}], "edges": []}])
def test_a_damaged_compiled_form_is_reported_as_such(damage: dict[str, JsonValue]):
    with pytest.raises(ValueError, match="damaged"):
        graph_from_document(damage)


def test_a_graph_of_ten_thousand_nodes_is_compiled_and_drawn():
    graph = compile_text(" → ".join(f"T{n}" for n in range(9_998)))
    assert len(graph.nodes) == 10_000
    assert len(compile_graph(graph).net.nodes) == 10_000
    assert render_diagram(graph).count("\n") > 19_000


def test_documentation_is_noted_once_beside_its_task():
    text = "@task A '''\n  First line.\n  Second.\n'''\nB|C → A"
    assert render_diagram(compile_text(text), with_docs=True, is_vertical=True).splitlines()[-4:] == [
        "  note left of A.5",
        "    First line.",
        "  end note",
        "  A.5-->[*]",
    ]
