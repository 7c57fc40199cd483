"""Logs of instances are read in pages, and followed while they grow, on whatever node."""

import asyncio

import pytest

from statewright.failures import ProcessNotFound, TooManyRequests
from statewright.services.processes import event_log, wakeups
from statewright.services.processes.event_log import follow_events, list_events
from tests.integration.processes.conftest import Office
from tests.integration.processes.errands import Errand
from tests.service import PATIENCE_S


async def collect_numbers(node: Office, errand: Errand, after: int = 0) -> list[int]:
    """The events that a follower sees until the errand is over."""
    async with asyncio.timeout(PATIENCE_S):
        pages = follow_events(node.host, node.caller, errand.id, after=after)
        return [event.number async for page in pages for event in page]


async def test_a_log_is_read_in_pages(offices: tuple[Office, Office]):
    office, other = offices
    await office.draw()
    errand = await office.send()
    [job] = await office.claim("fetch")
    await office.complete(job, weight=30)
    first = await list_events(other.host, other.caller, errand.id, limit=1)
    rest = await list_events(other.host, other.caller, errand.id, after=first.events[-1].number)
    assert [event.number for event in (*first.events, *rest.events)] == [1, 2]
    with pytest.raises(ProcessNotFound):
        await list_events(other.host, other.caller, "01JABC3V9E6K8M2Q4S6T8W0Y2Z")


async def test_followers_on_every_node_see_all_events_until_the_end(
    offices: tuple[Office, Office], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_log, "MAX_SILENCE_S", 0.0)
    office, _ = offices
    await office.draw()
    errand = await office.send()
    followers = [asyncio.create_task(collect_numbers(node, errand, after)) for node in offices for after in (0, 1)]
    [job] = await office.claim("fetch")
    await office.complete(job, weight=30)
    [job] = await office.claim("lift")
    await office.complete(job)
    assert await asyncio.gather(*followers) == [[1, 2, 3], [2, 3], [1, 2, 3], [2, 3]]


async def test_only_so_many_may_follow(offices: tuple[Office, Office], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wakeups, "MAX_TENANT_FOLLOWERS", 1)
    office, _ = offices
    await office.draw()
    errand = await office.send()
    first = follow_events(office.host, office.caller, errand.id)
    await anext(first)
    with pytest.raises(TooManyRequests):
        await anext(follow_events(office.host, office.caller, errand.id))
    await first.aclose()
    assert await anext(follow_events(office.host, office.caller, errand.id))
