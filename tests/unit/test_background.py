"""Loops of background work: pauses, failures, more to do, waking and the end."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from statewright.loop.background import (
    FAILURE_PAUSE_S,
    MAX_INLINE_BYTES,
    SWITCH_INTERVAL_S,
    OneByOne,
    cancel_all,
    free_in_parts,
    has_large_values,
    repeat,
    run_by_size,
    run_in_background,
    run_in_thread,
    shorten_thread_switches,
)
from statewright.telemetry import logs

log = logs.logger("statewright.tests")

SOON, NEVER = timedelta(milliseconds=1), timedelta(hours=1)


async def test_a_failed_round_is_logged_and_followed_by_another(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rounds = asyncio.Semaphore(0)

    async def fail() -> None:
        rounds.release()
        raise ValueError("no luck")

    async with asyncio.timeout(5), run_in_background({"loop": repeat(fail, SOON, log=log, failure="round_failed")}):
        for _ in range(3):
            await rounds.acquire()
    assert b"level=WARN msg=round_failed pkg=tests" in capsysbinary.readouterr().out


async def test_a_failed_round_that_wakes_its_own_loop_is_followed_by_a_pause() -> None:
    wake, rounds = asyncio.Event(), 0

    async def fail() -> None:
        nonlocal rounds
        rounds += 1
        wake.set()
        raise ValueError("no luck")

    async with run_in_background({"loop": repeat(fail, NEVER, log=log, failure="round_failed", wake=wake)}):
        await asyncio.sleep(FAILURE_PAUSE_S * 1.5)
    assert rounds == 2


async def test_while_there_is_more_to_do_no_pause_is_made() -> None:
    left = 100
    done = asyncio.Event()

    async def work() -> bool:
        nonlocal left
        left -= 1
        if not left:
            done.set()
        return left > 0

    async with asyncio.timeout(5), run_in_background({"loop": repeat(work, NEVER, log=log, failure="round_failed")}):
        await done.wait()


async def test_a_count_of_what_was_done_does_not_say_that_there_is_more() -> None:
    rounds = 0

    async def work() -> int:
        nonlocal rounds
        rounds += 1
        return 1

    async with run_in_background({"loop": repeat(work, NEVER, log=log, failure="round_failed")}):
        await asyncio.sleep(0.02)
    assert rounds == 1


async def test_a_pause_ends_when_the_loop_is_woken() -> None:
    wake = asyncio.Event()
    rounds = asyncio.Semaphore(0)

    async def work() -> None:
        rounds.release()

    loop = repeat(work, NEVER, log=log, failure="round_failed", wake=wake, waits_first=True)
    async with asyncio.timeout(5), run_in_background({"loop": loop}):
        await asyncio.sleep(0.02)
        assert rounds.locked()
        for _ in range(3):
            wake.set()
            await rounds.acquire()


async def test_a_wake_up_during_a_round_is_not_lost() -> None:
    wake = asyncio.Event()
    rounds = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            wake.set()
        else:
            done.set()

    loop = repeat(work, NEVER, log=log, failure="round_failed", wake=wake)
    async with asyncio.timeout(5), run_in_background({"loop": loop}):
        await done.wait()


async def test_background_work_has_ended_when_its_block_has() -> None:
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ended = True

    async with run_in_background({"work": work()}):
        await asyncio.sleep(0)
    assert ended
    await cancel_all([])


async def test_small_input_is_computed_at_once_and_large_input_in_a_thread() -> None:
    here = threading.get_ident()
    assert await run_by_size(MAX_INLINE_BYTES, threading.get_ident) == here
    assert await run_by_size(MAX_INLINE_BYTES + 1, threading.get_ident) != here


async def test_the_failure_of_a_computation_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        await run_by_size(MAX_INLINE_BYTES + 1, fail)


@pytest.mark.parametrize("compute", [lambda work: run_by_size(MAX_INLINE_BYTES + 1, work), run_in_thread])
async def test_what_a_thread_computes_on_counts_as_large_values(
    compute: Callable[[Callable[[], bool]], Awaitable[bool]],
) -> None:
    go_on = threading.Event()
    assert not has_large_values()
    computing = asyncio.ensure_future(compute(lambda: go_on.wait(30)))
    await asyncio.sleep(0)
    assert has_large_values()
    go_on.set()
    assert await computing
    assert not has_large_values()


async def test_values_count_as_large_until_they_are_freed() -> None:
    free_in_parts([[n] for n in range(10_000)], MAX_INLINE_BYTES + 1)
    assert has_large_values()
    async with asyncio.timeout(30):
        while has_large_values():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


def test_threads_give_way_sooner_than_the_interpreter_makes_them() -> None:
    before = sys.getswitchinterval()
    try:
        shorten_thread_switches()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    finally:
        sys.setswitchinterval(before)


async def test_those_who_were_woken_at_once_let_others_have_their_turn_between() -> None:
    woken, one_by_one, order = asyncio.Event(), OneByOne(), list[str]()

    async def work() -> None:
        await woken.wait()
        async with one_by_one:
            order.append("work")

    async def count_turns() -> None:
        await woken.wait()
        while order.count("work") < 3:
            order.append("turn")
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for part in (work, work, work, count_turns):
            tasks.create_task(part())
        await asyncio.sleep(0)
        woken.set()
    first, second, third = [place for place, what in enumerate(order) if what == "work"]
    assert "turn" in order[first:second]
    assert "turn" in order[second:third]
