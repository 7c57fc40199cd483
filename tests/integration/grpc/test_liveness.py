"""Keep-alive and the ways a stream ends (docs/reference/grpc.md#liveness, docs/reference/grpc.md#end-of-a-stream,
docs/reference/grpc.md#leniencies).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from grpc_h2.messages import frame_message
from grpc_h2_testing.wire import Wire as Http2Wire
from statewright.api.grpc.members import KeepAlive
from statewright.api.grpc.server import SERVICE_NAME
from statewright.compute.callout import CalloutResult
from statewright.failures import ComputeMemberDisconnected, NoComputeMember
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.integration.grpc.door import BRISK, PATIENCE, Door, Wire, a_member, a_stream, an_open_door, document_in
from tests.unit.compute.builders import ACME, a_callout

KEEP_ALIVE = "CalculationMemberKeepAliveEvent"
SILENT = (grpc.StatusCode.DEADLINE_EXCEEDED, "keep-alive timeout")


async def test_members_are_probed_with_their_own_id():
    async with an_open_door(keep_alive=BRISK) as door, a_member(door) as wire:
        (member,) = door.members.list_members(ACME)
        probes = [await wire.read(KEEP_ALIVE) for _ in range(2)]
        assert probes == [{"id": member.id, "memberId": member.id, "success": True}] * 2


async def test_every_probe_is_an_event_of_its_own():
    async with an_open_door(keep_alive=BRISK) as door, a_member(door) as wire:
        first, second = [await wire.event(KEEP_ALIVE) for _ in range(2)]
        assert first.id != second.id


async def test_a_silent_member_is_given_up():
    async with an_open_door(keep_alive=BRISK) as door, a_member(door) as wire:
        assert await wire.ended() == SILENT
        assert door.members.list_members(ACME) == ()


async def test_giving_a_member_up_fails_its_callouts():
    async with an_open_door(keep_alive=BRISK) as door, a_member(door):
        with pytest.raises(ComputeMemberDisconnected):
            await door.ask(a_callout())


@pytest.mark.parametrize(
    "sign",
    [
        CloudEvent(type=KEEP_ALIVE, text_data="{}"),
        CloudEvent(type="EventAckResponse", text_data="not even JSON"),
        CloudEvent(type="EntityProcessorCalculationResponse", text_data='{"requestId": "unknown", "success": true}'),
        CloudEvent(type="EntityCriteriaCalculationResponse", binary_data=b"{}"),
    ],
)
async def test_a_sign_of_life_at_every_probe_keeps_the_member(sign: CloudEvent):
    async with an_open_door(keep_alive=BRISK) as door, a_member(door) as wire:
        await outlive(wire, sign, BRISK)
        assert len(door.members.list_members(ACME)) == 1


@pytest.mark.parametrize(
    "noise",
    [
        CloudEvent(type=KEEP_ALIVE),
        CloudEvent(type="NoSuchEvent", text_data="{}"),
        CloudEvent(type="CalculationMemberJoinEvent", text_data="{}"),
    ],
)
async def test_noise_is_no_sign_of_life(noise: CloudEvent):
    async with an_open_door(keep_alive=BRISK) as door, a_member(door) as wire:
        with pytest.raises((AssertionError, grpc.aio.AioRpcError, asyncio.InvalidStateError)):
            await outlive(wire, noise, BRISK)
        assert await wire.ended() == SILENT


@asynccontextmanager
async def a_member_of_few_words(door: Door) -> AsyncIterator[Http2Wire]:
    """A member that has joined, and speaks HTTP/2 itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.server.port)
    wire = Http2Wire(reader, writer)
    try:
        await wire.greet()
        join = CloudEvent(type="CalculationMemberJoinEvent", text_data="{}").SerializeToString()
        wire.request(
            "", join, end=False, __path=b"/%b/startStreaming" % SERVICE_NAME.encode(), authorization=b"Bearer acme"
        )
        await wire.flush()
        await wire.until(lambda: any(answer.messages for answer in wire.answers.values()))
        yield wire
    finally:
        writer.transport.abort()


async def test_pings_keep_a_member_that_was_asked_nothing():
    async with an_open_door(keep_alive=BRISK) as door, a_member_of_few_words(door) as wire:
        (stream,) = wire.answers.values()
        for _ in range(int(4 * BRISK.timeout / BRISK.interval)):
            seen = len(stream.messages)
            await wire.until(lambda seen=seen: len(stream.messages) > seen)  # a probe
            for _ in range(2):  # the first may be a measurement
                pinged = wire.pings
                wire.h2.ping(b"12345678")
                await wire.flush()
                await wire.until(lambda pinged=pinged: wire.pings > pinged)
        assert len(door.members.list_members(ACME)) == 1


async def test_pings_by_which_a_client_measures_keep_nobody():
    async with an_open_door(keep_alive=BRISK) as door, a_member_of_few_words(door) as wire:
        (stream,) = wire.answers.values()
        while not stream.is_over:
            seen, pinged = len(stream.messages), wire.pings
            await wire.until(lambda seen=seen: len(stream.messages) > seen or stream.is_over)
            wire.h2.ping(b"12345678")
            await wire.flush()
            await wire.until(lambda pinged=pinged: wire.pings > pinged or stream.is_over)
        assert stream.status == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


