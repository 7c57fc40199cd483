"""Hints that something has changed (docs/console.md#live-pages)."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing

import pytest

from statewright.console import live
from statewright.console.calls import ApiCall, Reply
from statewright.console.client import ApiClient
from statewright.console.live import LiveHints, LiveStream, parse_topics
from statewright.console.session import SessionsUnavailable
from statewright.jsonval.values import JsonValue

ENTITY = "5e1f6a02-0000-1000-8000-00000000c3a9"
FIRST, SECOND = "11111111-0000-1000-8000-000000000001", "22222222-0000-1000-8000-000000000002"


class WaitingApi:
    """Answers waits for one entity: at once where no version is given, else when there is a newer one."""

    def __init__(self) -> None:
        self.transaction = FIRST
        self.status = 200
        self.waits = 0
        self.changed = asyncio.Condition()

    async def call(self, call: ApiCall, headers: Sequence[tuple[bytes, bytes]]) -> Reply:
        if "after=" in call.query:
            self.waits += 1
            async with self.changed:
                await self.changed.wait_for(lambda: self.transaction not in call.query)
        waited = {"transactionId": self.transaction, "reached": "after=" in call.query}
        document: JsonValue = {**waited, "deleted": False, "waitedMs": 0}
        return Reply(call=call, status=self.status, value=document)

    async def write(self, transaction: str) -> None:
        async with self.changed:
            self.transaction = transaction
            self.changed.notify_all()


async def open_stream(hints: LiveHints, api: WaitingApi, topic: str, last: str = "", login: str = "") -> LiveStream:
    topics = parse_topics([topic], last)
    assert topics is not None
    stream = await hints.open(ApiClient(api, None), "tenant", topics, login=login)
    assert isinstance(stream, LiveStream)
    return stream


async def read_hint(stream: LiveStream) -> bytes:
    async with asyncio.timeout(10), aclosing(stream) as events:
        async for event in events:
            if event.startswith(b"event:"):
                return event
    raise AssertionError("the stream ended")


async def wait_for(fact: Callable[[], object]) -> None:
    """Let others go on until something has come true."""
    for _ in range(5_000):
        if fact():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it has not come true")


async def test_a_new_version_is_told_once_to_all_streams_that_share_one_wait():
    api, hints = WaitingApi(), LiveHints()
    one = await open_stream(hints, api, f"entity-{ENTITY}")
    other = await open_stream(hints, api, f"entity-{ENTITY}")
    reading = asyncio.gather(read_hint(one), read_hint(other))
    await asyncio.sleep(0)
    await api.write(SECOND)
    expected = f"event: entity-{ENTITY}\nid: entity-{ENTITY}@{SECOND}\ndata: 1\n\n".encode()
    assert await reading == [expected, expected]
    assert api.waits == 1
    assert hints.open_streams == 0
    await hints.close()


async def test_what_changed_between_page_and_stream_is_told_at_once():
    api, hints = WaitingApi(), LiveHints()
    api.transaction = SECOND
    assert SECOND.encode() in await read_hint(await open_stream(hints, api, f"entity-{ENTITY}@{FIRST}"))


async def test_what_changed_between_two_streams_is_told_at_once():
    api, hints = WaitingApi(), LiveHints()
    api.transaction = SECOND
    stream = await open_stream(hints, api, f"entity-{ENTITY}", f"entity-{ENTITY}@{FIRST}")
    assert SECOND.encode() in await read_hint(stream)


async def test_nobody_hears_of_what_he_may_not_read():
    api, hints = WaitingApi(), LiveHints()
    api.status = 404
    topics = parse_topics([f"entity-{ENTITY}"])
    assert topics is not None
    refused = await hints.open(ApiClient(api, None), "tenant", topics)
    assert isinstance(refused, Reply)
    assert hints.open_streams == 0


async def test_a_stream_that_nobody_read_is_forgotten():
    hints = LiveHints()
    stream = await open_stream(hints, WaitingApi(), f"entity-{ENTITY}")
    await stream.aclose()
    assert hints.open_streams == 0


async def test_streams_end_when_the_service_stops():
    api, hints = WaitingApi(), LiveHints()
    stream = await open_stream(hints, api, f"entity-{ENTITY}")
    reading = asyncio.create_task(read_hint(stream))
    await asyncio.sleep(0)
    await hints.close()
    with pytest.raises(AssertionError, match="the stream ended"):
        await reading
    assert hints.is_full


async def test_streams_end_with_their_login_by_one_question_for_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "LOOK_S", 0.01)
    asked: list[set[str]] = []
    ended: set[str] = set()

    async def find_ended(logins: Collection[str]) -> frozenset[str]:
        asked.append(set(logins))
        if len(asked) == 1:
            raise SessionsUnavailable  # for a moment
        return frozenset(ended)

    api, hints = WaitingApi(), LiveHints(find_ended)
    first, second, other = [
        await open_stream(hints, api, f"entity-{ENTITY}", login=login) for login in ("ann", "ann", "bob")
    ]
    reading = [asyncio.create_task(read_hint(stream)) for stream in (first, second, other)]
    await wait_for(lambda: asked.count({"ann", "bob"}) > 2)
    ended.add("ann")
    async with asyncio.timeout(10):
        await asyncio.wait(reading[:2])
    assert [str(task.exception()) for task in reading[:2]] == ["the stream ended"] * 2
    assert not reading[2].done()
    await api.write(SECOND)
    assert SECOND.encode() in await reading[2]
    await wait_for(lambda: len(asyncio.all_tasks()) == 1)  # nobody looks where no stream is open


@pytest.mark.parametrize("topics", [[], ["x"], ["entity-1"], [f"entity-{ENTITY}"] * 5, [f"entity-{ENTITY}\nid: 1"]])
def test_other_topics_are_refused(topics: list[str]):
    assert parse_topics(topics) is None
