import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import IMPORT_MODES, export
from tests.unit.workflow.builders import (
    SEED,
    STRICT,
    a_function,
    a_processor,
    a_transition,
    a_workflow,
    automated,
    imported,
    with_processor,
    with_transition,
)

CONDITION = {"operation": "EQUALS", "type": "simple", "jsonPath": "$.kind", "value": "parcel", "extra": [1, None]}


def exported(workflow: JsonObject) -> JsonObject:
    (shown,) = export(imported(workflow))
    assert isinstance(shown, dict)
    return shown


def transition_of(shown: JsonValue) -> JsonObject:
    return shown["states"]["A"]["transitions"][0]


def processor_of(shown: JsonValue) -> JsonObject:
    return transition_of(shown)["processors"][0]


# workflow


def test_a_plain_workflow_shows_what_is_always_there_in_order():
    shown = exported(a_workflow())
    assert list(shown) == ["version", "name", "initialState", "active", "states"]


def test_optional_members_of_a_workflow_appear_when_given():
    given = {"desc": "d", "criterion": CONDITION, "annotations": {"a": 1}, "criterionAnnotations": {"b": 2}}
    shown = exported(a_workflow(**given))
    assert {name: shown[name] for name in given} == given
    assert [name for name in shown if name not in given] == ["version", "name", "initialState", "active", "states"]


@pytest.mark.parametrize("version", ["1.1", "1.2", "1.3"])
def test_strict_workflows_carry_the_current_version(version):
    assert exported(a_workflow(version=version))["version"] == "1.3"


@pytest.mark.parametrize("version", ["", "1", "1.0", "draft"])
def test_workflows_of_the_seed_contract_keep_their_version(version):
    assert exported(a_workflow(version=version))["version"] == version


def test_an_empty_description_is_left_out():
    assert "desc" not in exported(a_workflow(desc=""))


def test_an_inactive_workflow_says_so():
    assert exported(a_workflow(active=False))["active"] is False


def test_states_come_out_sorted():
    states = {"b": {}, "A": {}, "ä": {}, "Z": {}, "a": {}}
    assert list(exported(a_workflow(states=states))["states"]) == ["A", "Z", "a", "b", "ä"]


def test_criteria_come_back_as_they_were_written():
    shown = exported(with_transition(a_transition(criterion=CONDITION), criterion=CONDITION))
    assert shown["criterion"] == transition_of(shown)["criterion"] == CONDITION


def test_what_is_no_condition_comes_back_as_it_was_written():
    assert exported(a_workflow(criterion={"type": "oracle"}, version=SEED))["criterion"] == {"type": "oracle"}


def test_an_explicit_null_criterion_comes_back_as_null():
    shown = exported(with_transition(a_transition(criterion=None), criterion=None))
    assert shown["criterion"] is transition_of(shown)["criterion"] is None


# state


@pytest.mark.parametrize("state", [{}, {"transitions": []}, {"transitions": None}, {"annotations": None}, None])
def test_a_terminal_state_is_an_empty_object(state):
    assert exported(a_workflow(states={"A": state}))["states"] == {"A": {}}


def test_a_state_shows_its_annotations():
    assert exported(a_workflow(states={"A": {"annotations": {}}}))["states"] == {"A": {"annotations": {}}}


# transition


@pytest.mark.parametrize("default", [{}, {"disabled": False, "processors": [], "schedule": None, "annotations": None}])
def test_a_plain_transition_shows_name_next_and_manual(default):
    shown = transition_of(exported(with_transition(a_transition(**default))))
    assert list(shown.items()) == [("name", "go"), ("next", "B"), ("manual", True)]


def test_manual_is_shown_even_when_it_was_not_given():
    assert transition_of(exported(with_transition({"name": "go", "next": "B"})))["manual"] is False


def test_optional_members_of_a_transition_appear_when_given():
    given = {"disabled": True, "criterion": CONDITION, "annotations": {}, "criterionAnnotations": {"b": 2}}
    shown = transition_of(exported(with_transition(a_transition(**given))))
    assert shown == {"name": "go", "next": "B", "manual": True} | given


def test_transitions_keep_their_order():
    names = ["z", "a", "m"]
    states = {"A": {"transitions": [a_transition(name) for name in names]}, "B": {}}
    shown = exported(a_workflow(states=states))
    assert [transition["name"] for transition in shown["states"]["A"]["transitions"]] == names


# processor and config


def test_a_plain_processor_shows_type_name_and_config():
    shown = processor_of(exported(with_processor({"name": "price"})))
    assert list(shown.items()) == [("type", ""), ("name", "price"), ("config", {"attachEntity": True})]


