import json

import pytest

from statewright.jsonval.values import JsonObject
from statewright.workflow import (
    DEFAULT_WORKFLOW,
    SUBSTITUTION_WARNINGS,
    Workflow,
    export,
    find_governing,
    list_candidates,
    select,
    substitute_default,
    summarise_import,
)
from tests.unit.workflow.builders import a_request, a_workflow, imported

GUARD = {"type": "simple", "jsonPath": "$.kind", "operatorType": "EQUALS", "value": "x"}


def guarded(name: str, **members: object) -> JsonObject:
    return a_workflow(name, criterion=GUARD, **members)


def only(*names: str):
    """Criteria that match for the workflows of these names."""
    return lambda workflow: workflow.name in names


def never(workflow: Workflow) -> bool:
    raise AssertionError(f"{workflow.name} was asked")


# at creation


def test_the_first_matching_workflow_is_taken_and_those_before_it_were_skipped():
    chosen = select(imported(guarded("a"), guarded("b"), guarded("c")), only("b", "c"))
    assert (chosen.workflow.name, [skipped.name for skipped in chosen.skipped]) == ("b", ["a"])
    assert chosen.substitution is None


def test_a_workflow_without_criterion_is_taken_unasked_and_ends_the_search():
    assert select(imported(a_workflow("any"), guarded("b")), never).workflow.name == "any"


def test_an_explicit_null_criterion_is_none():
    assert select(imported(a_workflow("any", criterion=None)), never).workflow.name == "any"


def test_inactive_workflows_are_not_asked():
    chosen = select(imported(guarded("a", active=False), guarded("b")), only("a", "b"))
    assert (chosen.workflow.name, chosen.skipped) == ("b", ())


def test_an_error_of_a_criterion_ends_the_selection():
    with pytest.raises(AssertionError, match="a was asked"):
        select(imported(guarded("a"), a_workflow("b")), never)


def test_without_workflows_the_default_is_taken():
    chosen = select((), never)
    assert (chosen.workflow, chosen.substitution) == (DEFAULT_WORKFLOW, "no_workflows_imported")


def test_without_a_match_the_default_is_taken():
    chosen = select(imported(guarded("a"), guarded("b")), only())
    assert (chosen.workflow, chosen.substitution) == (DEFAULT_WORKFLOW, "no_criterion_matched")
    assert [skipped.name for skipped in chosen.skipped] == ["a", "b"]


def test_only_inactive_workflows_count_as_no_match():
    assert select(imported(a_workflow(active=False)), never).substitution == "no_criterion_matched"


def test_who_goes_through_the_candidates_alone_ends_the_same_way():
    workflows = imported(guarded("a", active=False), guarded("b"))
    assert [workflow.name for workflow in list_candidates(workflows)] == ["b"]
    assert substitute_default(workflows, list_candidates(workflows)) == select(workflows, only())


def test_clients_are_told_why_the_default_was_taken():
    assert SUBSTITUTION_WARNINGS == {
        "no_workflows_imported": "no workflows imported for model — using default workflow",
        "no_criterion_matched": "no imported workflow matched entity — using default workflow",
    }


# existing entities


def in_states(name: str, *states: str, **members: object) -> JsonObject:
    return a_workflow(name, initialState=states[0], states={state: {} for state in states}, **members)


def governor(state: str, remembered: str, *definitions: JsonObject) -> str | None:
    workflow = find_governing(imported(*definitions), state, remembered)
    return None if workflow is None else workflow.name


def test_the_remembered_workflow_governs_while_it_has_the_state():
    assert governor("S", "b", in_states("a", "S"), in_states("b", "S")) == "b"


def test_a_remembered_workflow_that_lost_the_state_gives_way_to_the_first_that_has_it():
    assert governor("S", "c", in_states("a", "T"), in_states("b", "S"), in_states("c", "T")) == "b"


def test_a_remembered_workflow_that_is_inactive_gives_way():
    assert governor("S", "b", in_states("a", "S"), in_states("b", "S", active=False)) == "a"


@pytest.mark.parametrize("remembered", ["", "gone"])
def test_without_a_remembered_workflow_the_first_active_one_that_has_the_state_governs(remembered):
    off = in_states("off", "S", active=False)
    assert governor("S", remembered, off, in_states("a", "T"), in_states("b", "S"), in_states("c", "S")) == "b"


def test_no_workflow_governs_a_state_that_none_has():
    assert governor("S", "a", in_states("a", "T")) is None
    assert governor("S", "") is None


def test_criteria_do_not_matter_for_existing_entities():
    assert governor("A", "", guarded("a")) == "a"


def test_the_default_governs_its_states_while_nothing_is_imported():
    assert governor("CREATED", "") == governor("CREATED", "default") == "default"


def test_the_default_is_not_searched_once_something_is_imported():
    assert governor("CREATED", "", in_states("a", "S")) is None


def test_an_entity_for_which_nothing_matched_keeps_the_default():
    nothing_matched = select(imported(guarded("a")), only())
    taker = in_states("a", "CREATED")
    assert governor("CREATED", nothing_matched.remembered_name, taker) == "default"


def test_an_entity_from_before_the_first_import_is_taken_over_by_it():
    nothing_imported = select((), never)
    assert governor("CREATED", nothing_imported.remembered_name, in_states("a", "CREATED")) == "a"


def test_an_imported_workflow_named_default_stands_before_the_built_in_one():
    mine = in_states("default", "CREATED", desc="mine")
    workflow = find_governing(imported(mine), "CREATED", "default")
    assert workflow is not None
    assert workflow.desc == "mine"


# the default workflow


def test_the_default_workflow_is_the_documented_one():
    document = """
    {"version": "1.3", "name": "default", "desc": "Default entity lifecycle workflow", "initialState": "NONE",
     "active": true,
     "states": {"NONE": {"transitions": [{"name": "NEW", "next": "CREATED", "manual": false}]},
                "CREATED": {"transitions": [{"name": "UPDATE", "next": "CREATED", "manual": true},
                                            {"name": "DELETE", "next": "DELETED", "manual": true}]},
                "DELETED": {"transitions": []}}}
    """
    assert imported(json.loads(document)) == (DEFAULT_WORKFLOW,)


def test_the_default_workflow_could_be_exported():
    (shown,) = export([DEFAULT_WORKFLOW])
    assert shown["states"]["DELETED"] == {}


# what the log says of an import


def test_an_import_is_summed_up_for_the_log():
    request = a_request(a_workflow("a", desc="x" * 200), a_workflow("b", desc="x" * 201), importMode="replace")
    assert summarise_import(request, [DEFAULT_WORKFLOW]) == {
        "importMode": "REPLACE",
        "workflowCount": 2,
        "storedWorkflowCount": 1,
        "workflows": [{"name": "a", "desc": "x" * 200}, {"name": "b", "desc": "x" * 200 + "..."}],
    }
