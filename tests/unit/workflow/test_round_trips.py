from hypothesis import HealthCheck, given, settings

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import (
    IMPORT_MODES,
    Contract,
    Workflow,
    check_incoming,
    check_merged,
    decode_import,
    export,
    workflows_from_stored,
    workflows_to_stored,
)
from tests.unit.workflow.builders import imported
from tests.unit.workflow.strategies import WORKFLOW_LISTS

# Whole workflows are large values; drawing them takes longer than checking them.
thoroughly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def taken_in(definitions: list[JsonValue]) -> tuple[Workflow, ...]:
    """The definitions after a REPLACE import, all checks included."""
    request = decode_import(encode({"importMode": "REPLACE", "workflows": definitions}))
    check_incoming(request)
    merged = IMPORT_MODES[request.mode]((), request.workflows)
    check_merged(merged, allow_cycles=False)
    return merged


@thoroughly
@given(WORKFLOW_LISTS)
def test_an_export_imported_again_gives_the_same_export(definitions):
    shown = export(taken_in(definitions))
    assert export(taken_in(shown)) == shown


@thoroughly
@given(WORKFLOW_LISTS)
def test_an_export_imported_again_means_the_same(definitions):
    workflows = taken_in(definitions)
    again = taken_in(export(workflows))
    assert [without_version(workflow) for workflow in again] == [without_version(workflow) for workflow in workflows]


@thoroughly
@given(WORKFLOW_LISTS)
def test_the_stored_form_gives_back_the_same_definitions(definitions):
    workflows = taken_in(definitions)
    assert workflows_from_stored(workflows_to_stored(workflows)) == workflows


@thoroughly
@given(WORKFLOW_LISTS)
def test_exports_say_what_was_imported(definitions):
    for definition, shown in zip(definitions, export(taken_in(definitions)), strict=True):
        assert shown["name"] == definition["name"]
        assert list(shown["states"]) == sorted(definition["states"])
        assert criteria_in(shown) == criteria_in(definition)


@thoroughly
@given(WORKFLOW_LISTS)
def test_imported_workflows_of_the_seed_contract_are_active(definitions):
    assert all(workflow.active for workflow in taken_in(definitions) if workflow.contract is Contract.SEED)


def without_version(workflow: Workflow) -> JsonObject:
    (shown,) = export([workflow])
    return {name: member for name, member in shown.items() if name != "version"} | {"contract": workflow.contract}


def criteria_in(definition: JsonObject) -> dict[str, JsonValue]:
    """Every criterion of the definition, by its place; absent ones, unlike null ones, are missing."""
    places = {"": definition} | {
        f"{state}.{transition['name']}": transition
        for state, members in definition["states"].items()
        for transition in members.get("transitions") or ()
    }
    return {place: members["criterion"] for place, members in places.items() if "criterion" in members}


def test_definitions_can_be_compared():
    assert imported({"name": "a", "initialState": "A", "states": {"A": {}}}) == imported(
        {"states": {"A": {"transitions": []}}, "initialState": "A", "name": "a", "version": ""}
    )
