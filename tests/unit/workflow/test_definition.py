import pytest
from msgspec.structs import replace

from statewright.conditions.wire import parse_tags
from statewright.workflow import Processor, ProcessorConfig, ScheduleFunction, Workflow
from tests.unit.workflow.builders import SEED, a_function, a_transition, a_workflow, automated, imported, states_of


def the(definition) -> Workflow:
    (workflow,) = imported(definition)
    return workflow


TIMER = automated("timer", "B", schedule={"delayMs": 5})
MIXED = a_workflow(
    states=states_of(
        A=[
            automated("first", "B", criterion={"type": "group", "operator": "AND", "conditions": []}),
            a_transition("by-hand"),
            automated("off", "B", disabled=True),
            TIMER,
            automated("dead-timer", "B", disabled=True, schedule={"delayMs": 5}),
            automated("last", "B"),
        ],
        B=[],
    )
)


def names(transitions) -> list[str]:
    return [transition.name for transition in transitions]


def test_the_cascade_considers_automated_transitions_in_declaration_order():
    assert names(the(MIXED).list_automated("A")) == ["first", "last"]


def test_timers_are_armed_for_scheduled_transitions_that_are_not_disabled():
    assert names(the(MIXED).list_scheduled("A")) == ["timer"]


def test_all_transitions_are_listed_in_declaration_order():
    assert names(the(MIXED).list_transitions("A")) == ["first", "by-hand", "off", "timer", "dead-timer", "last"]


@pytest.mark.parametrize("name", ["first", "by-hand", "off", "timer"])
def test_a_transition_is_found_by_name_whatever_its_kind(name):
    found = the(MIXED).find_transition("A", name)
    assert found is not None
    assert found.name == name


def test_a_state_that_is_not_there_has_no_transitions():
    workflow = the(MIXED)
    assert workflow.list_transitions("X") == workflow.list_automated("X") == workflow.list_scheduled("X") == ()
    assert workflow.find_transition("X", "first") is workflow.find_transition("B", "first") is None


def test_a_workflow_knows_whether_anything_in_it_is_scheduled():
    dead = automated("dead-timer", "B", disabled=True, schedule={"delayMs": 5})
    kept = [the(a_workflow(states=states_of(A=[one], B=[]))).has_schedules for one in (TIMER, dead, a_transition())]
    assert kept == [True, True, False]


def test_derived_members_follow_a_change():
    workflow = the(MIXED)
    state = replace(workflow.states["A"], transitions=())
    assert (state.automated, state.scheduled, state.by_name) == ((), (), {})


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", ()),
        (" , ;", ()),
        ("pricing", ("pricing",)),
        ("Pricing, EU ;fast", ("pricing", "eu", "fast")),
        ("two words", ("two words",)),
        ("a,,b;", ("a", "b")),
    ],
)
def test_tags_are_split_trimmed_and_lower_cased(text, tags):
    assert parse_tags(text) == tags
    assert ProcessorConfig(calculation_nodes_tags=text).tags == tags
    assert ScheduleFunction(name="f", result_kind="Schedule", calculation_nodes_tags=text).tags == tags


@pytest.mark.parametrize(("configured", "applied"), [(0, 30_000), (-5, 30_000), (1, 1), (60_000, 60_000)])
def test_a_deadline_that_is_not_positive_means_half_a_minute(configured, applied):
    assert ProcessorConfig(response_timeout_ms=configured).timeout_ms == applied
    function = ScheduleFunction(
        name="f", result_kind="Schedule", calculation_nodes_tags="t", response_timeout_ms=configured
    )
    assert function.timeout_ms == applied


@pytest.mark.parametrize(
    ("declared", "applied"),
    [
        ("", "SYNC"),
        ("SYNC", "SYNC"),
        ("ASYNC_SAME_TX", "ASYNC_SAME_TX"),
        ("ASYNC_NEW_TX", "ASYNC_NEW_TX"),
        ("COMMIT_BEFORE_DISPATCH", "COMMIT_BEFORE_DISPATCH"),
        ("EVENTUALLY", "SYNC"),
    ],
)
def test_a_processor_runs_as_sync_unless_it_declares_a_known_mode(declared, applied):
    assert Processor(name="p", execution_mode=declared).mode == applied


@pytest.mark.parametrize(
    ("declared", "applied"), [("", "NONE"), ("NONE", "NONE"), ("FIXED", "FIXED"), ("LINEAR", "NONE")]
)
def test_only_fixed_asks_for_retries(declared, applied):
    assert ProcessorConfig(retry_policy=declared).retry == applied


def test_a_new_transaction_can_be_asked_for_in_either_place():
    inside = Processor(name="p", config=ProcessorConfig(start_new_tx=True))
    beside = Processor(name="p", start_new_tx_beside=True)
    neither = Processor(name="p", config=ProcessorConfig(start_new_tx=False))
    assert [processor.starts_new_tx for processor in (inside, beside, neither)] == [True, True, False]


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ({"type": "simple", "jsonPath": "$.a", "operatorType": "IS_NULL"}, "simple"),
        ({"type": "function", "function": {"name": "has-weight"}}, "has-weight"),
        ({"type": "oracle"}, "oracle"),
        ("nonsense", ""),
    ],
)
def test_audit_calls_a_criterion_by_function_name_or_type(source, label):
    criterion = the(a_workflow(criterion=source, version=SEED)).criterion
    assert criterion is not None
    assert criterion.label == label


def test_a_schedule_function_carries_its_own_tags_and_deadline():
    schedule = {"function": a_function(calculationNodesTags="Clock;EU", responseTimeoutMs=50)}
    (transition,) = the(a_workflow(states=states_of(A=[automated("t", "B", schedule=schedule)], B=[]))).list_scheduled(
        "A"
    )
    assert transition.schedule is not None
    assert transition.schedule.function is not None
    assert (transition.schedule.function.tags, transition.schedule.function.timeout_ms) == (("clock", "eu"), 50)
