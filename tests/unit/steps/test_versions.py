"""Storing definitions: documents, content and versions (docs/reference/steps.md#versions)."""

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given

from statewright.jsonval.values import JsonObject
from statewright.services.processes.definitions import assign_version
from statewright.steps import hash_content
from statewright.steps.documents import (
    definition_from_document,
    definition_to_document,
    definition_to_text,
    encode_document,
    read_definition,
)
from tests.unit.steps.builders import a_definition, a_rule, a_step, decision, end, service, table, timer, transformation
from tests.unit.steps.strategies import documents


def hashed(document: JsonObject) -> str:
    return hash_content(definition_from_document(document))


RICH = a_definition(
    decision("route", {"b": "calc", "a": "calc"}),
    transformation("calc", "t", z=1, a="${x}"),
    table("t", "work", a_rule({"y": "1 < 2", "x": "true"}, out={"k": [1, 2.5]}), hitPolicy="C+"),
    service("work", "end", retryCount=3, delegateClass="x", boundaryEvents=[timer("PT1H", "end")]),
    end(),
    description="rich",
    autoStartNextWorkflow=True,
    nextWorkflowId="next",
    metadata={"tags": ["a"], "n": 1},
)


def test_a_document_has_its_members_in_the_documented_order_with_the_version_after_the_id():
    assert list(definition_to_document(definition_from_document(RICH), 3)) == [
        "id",
        "version",
        "name",
        "description",
        "autoStartNextWorkflow",
        "nextWorkflowId",
        "steps",
        "metadata",
    ]


def test_empty_optional_members_are_left_out_but_whether_a_timer_interrupts():
    document = definition_to_document(
        definition_from_document(
            a_definition(
                service("work", "end", description="", retryCount=0, boundaryEvents=[timer("PT1H", "end")]),
                end(),
                description="",
                autoStartNextWorkflow=False,
                metadata={},
            )
        )
    )
    assert document == {
        "id": "test::flow",
        "name": "Flow",
        "steps": [
            {
                "id": "work",
                "name": "Work",
                "type": "SERVICE_TASK",
                "nextStep": "end",
                "jobType": "work",
                "boundaryEvents": [
                    {"type": "TIMER", "duration": "PT1H", "interrupting": False, "targetStepId": "end"},
                ],
            },
            {"id": "end", "name": "End", "type": "END"},
        ],
    }


def test_branches_and_transformations_are_read_back_in_the_authors_order():
    text = encode_document(definition_to_document(definition_from_document(RICH), 1))
    steps = json.loads(text)["steps"]
    assert list(steps[0]["conditionalNextSteps"]) == ["b", "a"]
    assert list(steps[1]["transformations"]) == ["z", "a"]
    assert list(steps[2]["decisionTable"]["rules"][0]["when"]) == ["y", "x"]


@given(documents())
def test_a_stored_definition_is_read_back_unchanged(document: JsonObject):
    definition = definition_from_document(document)
    stored = read_definition(definition_to_text(definition))
    assert stored == definition
    assert definition_to_text(stored) == definition_to_text(definition)


@given(documents())
def test_posting_back_what_was_read_is_the_same_content(document: JsonObject):
    definition = definition_from_document(document)
    assert hashed(definition_to_document(definition, 7)) == hash_content(definition)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: dict(reversed(document.items())),
        lambda document: document | {"version": 9},
        lambda document: document | {"metadata": {"n": Decimal("1.0"), "tags": ["a"]}},
        lambda document: document | {"metadata": {"n": Decimal("10e-1"), "tags": ["a"]}},
        lambda document: document | {"steps": [dict(reversed(step.items())) for step in document["steps"]]},
    ],
)
def test_the_order_of_members_and_the_spelling_of_numbers_do_not_make_a_new_version(
    change: Callable[[JsonObject], JsonObject],
):
    assert hashed(change(RICH)) == hashed(RICH)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Other"},
        {"metadata": {"tags": ["a"], "n": 2}},
        {"metadata": {"tags": ["a"], "n": "1"}},
        {"steps": [end()]},
        {"autoStartNextWorkflow": False},
    ],
)
def test_other_content_does(change: JsonObject):
    assert hashed(RICH | change) != hashed(RICH)


def test_the_order_of_branches_transformations_and_cells_is_content():
    assert hashed(a_definition(decision("r", {"a": "end", "b": "end"}), end())) != hashed(
        a_definition(decision("r", {"b": "end", "a": "end"}), end())
    )
    assert hashed(a_definition(transformation("t", "end", a=1, b=2), end())) != hashed(
        a_definition(transformation("t", "end", b=2, a=1), end())
    )
    assert hashed(a_definition(table("t", "end", a_rule({"a": "x", "b": "y"})), end())) != hashed(
        a_definition(table("t", "end", a_rule({"b": "y", "a": "x"})), end())
    )


def test_the_order_inside_values_and_metadata_is_not():
    assert hashed(a_definition(transformation("t", "end", a={"x": 1, "y": 2}), end())) == hashed(
        a_definition(transformation("t", "end", a={"y": 2, "x": 1}), end())
    )
    assert hashed(a_definition(metadata={"when": {"x": 1, "y": 2}})) == hashed(
        a_definition(metadata={"when": {"y": 2, "x": 1}})
    )


def test_a_number_and_a_text_of_the_same_digits_differ():
    one, text = ({"t": value} for value in (1, "1"))
    assert hashed(a_definition(a_step("t", "TRANSFORMATION", transformations=one))) != hashed(
        a_definition(a_step("t", "TRANSFORMATION", transformations=text))
    )


def test_the_first_version_is_one_and_versions_count_up():
    assert assign_version("a", {}) == (1, True)
    assert assign_version("c", {1: "a", 2: "b"}) == (3, True)


def test_the_same_content_gives_the_highest_version_that_has_it():
    assert assign_version("a", {1: "a", 2: "b"}) == (1, False)
    assert assign_version("a", {1: "a", 2: "b", 3: "a"}) == (3, False)
