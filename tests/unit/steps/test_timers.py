"""Boundary timers (docs/reference/steps.md#boundary-timers, decision J4)."""

import pytest

from statewright.jsonval.values import JsonObject
from tests.unit.steps.builders import a_process, decision, end, fork, join, service, timer, user, wait
from tests.unit.steps.world import START, World

HOUR = 3_600_000_000


def asked(*timers: JsonObject) -> World:
    steps = (
        user("ask", "done", boundaryEvents=[*timers]),
        service("late", "escalated"),
        end("done"),
        end("escalated"),
    )
    return World(a_process(*steps)).start()


def test_a_timer_is_due_its_duration_after_the_step_was_entered():
    world = asked(timer("PT48H", "late"))
    (armed,) = world.timers.values()
    assert armed.at == world.clock + 48 * HOUR
    assert (armed.node, armed.target, armed.interrupting) == ("ask", "late", False)


def test_a_timer_that_does_not_interrupt_adds_a_token():
    world = asked(timer("PT48H", "late")).fire()
    assert (world.status, world.at, world.inbox, world.queue) == ("WAITING", ["ask", "late"], ["ask"], ["late"])
    assert world.line("ask").status == "RUNNING"


def test_an_interrupting_timer_ends_the_step_and_moves_the_token():
    world = asked(timer("PT48H", "late", interrupting=True)).fire()
    assert (world.status, world.at, world.inbox) == ("ACTIVE", ["late"], [])
    assert (world.line("ask").status, world.line("ask").failure_reason) == ("FAILED", "interrupted by boundary timer")
    assert list(world.closed_tasks.values()) == ["CANCELLED"]
    assert world.moves[-1] == "resume"


def test_the_path_of_a_timer_may_end_the_instance_while_the_step_is_still_parked():
    world = asked(timer("PT48H", "late")).fire().complete("late")
    assert world.status == "COMPLETED"
    assert world.history == ["ask#1 SKIPPED", "late#1 COMPLETED", "escalated#1 COMPLETED"]


def test_completing_the_step_disarms_its_timers():
    world = asked(timer("PT1H", "late"), timer("P1D", "late", interrupting=True)).finish_task("ask")
    assert list(world.closed_timers.values()) == ["disarmed", "disarmed"]


def test_a_disarmed_timer_that_fires_all_the_same_has_no_effect():
    world = asked(timer("PT1H", "late"))
    (armed,) = world.timers
    world.finish_task("ask").fire(armed)
    assert (world.effects, world.status) == ((), "COMPLETED")


def test_a_timer_fires_once_and_not_again():
    world = asked(timer("PT1H", "late"))
    (armed,) = world.timers
    world.fire(armed).fire(armed)
    assert (world.effects, world.queue) == ((), ["late"])


def test_several_timers_of_a_step_are_independent():
    world = asked(timer("PT2H", "late", interrupting=True), timer("PT1H", "late")).fire()
    assert (world.at, len(world.timers)) == (["ask", "late"], 1)
    world.fire()
    assert (world.at, world.queue) == (["late"], ["late", "late"])


def test_timers_due_earlier_fire_earlier():
    world = asked(timer("PT2H", "late"), timer("PT1H", "late", interrupting=True)).fire()
    assert (world.at, world.timers) == (["late"], {})


def test_an_interrupting_timer_cancels_the_job_and_late_reports_of_it_have_no_effect():
    world = World(
        a_process(
            service("work", "done", boundaryEvents=[timer("PT1M", "late", interrupting=True)]),
            service("late", "done"),
            end("done"),
        )
    ).start()
    job = world.job("work").task
    world.fire()
    assert world.closed_jobs == {job: "CANCELLED"}
    assert world.report(job, {"x": 1}).effects == ()
    assert world.report_failure(job).status == "ACTIVE"
    assert world.variables == {}


def test_a_user_task_that_was_interrupted_is_not_found_and_a_wait_not_parked():
    world = asked(timer("PT1H", "late", interrupting=True)).fire().finish_task("ask")
    assert world.refusal == ("not-found", "user task not found")
    waiting = World(
        a_process(
            wait("ask", "end", boundaryEvents=[timer("PT1H", "late", interrupting=True)]), service("late", "end"), end()
        )
    )
    assert waiting.start().fire().signal("ask").refusal == (
        "conflict",
        "wait step is not currently parked on the instance",
    )


def test_a_timer_of_no_duration_is_due_at_once():
    (armed,) = asked(timer("PT0S", "late")).timers.values()
    assert armed.at == START + 1000


def test_months_go_by_the_calendar():
    (armed,) = asked(timer("P1M", "late")).timers.values()
    assert armed.at == START + 1000 + 30 * 24 * HOUR


def test_a_retried_job_does_not_arm_its_timers_again_but_a_new_entry_does():
    looping = service("work", conditionalNextSteps={"again": "work", "true": "end"}, retryCount=1)
    looping["boundaryEvents"] = [timer("PT1H", "end")]
    world = World(a_process(looping, end())).start()
    (first,) = world.timers
    world.fail("work", retryable=True)
    assert list(world.timers) == [first]
    world.complete("work", again=True)
    assert len(world.timers) == 1
    assert first not in world.timers


def test_timers_on_steps_that_need_nobody_never_fire():
    world = World(
        a_process(
            decision("route", {"true": "work"}, boundaryEvents=[timer("PT1H", "late")]),
            service("work", "end"),
            service("late", "end"),
            end(),
        )
    )
    assert world.start().timers == {}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (timer("5 minutes", "end"), 'step "ask" boundaryEvents[0]: invalid ISO-8601 duration "5 minutes"'),
        (timer("PT1H", "gone"), 'step "ask" boundaryEvents[0]: unknown step "gone"'),
        (timer("P9000Y", "end"), 'step "ask" boundaryEvents[0]: duration ends after the year 9999'),
    ],
)
def test_an_unusable_timer_fails_the_instance_with_a_reason_naming_the_step(event: JsonObject, reason: str):
    world = World(a_process(user("ask", "end", boundaryEvents=[event]), end())).start()
    assert (world.status, world.reason, world.history) == ("FAILED", reason, ["ask#1 FAILED"])


def test_timers_are_held_while_the_instance_is_failed_and_take_effect_after_a_retry():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            service("a", "join"),
            user("b", "join", boundaryEvents=[timer("PT1H", "late", interrupting=True)]),
            service("late", "join"),
            join("join", "end"),
            end(),
        )
    ).start()
    world.fail("a")
    (held,) = world.timers
    assert world.fire(held).effects == ()
    assert list(world.timers) == [held]
    world.retry("a").fire(held)
    assert world.at == ["a", "late"]
