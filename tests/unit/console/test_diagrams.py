"""Pictures are text first: DOT in which nothing of others is markup, in tiers that can be drawn in time."""

import json
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.console.diagrams.drawing import (
    MAX_LABEL_CHARS,
    MAX_NODES,
    Drawing,
    Edge,
    Node,
    choose_tier,
    find_neighbourhood,
    plan_drawing,
    quote_label,
    write_dot,
    write_marks,
    write_plan,
)
from statewright.console.diagrams.workflow import (
    MODE_LETTERS,
    Overlay,
    draw_workflow,
    find_state,
    format_delay,
    label_visits,
    list_workflows,
    mark_workflow,
    read_workflow,
)
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow.definition import EXECUTION_MODES, ExecutionMode

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\\",
    '\\"',
    "\\N \\G \\L \\n",
    "a\r\nb",
    "\u202eevil",
    "\u200b",
    "&lt;b&gt; &amp;",
    "]]>",
    "x" * 10_000,
    "",
    '"]; n9 [label="',
]

PARCEL: JsonObject = {
    "name": "parcel",
    "initialState": "BOOKED",
    "states": {
        "BOOKED": {
            "transitions": [
                {
                    "name": "weigh",
                    "next": "WEIGHED",
                    "criterion": {
                        "type": "function",
                        "function": {"name": "has-weight", "config": {"calculationNodesTags": "scales"}},
                    },
                    "processors": [
                        {
                            "name": "price",
                            "executionMode": "SYNC",
                            "config": {"calculationNodesTags": "pricing;scales"},
                        },
                        {"name": "log", "executionMode": "COMMIT_BEFORE_DISPATCH"},
                    ],
                },
                {"name": "lapse", "next": "LAPSED", "schedule": {"delayMs": 3_600_000}},
                {"name": "cancel", "next": "LAPSED", "manual": True, "disabled": True},
            ]
        },
        "WEIGHED": {"transitions": [{"name": "again", "next": "BOOKED", "manual": True}]},
        "LAPSED": {},
    },
}


def a_chain(size: int, extra: int = 0) -> Drawing:
    nodes = tuple(Node(name=f"S{number}", label=f"S{number}", shape="state") for number in range(size))
    edges = [Edge(source=number, target=number + 1) for number in range(size - 1)]
    edges += [Edge(source=number % size, target=(number * 7) % size) for number in range(extra)]
    return Drawing(nodes=nodes, edges=tuple(edges), start=0)


def read_quoted(quoted: str) -> str:
    """What DOT reads between quotes: a backslash before a quote or a backslash is taken away."""
    assert re.fullmatch(r'"(?:[^"\\]|\\["\\])*"', quoted), quoted
    return re.sub(r"\\(.)", r"\1", quoted[1:-1]).replace("&amp;", "&")


# Quoting


@given(TEXTS)
def test_a_label_is_one_quoted_text_whatever_it_says(text: str) -> None:
    assert len(read_quoted(quote_label(text))) <= MAX_LABEL_CHARS


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Zl", "Zp"]), max_size=MAX_LABEL_CHARS))
def test_a_short_label_says_all_of_its_text(text: str) -> None:
    assert read_quoted(quote_label(text)) == text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_others_stay_within_their_label(name: str) -> None:
    document: JsonValue = {
        "initialState": name,
        "states": {name: {"transitions": [{"name": name, "next": name, "schedule": {"function": {"name": name}}}]}},
    }
    dot = write_dot(draw_workflow(read_workflow(document)))
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)
    assert re.findall(r"^  (n\d+)(?: -> (n\d+))? \[", bare, re.MULTILINE) == [
        ("n0", ""),
        ("n1", ""),
        ("n0", "n1"),
        ("n1", "n1"),
    ]
    assert len(dot.splitlines()) == 4 + 2 + 2 + 1


def test_characters_that_cannot_be_seen_are_spelled_out() -> None:
    assert quote_label("a\u202eb\nc") == '"aU+202EbU+000Ac"'


# Tiers


@pytest.mark.parametrize(
    ("size", "extra", "tier"),
    [(1, 0, 1), (120, 81, 1), (120, 82, 2), (121, 0, 2), (400, 401, 2), (400, 402, 3), (401, 0, 3)],
)
def test_the_size_chooses_the_tier(size: int, extra: int, tier: int) -> None:
    assert choose_tier(a_chain(size, extra)) == tier


def test_a_layout_that_takes_too_long_leads_to_the_next_tier_once() -> None:
    assert [attempt.tier for attempt in plan_drawing(a_chain(10)).attempts] == [1, 2]
    assert [attempt.tier for attempt in plan_drawing(a_chain(200)).attempts] == [2, 3]
    assert [attempt.tier for attempt in plan_drawing(a_chain(10_000)).attempts] == [3]


def test_without_labels_edges_are_straight() -> None:
    drawing = Drawing(nodes=a_chain(2).nodes, edges=(Edge(source=0, target=1, label="go"),))
    assert 'label="go"' in write_dot(drawing)
    plain = write_dot(drawing, is_plain=True)
    assert 'label="go"' not in plain
    assert "splines=line" in plain


