"""Who is woken when there is a new job."""

import asyncio

import pytest

from statewright.identity import TenantId
from statewright.services.steps.wakeups import Wakeups

ACME = TenantId("acme")


@pytest.fixture
def wakeups() -> Wakeups:
    return Wakeups()


async def test_a_new_job_wakes_the_one_that_has_waited_longest(wakeups: Wakeups):
    with wakeups.listening(ACME, ["a"]) as first, wakeups.listening(ACME, ["b", "a"]) as second:
        wakeups.wake([(ACME, "a")])
        assert (first.is_set(), second.is_set()) == (True, False)
        wakeups.wake([(ACME, "a")])
        assert second.is_set()


async def test_nobody_hears_of_jobs_of_others(wakeups: Wakeups):
    with wakeups.listening(ACME, ["a"]) as event:
        wakeups.wake([(TenantId("other"), "a"), (ACME, "b")])
        assert not event.is_set()
    assert not wakeups.has_listeners


async def test_a_hint_that_was_not_used_goes_to_the_next(wakeups: Wakeups):
    with wakeups.listening(ACME, ["a"]) as second_in_line:
        with wakeups.listening(ACME, ["a"]) as leaving:
            second_in_line.set()
            wakeups.wake([(ACME, "a")])
            assert leaving.is_set()
            second_in_line.clear()
        assert second_in_line.is_set()


async def test_what_may_have_been_missed_wakes_everybody(wakeups: Wakeups):
    with (
        wakeups.listening(ACME, ["a"]) as one,
        wakeups.listening(ACME, ["a"]) as two,
        wakeups.listening_to_all() as all_,
    ):
        wakeups.wake_all()
        assert one.is_set()
        assert two.is_set()
        assert all_.is_set()


async def test_other_processes_are_told_of_everything_once(wakeups: Wakeups):
    wakeups.announce([(ACME, "a")])
    wakeups.announce([(ACME, "b"), (ACME, "a")])
    assert sorted(await wakeups.news()) == [(ACME, "a"), (ACME, "b")]
    waiting = asyncio.ensure_future(wakeups.news())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeups.announce([(ACME, "c")])
    assert await waiting == [(ACME, "c")]
