"""Callouts over a real stream: what a member is sent, and what becomes of its answers
(docs/reference/grpc.md#callouts, docs/reference/grpc.md#dispatch).
"""

import asyncio
from collections import Counter
from decimal import Decimal

import pytest
from msgspec import UNSET

from grpc_h2.http2 import Limits
from statewright.api.grpc.server import GrpcListenConfig
from statewright.compute.callout import CalloutKind, CalloutTimeout
from statewright.failures import ComputeMemberDisconnected, NoComputeMember
from statewright.jsonval.codec import decode
from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.integration.grpc.door import Door, Wire, a_member, an_open_door, document_in
from tests.unit.compute.builders import GLOBEX, a_callout, a_principal

SOON_MS = 100
"""A time limit that is meant to expire."""

PROCESSOR = "EntityProcessorCalculationResponse"


async def test_a_processor_request_names_its_place_in_the_workflow(door: Door):
    async with a_member(door) as wire:
        callout = a_callout("price", data={"total": Decimal("12.50")}, parameters='{"mode": "strict"}')
        asking = door.ask(callout)
        request = await wire.request()
        await wire.answer(request)
        await asking
    payload = request.pop("payload")
    assert request == {
        "id": callout.request_id,
        "success": True,
        "requestId": callout.request_id,
        "entityId": callout.entity_id,
        "processorId": "price",
        "processorName": "price",
        "workflow": {"id": "order-flow", "name": "order-flow"},
        "transition": {"id": "submit", "name": "submit", "stateFrom": "NEW", "stateTo": "SUBMITTED"},
        "transactionId": callout.transaction_id,
        "parameters": '{"mode": "strict"}',
    }
    assert payload == {
        "type": "JSON",
        "data": {"total": Decimal("12.50")},
        "meta": {"state": "NEW", "modelKey": {"name": "order", "version": 1}},
    }


@pytest.mark.parametrize(("kind", "label"), [("Criteria", "criteria"), ("Function", "function")])
async def test_the_other_kinds_differ_in_their_names(door: Door, kind: str, label: CalloutKind):
    async with a_member(door) as wire:
        asking = door.ask(a_callout("worthy", kind=label))
        request = await wire.request(kind)
        await wire.answer(request, kind=kind)
        await asking
    assert (request[f"{label}Id"], request[f"{label}Name"]) == ("worthy", "worthy")
    assert "processorName" not in request


async def test_a_criteria_request_tells_what_it_is_attached_to(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(kind="criteria", target="WORKFLOW"))
        request = await wire.request("Criteria")
        await wire.answer(request, kind="Criteria")
        await asking
    assert request["target"] == "WORKFLOW"


async def test_context_and_entity_are_left_out_when_there_are_none(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(parameters="", payload=None))
        request = await wire.request()
        await wire.answer(request)
        await asking
    assert {"parameters", "payload", "target"}.isdisjoint(request)


async def test_attributes_tell_on_whose_behalf_the_callout_runs(door: Door):
    async with a_member(door) as wire:
        principal = a_principal(roles=("ROLE_ADMIN", "ROLE_M2M"))
        asking = door.ask(a_callout(principal=principal, tx_token="token"))
        event = await wire.event("EntityProcessorCalculationRequest")
        await answer_event(wire, event)
        await asking
    assert {name: value.ce_string for name, value in event.attributes.items()} == {
        "authtype": "user",
        "authid": "alice",
        "authclaims": "ROLE_ADMIN,ROLE_M2M",
        "cyodatxtoken": "token",
    }


async def test_roles_and_token_are_left_out_when_there_are_none(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(principal=a_principal(roles=())))
        event = await wire.event("EntityProcessorCalculationRequest")
        await answer_event(wire, event)
        await asking
    assert set(event.attributes) == {"authtype", "authid"}


async def answer_event(wire: Wire, event: CloudEvent) -> None:
    request = decode(event.text_data)
    assert isinstance(request, dict)
    await wire.answer(request)


