"""What happens after an instance failed, manual retry, and cancelling (docs/reference/steps.md#a-failed-instance)."""

from collections.abc import Callable

import pytest

from statewright.jsonval.values import JsonValue
from tests.unit.steps.builders import a_process, decision, end, fork, join, service, timer, transformation, user
from tests.unit.steps.world import World

FORKED = (
    fork("fork", "join", "a", "b", "c"),
    service("a", "join", retryCount=1),
    service("b", "join"),
    user("c", "join"),
    join("join", "end"),
    end(),
)


def forked(**variables: JsonValue) -> World:
    return World(a_process(*FORKED)).start(**variables)


def test_a_failed_instance_keeps_its_steps_and_the_work_of_its_other_branches():
    world = forked().fail("a", "no")
    assert (world.status, world.at, world.queue) == ("FAILED", ["a", "b", "c"], [])
    assert (len(world.jobs), world.inbox) == (1, ["c"])
    assert world.history[1:] == ["a#1 FAILED", "b#1 RUNNING", "c#1 RUNNING"]


def test_a_retry_enters_the_step_again_with_a_fresh_job():
    world = forked(n=1).fail("a", "no").retry("a", n=2)
    assert (world.status, world.reason, world.instance.completed_at) == ("WAITING", None, None)
    assert world.queue == ["b", "a"]
    assert (world.job("a").input, world.job("a").retries) == ({"n": 2}, 1)
    assert world.history[1:] == ["a#1 FAILED", "b#1 RUNNING", "c#1 RUNNING", "a#2 RUNNING"]
    assert world.moves[-2:] == ["retry", "park"]


def test_a_retried_branch_still_counts_for_its_join():
    world = forked().fail("a").retry("a").complete("a").complete("b").finish_task("c")
    assert world.status == "COMPLETED"


def test_results_that_come_while_the_instance_is_failed_are_kept_for_a_retry():
    world = forked(x=0).fail("a")
    world.complete("b", x=1)
    assert (world.status, world.variables, world.moves[-1]) == ("FAILED", {"x": 0}, "advance")
    assert world.line("b").status == "COMPLETED"
    assert list(world.closed_jobs.values()) == ["FAILED", "COMPLETED"]
    world.retry("a", y=2)
    assert world.variables == {"x": 1, "y": 2}
    assert world.at == ["c", "a", "join"]


def test_kept_results_advance_in_the_order_in_which_they_came():
    steps = (
        fork("fork", "join", "a", "b", "c"),
        service("a", "join"),
        service("b", "join"),
        service("c", "join"),
        join("join", "end"),
        end(),
    )
    world = World(a_process(*steps)).start().fail("a").complete("c", x="c").complete("b", x="b").retry("a")
    assert world.variables == {"x": "b"}
    assert world.complete("a").status == "COMPLETED"


def test_a_second_report_for_a_kept_result_has_no_effect():
    world = forked().fail("a")
    job = world.job("b").task
    world.report(job, {"x": 1}).report(job, {"x": 2})
    assert world.effects == ()
    assert world.retry("a").variables == {"x": 1}


def test_a_failure_reported_while_the_instance_is_failed_has_no_effect_and_the_job_comes_back_after_a_retry():
    world = forked().fail("a")
    world.fail("b", retryable=False)
    assert (world.reason, len(world.jobs)) == ("boom", 1)
    assert world.retry("a").queue == ["b", "a"]


def test_people_and_signals_are_refused_while_the_instance_is_failed():
    assert forked().fail("a").finish_task("c").refusal == ("conflict", "instance is in a terminal state")


def test_branches_a_failure_kept_from_being_entered_are_entered_on_retry():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            decision("a", {"ok": "join"}),
            service("b", "join"),
            join("join", "end"),
            end(),
        )
    ).start(ok=False)
    assert (world.status, world.history) == ("FAILED", ["fork#1 COMPLETED", "a#1 FAILED"])
    world.retry("a", ok=True)
    assert world.at == ["join", "b"]
    assert world.complete("b").status == "COMPLETED"


def test_a_step_that_needs_nobody_is_evaluated_again_and_may_fail_again():
    world = World(a_process(transformation("calc", "end", y="${1 / x}"), end())).start(x=0)
    assert world.retry("calc").status == "FAILED"
    assert world.moves == ["fail", "retry", "fail"]
    assert world.instance.completed_at == world.clock
    world.retry("calc", x=4)
    assert (world.status, world.history) == (
        "COMPLETED",
        ["calc#1 FAILED", "calc#2 FAILED", "calc#3 COMPLETED", "end#1 COMPLETED"],
    )


