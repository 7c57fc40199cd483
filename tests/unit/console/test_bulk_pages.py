"""The form of bulk jobs: what a list shows becomes what a job is asked for (docs/console.md#pages)."""

import json

import pytest

from statewright.console.pages.bulk import fill_form, write_order
from statewright.console.request import Form, InvalidField, Query


def a_query(**fields: str) -> Query:
    return Query(tuple(fields.items()))


def test_the_condition_of_a_list_of_entities_is_taken_over() -> None:
    asked = fill_form(a_query(model="a b/2", q='{"type": "simple"}'))
    assert (asked.model, asked.selection) == ("a b/2", '{"type": "simple"}')
    assert "RETRY_INCIDENTS" not in asked.operations
    assert "CANCEL_INSTANCES" not in asked.operations
    assert json.loads(fill_form(a_query(model="a/1")).selection)["operatorType"] == "NOT_NULL"


def test_filters_of_instances_become_a_condition_on_their_model() -> None:
    asked = fill_form(a_query(language="flow", status="RUNNING", definition="orders"))
    assert asked.model == "FlowInstance/1"
    assert json.loads(asked.selection) == {
        "type": "group",
        "operator": "AND",
        "conditions": [
            {"type": "simple", "jsonPath": "$.definitionId", "operatorType": "EQUALS", "value": "orders"},
            {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "RUNNING"},
        ],
    }
    assert json.loads(fill_form(a_query(language="playbook")).selection)["field"] == "state"
    with pytest.raises(InvalidField):
        fill_form(a_query(language="cobol"))


def test_filters_of_incidents_stay_filters() -> None:
    asked = fill_form(a_query(of="incidents", kind="RUN_FAILED", model="order", since="2031-05-06T12:00:00Z"))
    assert json.loads(asked.selection) == {
        "kind": ["RUN_FAILED"],
        "model": ["order"],
        "lastFrom": "2031-05-06T12:00:00Z",
    }
    assert (asked.model, asked.arguments) == ("", {"force"})


def test_an_order_is_a_trial_of_what_was_filled_in() -> None:
    fields = {"operation": "PATCH", "model": "a/1", "selection": "{}", "mergePatch": '{"n": 1.50}', "transition": "GO"}
    order = json.loads(write_order(Form(tuple({**fields, "ratePerSecond": "5", "reason": "r"}.items()))))
    assert order == {
        "operation": "PATCH",
        "dryRun": True,
        "arguments": {"transition": "GO", "mergePatch": {"n": 1.5}},
        "model": {"name": "a", "version": 1},
        "condition": {},
        "ratePerSecond": 5,
        "reason": "r",
    }
    incidents = {"operation": "RETRY_INCIDENTS", "selection": '{"kind": ["RUN_FAILED"]}', "force": "yes"}
    order = json.loads(write_order(Form(tuple(incidents.items()))))
    assert (order["incidents"], order["arguments"]) == ({"kind": ["RUN_FAILED"]}, {"force": True})


@pytest.mark.parametrize("wrong", [{"operation": "MIGRATE"}, {"selection": "[]"}, {"selection": "{"}])
def test_what_cannot_be_an_order_is_refused(wrong: dict[str, str]) -> None:
    fields = {"operation": "DELETE", "model": "a/1", "selection": "{}", **wrong}
    with pytest.raises(InvalidField):
        write_order(Form(tuple(fields.items())))
