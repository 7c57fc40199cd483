"""How long keys of an identity provider count, and how often it is asked (docs/reference/oidc.md#keys)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from statewright.egress import Egress, EgressPolicy
from statewright.services.auth.key_sources import MAX_LOOKS, FetchPolicy, KeySource
from tests.identity_provider import DISCOVERY, KEYS, IdentityProvider, identity_provider

SECOND = 1_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_790_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


class Watched:
    """A source, its provider and its clock."""

    def __init__(self, source: KeySource, idp: IdentityProvider, clock: Clock) -> None:
        self.source, self.idp, self.clock = source, idp, clock
        self.faults: list[str] = []

    def knows(self, kid: str = "one", since: int = 0) -> bool:
        return self.source.find_key(kid, self.clock.now, since=since) is not None

    async def learn(self, kid: str, since: int = 0) -> bool:
        """Whether the key is known after it was asked for."""
        await self.source.learn(kid, since=since)
        return self.knows(kid, since)

    @property
    def fetches(self) -> int:
        return self.idp.asked.count(DISCOVERY)

    async def settle(self) -> None:
        """Let what goes on in the background end."""
        while (task := self.source._task) is not None and not task.done():
            await asyncio.wait([task])


@asynccontextmanager
async def watched(grace: timedelta = timedelta(0)) -> AsyncIterator[Watched]:
    clock, egress, faults = Clock(), Egress(EgressPolicy(is_open=True)), list[str]()
    policy = FetchPolicy(discovery=egress, key_sets=egress, timeout_s=10, grace=grace)
    with identity_provider() as idp:
        source = KeySource(idp.uri, policy, clock, changed=lambda: None, failed=faults.append)
        found = Watched(source, idp, clock)
        found.faults = faults
        yield found
        source.close()
        await egress.close()


async def test_keys_count_for_five_minutes():
    async with watched() as it:
        await it.source.refresh()
        it.clock.advance(239)
        assert it.knows()
        await it.settle()
        assert it.fetches == 1
        it.clock.advance(62)
        assert not it.knows()


async def test_keys_that_are_used_are_fetched_again_before_their_time_is_over():
    async with watched() as it:
        await it.source.refresh()
        it.clock.advance(241)
        assert it.knows()
        await it.settle()
        assert it.fetches == 2
        it.clock.advance(200)
        assert it.knows()


async def test_keys_of_a_provider_that_fails_count_for_the_grace():
    async with watched(grace=timedelta(minutes=2)) as it:
        await it.source.refresh()
        it.idp.fail()
        it.clock.advance(299)
        assert it.knows()
        await it.settle()
        it.clock.advance(100)
        assert it.knows()
        await it.settle()
        it.clock.advance(22)
        assert not it.knows()
        assert set(it.faults) == {"discovery"}


async def test_without_a_grace_they_do_not():
    async with watched() as it:
        await it.source.refresh()
        it.idp.fail(KEYS)
        it.clock.advance(299)
        assert it.knows()
        await it.settle()
        it.clock.advance(2)
        assert not it.knows()
        assert it.faults == ["jwks"]


async def test_a_provider_that_fails_is_asked_less_and_less():
    async with watched() as it:
        it.idp.fail()
        await it.source.refresh()
        asked = it.fetches
        for pause in (1, 2, 4, 8, 16, 32, 60, 60):
            it.clock.advance(pause - 0.1)
            assert not await it.learn("one")
            assert it.fetches == asked, f"{pause} s are not over"
            it.clock.advance(0.1)
            assert not await it.learn("one")
            asked += 1
            assert it.fetches == asked
        it.idp.answers.clear()
        it.clock.advance(60)
        assert await it.learn("one")


async def test_an_unknown_key_is_asked_for_at_once():
    async with watched() as it:
        await it.source.refresh()
        it.idp.keys["two"] = "idp-two"
        assert await it.learn("two")
        assert it.knows("one")


async def test_ids_that_do_not_exist_make_only_so_many_requests():
    async with watched() as it:
        await it.source.refresh()
        for number in range(10 * MAX_LOOKS):
            assert not await it.learn(f"no-{number}")
        assert it.fetches == 1 + MAX_LOOKS
        it.clock.advance(10)
        for number in range(3):
            await it.learn(f"none-{number}")
        assert it.fetches == 2 + MAX_LOOKS


async def test_the_same_id_is_not_asked_for_again_and_again():
    async with watched() as it:
        await it.source.refresh()
        for _ in range(3):
            assert not await it.learn("later")
        assert it.fetches == 2
        it.idp.keys["later"] = "idp-two"
        it.clock.advance(30)
        assert await it.learn("later")


async def test_those_who_ask_at_once_share_the_answer():
    async with watched() as it:
        found = await asyncio.gather(*(it.learn("one") for _ in range(20)))
        assert found == [True] * 20
        assert it.fetches == 1


async def test_keys_that_were_fetched_too_early_do_not_count():
    async with watched() as it:
        await it.source.refresh()
        it.clock.advance(1)
        since = it.clock.now
        assert not it.knows(since=since)
        assert await it.learn("one", since)
        assert it.fetches == 2


@pytest.mark.parametrize("path", [DISCOVERY, KEYS])
async def test_a_document_that_is_too_large_is_not_read(path: str):
    async with watched() as it:
        it.idp.answers[path] = lambda: (200, {"Content-Type": "application/json"}, b" " * 2_000_000)
        await it.source.refresh()
        assert not it.knows()


async def test_the_same_key_stays_the_same_object():
    """Verified tokens are remembered with it."""
    async with watched() as it:
        await it.source.refresh()
        before = it.source.find_key("one", it.clock.now, since=0)
        it.idp.keys["two"] = "idp-two"
        await it.source.refresh()
        assert it.source.find_key("one", it.clock.now, since=0) is before
