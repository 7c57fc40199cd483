"""What can become of a callout (docs/reference/grpc.md#dispatch): answered, late, lost, withdrawn."""

import asyncio

import pytest

from statewright.compute.callout import Callout, CalloutResult, CalloutTimeout
from statewright.compute.members import Dispatcher, Member, Members, PendingCallout
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, NoComputeMember
from tests.unit.compute.builders import a_callout, join

SOON_MS = 20
"""A time limit that is meant to expire."""


@pytest.fixture
def members() -> Members:
    return Members()


@pytest.fixture
def dispatcher(members: Members) -> Dispatcher:
    return Dispatcher(members)


async def written(member: Member) -> Callout:
    """The next callout of a member, as if its stream had just written it."""
    message = await member.outbox.take()
    assert isinstance(message, PendingCallout)
    message.mark_written()
    return message.callout


async def test_the_members_answer_is_the_reply(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    callout = await written(member)
    member.answer(callout.request_id, CalloutResult(success=True, data={"total": 13}))
    assert (await asking).data == {"total": 13}


async def test_answers_may_come_in_any_order(members, dispatcher):
    member = join(members)
    asking = [asyncio.create_task(dispatcher.dispatch(a_callout(name))) for name in ("first", "second", "third")]
    callouts = [await written(member) for _ in asking]
    for callout in reversed(callouts):
        member.answer(callout.request_id, CalloutResult(success=True, data=callout.name))
    assert [reply.data for reply in await asyncio.gather(*asking)] == ["first", "second", "third"]


async def test_without_a_member_it_fails_at_once_and_names_the_tags_as_configured(dispatcher):
    with pytest.raises(NoComputeMember) as failure:
        await dispatcher.dispatch(a_callout(tags=("billing", "eu"), tags_text="Billing; EU"))
    assert failure.value.message == 'no matching calculation member: tags "Billing; EU"; no member is connected'


async def test_a_failure_repeats_no_more_of_long_tags_than_tells_them_apart(members, dispatcher):
    """It is logged and kept at every attempt: of a timer, for as long as no member comes."""
    join(members, *("x" * 256 + str(n) for n in range(9)))
    with pytest.raises(NoComputeMember) as failure:
        await dispatcher.dispatch(a_callout(tags=("y" * 5000,), tags_text="y" * 5000))
    assert f'tags "{"y" * 512}…"; a member needs all' in failure.value.message
    assert len(failure.value.message) < 1200


async def test_when_every_outbox_is_full_it_fails_at_once():
    members = Members(outbox_limit=1)
    dispatcher = Dispatcher(members)
    member = join(members)
    member.send(a_callout())
    with pytest.raises(NoComputeMember) as failure:
        await dispatcher.dispatch(a_callout(tags_text="billing"))
    assert failure.value.message == 'every matching calculation member is busy: tags "billing"'
    assert member.in_flight == 1


@pytest.mark.parametrize("kind", ["processor", "criteria", "function"])
async def test_silence_after_the_request_was_written_is_a_timeout_that_names_the_limit(members, dispatcher, kind):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout(kind=kind, timeout_ms=SOON_MS)))
    await written(member)
    with pytest.raises(DispatchTimeout) as failure:
        await asking
    assert failure.value.message == f"{kind} dispatch timed out after {SOON_MS}ms"
    assert isinstance(failure.value, CalloutTimeout)
    assert (failure.value.written, failure.value.member_id) == (True, member.id)


async def test_a_member_that_does_not_read_costs_no_more_than_the_limit(members, dispatcher):
    member = join(members)
    with pytest.raises(CalloutTimeout) as failure:
        await dispatcher.dispatch(a_callout(timeout_ms=SOON_MS))
    assert not failure.value.written
    assert member.in_flight == 0


async def test_the_members_time_starts_when_the_request_is_written(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout(timeout_ms=150)))
    message = await member.outbox.take()
    assert isinstance(message, PendingCallout)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await reached(began + 0.1)
    message.mark_written()
    with pytest.raises(CalloutTimeout):
        await asking
    assert loop.time() - began >= 0.24


