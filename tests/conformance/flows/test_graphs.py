"""Every worked run has the graph that the description gives it."""

import pytest

from statewright.flows.compiling import compile_flow
from statewright.flows.documents import graph_from_document, graph_to_document
from statewright.jsonval.codec import decode, encode
from tests.conformance.flows.cases import Case, name_edges, read_cases

RUNS = read_cases("runs.txt")


def test_all_worked_runs_are_here() -> None:
    assert [case.name.split()[0] for case in RUNS] == [str(number) for number in range(1, 62)]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)
def test_a_text_has_its_graph(case: Case) -> None:
    assert name_edges(compile_flow(case.text)) == case.edges


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)
def test_the_compiled_form_is_the_graph(case: Case) -> None:
    graph = compile_flow(case.text)
    stored = decode(encode(graph_to_document(graph)))
    assert isinstance(stored, dict)
    assert graph_from_document(stored) == graph
