"""Who is woken when there is a new job."""

import asyncio

import pytest

from statewright.ids import TenantId
from statewright.services.processes.wakeups import ANY_TYPE, Wakeups

ACME = TenantId("acme")
A, B = (ACME, "steps", "a"), (ACME, "steps", "b")


@pytest.fixture
def wakeups() -> Wakeups:
    return Wakeups(lambda: 0)


async def test_a_new_job_wakes_the_one_that_has_waited_longest(wakeups: Wakeups):
    with wakeups.listen([A]) as first, wakeups.listen([B, A]) as second:
        wakeups.wake([A])
        assert (first.is_set(), second.is_set()) == (True, False)
        wakeups.wake([A])
        assert second.is_set()


async def test_nobody_hears_of_jobs_of_others(wakeups: Wakeups):
    with wakeups.listen([A]) as event:
        wakeups.wake([(TenantId("other"), "steps", "a"), (ACME, "flows", "a"), B])
        assert not event.is_set()
    assert not wakeups.has_listeners


async def test_a_hint_that_was_not_used_goes_to_the_next(wakeups: Wakeups):
    with wakeups.listen([A]) as second_in_line:
        with wakeups.listen([A]) as leaving:
            second_in_line.set()
            wakeups.wake([A])
            assert leaving.is_set()
            second_in_line.clear()
        assert second_in_line.is_set()


async def test_a_hint_of_any_type_wakes_everybody_of_the_tenant_and_language(wakeups: Wakeups):
    with (
        wakeups.listen([A]) as one,
        wakeups.listen([A, B]) as two,
        wakeups.listen([(ACME, "flows", "a")]) as other,
        wakeups.listen_to_all() as all_,
    ):
        wakeups.wake([(ACME, "steps", ANY_TYPE)])
        assert one.is_set()
        assert two.is_set()
        assert all_.is_set()
        assert not other.is_set()


async def test_other_processes_are_told_of_everything_once(wakeups: Wakeups):
    wakeups.announce([A])
    wakeups.announce([B, A])
    assert sorted(await wakeups.take_announcements()) == [A, B]
    waiting = asyncio.ensure_future(wakeups.take_announcements())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeups.announce([(ACME, "steps", "c")])
    assert await waiting == [(ACME, "steps", "c")]
