"""Dry runs with stubs (docs/reference/steps.md#the-json-step-engine, beyond the public engine)."""

import pytest

from statewright.jsonval.values import JsonObject
from statewright.steps import Process, Simulation, read_stubs, report_simulation, simulate
from statewright.steps.simulation import MAX_EVENTS
from tests.unit.steps.builders import a_process, decision, end, service, timer, transformation, user, wait
from tests.unit.steps.world import START


def played(process: Process, stubs: JsonObject, **variables: object) -> Simulation:
    return simulate(process, variables, read_stubs(stubs), at=START)  # type: ignore[arg-type]


def ends(simulation: Simulation) -> list[tuple[str, str | None]]:
    return [(one.instance.status, one.ended_at_step) for one in simulation.instances]


def test_stubs_reply_for_workers_people_and_signals():
    process = a_process(service("work", "ask"), user("ask", "park"), wait("park", "end"), end())
    stubs: JsonObject = {
        "jobs": {"work": {"variables": {"a": 1}}},
        "userTasks": {"ask": {"variables": {"b": 2}}},
        "signals": {"park": {"variables": {"c": 3}}},
    }
    simulation = played(process, stubs)
    assert ends(simulation) == [("COMPLETED", "end")]
    assert simulation.instances[0].instance.variables == {"a": 1, "b": 2, "c": 3}


def test_whoever_has_no_stub_leaves_the_instance_at_rest():
    simulation = played(a_process(service("work", "end"), end()), {})
    assert (ends(simulation), simulation.stopped) == ([("ACTIVE", None)], "at rest")


def test_one_reply_per_delivery_and_the_last_one_for_ever():
    loop = service("work", conditionalNextSteps={"n < 3": "work", "true": "end"})
    stubs: JsonObject = {"jobs": {"work": [{"variables": {"n": 1}}, {"variables": {"n": 2}}, {"variables": {"n": 3}}]}}
    assert ends(played(a_process(loop, end()), stubs)) == [("COMPLETED", "end")]


def test_failures_use_up_the_retries_of_the_job():
    process = a_process(service("work", "end", retryCount=1), end())
    failing = {"error": "down", "retryable": True}
    assert ends(played(process, {"jobs": {"work": [failing, {}]}})) == [("COMPLETED", "end")]
    assert ends(played(process, {"jobs": {"work": failing}})) == [("FAILED", None)]
    assert ends(played(process, {"jobs": {"work": [{"error": "no"}, {}]}})) == [("FAILED", None)]


def test_a_reply_that_takes_longer_than_a_timer_comes_too_late():
    process = a_process(
        user("ask", "end", boundaryEvents=[timer("PT1H", "late", interrupting=True)]),
        service("late", "escalated"),
        end(),
        end("escalated"),
    )
    stubs: JsonObject = {"jobs": {"late": {"after": "PT1M"}}, "userTasks": {"ask": {"after": "PT2H"}}}
    simulation = played(process, stubs)
    assert ends(simulation) == [("COMPLETED", "escalated")]
    assert simulation.clock == START + 3660 * 1_000_000


def test_timers_get_their_turn_when_nobody_replies():
    process = a_process(
        wait("park", "end", boundaryEvents=[timer("P7D", "expired", interrupting=True)]), end(), end("expired")
    )
    assert ends(played(process, {})) == [("COMPLETED", "expired")]


def test_a_chain_is_followed_with_the_variables_and_the_key():
    first = a_process(transformation("set", "end", a=1), end(), autoStartNextWorkflow=True, nextWorkflowId="second")
    second = a_process(decision("route", {"a == 1": "end"}), end(), id="second")
    simulation = simulate(first, {}, read_stubs(None), at=START, successor={"second": second}.get, business_key="K")
    assert ends(simulation) == [("COMPLETED", "end"), ("COMPLETED", "end")]
    parent, child = (one.instance for one in simulation.instances)
    assert (child.parent_instance_id, child.business_key, child.definition_id) == (parent.id, "K", "second")


def test_a_chain_to_an_unknown_definition_is_told():
    process = a_process(end(), autoStartNextWorkflow=True, nextWorkflowId="gone")
    assert played(process, {}).stopped == "unknown successor"


def test_what_would_never_end_is_cut():
    process = a_process(service("work", "work", conditionalNextSteps={"true": "work"}), end())
    simulation = played(process, {"jobs": {"work": {}}})
    assert (simulation.stopped, len(simulation.instances[0].history)) == ("event limit", MAX_EVENTS + 1)


def test_a_self_chaining_definition_is_cut():
    process = a_process(service("work", "end"), end(), autoStartNextWorkflow=True, nextWorkflowId="self")
    simulation = simulate(process, {}, read_stubs({"jobs": {"work": {}}}), at=START, successor=lambda _: process)
    assert simulation.stopped == "event limit"


def test_the_same_simulation_twice_gives_the_same_report():
    process = a_process(service("work", "end"), end())
    assert report_simulation(played(process, {"jobs": {"work": {}}})) == report_simulation(
        played(process, {"jobs": {"work": {}}})
    )


def test_the_report_shows_every_instance_with_its_history():
    report = report_simulation(
        played(a_process(service("work", "end"), end()), {"jobs": {"work": {"variables": {"a": 1}}}})
    )
    assert report["stopped"] == "at rest"
    (one,) = report["instances"]  # type: ignore[misc]
    assert (one["status"], one["endedAtStep"], one["variables"]) == ("COMPLETED", "end", {"a": 1})  # type: ignore[index, call-overload]
    assert [line["stepId"] for line in one["history"]] == ["work", "end"]  # type: ignore[index, call-overload, union-attr]


@pytest.mark.parametrize(
    ("stubs", "complaint"),
    [
        ({"job": {}}, 'unknown field "job"'),
        ({"jobs": {"work": {"answer": 1}}}, 'unknown field "answer"'),
        ({"jobs": {"work": {"after": "soon"}}}, 'invalid ISO-8601 duration "soon" at jobs.work[0].after'),
        ({"userTasks": {"ask": {"error": "no"}}}, "only jobs can fail, not userTasks.ask[0]"),
        ({"jobs": {"work": [1]}}, "cannot unmarshal number into jobs.work[0] of type object"),
        ([], "cannot unmarshal array into definition of type object"),
    ],
)
def test_stubs_that_make_no_sense_are_refused_with_their_place(stubs: JsonObject, complaint: str):
    with pytest.raises(ValueError) as error:
        read_stubs(stubs)
    assert str(error.value) == complaint
