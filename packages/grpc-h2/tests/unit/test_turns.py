"""The event loop is shared: who has much to do does it in slices."""

import asyncio
from time import perf_counter

import pytest

from grpc_h2.http2 import TURN_S, FairTurns


class Busy:
    """A connection with so many frames, each of which takes a millisecond."""

    def __init__(self, name: str, frames: int, record: list[str]) -> None:
        self.name = name
        self.frames = frames
        self.record = record
        self.is_reading = True

    def handle_frames(self, until: float) -> bool:
        while self.frames:
            self.frames -= 1
            self.record.append(self.name)
            begun = perf_counter()
            while perf_counter() - begun < 0.001:
                pass
            if perf_counter() >= until:
                break
        return self.frames > 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


async def test_little_is_handled_at_once():
    record: list[str] = []
    FairTurns().handle(Busy("a", 1, record))
    assert record == ["a"]


async def test_much_is_handled_in_slices_between_which_others_have_their_turn():
    record: list[str] = []
    busy = Busy("frame", 30, record)
    turns = FairTurns()
    turns.handle(busy)
    assert not busy.is_reading
    while not busy.is_reading:
        record.append("other")
        await asyncio.sleep(0)
    assert record.count("other") >= 30 * 0.001 / TURN_S
    assert record.count("frame") == 30


async def test_those_who_wait_take_turns():
    record: list[str] = []
    turns = FairTurns()
    busy = [Busy(name, 12, record) for name in "abc"]
    for connection in busy:
        turns.handle(connection)
    while any(connection.frames for connection in busy):  # noqa: ASYNC110 - turns of the loop, not time
        await asyncio.sleep(0)
    assert record.index("c") < 12, "the last one did not wait for the others to be done"


async def test_who_comes_while_others_wait_waits_behind_them():
    record: list[str] = []
    turns = FairTurns()
    turns.handle(Busy("a", 12, record))
    turns.handle(Busy("b", 1, record))
    assert "b" not in record
    while "b" not in record:  # noqa: ASYNC110 - turns of the loop are counted
        await asyncio.sleep(0)
    assert record.count("b") == 1


@pytest.mark.parametrize("number", [2, 50])
async def test_many_have_no_more_time_in_a_turn_than_few(number: int):
    record: list[str] = []
    turns = FairTurns()
    connections = [Busy(str(n), 1, record) for n in range(number)]
    for connection in connections:
        turns.handle(connection)
    assert len(record) <= TURN_S / 0.001 + 1
    while any(connection.frames for connection in connections):  # noqa: ASYNC110 - turns of the loop, not time
        await asyncio.sleep(0)
    assert len(record) == number