def test_results_stay_kept_when_a_retry_fails_at_once():
    world = World(
        a_process(
            fork("fork", "join", "b", "a"),
            service("b", "join"),
            transformation("a", "join", y="${1 / x}"),
            join("join", "end"),
            end(),
        )
    ).start(x=0)
    world.complete("b", z=1).retry("a")
    assert (world.status, world.variables) == ("FAILED", {"x": 0})
    world.retry("a", x=1)
    assert (world.status, world.variables) == ("COMPLETED", {"x": 1, "y": 1, "z": 1})


def test_a_retried_join_that_no_gateway_led_to_fails_again():
    world = World(a_process(join("j", "end"), end())).start().retry("j")
    assert (world.status, world.history) == ("FAILED", ["j#1 FAILED", "j#2 FAILED"])


def test_the_budget_of_steps_begins_anew_with_a_retry():
    loop = decision("again", {"n < 1": "again", "true": "end"})
    world = World(a_process(loop, end())).start(n=0)
    assert world.status == "FAILED"
    assert world.retry("again", n=1).status == "COMPLETED"


@pytest.mark.parametrize(
    ("step", "refusal"),
    [
        ("nowhere", ("not-found", 'step "nowhere" not found in definition')),
        ("b", ("conflict", 'latest attempt of step "b" is not FAILED')),
        ("end", ("conflict", 'latest attempt of step "end" is not FAILED')),
    ],
)
def test_only_the_step_that_failed_the_instance_can_be_retried(step: str, refusal: tuple[str, str]):
    assert forked().fail("a").retry(step).refusal == refusal


def test_an_instance_that_is_not_failed_cannot_be_retried():
    assert forked().retry("a").refusal == ("conflict", "instance is not in FAILED state")


def test_a_step_that_a_timer_interrupted_cannot_be_retried():
    world = World(
        a_process(
            service("work", "end", boundaryEvents=[timer("PT1H", "late", interrupting=True)]),
            service("late", "end"),
            end(),
        )
    ).start()
    world.fire().fail("late")
    assert world.retry("work").refusal == ("conflict", 'latest attempt of step "work" is not FAILED')
    assert world.retry("late").status == "ACTIVE"


def test_cancelling_withdraws_everything_that_goes_on():
    world = World(
        a_process(
            fork("fork", "join", "a", "b", "c"),
            service("a", "join", boundaryEvents=[timer("PT1H", "c")]),
            transformation("b", "join", x=1),
            user("c", "join"),
            join("join", "end"),
            end(),
        )
    ).start()
    world.cancel("changed our mind")
    assert (world.status, world.reason) == ("CANCELLED", "changed our mind")
    assert world.at == ["a", "join", "c"]
    assert world.history[1:] == ["a#1 SKIPPED", "b#1 COMPLETED", "join#1 COMPLETED", "c#1 SKIPPED"]
    assert [*world.closed_jobs.values(), *world.closed_tasks.values(), *world.closed_timers.values()] == [
        "CANCELLED",
        "CANCELLED",
        "disarmed",
    ]


def test_cancelling_without_a_reason_leaves_an_empty_one():
    assert forked().cancel().reason == ""


def test_a_cancelled_instance_does_not_chain():
    steps = (service("work", "end"), end())
    world = World(a_process(*steps, autoStartNextWorkflow=True, nextWorkflowId="next")).start().cancel()
    assert world.children == []


@pytest.mark.parametrize("finish", [lambda world: world.fail("a"), lambda world: world.cancel()])
def test_an_instance_that_is_over_cannot_be_cancelled(finish: Callable[[World], World]):
    world = finish(forked())
    assert world.cancel().refusal == ("conflict", "instance is in a terminal state")


def test_reports_after_the_end_have_no_effect():
    world = forked()
    job = world.job("a").task
    world.cancel()
    assert world.report(job, {"x": 1}).effects == ()
    assert world.report_failure(job).status == "CANCELLED"
    assert world.variables == {}


def test_a_failed_instance_with_a_step_held_by_two_tokens_can_be_retried():
    world = World(a_process(fork("fork", "join", "a", "a"), service("a", "join"), join("join", "end"), end())).start()
    world.fail("a").retry("a").complete("a").complete("a")
    assert world.status == "COMPLETED"
