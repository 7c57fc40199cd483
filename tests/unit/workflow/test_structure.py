import pytest

from statewright.failures import ValidationFailed
from statewright.jsonval.values import JsonObject
from statewright.workflow import check_incoming
from tests.unit.workflow.builders import (
    SEED,
    STRICT,
    a_function,
    a_processor,
    a_request,
    a_transition,
    a_workflow,
    with_processor,
    with_transition,
)

LONG = "ä" * 129
IN_TRANSITION = 'workflow "parcel" state "A" transition "go": '
IN_PROCESSOR = 'workflow "parcel" state "A" processor "price": '
NO_ASYNC = "is not supported on this backend (async/crossover semantics are not implemented)"
ONE_OF_TWO = f"{IN_TRANSITION}exactly one of schedule.delayMs or schedule.function is required"
NAME_AND_TAGS = f"{IN_TRANSITION}schedule.function requires name and calculationNodesTags"


def violation_of(*workflows: JsonObject, **members: object) -> str:
    with pytest.raises(ValidationFailed) as refused:
        check_incoming(a_request(*workflows, **members))
    return refused.value.message


def scheduled(schedule: JsonObject, **members: object) -> JsonObject:
    return with_transition(a_transition(manual=False, schedule=schedule, **members))


def timed(**members: object) -> JsonObject:
    return scheduled({"function": a_function(**members)})


BOTH_CONTRACTS = [
    (a_workflow(name=""), "workflow with empty name is not allowed"),
    (a_workflow(name=None), "workflow with empty name is not allowed"),
    (a_workflow(name=LONG), "workflow name length 258 exceeds the 256-char limit"),
    (a_workflow(initialState=""), 'workflow "parcel": initialState must not be empty'),
    (a_workflow(initialState="X"), 'workflow "parcel": initialState "X" is not declared in states'),
    (a_workflow(states={}), 'workflow "parcel": initialState "A" is not declared in states'),
    (a_workflow(states=None), 'workflow "parcel": initialState "A" is not declared in states'),
    (
        a_workflow(states={"": {}, "A": {}}),
        'workflow "parcel": empty state name is not allowed in the states map',
    ),
    (a_workflow(states={"A": {}, LONG: {}}), 'workflow "parcel": state name length 258 exceeds the 256-char limit'),
    (with_transition(a_transition("")), 'workflow "parcel" state "A": empty transition name is not allowed'),
    (
        with_transition(a_transition(LONG)),
        'workflow "parcel" state "A": transition name length 258 exceeds the 256-char limit',
    ),
    (
        a_workflow(states={"A": {"transitions": [a_transition(), a_transition(to="A")]}, "B": {}}),
        'workflow "parcel" state "A": duplicate transition name "go"',
    ),
    (with_transition(a_transition(to="X")), f'{IN_TRANSITION}next state "X" is not declared in states'),
    (with_transition(a_transition(to="")), f'{IN_TRANSITION}next state "" is not declared in states'),
    (
        with_transition(a_transition(manual=True, schedule={"delayMs": 1})),
        f"{IN_TRANSITION}manual and scheduled are mutually exclusive",
    ),
    (scheduled({}), ONE_OF_TWO),
    (scheduled({"timeoutMs": 5}), ONE_OF_TWO),
    (scheduled({"delayMs": 0}), ONE_OF_TWO),
    (scheduled({"delayMs": -1}), ONE_OF_TWO),
    (scheduled({"delayMs": 1, "function": a_function()}), ONE_OF_TWO),
    (
        timed(resultKind="Date"),
        f'{IN_TRANSITION}schedule.function.resultKind must be "Schedule" (got "Date")',
    ),
    (timed(resultKind=None), f'{IN_TRANSITION}schedule.function.resultKind must be "Schedule" (got "")'),
    (timed(name=""), NAME_AND_TAGS),
    (timed(calculationNodesTags=""), NAME_AND_TAGS),
    (with_processor(a_processor("")), f"{IN_TRANSITION}empty processor name is not allowed"),
    (with_processor(a_processor(LONG)), f"{IN_TRANSITION}processor name length 258 exceeds the 256-char limit"),
    (with_processor(a_processor(config={"asyncResult": True})), f"{IN_PROCESSOR}asyncResult=true {NO_ASYNC}"),
    (with_processor(a_processor(config={"crossoverToAsyncMs": 5})), f"{IN_PROCESSOR}crossoverToAsyncMs {NO_ASYNC}"),
    (with_processor(a_processor(config={"crossoverToAsyncMs": 0})), f"{IN_PROCESSOR}crossoverToAsyncMs {NO_ASYNC}"),
    (
        with_processor(a_processor(startNewTxOnDispatch=True, config={"startNewTxOnDispatch": False})),
        f"{IN_PROCESSOR}startNewTxOnDispatch is given twice, with different values",
    ),
]


@pytest.mark.parametrize("version", [STRICT, SEED])
@pytest.mark.parametrize(("workflow", "message"), BOTH_CONTRACTS)
def test_structural_rules_hold_in_both_contracts(workflow, message, version):
    assert violation_of(workflow | {"version": version}) == message


def test_a_violation_is_a_400_validation_failed():
    with pytest.raises(ValidationFailed) as refused:
        check_incoming(a_request(a_workflow(name="")))
    assert refused.value.status == 400
    assert refused.value.detail == "VALIDATION_FAILED: workflow with empty name is not allowed"


def test_a_name_may_not_repeat_in_a_request():
    assert violation_of(a_workflow("x"), a_workflow("x")) == 'duplicate workflow name "x" in request'