async def test_a_processors_document_comes_back_with_every_digit(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        document = {"id": 2**80, "total": Decimal("0.10000000000000000000000000001"), "names": ["Zoë"]}
        await wire.answer(await wire.request(), payload={"type": "JSON", "data": document})
        assert document_in(await asking) == document


async def test_warnings_come_back_with_success_and_with_failure(door: Door):
    async with a_member(door) as wire:
        fine, failing = door.ask(a_callout()), door.ask(a_callout())
        await wire.answer(await wire.request(), warnings=["rounded"])
        await wire.answer(
            await wire.request(), success=False, warnings=["gave up"], error={"code": "X", "message": "no tariff"}
        )
        assert (await fine).warnings == ("rounded",)
        assert ((await failing).warnings, (await failing).error) == (("gave up",), "no tariff")


@pytest.mark.parametrize("success", [None, False])
async def test_anything_but_literal_success_is_failure(door: Door, success: bool | None):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        await wire.answer(await wire.request(), success=success)
        assert not (await asking).success


async def test_absent_success_is_failure(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        request = await wire.request()
        await wire.send(PROCESSOR, requestId=request["requestId"])
        reply = await asking
        assert (reply.success, reply.error) == (False, None)


@pytest.mark.parametrize("members", [{}, {"payload": None}, {"payload": {"type": "JSON"}}, {"payload": {"data": None}}])
async def test_without_a_document_a_processor_changes_nothing(door: Door, members: dict[str, None]):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        await wire.answer(await wire.request(), **members)
        assert (await asking).data is UNSET


@pytest.mark.parametrize(("members", "matches"), [({"matches": True}, True), ({"matches": False}, False), ({}, False)])
async def test_a_criterion_says_whether_it_matches(door: Door, members: dict[str, bool], matches: bool):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(kind="criteria", target="TRANSITION"))
        await wire.answer(await wire.request("Criteria"), kind="Criteria", reason="too small", **members)
        assert ((await asking).matches, (await asking).reason) == (matches, "too small")


async def test_a_function_returns_a_typed_value(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(kind="function"))
        result = {"fireAfterMs": 3_600_000}
        await wire.answer(await wire.request("Function"), kind="Function", resultKind="Schedule", result=result)
        assert ((await asking).result_kind, (await asking).result) == ("Schedule", result)


async def test_answers_may_come_out_of_order(door: Door):
    async with a_member(door) as wire:
        asking = [door.ask(a_callout(name)) for name in ("a", "b", "c")]
        requests = [await wire.request() for _ in asking]
        for request in reversed(requests):
            await wire.answer(request, payload={"data": request["processorName"]})
        assert [document_in(await task) for task in asking] == ["a", "b", "c"]


async def test_a_duplicate_answer_an_unknown_one_and_a_late_one_are_ignored(door: Door):
    async with a_member(door) as wire:
        late = door.ask(a_callout(timeout_ms=SOON_MS))
        late_request = await wire.request()
        with pytest.raises(CalloutTimeout):
            await late
        asking = door.ask(a_callout())
        request = await wire.request()
        await wire.send(PROCESSOR, requestId="unknown", success=True)
        await wire.answer(late_request)
        await wire.answer(request, payload={"data": "first"})
        await wire.answer(request, payload={"data": "second"})
        assert document_in(await asking) == "first"
        await still_answers(door, wire)


async def still_answers(door: Door, wire: Wire) -> None:
    """The stream is in order: another callout is answered."""
    asking = door.ask(a_callout("another"))
    await wire.answer(await wire.request(), payload={"data": "fine"})
    assert document_in(await asking) == "fine"


@pytest.mark.parametrize(
    "event",
    [
        CloudEvent(type=PROCESSOR),
        CloudEvent(type=PROCESSOR, text_data="{"),
        CloudEvent(type=PROCESSOR, text_data="[]"),
        CloudEvent(type=PROCESSOR, text_data='{"success": true}'),
        CloudEvent(type=PROCESSOR, binary_data=b"\xff\xfe"),
        CloudEvent(type="EventAckResponse"),
        CloudEvent(type="NoSuchEvent", text_data="{}"),
        CloudEvent(),
    ],
)
async def test_garbage_is_skipped_and_the_stream_goes_on(door: Door, event: CloudEvent):
    async with a_member(door) as wire:
        await wire.send_event(event)
        await still_answers(door, wire)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ('{@, "success": "yes"}', "Expected `bool | null`"),
        ('{@, "success": true, "warnings": [1]}', "Expected `str`"),
        ('{@, "success": true, "reason": "\\u0000"}', "NUL"),
        ('{@, "success": true, "result": {"a": 1, "a": 2}}', "duplicate member"),
        ('{@, "success": true}}', "trailing characters"),
        ('\ufeff{@, "success": true}', "malformed"),
        ('{@, "success": true, "reason": "\udcff"}', "utf-8"),
    ],
)
async def test_an_answer_that_cannot_be_used_fails_its_callout_at_once(door: Door, wrong: str, reason: str):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        request = await wire.request()
        answer = wrong.replace("@", f'"requestId": "{request["requestId"]}"').encode("utf-8", "surrogateescape")
        await wire.send_event(CloudEvent(type=PROCESSOR, binary_data=answer))
        reply = await asking
        assert not reply.success
        assert (reply.error or "").startswith("unusable answer: ")
        assert reason.casefold() in (reply.error or "").casefold()
        await still_answers(door, wire)