async def reached(moment: float) -> None:
    """Returns at a moment of the loop's clock."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_at(moment, passed.set)
    await passed.wait()


async def test_a_request_that_expired_unread_is_not_written_later(members, dispatcher):
    member = join(members)
    with pytest.raises(CalloutTimeout):
        await dispatcher.dispatch(a_callout("expired", timeout_ms=SOON_MS))
    asking = asyncio.create_task(dispatcher.dispatch(a_callout("next")))
    callout = await written(member)
    assert callout.name == "next"
    member.answer(callout.request_id, CalloutResult(success=True))
    await asking


@pytest.mark.parametrize("kind", ["processor", "criteria", "function"])
async def test_losing_the_member_fails_the_callout_at_once(members, dispatcher, kind):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout(kind=kind)))
    await written(member)
    members.leave(member)
    with pytest.raises(ComputeMemberDisconnected) as failure:
        await asking
    assert failure.value.message == f"compute member disconnected during {kind} dispatch"
    assert failure.value.written


async def test_losing_the_member_before_it_got_the_request_is_marked(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    await asyncio.sleep(0)
    members.leave(member)
    with pytest.raises(ComputeMemberDisconnected) as failure:
        await asking
    assert not failure.value.written


async def test_a_request_whose_writing_had_begun_counts_as_written(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    await member.outbox.take()
    members.leave(member)
    with pytest.raises(ComputeMemberDisconnected) as failure:
        await asking
    assert failure.value.written


async def test_a_second_answer_is_ignored(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    callout = await written(member)
    member.answer(callout.request_id, CalloutResult(success=True, data="first"))
    member.answer(callout.request_id, CalloutResult(success=True, data="second"))
    assert (await asking).data == "first"


async def test_a_late_answer_and_an_answer_to_nothing_are_ignored(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout(timeout_ms=SOON_MS)))
    callout = await written(member)
    with pytest.raises(CalloutTimeout):
        await asking
    member.answer(callout.request_id, CalloutResult(success=True))
    member.answer("never asked", CalloutResult(success=True))
    assert member.in_flight == 0


async def test_an_answer_on_another_members_stream_is_ignored(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    callout = await written(member)
    join(members).answer(callout.request_id, CalloutResult(success=True, data="foreign"))
    member.answer(callout.request_id, CalloutResult(success=True, data="own"))
    assert (await asking).data == "own"


async def test_a_cancelled_caller_leaves_nothing_behind(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert member.in_flight == 0
    member.ping()
    assert not isinstance(await member.outbox.take(), PendingCallout)


async def test_draining_waits_for_the_last_callout(members, dispatcher):
    member = join(members)
    await dispatcher.wait_drained()
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    callout = await written(member)
    draining = asyncio.create_task(dispatcher.wait_drained())
    await asyncio.sleep(0)
    assert not draining.done()
    member.answer(callout.request_id, CalloutResult(success=True))
    await draining
    assert asking.done()


async def test_what_a_drained_member_was_not_sent_goes_to_another(members, dispatcher):
    drained = join(members)
    sent, waiting = [asyncio.create_task(dispatcher.dispatch(a_callout(name))) for name in ("sent", "waiting")]
    callout = await written(drained)
    other = join(members)
    drained.drain(60)
    moved = await written(other)
    assert (callout.name, moved.name, drained.in_flight) == ("sent", "waiting", 1)
    leaving = asyncio.create_task(drained.wait_drained())
    other.answer(moved.request_id, CalloutResult(success=True))
    await waiting
    assert not leaving.done()
    drained.answer(callout.request_id, CalloutResult(success=True))
    await asyncio.gather(sent, leaving)


async def test_without_another_what_a_drained_member_was_not_sent_fails(members, dispatcher):
    member = join(members)
    asking = asyncio.create_task(dispatcher.dispatch(a_callout()))
    await asyncio.sleep(0)
    member.drain(60)
    with pytest.raises(NoComputeMember):
        await asking
    await member.wait_drained()
