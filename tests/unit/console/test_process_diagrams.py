"""Step definitions, flows and playbooks as pictures."""

from typing import Any

import pytest

from statewright.console.diagrams.drawing import write_dot
from statewright.console.diagrams.petri import PlaybookSource, draw_playbook
from statewright.console.diagrams.process import (
    NodeState,
    draw_flow,
    draw_steps,
    mark_process,
    read_playbook_net,
    read_steps,
)

LOAN: Any = {
    "steps": [
        {"id": "check", "type": "SERVICE_TASK", "nextStep": "choose", "boundaryEvents": [
            {"duration": "PT1H", "targetStepId": "ask", "interrupting": False}]},
        {"id": "choose", "type": "DECISION", "conditionalNextSteps": {"amount > 10": "ask", "true": "end"}},
        {"id": "ask", "name": "Ask somebody", "type": "USER_TASK", "nextStep": "both"},
        {"id": "both", "type": "PARALLEL_GATEWAY", "parallelNextSteps": ["end", "end"], "nextStep": "x"},
        {"id": "end", "type": "END"},
    ]
}  # fmt: skip

PLAYBOOK: Any = {
    "executor": {"spec": {"entry_step": "begin", "final_step": "last"}},
    "workflow": [
        {"step": "last", "tool": {"kind": "noop"}},
        {"step": "begin", "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": "left", "when": "ctx.a"}]}},
        {"step": "left", "loop": {"in": [1]}, "next": {"arcs": [{"step": "begin"}, {"step": "nowhere"}]}},
    ],
}


def test_steps_have_the_shape_of_their_type() -> None:
    drawing = draw_steps(LOAN)
    assert [(node.shape, node.label) for node in drawing.nodes] == [
        ("start", ""),
        ("box", "check"),
        ("decision", "choose"),
        ("box", "◆ Ask somebody"),
        ("bar", "both"),
        ("end", "end"),
    ]
    numbers = read_steps(LOAN).numbers
    assert (numbers["ask"], numbers.get("none")) == (3, None)


def test_the_ways_between_steps_are_drawn_with_what_decides() -> None:
    ways = [(edge.source, edge.target, edge.label.replace("\ufe0e", "")) for edge in draw_steps(LOAN).edges]
    assert ways == [
        (0, 1, ""),
        (1, 2, ""),
        (1, 3, "◷ PT1H"),
        (2, 3, "amount > 10"),
        (2, 5, "true"),
        (3, 4, ""),
        (4, 5, ""),
        (4, 5, ""),
    ]


def test_a_flow_is_drawn_from_its_compiled_graph() -> None:
    graph: Any = {
        "nodes": [
            {"index": 0, "kind": "start"},
            {"index": 1, "kind": "task", "name": "load", "guard": "$.a"},
            {"index": 2, "kind": "task", "name": "each-one", "iterate": True},
            {"index": 3, "kind": "end"},
        ],
        "edges": [[0, 1], [1, 2], [2, 3], [3, 9]],
        "backEdges": [[2, 1]],
    }
    drawing = draw_flow(graph)
    assert [node.label for node in drawing.nodes] == ["", "◇ load", "each-one", ""]
    assert [(edge.source, edge.target, edge.label, edge.classes) for edge in drawing.edges] == [
        (0, 1, "", ()),
        (1, 2, "each", ()),
        (2, 3, "", ()),
        (2, 1, "", ("back",)),
    ]


def test_a_playbook_is_a_net_of_places_and_transitions() -> None:
    drawing = draw_playbook(PLAYBOOK)
    assert [node.shape for node in drawing.nodes] == ["place", "bar"] * 3
    assert drawing.nodes[5].label == "↻ left"
    assert drawing.nodes[1].classes == ("transition", "final")
    assert drawing.start == 2
    arcs = [(edge.source, edge.target, edge.label, edge.classes) for edge in drawing.edges]
    assert arcs == [
        (0, 1, "", ("admission",)),
        (2, 3, "", ("admission",)),
        (3, 4, "ctx.a", ("inclusive",)),
        (4, 5, "", ("admission",)),
        (5, 2, "", ()),
    ]


def test_tokens_are_dots_up_to_five_and_denied_ones_hollow() -> None:
    states = {"begin": NodeState(waiting=2, denied=1), "left": NodeState(waiting=7, running=1), "no": NodeState()}
    marks = mark_process(read_playbook_net(PlaybookSource(document=PLAYBOOK, lines=())), states)
    assert marks.nodes[2].note == "●●○"
    assert marks.nodes[2].classes == ("holding", "denied")
    assert marks.nodes[4].note == "●7"
    assert marks.nodes[5].note == "▶ 1"


@pytest.mark.parametrize(
    "document", [None, [], {}, {"steps": [{}], "nodes": [{}, 1], "workflow": [{}]}, {"edges": [1, [1]]}]
)
@pytest.mark.parametrize("draw", [draw_steps, draw_flow, draw_playbook])
def test_a_wrong_document_gives_a_picture_all_the_same(draw: Any, document: Any) -> None:
    assert write_dot(draw(document)).startswith("digraph {")
