"""A difference of two workflows is told part by part, in a picture and in sentences."""

import copy
from typing import Any

import pytest

from statewright.console.diagrams.diff import compare_workflows, draw_diff
from tests.unit.console.test_diagrams import PARCEL


def a_changed_parcel(**changes: Any) -> Any:
    """The parcel with the first transition of BOOKED changed."""
    parcel: Any = copy.deepcopy(PARCEL)
    parcel["states"]["BOOKED"]["transitions"][0] |= changes
    return parcel


def tell(old: Any, new: Any) -> list[str]:
    return [sentence.text for sentence in compare_workflows(old, new).sentences]


def test_equal_workflows_differ_in_nothing() -> None:
    diff = compare_workflows(PARCEL, copy.deepcopy(PARCEL))
    assert (diff.states, diff.transitions, diff.sentences) == ({}, {}, ())


def test_a_state_and_its_ways_come_and_go() -> None:
    new: Any = copy.deepcopy(PARCEL)
    del new["states"]["WEIGHED"]
    new["states"]["HELD"] = {"transitions": [{"name": "free", "next": "BOOKED"}]}
    new["states"]["BOOKED"]["transitions"][0]["next"] = "HELD"
    diff = compare_workflows(PARCEL, new)
    assert diff.states == {"BOOKED": "changed", "WEIGHED": "removed", "HELD": "added"}
    assert diff.transitions == {
        ("BOOKED", "weigh"): "changed",
        ("WEIGHED", "again"): "removed",
        ("HELD", "free"): "added",
    }
    assert [sentence.text for sentence in diff.sentences] == [
        "State WEIGHED is gone.",
        "State HELD is new.",
        "BOOKED.weigh: leads to HELD, no longer to WEIGHED.",
        "WEIGHED loses the transition again to BOOKED.",
        "HELD has a new transition free to BOOKED.",
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"manual": True}, "fires only when asked to"),
        ({"disabled": True}, "is switched off"),
        ({"criterion": None}, "its criterion was removed"),
        ({"schedule": {"delayMs": 1000}}, "its schedule was added"),
        ({"annotations": {"a": 1}}, "its annotations was added"),
        ({"processors": []}, "processor price is gone; processor log is gone"),
        ({"unknown": 1}, "other members differ"),
    ],
)
def test_a_changed_transition_says_how(changes: Any, told: str) -> None:
    assert tell(PARCEL, a_changed_parcel(**changes)) == [f"BOOKED.weigh: {told}."]


def test_a_delay_is_compared_in_words() -> None:
    new: Any = copy.deepcopy(PARCEL)
    new["states"]["BOOKED"]["transitions"][1]["schedule"]["delayMs"] = 60_000
    assert tell(PARCEL, new) == ["BOOKED.lapse: waits 1 min, no longer 1 h."]


def test_numbers_of_another_spelling_are_no_difference() -> None:
    with_number = a_changed_parcel(criterion={"type": "simple", "value": 1})
    assert tell(with_number, a_changed_parcel(criterion={"type": "simple", "value": 1})) == []


def test_the_order_of_transitions_counts() -> None:
    new: Any = copy.deepcopy(PARCEL)
    new["states"]["BOOKED"]["transitions"].reverse()
    diff = compare_workflows(PARCEL, new)
    assert diff.states == {"BOOKED": "changed"}
    assert [sentence.text for sentence in diff.sentences] == [
        "The transitions of BOOKED are tried in another order: cancel, lapse, weigh."
    ]


def test_the_order_of_processors_counts() -> None:
    processors: Any = PARCEL["states"]
    reordered = list(reversed(processors["BOOKED"]["transitions"][0]["processors"]))
    assert tell(PARCEL, a_changed_parcel(processors=reordered)) == [
        "BOOKED.weigh: its processors run in another order."
    ]


def test_what_concerns_the_whole_workflow_is_told_first() -> None:
    new: Any = copy.deepcopy(PARCEL) | {"initialState": "WEIGHED", "active": False, "desc": "new"}
    assert tell(PARCEL, new) == [
        "Entities begin in WEIGHED, no longer in BOOKED.",
        "The description was added.",
        "The workflow is passed over when a workflow is chosen from now on.",
    ]


def test_one_picture_shows_what_came_what_went_and_what_changed() -> None:
    new: Any = copy.deepcopy(PARCEL)
    del new["states"]["WEIGHED"]
    new["states"]["HELD"] = {}
    new["states"]["BOOKED"]["transitions"][0]["next"] = "HELD"
    drawing = draw_diff(compare_workflows(PARCEL, new))
    assert [(node.label, node.classes[-1]) for node in drawing.nodes[1:]] == [
        ("~ BOOKED", "changed"),
        ("+ HELD", "added"),
        ("LAPSED", "final"),
        ("− WEIGHED", "removed"),
    ]
    told = {(edge.label[0], edge.source, edge.target, edge.classes[-1]) for edge in drawing.edges if edge.label}
    assert ("~", 1, 2, "changed") in told
    assert ("−", 1, 4, "removed") in told, "where the transition led before"
    assert ("−", 4, 1, "removed") in told


def test_a_new_workflow_is_all_added() -> None:
    diff = compare_workflows(None, PARCEL)
    assert set(diff.states.values()) == set(diff.transitions.values()) == {"added"}
    assert {node.classes[-1] for node in draw_diff(diff).nodes[1:]} == {"added"}