@pytest.mark.parametrize("kind", ["externalized", "internalized", "EXTERNAL", "calculator", ""])
def test_a_type_is_never_altered(kind):
    assert processor_of(exported(with_processor(a_processor(type=kind))))["type"] == kind


def test_defaults_of_a_processor_are_left_out():
    config = {"calculationNodesTags": "", "responseTimeoutMs": 0, "retryPolicy": "", "context": ""}
    shown = processor_of(exported(with_processor(a_processor(executionMode="", config=config))))
    assert shown == {"type": "EXTERNAL", "name": "price", "config": {"attachEntity": True}}


def test_what_a_processor_says_comes_back():
    given = a_processor(
        executionMode="COMMIT_BEFORE_DISPATCH",
        annotations={"a": 1},
        config={
            "attachEntity": True,
            "calculationNodesTags": "a, B",
            "responseTimeoutMs": -1,
            "retryPolicy": "NONE",
            "context": "eu",
            "startNewTxOnDispatch": True,
            "asyncResult": False,
        },
    )
    assert processor_of(exported(with_processor(given))) == given


def test_attach_entity_is_always_explicit():
    shown = processor_of(exported(with_processor(a_processor(config={"attachEntity": False}))))
    assert shown["config"] == {"attachEntity": False}


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("version", [STRICT, SEED])
def test_start_new_tx_comes_back_where_it_was_given(flag, version):
    mode = {"executionMode": "COMMIT_BEFORE_DISPATCH"}
    beside = with_processor(a_processor(startNewTxOnDispatch=flag, **mode), version=version)
    inside = with_processor(a_processor(config={"startNewTxOnDispatch": flag}, **mode), version=version)
    both = with_processor(
        a_processor(startNewTxOnDispatch=flag, config={"startNewTxOnDispatch": flag}, **mode), version=version
    )
    places = [
        ("startNewTxOnDispatch" in shown, "startNewTxOnDispatch" in shown["config"])
        for shown in (processor_of(exported(workflow)) for workflow in (beside, inside, both))
    ]
    assert places == [(True, False), (False, True), (True, True)]


def test_start_new_tx_that_was_not_given_is_left_out():
    shown = processor_of(exported(with_processor(a_processor(config={"startNewTxOnDispatch": None}))))
    assert "startNewTxOnDispatch" not in shown
    assert "startNewTxOnDispatch" not in shown["config"]


def test_the_seed_contract_returns_unknown_modes_and_policies_verbatim():
    given = a_processor(executionMode="EVENTUALLY", config={"attachEntity": True, "retryPolicy": "EXPONENTIAL"})
    assert processor_of(exported(with_processor(given, version=SEED))) == given


def test_unknown_members_of_the_seed_contract_are_gone():
    workflow = with_processor(a_processor(unknown=1, config={"unknown": 2}), version=SEED, unknown=3)
    shown = exported(workflow)
    assert "unknown" not in shown
    assert "unknown" not in processor_of(shown)
    assert "unknown" not in processor_of(shown)["config"]


# schedule


def schedule_of(schedule: JsonObject) -> JsonValue:
    return transition_of(exported(with_transition(automated("go", "B", schedule=schedule))))["schedule"]


@pytest.mark.parametrize("schedule", [{"delayMs": 5}, {"delayMs": 5, "timeoutMs": 0}, {"delayMs": 5, "timeoutMs": -7}])
def test_a_static_schedule_comes_back(schedule):
    assert schedule_of(schedule) == schedule


@pytest.mark.parametrize("delay", [{}, {"delayMs": 0}, {"delayMs": -3}, {"delayMs": None}])
def test_a_schedule_by_function_shows_a_delay_of_zero(delay):
    shown = schedule_of(delay | {"function": a_function()})
    assert list(shown.items()) == [("delayMs", 0), ("function", a_function(attachEntity=True))]


def test_what_a_schedule_function_says_comes_back():
    given = a_function(attachEntity=False, context="eu", responseTimeoutMs=7)
    assert schedule_of({"delayMs": 0, "timeoutMs": 1, "function": given}) == {
        "delayMs": 0,
        "timeoutMs": 1,
        "function": given,
    }


# lists


def test_workflows_keep_their_order():
    shown = export(imported(a_workflow("z"), a_workflow("a")))
    assert [workflow["name"] for workflow in shown] == ["z", "a"]


def test_a_workflow_that_activate_switched_off_is_exported_inactive():
    merged = IMPORT_MODES["ACTIVATE"](imported(a_workflow("a", version=SEED)), imported(a_workflow("b")))
    assert [workflow["active"] for workflow in export(merged)] == [False, True]