@pytest.mark.parametrize("mode", ["REPLACE", "ACTIVATE"])
def test_an_empty_list_is_refused_where_it_would_discard_something(mode):
    assert violation_of(importMode=mode) == (
        "empty workflows array not allowed in REPLACE/ACTIVATE mode — use MERGE if you intended a no-op"
    )


def test_an_empty_list_is_fine_for_a_merge():
    assert check_incoming(a_request(importMode="MERGE")) == ()


def test_names_are_quoted_on_one_line():
    assert violation_of(a_workflow('a"b\\c\n\x07\u2028ü', initialState="")) == (
        'workflow "a\\"b\\\\c\\n\\u0007\\u2028ü": initialState must not be empty'
    )


# what is fine

FINE = {
    "names of 256 bytes": a_workflow("ä" * 128),
    "names with blanks": with_transition(a_transition("send to depot — élan")),
    "one transition name in two states": a_workflow(
        states={"A": {"transitions": [a_transition()]}, "B": {"transitions": [a_transition(to="A")]}}
    ),
    "a processor twice in a transition": with_transition(a_transition(processors=[a_processor(), a_processor()])),
    "a transition to its own state": with_transition(a_transition(to="A")),
    "unreachable states": a_workflow(states={"A": {}, "B": {}, "C": {"transitions": [a_transition(to="C")]}}),
    "a negative delay beside a function": scheduled({"delayMs": -5, "function": a_function()}),
    "a negative lateness": scheduled({"delayMs": 5, "timeoutMs": -1}),
    "asyncResult false": with_processor(a_processor(config={"asyncResult": False})),
    "crossoverToAsyncMs null": with_processor(a_processor(config={"crossoverToAsyncMs": None})),
    "startNewTxOnDispatch twice alike": with_processor(
        a_processor(startNewTxOnDispatch=False, config={"startNewTxOnDispatch": False})
    ),
}


@pytest.mark.parametrize("version", [STRICT, SEED])
@pytest.mark.parametrize("workflow", FINE.values(), ids=FINE.keys())
def test_nothing_is_wrong_with(workflow, version):
    assert check_incoming(a_request(workflow | {"version": version})) == ()


# what differs per contract


@pytest.mark.parametrize("mode", ["sync", "ASYNC", "SYNC "])
def test_the_strict_contract_refuses_unknown_execution_modes(mode):
    assert violation_of(with_processor(a_processor(executionMode=mode))) == (
        f'{IN_PROCESSOR}unknown executionMode "{mode}" '
        "(allowed: SYNC, ASYNC_SAME_TX, ASYNC_NEW_TX, COMMIT_BEFORE_DISPATCH, or empty)"
    )


@pytest.mark.parametrize("policy", ["EXPONENTIAL", "LINEAR", "fixed"])
def test_the_strict_contract_refuses_unknown_retry_policies(policy):
    assert violation_of(with_processor(a_processor(config={"retryPolicy": policy}))) == (
        f'{IN_PROCESSOR}unknown retryPolicy "{policy}" (allowed: NONE, FIXED, or empty)'
    )


@pytest.mark.parametrize("kind", ["externalized", "internalized", "EXTERNAL", "calculator", "FUNCTION", "", None])
def test_the_strict_contract_accepts_any_type(kind):
    assert check_incoming(a_request(with_processor(a_processor(type=kind)))) == ()


@pytest.mark.parametrize("mode", ["", "SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH", None])
@pytest.mark.parametrize("policy", ["", "NONE", "FIXED", None])
def test_the_strict_contract_accepts_its_own_modes_and_policies(mode, policy):
    processor = a_processor(executionMode=mode, config={"retryPolicy": policy})
    assert check_incoming(a_request(with_processor(processor))) == ()


@pytest.mark.parametrize("kind", ["internalized", "calculator", "FUNCTION", "external"])
def test_the_seed_contract_refuses_other_types_than_external(kind):
    assert violation_of(with_processor(a_processor(type=kind), version=SEED)) == (
        f'{IN_PROCESSOR}unknown type "{kind}" (allowed: EXTERNAL, externalized, or absent)'
    )


@pytest.mark.parametrize("kind", ["EXTERNAL", "externalized", "", None])
def test_the_seed_contract_accepts_the_external_type(kind):
    assert check_incoming(a_request(with_processor(a_processor(type=kind), version=SEED))) == ()


@pytest.mark.parametrize(("mode", "policy"), [("EVENTUALLY", ""), ("", "EXPONENTIAL"), ("sync", "LINEAR")])
def test_the_seed_contract_accepts_unknown_modes_and_policies(mode, policy):
    processor = a_processor(executionMode=mode, config={"retryPolicy": policy})
    request = a_request(with_processor(processor, version=SEED))
    assert check_incoming(request) == ()
    (transition,) = request.workflows[0].list_transitions("A")
    assert (transition.processors[0].mode, transition.processors[0].config.retry) == ("SYNC", "NONE")


# order


def test_workflows_are_judged_in_request_order():
    assert violation_of(a_workflow("one", initialState=""), a_workflow("two", states={})).startswith('workflow "one"')


def test_states_are_judged_in_the_order_of_their_names():
    lost = {"transitions": [a_transition(to="X")]}
    assert violation_of(a_workflow(states={"C": lost, "A": {}, "B": lost})).startswith('workflow "parcel" state "B"')


def test_structure_is_judged_before_annotations():
    assert violation_of(a_workflow("one", annotations=[]), a_workflow("two", initialState="")).startswith(
        'workflow "two"'
    )
