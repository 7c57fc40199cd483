"""The worked runs and errors of the flow language (docs/reference/flows.md)."""

from collections import defaultdict

import pytest

from statewright.flows import (
    InvalidFlow,
    compile_text,
    graph_from_document,
    graph_to_document,
    list_failures,
    render_diagram,
)
from statewright.flows.lexer import CURRENT, STORED, Rules
from statewright.jsonval.codec import decode, encode
from tests.unit.flows.cases import Case, list_edges, play, read_cases


def name(case: Case) -> str:
    return case.title


def by_node(asked: list[str]) -> dict[str, list[str]]:
    """What each node was asked, in order: the order between nodes is free."""
    found = defaultdict(list)
    for line in asked:
        found[line.partition(" ← ")[0]].append(line)
    return dict(found)


def split_stretches(case: Case) -> list[list[tuple[str, str]]]:
    """The lines of a case before and after each restart."""
    stretches: list[list[tuple[str, str]]] = [[]]
    for key, value in case.lines:
        if key == "restart":
            stretches.append([])
        stretches[-1].append((key, value))
    return stretches


@pytest.mark.parametrize(
    "case", [*read_cases("runs.txt"), *read_cases("more_runs.txt"), *read_cases("stops.txt")], ids=name
)
def test_a_flow_runs_as_the_table_says(case: Case):
    assert_runs(case, CURRENT)


@pytest.mark.parametrize("case", read_cases("stored_runs.txt"), ids=name)
def test_a_flow_that_was_stored_runs_as_it_did(case: Case):
    with pytest.raises(InvalidFlow) as refused:
        compile_text(case.text)
    assert refused.value.code == "UNREACHABLE_END"
    assert_runs(case, STORED)


def assert_runs(case: Case, rules: Rules) -> None:
    for lines, (asked, instance) in zip(split_stretches(case), play(case, rules), strict=True):
        expected = dict(lines)
        assert by_node(asked) == by_node([value for key, value in lines if key == "run"])
        if "stop" in expected:
            assert instance.status == "TERMINATED"
        if "fails" in expected:
            assert instance.status == ("TERMINATED" if "stop" in expected else "FAILED")
            failures = [(str(node), reason) for node, reason in list_failures(instance)]
            for wanted in [value for key, value in lines if key == "fails"]:
                node, _, reason = wanted.partition(" ")
                assert any(one == node and reason in why for one, why in failures), failures
            assert len(failures) == len([key for key, _ in lines if key == "fails"])
        elif "stop" in expected:
            assert not list(list_failures(instance))
        elif "stalls" in expected:
            assert instance.marking.reason == f"STALLED: values wait for others at {expected['stalls']}"
        else:
            assert (instance.status, instance.marking.reason) == ("COMPLETED", None)
            assert instance.result == decode(expected["result"])
            assert (instance.marking.warning or "") == expected.get("warns", "")


@pytest.mark.parametrize("case", read_cases("runs.txt"), ids=name)
def test_a_flow_has_the_edges_of_the_table(case: Case):
    graph = compile_text(case.text)
    assert list_edges(graph) == case.get("edges")
    document = decode(encode(graph_to_document(graph)))
    assert isinstance(document, dict)
    assert graph_from_document(document) == graph


@pytest.mark.parametrize("case", read_cases("errors.txt"), ids=name)
def test_a_defect_is_told_with_its_place(case: Case):
    with pytest.raises(InvalidFlow) as refused:
        compile_text(case.text)
    assert refused.value.code == case.get("code")
    assert str(refused.value).startswith(case.get("says"))


@pytest.mark.parametrize("case", read_cases("mistakes.txt"), ids=name)
def test_a_mistake_is_told_with_its_place(case: Case):
    if case.get("code"):
        test_a_defect_is_told_with_its_place(case)
        return
    told = compile_text(case.text).warnings
    wanted = [value for key, value in case.lines if key == "warns"]
    assert len(told) == len(wanted)
    assert all(one.startswith(beginning) for one, beginning in zip(told, wanted, strict=True))


def test_there_are_sixty_mistakes_and_more():
    assert len({case.text for case in read_cases("mistakes.txt")}) >= 60


@pytest.mark.parametrize(
    "text",
    [case.text for table in ("runs.txt", "more_runs.txt", "stops.txt") for case in read_cases(table)]
    + [case.text.partition("\n---\n")[0] for case in read_cases("diagrams.txt")],
)
def test_no_example_is_taken_for_a_mistake(text: str):
    known = ("cannot be reached from the start", "has no exit: guard what leads back", "no path leads from the start")
    assert [one for one in compile_text(text).warnings if not any(part in one for part in known)] == []


@pytest.mark.parametrize("case", read_cases("diagrams.txt"), ids=name)
def test_a_diagram_is_drawn_byte_for_byte(case: Case):
    text, _, diagram = case.text.partition("\n---\n")
    assert render_diagram(compile_text(text)) == f"{diagram}\n"
