"""Which transitions may lead to a ``COMMIT_BEFORE_DISPATCH`` processor without a client's doing
(docs/transactions.md#faults-of-clients).
"""

from statewright.workflow import Workflow
from tests.unit.workflow.builders import a_processor, a_transition, a_workflow, automated, imported, states_of

SEGMENTING = [a_processor(executionMode="COMMIT_BEFORE_DISPATCH")]


def a_definition(**transitions: list) -> Workflow:
    states = states_of(**{"A": [], "B": [], "C": [], "D": []} | transitions)
    [workflow] = imported(a_workflow(states=states))
    return workflow


def may_segment(workflow: Workflow, state: str, name: str) -> bool:
    transition = workflow.find_transition(state, name)
    assert transition is not None
    return workflow.may_segment(transition)


def test_a_transition_segments_by_a_processor_of_its_own():
    workflow = a_definition(A=[a_transition("go", processors=SEGMENTING), a_transition("other")])
    assert may_segment(workflow, "A", "go")
    assert not may_segment(workflow, "A", "other")


def test_a_transition_segments_by_automated_ones_after_it_over_any_number_of_states():
    workflow = a_definition(
        A=[a_transition("go", "B")], B=[automated("on", "C")], C=[automated("on", "D", processors=SEGMENTING)]
    )
    assert may_segment(workflow, "A", "go")
    assert workflow.segmenting_states == {"B", "C"}


def test_a_criterion_does_not_count():
    never = {"type": "simple", "jsonPath": "$.a", "operatorType": "EQUALS", "value": 1}
    workflow = a_definition(A=[a_transition()], B=[automated("on", "C", criterion=never, processors=SEGMENTING)])
    assert may_segment(workflow, "A", "go")


def test_manual_scheduled_and_disabled_transitions_end_the_cascade():
    workflow = a_definition(
        A=[a_transition()],
        B=[
            a_transition("charge", "C", processors=SEGMENTING),
            automated("lapse", "C", schedule={"delayMs": 1}, processors=SEGMENTING),
            automated("off", "C", disabled=True, processors=SEGMENTING),
        ],
    )
    assert not may_segment(workflow, "A", "go")
    assert may_segment(workflow, "B", "charge")
    assert may_segment(workflow, "B", "lapse")
    assert workflow.segmenting_states == frozenset()


def test_cycles_are_followed_once():
    workflow = a_definition(
        A=[a_transition()],
        B=[automated("on", "C", criterion={"type": "simple", "jsonPath": "$.a", "operatorType": "IS_NULL"})],
        C=[a_transition("back", "B"), automated("end", "D", processors=SEGMENTING)],
        D=[],
    )
    assert may_segment(workflow, "C", "back")
    assert workflow.segmenting_states == {"B", "C"}
