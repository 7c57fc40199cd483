"""The beginning of a member's stream (docs/reference/grpc.md#authentication-and-roles,
docs/reference/grpc.md#joining, docs/reference/grpc.md#greeting).
"""

import json

import grpc
import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.integration.grpc.door import Door, a_member, a_stream
from tests.unit.compute.builders import ACME

JOIN = "CalculationMemberJoinEvent"


async def test_a_join_is_answered_by_a_greeting_with_the_members_id_and_tenant(door: Door):
    async with a_stream(door) as wire:
        greeting = await wire.join("billing")
        (member,) = door.members.list_members(ACME)
        assert greeting == {"id": member.id, "memberId": member.id, "joinedLegalEntityId": "acme", "success": True}


async def test_events_of_the_server_carry_their_own_id_and_the_fixed_source(door: Door):
    async with a_stream(door) as wire:
        await wire.send(JOIN, id="j-1")
        event = await wire.event("CalculationMemberGreetEvent")
        (member,) = door.members.list_members(ACME)
        assert (event.source, event.spec_version, event.WhichOneof("data")) == ("cyoda", "1.0", "text_data")
        assert event.id not in {"", member.id}
        assert not event.attributes


async def test_every_stream_is_a_member_of_its_own(door: Door):
    async with a_member(door), a_member(door):
        first, second = door.members.list_members(ACME)
        assert first.id != second.id


@pytest.mark.parametrize(
    "payload",
    [
        '{"owner": "PLAY", "tags": ["billing"]}',
        '{"id": null, "tags": ["billing"], "joinedLegalEntityId": ""}',
        '{"id": "j", "tags": ["billing"], "joinedLegalEntityId": "acme", "success": false, "warnings": null}',
    ],
)
async def test_a_join_needs_neither_id_nor_tenant(door: Door, payload: str):
    async with a_stream(door) as wire:
        await wire.send_event(CloudEvent(type=JOIN, text_data=payload))
        await wire.read("CalculationMemberGreetEvent")
        (member,) = door.members.list_members(ACME)
        assert member.tags == {"billing"}


@pytest.mark.parametrize("payload", ['{"id": "j"}', '{"id": "j", "tags": null}', '{"id": "j", "tags": []}'])
async def test_a_member_may_have_no_tags(door: Door, payload: str):
    async with a_stream(door) as wire:
        await wire.send_event(CloudEvent(type=JOIN, binary_data=payload.encode()))
        await wire.read("CalculationMemberGreetEvent")
        (member,) = door.members.list_members(ACME)
        assert not member.tags


@pytest.mark.parametrize("token", [None, "unknown"])
async def test_without_a_valid_token_the_stream_is_refused(door: Door, token: str | None):
    async with a_stream(door, token=token) as wire:
        assert await wire.ended() == (grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


async def test_without_the_role_of_a_member_the_stream_is_refused_before_anything_is_read(door: Door):
    async with a_stream(door, token="person") as wire:
        assert await wire.ended() == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_M2M required for streaming")


@pytest.mark.parametrize(
    ("event", "code", "text"),
    [
        (
            CloudEvent(type="EventAckResponse", text_data="{}"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "first message must be CalculationMemberJoinEvent, got EventAckResponse",
        ),
        (
            CloudEvent(type=JOIN),
            grpc.StatusCode.INVALID_ARGUMENT,
            "failed to parse first message: invalid CloudEvent: unsupported CloudEvent data variant",
        ),
        (
            CloudEvent(type=JOIN, text_data='{"id": "j", "tags": "billing"}'),
            grpc.StatusCode.INVALID_ARGUMENT,
            "invalid join event payload: Expected `array | null`, got `str` - at `$.tags`",
        ),
        (
            CloudEvent(type=JOIN, text_data='{"id": "j", "tags": ["a", "b\\u0000"]}'),
            grpc.StatusCode.INVALID_ARGUMENT,
            "invalid join event payload: Expected `str` matching regex '^[^\\\\x00]*$' - at `$.tags[1]`",
        ),
        (
            CloudEvent(type=JOIN, text_data=json.dumps({"tags": ["t" * 257]})),
            grpc.StatusCode.INVALID_ARGUMENT,
            "invalid join event payload: Expected `str` of length <= 256 - at `$.tags[0]`",
        ),
        (
            CloudEvent(type=JOIN, text_data=json.dumps({"tags": ["t"] * 1001})),
            grpc.StatusCode.INVALID_ARGUMENT,
            "invalid join event payload: Expected `array` of length <= 1000 - at `$.tags`",
        ),
        (
            CloudEvent(type=JOIN, text_data='{"id": "j", "joinedLegalEntityId": "globex"}'),
            grpc.StatusCode.PERMISSION_DENIED,
            "tenant mismatch",
        ),
    ],
)
async def test_an_improper_first_event_ends_the_stream(door: Door, event: CloudEvent, code: grpc.StatusCode, text: str):
    async with a_stream(door) as wire:
        await wire.send_event(event)
        assert await wire.ended() == (code, text)
        assert door.members.list_members(ACME) == ()


@pytest.mark.parametrize("payload", ["", "[]", "{", '"join"', b"\xff"])
async def test_a_join_that_is_no_json_object_ends_the_stream(door: Door, payload: str | bytes):
    async with a_stream(door) as wire:
        text = isinstance(payload, str)
        await wire.send_event(
            CloudEvent(type=JOIN, text_data=payload) if text else CloudEvent(type=JOIN, binary_data=payload)
        )
        code, reason = await wire.ended()
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert reason.startswith("invalid join event payload: ")


async def test_a_client_that_leaves_before_joining_is_no_error(door: Door):
    async with a_stream(door) as wire:
        await wire.half_close()
        assert (await wire.ended())[0] == grpc.StatusCode.OK


async def test_a_second_join_is_ignored(door: Door):
    async with a_member(door, "billing") as wire:
        await wire.send(JOIN, id="j-2", tags=["scoring"])
        await wire.send("EventAckResponse", sourceEventId="x")
        await wire.half_close()
        assert (await wire.ended())[0] == grpc.StatusCode.OK
