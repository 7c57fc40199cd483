"""What settings say of single tasks (docs/reference/flows.md#definitions)."""

import pytest

from statewright.flows.definition import (
    FlowSettings,
    FlowSource,
    TaskBackoff,
    TaskPolicy,
    compile_source,
    find_setting_defect,
)
from statewright.flows.operations import complete_job, fire_timer, restart_instance, start_instance
from statewright.flows.process_language import FLOWS
from statewright.net.effects import ArmTimer, DisarmTimer, EnqueueTask
from statewright.net.local import LocalClock
from statewright.processes.language import Applied, NewInstance

TEXT = "@task alias = base\nplain → alias → other → <u>"
SETTINGS = FlowSettings(
    retries=1,
    tasks={
        "alias": TaskPolicy(retries=2, backoff=TaskBackoff(kind="fixed", delay="PT2S", jitter=0)),
        "base": TaskPolicy(retries=9),
        "other": TaskPolicy(time_limit="PT30S"),
        "resource:write": TaskPolicy(retries=4),
        "*": TaskPolicy(retries=3, backoff=TaskBackoff(delay="PT1S", max_delay="PT4S", jitter=0)),
    },
)


def test_a_policy_is_found_by_the_name_as_written_then_by_what_implements_it_then_by_the_star():
    process = compile_source(FlowSource(id="f", text=TEXT, settings=SETTINGS), 1)
    retries = [getattr(node.activity, "retries", None) for node in process.flow.net.nodes.values()]
    assert retries == [None, 3, 2, 1, 4, None]
    limits = [node.time_limit for node in process.flow.net.nodes.values() if node.time_limit is not None]
    assert [limit.microseconds for limit in limits] == [30_000_000]


def test_deliveries_are_those_of_the_policy_or_of_all_flows():
    policies = {"alias": TaskPolicy(deliveries=3), "*": TaskPolicy(deliveries=1)}
    process = compile_source(FlowSource(id="f", text=TEXT, settings=FlowSettings(tasks=policies)), 1)
    assert [FLOWS.find_policy(process, node).max_losses for node in ("1", "2")] == [0, 2]
    assert FLOWS.find_policy(compile_source(FlowSource(id="f", text=TEXT), 1), "1").max_losses is None
    assert FLOWS.lease_losses is not None
    assert FLOWS.lease_losses.limit == 9


def test_rests_are_fixed_or_grow_up_to_the_longest():
    process = compile_source(FlowSource(id="f", text=TEXT, settings=SETTINGS), 1)
    growing, fixed = (FLOWS.find_policy(process, node).backoff for node in ("1", "2"))
    assert growing is not None
    assert fixed is not None
    assert [growing.compute_pause_us(left, 0.5) // 1_000_000 for left in (3, 2, 1, 0)] == [1, 2, 4, 4]
    assert [fixed.compute_pause_us(left, 0.5) // 1_000_000 for left in (2, 1)] == [2, 2]
    assert FLOWS.find_policy(process, "3").backoff is None


@pytest.mark.parametrize("text", ["A → B", "* A → B", "wait:event (- event: e -) → B"])
def test_what_takes_longer_than_it_may_fails_and_can_be_begun_again(text: str):
    settings = FlowSettings(tasks={"*": TaskPolicy(time_limit="PT30S"), "B": TaskPolicy()})
    process, clock = compile_source(FlowSource(id="f", text=text, settings=settings), 1), LocalClock()
    started = start_instance(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={}), clock.next_moment())
    [limit] = [one for one in started.effects if isinstance(one, ArmTimer) and one.topic is None]
    assert limit.at - clock.now == 30_000_000
    failed = fire_timer(process, started.instance, limit.timer, clock.next_moment())
    assert failed.instance.status == "FAILED"
    assert [place.reason for place in failed.instance.failed_nodes] == ["TIMEOUT"]
    again = restart_instance(process, failed.instance, clock.next_moment())
    assert isinstance(again, Applied)
    timers = [one for one in again.effects if isinstance(one, ArmTimer) and one.topic is None]
    assert len(timers) == 1


def test_a_task_that_is_done_in_time_disarms_its_limit():
    settings = FlowSettings(tasks={"A": TaskPolicy(time_limit="PT30S")})
    process, clock = compile_source(FlowSource(id="f", text="A", settings=settings), 1), LocalClock()
    started = start_instance(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={}), clock.next_moment())
    [job] = [effect.task for effect in started.effects if isinstance(effect, EnqueueTask)]
    [limit] = [effect.timer for effect in started.effects if isinstance(effect, ArmTimer)]
    done = complete_job(process, started.instance, job, None, clock.next_moment())
    assert [effect.timer for effect in done.effects if isinstance(effect, DisarmTimer)] == [limit]
    assert fire_timer(process, done.instance, limit, clock.next_moment()).effects == ()


@pytest.mark.parametrize(
    ("policy", "defect"),
    [
        (TaskPolicy(deliveries=0), "settings.tasks[A].deliveries must be within 1 and 1000"),
        (TaskPolicy(deliveries=1001), "settings.tasks[A].deliveries must be within 1 and 1000"),
        (TaskPolicy(retries=101), "settings.tasks[A].retries must be within 0 and 100"),
        (TaskPolicy(time_limit="soon"), "settings.tasks[A].timeLimit must be an ISO 8601 duration up to P366D"),
        (TaskPolicy(time_limit="P1M"), "settings.tasks[A].timeLimit must be"),
        (TaskPolicy(time_limit="PT0S"), "settings.tasks[A].timeLimit must be longer than nothing"),
        (TaskPolicy(backoff=TaskBackoff(delay="P31D")), "settings.tasks[A].backoff.delay must be"),
        (TaskPolicy(backoff=TaskBackoff(max_delay="1s")), "settings.tasks[A].backoff.maxDelay must be"),
        (TaskPolicy(backoff=TaskBackoff(jitter=2)), "settings.tasks[A].backoff.jitter must be"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(policy: TaskPolicy, defect: str):
    told = find_setting_defect(FlowSettings(tasks={"A": policy}))
    assert told is not None
    assert told.startswith(defect)


def test_policies_of_no_task_are_told():
    assert compile_source(FlowSource(id="f", text=TEXT, settings=SETTINGS), 1).describe().warnings == ()
    settings = FlowSettings(tasks={"*": TaskPolicy(), "othr": TaskPolicy(retries=1)})
    told = compile_source(FlowSource(id="f", text=TEXT, settings=settings), 1).describe().warnings
    assert told == ("settings.tasks[othr]: the flow has no such task",)
