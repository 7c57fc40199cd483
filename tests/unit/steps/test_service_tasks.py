"""SERVICE_TASK: jobs, their results, retries and failures (docs/reference/steps.md#service_task,
docs/reference/steps.md#the-contract, docs/reference/steps.md#when-a-job-fails).
"""

from decimal import Decimal

from statewright.net.effects import CloseTask, EnqueueTask
from tests.unit.steps.builders import a_process, end, fork, join, service, transformation
from tests.unit.steps.world import World


def test_a_job_is_made_with_the_variables_of_the_moment():
    world = World(a_process(transformation("set", "work", x="${n + 1}"), service("work", "end", retryCount=3), end()))
    world.start(n=1)
    job = world.job("work")
    assert (job.kind, job.node, job.retries, job.input) == ("work", "work", 3, {"n": 1, "x": 2})
    assert (world.status, world.at) == ("ACTIVE", ["work"])


def test_a_workers_result_is_merged_deep_and_the_next_step_entered():
    world = World(a_process(service("work", "end"), end())).start(order={"id": 7, "lines": [1, 2]}, kept=True)
    world.complete("work", order={"lines": [3], "total": 9})
    assert world.variables == {"order": {"id": 7, "lines": [3], "total": 9}, "kept": True}
    assert (world.status, world.at) == ("COMPLETED", [])


def test_the_output_snapshot_of_a_service_task_is_what_the_worker_sent():
    world = World(a_process(service("work", "end"), end())).start(a=1)
    world.complete("work", b=2)
    assert world.line("work").input_snapshot == {"a": 1}
    assert world.line("work").output_snapshot == {"b": 2}


def test_a_second_completion_of_a_job_has_no_effect():
    world = World(a_process(service("work", "more"), service("more", "end"), end())).start()
    job = world.job("work").task
    world.report(job, {"n": 1}).report(job, {"n": 2})
    assert world.effects == ()
    assert world.variables == {"n": 1}
    assert world.history == ["work#1 COMPLETED", "more#1 RUNNING"]


def test_a_failure_after_the_completion_of_a_job_has_no_effect():
    world = World(a_process(service("work", "more"), service("more", "end"), end())).start()
    job = world.job("work").task
    world.report(job, {}).report_failure(job)
    assert world.status == "ACTIVE"


def test_a_retryable_failure_puts_the_same_job_back_until_no_retry_is_left():
    world = World(a_process(service("work", "end", retryCount=2), end())).start()
    job = world.job("work").task
    for left in (1, 0):
        world.fail("work", retryable=True)
        assert (world.status, world.retries[job], world.queue) == ("ACTIVE", left, ["work"])
    world.fail("work", "out of ideas", retryable=True)
    assert (world.status, world.reason) == ("FAILED", "out of ideas")
    assert world.history == ["work#1 FAILED"]


def test_a_failure_that_is_not_retryable_fails_the_instance_whatever_retries_are_left():
    world = World(a_process(service("work", "end", retryCount=2), end())).start()
    world.fail("work", "no use")
    assert (world.status, world.reason, world.at) == ("FAILED", "no use", ["work"])
    assert world.line("work").failure_reason == "no use"
    assert CloseTask(task=next(iter(world.closed_jobs)), status="FAILED") in world.effects


def test_a_failure_without_a_message_has_a_reason_all_the_same():
    world = World(a_process(service("work", "end"), end())).start()
    assert world.fail("work", "").reason == "job failed"


def test_a_negative_retry_count_is_none():
    assert World(a_process(service("work", "end", retryCount=-5), end())).start().job("work").retries == 0


def test_a_service_task_without_a_next_step_keeps_the_instance_active_for_ever():
    world = World(a_process(service("work"), service("unreached", "end"), end())).start()
    world.complete("work", n=1)
    assert (world.status, world.at, world.variables) == ("ACTIVE", ["work"], {"n": 1})
    assert world.history == ["work#1 COMPLETED"]


def test_jobs_of_one_fork_carry_the_same_variables_even_after_a_sibling_is_done():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"), service("a", "join"), service("b", "join"), join("join", "end"), end()
        )
    ).start(n=1)
    world.complete("a", n=2)
    assert world.job("b").input == {"n": 1}


def test_conditional_branches_of_a_task_come_before_its_next_step():
    step = service("work", "no", conditionalNextSteps={"n > 1": "big", "true": "small"})
    world = World(a_process(step, end("no"), end("big"), end("small"))).start()
    world.complete("work", n=5)
    assert world.history[-1] == "big#1 COMPLETED"


def test_a_task_whose_branches_fail_stays_completed_while_the_instance_fails():
    step = service("work", "no", conditionalNextSteps={"n > 1": "big"})
    world = World(a_process(step, end("no"), end("big"))).start()
    world.complete("work", n=0)
    assert world.reason == "no conditionalNextSteps branch matched (DecisionNoBranchMatched)"
    assert (world.history, world.at) == (["work#1 COMPLETED"], ["work"])
    assert world.retry("work").refusal == ("conflict", 'latest attempt of step "work" is not FAILED')


def test_a_branch_of_a_task_to_an_unknown_step_fails_the_instance_with_a_reason_naming_the_step():
    world = World(a_process(service("work", conditionalNextSteps={"true": "gone"}), end())).start()
    assert world.complete("work").reason == 'step "work" leads to unknown step "gone"'


def test_integral_numbers_are_kept_without_a_fraction():
    world = World(a_process(service("work", "end"), end())).start()
    world.complete("work", n=Decimal("1.0"), list=[Decimal("2e3"), {"x": Decimal("0.50")}])
    assert repr(world.variables) == "{'n': 1, 'list': [2000, {'x': Decimal('0.50')}]}"


def test_one_job_is_enqueued_per_entry_into_the_step():
    world = World(
        a_process(service("work", "work", conditionalNextSteps={"again": "work", "true": "end"}), end())
    ).start()
    world.complete("work", again=True).complete("work", again=False)
    assert world.history == ["work#1 COMPLETED", "work#2 COMPLETED", "end#1 COMPLETED"]
    assert [effect for effect in world.effects if isinstance(effect, EnqueueTask)] == []
    assert len(world.closed_jobs) == 2