def test_of_a_large_picture_the_neighbourhood_is_drawn_and_the_rest_counted() -> None:
    plan = plan_drawing(a_chain(10_000), focus=5_000)
    (attempt,) = plan.attempts
    assert attempt.nodes == (4_998, 4_999, 5_000, 5_001, 5_002)
    assert plan.left_out == 9_995
    assert re.findall(r"n\d+ ->", attempt.dot) == ["n4998 ->", "n4999 ->", "n5000 ->", "n5001 ->"]


def test_a_neighbourhood_can_be_asked_for() -> None:
    assert plan_drawing(a_chain(10), focus=0, is_neighbourhood=True).attempts[0].nodes == (0, 1, 2)


def test_the_neighbourhood_of_a_hub_is_cut() -> None:
    spokes = 500
    nodes = tuple(Node(name=str(number), label="", shape="state") for number in range(spokes))
    hub = Drawing(nodes=nodes, edges=tuple(Edge(source=0, target=number) for number in range(1, spokes)))
    assert len(find_neighbourhood(hub, 0)) == MAX_NODES


def test_an_empty_picture_is_planned_too() -> None:
    assert plan_drawing(Drawing(nodes=(), edges=())).attempts[0].nodes == ()


def test_the_page_gets_names_links_and_ends_by_number() -> None:
    plan = json.loads(write_plan(plan_drawing(draw_workflow(read_workflow(PARCEL)))))
    assert plan["focus"] == "n1"
    assert plan["nodes"]["n2"] == {"name": "WEIGHED", "href": "#state-1"}
    assert plan["edges"]["e1"] == {
        "name": "weigh: BOOKED → WEIGHED",
        "href": "#transition-0",
        "ends": ["n1", "n2"],
    }


# Workflows


def test_a_transition_tells_its_kind_criterion_processors_and_delay() -> None:
    drawing = draw_workflow(read_workflow(PARCEL))
    assert [edge.label.replace("\ufe0e", "") for edge in drawing.edges] == [
        "",
        "⚡ weigh ◇ƒ ▣SC2",
        "◷ lapse 1 h",
        "☞ cancel (off)",
        "☞ again",
    ]
    assert [edge.classes for edge in drawing.edges][-2:] == [("manual", "off"), ("manual",)]


def test_a_final_state_has_a_double_border_and_the_initial_one_a_dot_before_it() -> None:
    drawing = draw_workflow(read_workflow(PARCEL))
    assert [node.shape for node in drawing.nodes] == ["start", "state", "state", "final"]
    assert (drawing.edges[0].source, drawing.edges[0].target) == (0, 1)


def test_the_tags_of_a_transition_are_those_of_all_its_callouts() -> None:
    assert read_workflow(PARCEL).transitions[0].tags == ("scales", "pricing")


def test_marks_tell_count_incidents_path_and_what_is_impossible() -> None:
    graph = read_workflow(PARCEL)
    overlay = Overlay(
        counts={"BOOKED": "41 200", "GONE": "1"},
        incidents={"WEIGHED": "3"},
        current="WEIGHED",
        visited=("BOOKED", "WEIGHED"),
        path=(("BOOKED", "weigh"),),
        impossible=frozenset({("WEIGHED", "again")}),
        unserved=frozenset({("BOOKED", "weigh")}),
    )
    marks = json.loads(write_marks(mark_workflow(graph, overlay)))
    assert marks["n1"]["note"] == "41 200 ①"
    assert marks["n2"] == {
        "classes": ["current", "travelled", "troubled"],
        "note": "② now ■ 3",
        "words": "the current state, visited as step 2, 3 incidents",
    }
    assert marks["e1"]["note"] == "① ■ no worker"
    assert marks["e4"]["classes"] == ["impossible"]
    assert set(marks) == {"n1", "n2", "e1", "e4"}


def test_visits_are_numbered_by_the_last_and_counted_beyond_twenty() -> None:
    assert [label_visits(steps) for steps in ([], [1, 3], [40], list(range(37)))] == ["", "③", "(40)", "×37"]


def test_every_execution_mode_has_a_letter_of_its_own() -> None:
    assert set(MODE_LETTERS) == set(EXECUTION_MODES) == set(get_args(ExecutionMode))
    assert len(set(MODE_LETTERS.values())) == len(MODE_LETTERS)


def test_delays_are_told_in_the_largest_unit_that_says_them_exactly() -> None:
    assert [format_delay(delay) for delay in (0, 1500, 90_000, 3_600_000, 172_800_000)] == [
        "0 ms",
        "1500 ms",
        "90 s",
        "1 h",
        "2 d",
    ]


def test_a_state_is_found_by_its_name() -> None:
    graph = read_workflow(PARCEL)
    assert [find_state(graph, state) for state in ("BOOKED", "LAPSED", "NOWHERE", None)] == [1, 3, None, None]


@pytest.mark.parametrize("document", [None, [], "x", {}, {"states": 1}, {"states": {"A": {"transitions": [1, {}]}}}])
def test_a_wrong_document_gives_a_picture_all_the_same(document: JsonValue) -> None:
    assert write_dot(draw_workflow(read_workflow(document))).startswith("digraph {")


def test_the_workflows_of_an_export_are_listed() -> None:
    assert list_workflows({"workflows": [PARCEL, 1]}) == [PARCEL]
    assert list_workflows([PARCEL]) == [PARCEL]
    assert list_workflows(None) == []
