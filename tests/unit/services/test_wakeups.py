"""Who is woken when there is a new job."""

import asyncio
from collections.abc import Iterable

import pytest

from statewright.ids import TenantId
from statewright.services.processes.wakeups import ANY_TYPE, TAGGED, Topic, Wakeups

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
    ):
        wakeups.wake([(ACME, "steps", ANY_TYPE)])
        assert one.is_set()
        assert two.is_set()
        assert not other.is_set()


async def test_other_processes_are_told_of_everything_once(wakeups: Wakeups):
    wakeups.announce([A], has_tagged=False)
    wakeups.announce([B, A], has_tagged=False)
    assert sorted(await wakeups.take_announcements()) == [A, B]
    waiting = asyncio.ensure_future(wakeups.take_announcements())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeups.announce([(ACME, "steps", "c")], has_tagged=False)
    assert await waiting == [(ACME, "steps", "c")]


class Heard:
    """What a listener has heard of."""

    def __init__(self) -> None:
        self.topics: list[Topic] = []
        self.of_all = 0

    def take(self, topics: Iterable[Topic]) -> None:
        self.topics += topics

    def take_all(self) -> None:
        self.of_all += 1


def test_listeners_hear_of_every_topic_and_whether_jobs_may_have_tags(wakeups: Wakeups):
    heard = Heard()
    with wakeups.listen_to_topics(heard):
        wakeups.announce([A], has_tagged=False)
        assert heard.topics == [A]
        wakeups.announce([B])
        assert heard.topics == [A, B, (ACME, "steps", TAGGED)]
        wakeups.wake_all()
        assert heard.of_all == 1
    wakeups.announce([A])
    assert len(heard.topics) == 3
