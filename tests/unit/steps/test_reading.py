"""Decoding definitions (docs/reference/steps.md#parsing, docs/reference/steps.md#rules-for-tables)."""

import json

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.language import Rejection
from statewright.steps import Accepted, accept_text
from statewright.steps.documents import definition_from_document, read_definition
from tests.unit.steps.builders import a_definition, a_step, end, service, table, timer, transformation


def refusal(text: str) -> str:
    outcome = accept_text(text)
    assert isinstance(outcome, Rejection)
    assert outcome.kind == "bad-request"
    return outcome.reason


def test_a_whole_definition_is_read():
    document = a_definition(
        service("work", "end", delegateClass="com.acme.Work", retryCount=2, description="does it"),
        end(),
        description="all of it",
        autoStartNextWorkflow=True,
        nextWorkflowId="next",
        metadata={"any": ["thing", None]},
    )
    definition = definition_from_document(document)
    assert (definition.id, definition.name, definition.description) == ("test::flow", "Flow", "all of it")
    assert (definition.successor, definition.metadata) == ("next", {"any": ["thing", None]})
    work = definition.steps[0]
    assert (work.job_type, work.delegate_class, work.retry_count, work.next_step) == ("work", "com.acme.Work", 2, "end")


def test_what_follows_the_first_value_is_ignored():
    assert isinstance(accept_text(json.dumps(a_definition()) + ' {"more": 1} and text'), Accepted)


def test_bytes_are_read_as_well_as_text():
    assert read_definition(json.dumps(a_definition()).encode()) == definition_from_document(a_definition())


@pytest.mark.parametrize("body", ["", "  \n "])
def test_an_empty_body_is_an_end_of_file(body: str):
    assert refusal(body) == "parse error: parse: EOF"


@pytest.mark.parametrize("body", ["{", '{"id": }', "nonsense", '{"id": "a"', '{"a": 1e99999}', '{"id":"a","id":"b"}'])
def test_what_is_no_json_is_a_parse_error(body: str):
    assert refusal(body).startswith("parse error: parse: json: ")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (a_definition(colour="red"), "colour"),
        (a_definition(service("work", "end", colour="red"), end()), "colour"),
        (a_definition(service("work", "end", boundaryEvents=[timer("PT1H", "end") | {"x": 1}]), end()), "x"),
        (a_definition(a_step("t", "DECISION_TABLE", decisionTable={"hits": []}), end()), "hits"),
        (a_definition(table("t", "end", {"if": {}}), end()), "if"),
        (a_definition(**{'a"b': 1}), 'a\\"b'),
    ],
)
def test_unknown_members_are_refused_wherever_the_shape_is_fixed(document: JsonObject, field: str):
    assert refusal(json.dumps(document)) == f'parse error: parse: json: unknown field "{field}"'


def test_free_form_places_take_any_member():
    document = a_definition(
        transformation("set", "t", anything={"goes": [1]}),
        table("t", "end", {"when": {"label": "true"}, "outputs": {"x": {"y": 1}}}),
        end(),
        metadata={"colour": "red"},
    )
    assert isinstance(accept_text(json.dumps(document)), Accepted)


def test_member_names_match_in_any_case():
    step = {"ID": "end", "Name": "End", "TYPE": "END"}
    definition = definition_from_document({"Id": "a", "NAME": "b", "sTEPS": [step]})
    assert (definition.id, definition.name, definition.steps[0].type) == ("a", "b", "END")


def test_null_for_any_member_equals_absence():
    named = ("description", "nextStep", "conditionalNextSteps", "retryCount", "boundaryEvents", "decisionTable")
    assert definition_from_document(a_definition(end() | dict.fromkeys(named))) == definition_from_document(
        a_definition(end())
    )
    assert definition_from_document(a_definition() | {"metadata": None, "version": None}) == definition_from_document(
        a_definition()
    )


def test_a_null_document_is_an_empty_definition():
    assert refusal("null").startswith("validation error: validation errors:\n  id is required\n  name is required")


def test_a_version_is_accepted_and_ignored():
    assert definition_from_document(a_definition(version=7)) == definition_from_document(a_definition())


@pytest.mark.parametrize(
    "document",
    [
        [],
        "text",
        3,
        a_definition(name=5),
        a_definition(version="1"),
        a_definition(autoStartNextWorkflow="yes"),
        a_definition(metadata=[1]),
        a_definition() | {"steps": {}},
        a_definition() | {"steps": ["text"]},
        a_definition(service("work", "end", retryCount="3"), end()),
        a_definition(service("work", "end", retryCount=2.5), end()),
        a_definition(service("work", "end", retryCount=True), end()),
        a_definition(service("work", "end", retryCount=2**63), end()),
        a_definition(service("work", "end", conditionalNextSteps={"a": 1}), end()),
        a_definition(service("work", "end", conditionalNextSteps=["a"]), end()),
        a_definition(a_step("f", "PARALLEL_GATEWAY", parallelNextSteps=[1, 2]), end()),
        a_definition(transformation("t", "end") | {"transformations": "x"}, end()),
        a_definition(table("t", "end", {"when": {"a": True}}), end()),
        a_definition(a_step("t", "DECISION_TABLE", decisionTable={"rules": [[]]}), end()),
        a_definition(a_step("t", "DECISION_TABLE", decisionTable={"rules": [""]}), end()),
        a_definition(service("work", "end", boundaryEvents=[{"interrupting": 1}]), end()),
    ],
)
def test_a_member_of_the_wrong_type_is_a_parse_error(document: JsonValue):
    assert refusal(json.dumps(document)).startswith("parse error: parse: json: cannot unmarshal ")


def test_a_wrong_type_is_named_with_its_place():
    document = a_definition(service("work", "end", boundaryEvents=[timer("PT1H", "end") | {"duration": 5}]), end())
    assert refusal(json.dumps(document)) == (
        "parse error: parse: json: cannot unmarshal number into steps[0].boundaryEvents[0].duration of type string"
    )


def test_rules_that_route_are_refused_with_a_hint():
    document = a_definition(table("t", "end", {"when": {}}, {"when": {}, "then": "end"}), end())
    assert refusal(json.dumps(document)) == (
        'parse error: parse: step "t": decisionTable.rules[1].then is no longer supported; '
        "let rules produce outputs and route with a DECISION step"
    )


def test_a_table_that_routes_is_refused_with_a_hint():
    step = a_step("t", "DECISION_TABLE", decisionTable={"rules": [{}], "defaultNextStep": "end"})
    assert refusal(json.dumps(a_definition(step, end()))) == (
        'parse error: parse: step "t": decisionTable.defaultNextStep is no longer supported; '
        "let rules produce outputs and route with a DECISION step"
    )


def test_the_order_of_branches_and_transformations_is_kept():
    branches = {f"n == {n}": "end" for n in (3, 1, 2)}
    values: JsonObject = dict.fromkeys(("z", "a", "m"), 1)
    definition = definition_from_document(
        a_definition(a_step("route", "DECISION", conditionalNextSteps=branches), transformation("t", "end", **values))
    )
    assert list(definition.steps[0].conditional_next_steps) == list(branches)
    assert list(definition.steps[1].transformations) == ["z", "a", "m"]


def test_the_boundary_of_an_event_does_not_interrupt_unless_told_to():
    document = a_definition(
        service("work", "end", boundaryEvents=[{"type": "TIMER", "duration": "PT1H", "targetStepId": "end"}]), end()
    )
    assert definition_from_document(document).steps[0].boundary_events[0].interrupting is False
