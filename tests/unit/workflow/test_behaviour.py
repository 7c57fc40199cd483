import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.failures import ValidationFailed
from statewright.jsonval.values import JsonObject
from statewright.workflow import IMPORT_MODES, Workflow, check_merged
from statewright.workflow.import_checks import find_cycle
from tests.unit.workflow.builders import (
    SEED,
    STRICT,
    a_processor,
    a_transition,
    a_workflow,
    automated,
    imported,
    states_of,
    with_processor,
)

ALWAYS = {"type": "group", "operator": "AND", "conditions": []}


def violation_of(*workflows: JsonObject) -> str:
    with pytest.raises(ValidationFailed) as refused:
        check_merged(imported(*workflows), allow_cycles=False)
    return refused.value.message


def is_fine(*workflows: JsonObject) -> bool:
    check_merged(imported(*workflows), allow_cycles=False)
    return True


def route(*states: str) -> str:
    text = f"infinite loop detected: {' -> '.join(states)} via unguarded automated transitions"
    return f'workflow "parcel": {text}; where that is meant, allowCycles imports it'


# cycles


@pytest.mark.parametrize("version", [STRICT, SEED])
def test_a_cycle_of_unguarded_automated_transitions_is_refused(version):
    states = states_of(A=[automated("x", "B")], B=[automated("y", "A")])
    assert violation_of(a_workflow(states=states, version=version)) == route("A", "B", "A")


def test_a_self_loop_is_a_cycle():
    assert violation_of(a_workflow(states=states_of(A=[automated("x", "A")]))) == route("A", "A")


def test_only_the_looping_part_of_the_way_is_shown():
    states = states_of(A=[automated("x", "B")], B=[automated("y", "C")], C=[automated("z", "B")])
    assert violation_of(a_workflow(states=states)) == route("B", "C", "B")


def test_the_cycle_is_found_by_name_of_state_then_by_declaration():
    states = states_of(
        D=[automated("x", "D")],
        A=[automated("c", "C"), automated("b", "B")],
        B=[automated("x", "A")],
        C=[automated("x", "A")],
    )
    assert violation_of(a_workflow(states=states)) == route("A", "C", "A")


def test_a_scheduled_transition_counts_as_an_edge():
    states = states_of(A=[automated("tick", "A", schedule={"delayMs": 1000})])
    assert violation_of(a_workflow(states=states)) == route("A", "A")


@pytest.mark.parametrize(
    "closing",
    [
        a_transition("back", "A"),
        automated("back", "A", disabled=True),
        automated("back", "A", criterion=ALWAYS),
    ],
    ids=["manual", "disabled", "guarded"],
)
def test_a_way_back_that_something_stops_closes_no_cycle(closing):
    assert is_fine(a_workflow(states=states_of(A=[automated("x", "B")], B=[closing])))


def test_an_explicit_null_criterion_guards_nothing():
    states = states_of(A=[automated("x", "A", criterion=None)])
    assert violation_of(a_workflow(states=states)) == route("A", "A")


def test_a_cycle_is_found_even_where_nothing_leads():
    assert violation_of(a_workflow(states=states_of(A=[], Z=[automated("x", "Z")]))) == route("Z", "Z")


def test_inactive_workflows_are_judged_too():
    assert violation_of(a_workflow(active=False, states=states_of(A=[automated("x", "A")]))) == route("A", "A")


def test_a_diamond_is_no_cycle():
    states = states_of(
        A=[automated("b", "B"), automated("c", "C")], B=[automated("d", "D")], C=[automated("d", "D")], D=[]
    )
    assert is_fine(a_workflow(states=states))


def test_a_very_long_chain_is_walked():
    chain = {f"S{i:05}": {"transitions": [automated("on", f"S{i + 1:05}")]} for i in range(20_000)} | {"S20000": {}}
    assert is_fine(a_workflow(initialState="S00000", states=chain))


def test_cycles_can_be_allowed():
    cyclic = imported(a_workflow(states=states_of(A=[automated("x", "A")])))
    check_merged(cyclic, allow_cycles=True)
    with pytest.raises(ValidationFailed):
        check_merged(cyclic, allow_cycles=False)


def test_a_stored_cycle_makes_a_later_import_fail():
    stored = imported(a_workflow("heartbeat", states=states_of(A=[automated("x", "A")])))
    merged = IMPORT_MODES["MERGE"](stored, imported(a_workflow("other")))
    with pytest.raises(ValidationFailed, match='workflow "heartbeat": infinite loop'):
        check_merged(merged, allow_cycles=False)


def a_graph(edges: dict[str, list[str]]) -> Workflow:
    listed = {name: [automated(f"t{i}", to) for i, to in enumerate(targets)] for name, targets in edges.items()}
    (workflow,) = imported(a_workflow(initialState=next(iter(edges)), states=states_of(**listed)))
    return workflow


def reaches(edges: dict[str, list[str]], start: str, goal: str, seen: frozenset[str] = frozenset()) -> bool:
    return any(to == goal or (to not in seen and reaches(edges, to, goal, seen | {to})) for to in edges[start])


NODES = list("ABCDEF")
GRAPHS = st.fixed_dictionaries({name: st.lists(st.sampled_from(NODES), max_size=2) for name in NODES})


@given(GRAPHS)
def test_a_cycle_is_found_exactly_when_some_state_reaches_itself(edges):
    found = find_cycle(a_graph(edges))
    assert (found is not None) == any(reaches(edges, name, name) for name in NODES)


@given(GRAPHS)
def test_what_is_found_is_a_cycle_of_edges_without_repetition(edges):
    found = find_cycle(a_graph(edges))
    if found is not None:
        assert found[0] == found[-1]
        assert len(set(found)) == len(found) - 1
        assert all(to in edges[here] for here, to in itertools.pairwise(found))


# startNewTxOnDispatch


@pytest.mark.parametrize("version", [STRICT, SEED])
@pytest.mark.parametrize("mode", ["", "SYNC", "ASYNC_NEW_TX"])
@pytest.mark.parametrize(
    "flag", [{"startNewTxOnDispatch": True}, {"config": {"startNewTxOnDispatch": True}}], ids=["beside", "inside"]
)
def test_a_new_transaction_needs_commit_before_dispatch(flag, mode, version):
    workflow = with_processor(a_processor(executionMode=mode, **flag), version=version)
    assert violation_of(workflow) == (
        'workflow "parcel" transition "go" processor "price": startNewTxOnDispatch=true is only valid '
        f'with executionMode=COMMIT_BEFORE_DISPATCH (got "{mode}")'
    )


def test_the_mode_is_named_as_it_was_declared():
    workflow = with_processor(a_processor(executionMode="LATER", startNewTxOnDispatch=True), version=SEED)
    assert violation_of(workflow).endswith('(got "LATER")')


@pytest.mark.parametrize(
    "flag", [{"startNewTxOnDispatch": True}, {"config": {"startNewTxOnDispatch": True}}], ids=["beside", "inside"]
)
def test_commit_before_dispatch_may_start_a_new_transaction(flag):
    assert is_fine(with_processor(a_processor(executionMode="COMMIT_BEFORE_DISPATCH", **flag)))


def test_a_false_flag_is_fine_with_any_mode():
    assert is_fine(with_processor(a_processor(executionMode="SYNC", config={"startNewTxOnDispatch": False})))


def test_allowing_cycles_allows_nothing_else():
    with pytest.raises(ValidationFailed, match="startNewTxOnDispatch=true"):
        check_merged(imported(with_processor(a_processor(startNewTxOnDispatch=True))), allow_cycles=True)
