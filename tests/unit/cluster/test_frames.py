"""Frames of a local link are the same however the bytes are cut on their way."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.cluster.local_links import HEAD, MAX_INTRODUCTION_BYTES, FrameKind, FrameProtocol

Frame = tuple[int, int, bytes]


class Kept(FrameProtocol):
    """Keeps the frames that it receives; refuses the kind 255."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []

    def receive(self, kind: int, number: int, content: bytes) -> str | None:
        self.frames.append((kind, number, content))
        return "refused" if kind == 255 else None


class Wire(asyncio.Transport):
    """Keeps what is written and whether the connection was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True


frames = st.lists(
    st.tuples(st.sampled_from(list(FrameKind)), st.integers(0, 2**64 - 1), st.binary(max_size=200)), max_size=20
)


@given(frames, st.data())
def test_what_is_sent_arrives_whole_and_in_order_however_it_is_cut(sent: list[Frame], data: st.DataObject) -> None:
    async def exchange() -> list[Frame]:
        sender, receiver, wire = Kept(), Kept(), Wire()
        sender.connection_made(wire)
        for kind, number, content in sent:
            sender.send(cast("FrameKind", kind), number, content)
        await asyncio.sleep(0)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(wire.written)), max_size=10)))
        for start, end in pairwise([0, *cuts, len(wire.written)]):
            receiver.data_received(wire.written[start:end])
        return receiver.frames

    assert asyncio.run(exchange()) == [(int(kind), number, content) for kind, number, content in sent]


def test_who_has_proven_nothing_cannot_have_a_message_kept():
    """Not even one that is announced only."""

    async def receive() -> tuple[bool, bool]:
        stranger, proven = Kept(), Kept()
        proven.accept_messages()
        wires = Wire(), Wire()
        for protocol, wire in zip((stranger, proven), wires, strict=True):
            protocol.connection_made(wire)
            protocol.data_received(HEAD.pack(MAX_INTRODUCTION_BYTES + 1, FrameKind.CALL, 1))
        return wires[0].is_aborted, wires[1].is_aborted

    assert asyncio.run(receive()) == (True, False)


@pytest.mark.parametrize("head", [HEAD.pack(2**32 - 1, FrameKind.CALL, 1), HEAD.pack(0, 255, 1) + HEAD.pack(0, 2, 1)])
def test_a_frame_that_is_too_large_or_refused_ends_the_connection_before_the_next(head: bytes) -> None:
    async def receive() -> tuple[bool, int]:
        receiver, wire = Kept(), Wire()
        receiver.connection_made(wire)
        receiver.data_received(head)
        return wire.is_aborted, len(receiver.frames)

    is_aborted, count = asyncio.run(receive())
    assert is_aborted
    assert count <= 1
