"""Which member gets a callout (decision W5), and what waits in an outbox."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statewright.cluster.channels import decode_callout, encode_callout
from statewright.compute.callout import CalloutResult
from statewright.compute.members import Dispatcher, Greeting, MemberOrigin, Members, PendingCallout, Ping
from statewright.failures import NoComputeMember
from tests.unit.compute.builders import ACME, GLOBEX, a_callout, join


def test_a_member_with_all_required_tags_is_selected():
    members = Members()
    join(members, "billing")
    both = join(members, "billing", "scoring")
    assert members.select(ACME, ("billing", "scoring")) is both


def test_one_tag_of_several_required_ones_is_not_enough():
    members = Members()
    join(members, "billing")
    assert members.select(ACME, ("billing", "scoring")) is None


@pytest.mark.parametrize("declared", ["Billing", "BILLING", " billing "])
def test_tags_are_compared_without_regard_to_case_or_surrounding_blanks(declared):
    members = Members()
    member = join(members, declared)
    assert members.select(ACME, ("billing",)) is member
    assert members.select(ACME, ("BiLLing",)) is member


def test_no_required_tags_match_a_member_without_tags():
    members = Members()
    member = join(members)
    assert members.select(ACME, ()) is member


def test_no_required_tags_match_a_member_with_tags():
    members = Members()
    member = join(members, "billing")
    assert members.select(ACME, ()) is member


def test_members_of_another_tenant_are_never_selected():
    members = Members()
    join(members, "billing", tenant=GLOBEX)
    assert members.select(ACME, ("billing",)) is None
    assert members.select(ACME, ()) is None


def test_only_a_member_whose_connection_is_private_is_selected_for_what_has_secrets():
    members = Members()
    plain = members.join(ACME, ("billing",), member_id="plain")
    assert members.select(ACME, ("billing",)) is plain
    assert members.select(ACME, ("billing",), has_secrets=True) is None
    private = members.join(ACME, ("billing",), member_id="private", origin=MemberOrigin(is_private=True))
    assert members.select(ACME, ("billing",), has_secrets=True) is private


async def test_what_has_secrets_is_not_sent_over_a_plain_connection():
    members = Members()
    plain = members.join(ACME, ("billing",), member_id="plain")
    secret = decode_callout(encode_callout(replace(a_callout(), tags=("billing",), has_secrets=True), ()))
    with pytest.raises(NoComputeMember, match="credentials are sent to members with TLS or of this machine only"):
        await Dispatcher(members).dispatch(secret)
    assert plain.in_flight == 0


def test_a_member_that_left_is_selected_no_more():
    members = Members()
    member = join(members, "billing")
    members.leave(member)
    assert members.select(ACME, ("billing",)) is None


def test_leaving_twice_does_no_harm():
    members = Members()
    member, other = join(members), join(members)
    members.leave(member)
    members.leave(member)
    assert members.list_members(ACME) == (other,)


def test_idle_members_take_turns():
    members = Members()
    for _ in range(3):
        join(members, "billing")
    chosen = Counter(members.select(ACME, ("billing",)) for _ in range(9))
    assert sorted(chosen.values()) == [3, 3, 3]


async def test_the_member_with_the_fewest_callouts_in_flight_is_selected():
    members = Members()
    busy, idle = join(members), join(members)
    for _ in range(3):
        busy.send(a_callout())
    idle.send(a_callout())
    assert {members.select(ACME, ()) for _ in range(4)} == {idle}


async def test_an_answered_and_withdrawn_callout_is_in_flight_no_more():
    member = join(Members())
    pending = member.send(a_callout())
    member.answer(pending.callout.request_id, CalloutResult(success=True))
    member.cancel(pending)
    assert member.in_flight == 0


def test_members_to_avoid_are_selected_only_when_there_is_no_other():
    members = Members()
    first, second = join(members), join(members)
    assert {members.select(ACME, (), avoiding={first.id}) for _ in range(4)} == {second}
    assert members.select(ACME, (), avoiding={first.id, second.id}) in {first, second}


async def test_a_member_whose_outbox_is_full_is_selected_last():
    members = Members(outbox_limit=1)
    full, other = join(members), join(members)
    full.send(a_callout())
    other.send(a_callout())
    await other.outbox.take()
    other.send(a_callout())
    await other.outbox.take()
    assert members.select(ACME, ()) is other


@given(
    declared=st.lists(st.frozensets(st.sampled_from("ABCDab")), max_size=6),
    required=st.frozensets(st.sampled_from("abcdAB"), max_size=3),
)
def test_a_member_is_selected_exactly_when_one_declares_all_required_tags(declared, required):
    members = Members()
    for tags in declared:
        join(members, *tags)
    wanted = {tag.lower() for tag in required}
    possible = any(wanted <= {tag.lower() for tag in tags} for tags in declared)
    chosen = members.select(ACME, tuple(required))
    assert (chosen is not None) == possible
    assert chosen is None or wanted <= chosen.tags


async def test_a_member_reads_its_greeting_before_any_callout():
    members = Members()
    member = members.join(ACME, ["billing"], member_id="m-1")
    pending = member.send(a_callout())
    assert await member.outbox.take() == Greeting("m-1", ACME)
    assert await member.outbox.take() is pending


async def test_callouts_are_taken_in_the_order_in_which_they_were_sent():
    member = join(Members())
    sent = [member.send(a_callout()) for _ in range(5)]
    assert [await member.outbox.take() for _ in range(5)] == sent


async def test_taking_waits_for_a_message():
    member = join(Members())
    taking = asyncio.create_task(member.outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    pending = member.send(a_callout())
    assert await taking is pending


async def test_withdrawing_a_callout_leaves_a_later_one_with_the_same_id_alone():
    """A job of the step engine is pushed under its own id, and once more when its lease has ended."""
    member = join(Members())
    callout = a_callout()
    first, again = member.send(callout), member.send(callout)
    member.cancel(first)
    async with asyncio.timeout(30):
        assert await member.outbox.take() is again
        member.answer(callout.request_id, CalloutResult(success=True))
        assert (await again.reply).success


async def test_a_withdrawn_callout_is_never_taken():
    member = join(Members())
    withdrawn, kept = member.send(a_callout()), member.send(a_callout())
    member.cancel(withdrawn)
    assert await member.outbox.take() is kept


async def test_a_member_that_does_not_read_has_one_probe_waiting_at_most():
    member = join(Members())
    for _ in range(5):
        member.ping()
    member.send(a_callout())
    assert await member.outbox.take() == Ping(member.id)
    assert isinstance(await member.outbox.take(), PendingCallout)


async def test_members_that_are_about_to_be_sent_away_are_chosen_no_more():
    members = Members()
    member = join(members, "billing")
    members.drain()
    assert members.select(ACME, ["billing"]) is None
    assert not members.has_other(ACME, ["billing"], avoiding=())
    assert list(members.iterate_all()) == [member]


async def test_a_member_counts_its_answers_and_no_late_ones():
    members = Members()
    member = join(members)
    for success in (True, True, False):
        pending = member.send(a_callout())
        for _ in range(2):  # the second answer is ignored
            member.answer(pending.callout.request_id, CalloutResult(success=success))
        member.cancel(pending)
        member.answer(pending.callout.request_id, CalloutResult(success=True))
    assert (member.succeeded, member.failed, member.timed_out) == (2, 1, 0)