async def test_pings_do_not_keep_a_member_that_does_not_answer_its_callouts():
    async with an_open_door(keep_alive=BRISK) as door, a_member_of_few_words(door) as wire:
        (stream,) = wire.answers.values()
        asked = door.ask(a_callout())
        while not stream.is_over:
            for _ in range(2):
                pinged = wire.pings
                wire.h2.ping(b"12345678")
                await wire.flush()
                await wire.until(lambda pinged=pinged: wire.pings > pinged or stream.is_over)
        with pytest.raises(ComputeMemberDisconnected):
            await asked


async def test_who_opens_a_stream_and_does_not_join_is_given_up():
    async with an_open_door(keep_alive=BRISK) as door, a_stream(door) as wire:
        assert await wire.ended() == SILENT


async def test_a_stream_that_is_torn_in_a_message_ends_with_a_status_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
):
    async with an_open_door() as door, a_member_of_few_words(door) as wire:
        (stream_id,) = wire.answers
        wire.h2.send_data(stream_id, frame_message(b"0123456789")[:-1], end_stream=True)
        await wire.flush()
        await wire.over(wire.answers[stream_id])
        assert wire.answers[stream_id].status == grpc.StatusCode.INTERNAL.value[0]
    assert "Traceback" not in capsys.readouterr().out


async def outlive(wire: Wire, sign: CloudEvent, keep_alive: KeepAlive) -> None:
    """Shows the sign at every probe, for twice as long as a silent member lives."""
    for _ in range(int(2 * keep_alive.timeout / keep_alive.interval) + 2):
        await wire.event(KEEP_ALIVE)
        await wire.send_event(sign)


async def test_the_server_does_not_echo_keep_alives(door: Door):
    async with a_member(door) as wire:
        await wire.send(KEEP_ALIVE, id="k", memberId="m")
        asking = door.ask(a_callout())
        await wire.answer(await wire.request())  # which is the next event: no echo came before it
        assert (await asking).success


async def test_half_closing_ends_the_stream_well(door: Door):
    async with a_member(door) as wire:
        await wire.half_close()
        assert (await wire.ended())[0] == grpc.StatusCode.OK
        with pytest.raises(NoComputeMember):
            await door.ask(a_callout())


async def test_shutting_down_ends_streams_with_unavailable(door: Door):
    async with a_member(door) as joined, a_stream(door) as silent:
        await silent.send_event(CloudEvent(type="CalculationMemberJoinEvent", text_data="{}"))
        await silent.read("CalculationMemberGreetEvent")
        stopping = asyncio.create_task(door.stop())
        assert await joined.ended() == (grpc.StatusCode.UNAVAILABLE, "server is shutting down")
        assert await silent.ended() == (grpc.StatusCode.UNAVAILABLE, "server is shutting down")
        await stopping


async def test_a_stream_that_has_not_joined_yet_ends_at_shutdown_too(door: Door):
    async with a_stream(door) as wire:
        await door.authenticator.asked.wait()
        stopping = asyncio.create_task(door.stop())
        assert (await wire.ended())[0] == grpc.StatusCode.UNAVAILABLE
        await stopping


async def test_callouts_in_flight_may_finish_before_the_streams_end(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        request = await wire.request()
        stopping = asyncio.create_task(door.stop(grace=PATIENCE))
        await asyncio.sleep(0)
        await wire.answer(request, payload={"data": "just in time"})
        assert document_in(await asking) == "just in time"
        assert (await wire.ended())[0] == grpc.StatusCode.UNAVAILABLE
        await stopping


async def test_callouts_that_take_longer_than_the_grace_fail(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        await wire.request()
        await door.stop(grace=0.05)
        with pytest.raises(ComputeMemberDisconnected):
            await asking


async def test_a_member_that_stopped_reading_is_given_up_and_the_server_still_stops():
    impatient = KeepAlive(interval=0.05, timeout=0.2, status_timeout=0.1)
    async with an_open_door(keep_alive=impatient) as door, a_member(door):
        text = "x" * 1024 * 1024
        stuck = [door.ask(a_callout(data={"text": text})) for _ in range(10)]
        failures = await asyncio.gather(*stuck, return_exceptions=True)
        assert {type(failure) for failure in failures} == {ComputeMemberDisconnected}
        assert door.members.list_members(ACME) == ()
        async with asyncio.timeout(PATIENCE):
            await door.stop(grace=0)


async def test_no_callout_is_left_hanging_when_members_come_and_go(door: Door):
    async def answer_some(count: int) -> None:
        async with a_member(door) as wire:
            for _ in range(count):
                await wire.answer(await wire.request())

    async def come_and_go() -> None:
        for count in (1, 7, 20, 3):
            await answer_some(count)

    async with a_member(door) as steady:
        asking = [door.ask(a_callout()) for _ in range(400)]
        coming = [asyncio.create_task(come_and_go()) for _ in range(3)]
        serving = asyncio.create_task(answer_all(steady))
        async with asyncio.timeout(3 * PATIENCE):
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
        serving.cancel()
        for task in coming:
            task.cancel()
        await asyncio.gather(serving, *coming, return_exceptions=True)
    kinds = {type(outcome) for outcome in outcomes}
    assert CalloutResult in kinds
    assert kinds <= {CalloutResult, ComputeMemberDisconnected}


async def answer_all(wire: Wire) -> None:
    while True:
        await wire.answer(await wire.request())
