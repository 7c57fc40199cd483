"""Boundary timers: when they fire, what they do, and when they must not."""

from datetime import timedelta

from statewright.storage.work import TIMERS
from tests.integration.steps.conftest import Host, definition, end, service_task, step, timer
from tests.takings import take

REVIEW = definition(
    "review",
    step("review", "USER_TASK", "end", boundaryEvents=[timer("PT24H", "escalate")]),
    service_task("escalate", "end"),
    end(),
)


async def test_a_timer_starts_a_second_path_and_leaves_its_step_alone(host: Host):
    await host.upload(REVIEW)
    instance = await host.start("review")
    assert await host.after(hours=23, minutes=59) == 0
    assert await host.after(minutes=2) == 1
    assert (await host.read(instance)).current_step_ids == ("review", "escalate")
    assert await host.after(hours=48) == 0, "it does not repeat"
    await host.approve(instance, "review")
    assert (await host.read(instance)).status == "COMPLETED"
    assert await host.claim("escalate") == (), "END withdraws what is left"


async def test_an_interrupting_timer_takes_the_token_away(host: Host):
    await host.upload(
        definition(
            "d",
            service_task("slow", "end", boundaryEvents=[timer("PT1H", "late", interrupting=True)]),
            step("late", "WAIT", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    job = await host.job("slow")
    assert await host.after(hours=1) == 1
    waiting = await host.read(instance)
    assert (waiting.status, waiting.current_step_ids) == ("WAITING", ("late",))
    await host.complete(job, too="late")
    await host.fail(job, retryable=True)
    assert (await host.read(instance)).variables == {}
    assert await host.trace(instance) == ["slow FAILED", "late RUNNING"]
    assert await host.sweep(minutes=5) == 0, "the job is gone"


async def test_a_step_that_ends_takes_its_timers_along(host: Host):
    await host.upload(
        definition(
            "d",
            step(
                "hold", "WAIT", "work", boundaryEvents=[timer("PT1H", "work"), timer("P7D", "end", interrupting=True)]
            ),
            service_task("work", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    assert await host.count("SELECT count(*) FROM process_timer") == 2
    await host.signal(instance, "hold")
    assert await host.count("SELECT count(*) FROM process_timer") == 0
    assert await host.after(days=8) == 0


async def test_timers_due_together_fire_in_the_order_of_their_time(host: Host):
    events = [timer("PT2S", "second"), timer("PT1S", "first")]
    await host.upload(
        definition(
            "d",
            step("hold", "WAIT", "end", boundaryEvents=events),
            service_task("first", "end"),
            service_task("second", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    assert await host.after(hours=1) == 2
    assert (await host.read(instance)).current_step_ids == ("hold", "first", "second")


async def test_a_timer_that_is_due_at_once_fires_at_the_next_look(host: Host):
    await host.upload(
        definition("d", step("hold", "WAIT", "end", boundaryEvents=[timer("PT0S", "end", interrupting=True)]), end())
    )
    instance = await host.start("d")
    assert instance.status == "WAITING"
    assert await host.after() == 1
    assert (await host.read(instance)).status == "COMPLETED"


async def test_timers_of_a_failed_instance_wait_for_the_retry(host: Host):
    await host.upload(
        definition(
            "d",
            step("fork", "PARALLEL_GATEWAY", parallelNextSteps=["bad", "hold"], joinStep="join"),
            service_task("bad", "join"),
            step("hold", "WAIT", "join", boundaryEvents=[timer("PT1H", "join", interrupting=True)]),
            step("join", "JOIN_GATEWAY", "end"),
            end(),
        )
    )
    instance = await host.start("d")
    await host.fail(await host.job("bad"), retryable=False)
    assert await host.after(hours=2) == 0
    assert await host.count("SELECT count(*) FROM process_timer") == 1
    await host.retry(instance, "bad")
    assert await host.after() == 1
    await host.do("bad")
    assert (await host.read(instance)).status == "COMPLETED"


async def test_the_timer_of_a_node_that_died_is_fired_by_another(hosts: tuple[Host, Host]):
    first, second = hosts
    await first.upload(REVIEW)
    await first.start("review")
    for host in hosts:
        host.clock.advance(timedelta(hours=25))
    now = first.clock()
    assert len(await take(first.runtime.core.pool, TIMERS, ["steps"], now=now, until=now + 30_000_000)) == 1
    assert await second.after() == 0, "it may still be at work"
    assert await second.after(seconds=31) == 1


async def test_a_timer_whose_instance_was_purged_is_dropped(host: Host):
    await host.upload(REVIEW)
    await host.start("review")
    async with host.runtime.core.pool.connection() as connection:
        await connection.execute("DELETE FROM entity")
    assert await host.after(hours=25) == 0
    assert await host.count("SELECT count(*) FROM process_timer") == 0