async def test_only_members_with_all_required_tags_are_asked(door: Door):
    async with a_member(door, "billing"), a_member(door, "Billing", "EU") as both:
        for _ in range(3):
            asking = door.ask(a_callout(tags=("billing", "eu")))
            await both.answer(await both.request())
            assert (await asking).success


async def test_a_tenant_never_reaches_the_members_of_another(door: Door):
    async with a_member(door, "billing", token="globex") as wire:
        with pytest.raises(NoComputeMember):
            await door.ask(a_callout(tags=("billing",)))
        asking = door.ask(a_callout(tags=("billing",), tenant=GLOBEX))
        await wire.answer(await wire.request())
        assert (await asking).success


async def test_callouts_are_spread_over_the_members(door: Door):
    async with a_member(door) as one, a_member(door) as two, a_member(door) as three:
        asking = [door.ask(a_callout()) for _ in range(6)]
        received = Counter[Wire]()
        for wire in (one, two, three):
            for request in [await wire.request(), await wire.request()]:
                received[wire] += 1
                await wire.answer(request)
        await asyncio.gather(*asking)
        assert set(received.values()) == {2}


async def test_an_answer_on_another_stream_is_ignored(door: Door):
    async with a_member(door, "a") as asked, a_member(door, "b") as other:
        asking = door.ask(a_callout(tags=("a",)))
        request = await asked.request()
        await other.answer(request, payload={"data": "foreign"})
        checking = door.ask(a_callout(tags=("b",)))
        await other.answer(await other.request())
        await checking
        await asked.answer(request, payload={"data": "own"})
        assert document_in(await asking) == "own"


async def test_half_closing_in_the_middle_of_a_callout_fails_it_at_once(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        await wire.request()
        await wire.half_close()
        with pytest.raises(ComputeMemberDisconnected) as failure:
            await asking
        assert failure.value.message == "compute member disconnected during processor dispatch"
        assert failure.value.written


async def test_cancelling_the_stream_in_the_middle_of_a_callout_fails_it_at_once(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout(kind="criteria"))
        await wire.request("Criteria")
        wire.call.cancel()
        with pytest.raises(ComputeMemberDisconnected):
            await asking


async def test_an_answer_of_five_megabytes_fits(door: Door):
    async with a_member(door) as wire:
        asking = door.ask(a_callout())
        text = "x" * 5 * 1024 * 1024
        await wire.answer(await wire.request(), payload={"data": {"text": text}})
        assert document_in(await asking) == {"text": text}


async def test_a_request_of_five_megabytes_fits(door: Door):
    async with a_member(door) as wire:
        text = "x" * 5 * 1024 * 1024
        asking = door.ask(a_callout(data={"text": text}))
        request = await wire.request()
        await wire.answer(request)
        await asking
        payload = request["payload"]
        assert isinstance(payload, dict)
        assert payload["data"] == {"text": text}


async def test_an_answer_over_the_limit_ends_the_stream_and_fails_the_callout():
    async with (
        an_open_door(
            listening=GrpcListenConfig(host="127.0.0.1", port=0, limits=Limits(message_bytes=4 * 1024 * 1024))
        ) as door,
        a_member(door) as wire,
    ):
        asking = door.ask(a_callout())
        await wire.answer(await wire.request(), payload={"data": "x" * 5 * 1024 * 1024})
        with pytest.raises(ComputeMemberDisconnected):
            await asking
        code, _ = await wire.ended()
        assert code.name == "RESOURCE_EXHAUSTED"


async def test_a_payload_that_is_not_unicode_fails_only_its_own_callout(door: Door):
    async with a_member(door) as wire:
        with pytest.raises(ValueError, match="utf-8"):
            await door.ask(a_callout(payload=b'{"data": "\xff"}'))
        await still_answers(door, wire)


async def test_a_member_that_stopped_reading_costs_no_more_than_the_limit(door: Door):
    async with a_member(door) as wire:
        text = "x" * 1024 * 1024
        stuck = [door.ask(a_callout(data={"text": text}, timeout_ms=SOON_MS)) for _ in range(20)]
        failures = await asyncio.gather(*stuck, return_exceptions=True)
        assert all(isinstance(failure, CalloutTimeout) for failure in failures)
        assert any(not failure.written for failure in failures if isinstance(failure, CalloutTimeout))
        (member,) = door.members.list_members(a_callout().tenant)
        assert member.in_flight == 0
        wire.call.cancel()
