"""Callouts and answers as events."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.functions import Caller, describe_error
from statewright.sdk.outcomes import NotJson, Rejected
from statewright.sdk.wire import (
    CalloutRequest,
    UnreadableEvent,
    build_acknowledgement,
    build_answer,
    build_failed_answer,
    build_join,
    read_max_message,
    read_request,
)
from statewright.sdk.worker import UnknownFunction

PROCESSOR = "EntityProcessorCalculationRequest"
CRITERIA = "EntityCriteriaCalculationRequest"
FUNCTION = "EntityFunctionCalculationRequest"

FULL: JsonObject = {
    "id": "r-1",
    "requestId": "r-1",
    "entityId": "e-1",
    "processorName": "price",
    "workflow": {"id": "w", "name": "order-flow"},
    "transition": {"id": "t", "name": "submit", "stateFrom": "NEW", "stateTo": "SUBMITTED"},
    "transactionId": "tx-1",
    "parameters": '{"mode": "strict"}',
    "payload": {
        "type": "JSON",
        "data": {"total": Decimal("12.50")},
        "meta": {"state": "NEW", "modelKey": {"name": "order", "version": 3}},
    },
}


def a_request(
    event_type: str = PROCESSOR, attributes: dict[str, str] | None = None, **members: object
) -> CalloutRequest:
    event = CloudEvent(type=event_type, text_data=encode({"requestId": "r-1", "entityId": "e-1", **members}).decode())
    for name, text in (attributes or {}).items():
        event.attributes[name].ce_string = text
    return read_request(event)


def said(event: CloudEvent) -> JsonObject:
    payload = decode(event.text_data)
    assert isinstance(payload, dict)
    assert payload.pop("id")
    return payload


def test_a_request_tells_its_surroundings():
    context = a_request(**FULL).context
    assert (context.name, context.entity_id, context.workflow, context.transaction_id) == (
        "price",
        "e-1",
        "order-flow",
        "tx-1",
    )
    assert (context.transition, context.state_from, context.state_to) == ("submit", "NEW", "SUBMITTED")
    assert (context.state, context.model, context.parameters) == ("NEW", ("order", 3), '{"mode": "strict"}')


def test_a_request_carries_its_document_as_text():
    request = a_request(**FULL)
    assert request.document is not None
    assert decode(request.document) == {"total": Decimal("12.50")}


@pytest.mark.parametrize("members", [{}, {"payload": None}, {"payload": {"type": "JSON"}}])
def test_a_request_without_an_entity_has_no_document(members):
    request = a_request(processorName="price", **members)
    assert request.document is None
    assert (request.context.meta, request.context.model, request.context.state) == ({}, None, "")


def test_attributes_tell_the_caller_and_the_token():
    context = a_request(
        attributes={"authtype": "user", "authid": "alice", "authclaims": "A,B", "cyodatxtoken": "x"}
    ).context
    assert context.principal == Caller(id="alice", kind="user", roles=("A", "B"))
    assert (context.tx_token, context.callback_headers) == ("x", {"X-Tx-Token": "x"})


def test_without_attributes_there_is_no_token():
    context = a_request().context
    assert (context.tx_token, context.callback_headers, context.principal) == (None, {}, Caller())


def test_roles_may_come_in_the_form_of_hosted_installations():
    assert a_request(attributes={"authclaims": '{"legalEntityId": "x", "roles": ["A"]}'}).context.principal.roles == (
        "A",
    )


def test_events_may_carry_their_json_as_bytes():
    event = CloudEvent(type=PROCESSOR, binary_data=b'{"requestId": "r-1", "processorName": "price"}')
    assert read_request(event).context.name == "price"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"entityId": "e"}'])
def test_a_request_that_cannot_be_answered_is_unreadable(text):
    with pytest.raises(UnreadableEvent):
        read_request(CloudEvent(type=PROCESSOR, text_data=text))


def test_a_document_becomes_the_payload_of_the_answer():
    event = build_answer(a_request(), {"total": Decimal("13.00")})
    assert event.type == "EntityProcessorCalculationResponse"
    assert said(event) == {
        "requestId": "r-1",
        "entityId": "e-1",
        "success": True,
        "payload": {"type": "JSON", "data": {"total": Decimal("13.00")}},
    }


def test_no_document_means_no_payload():
    assert said(build_answer(a_request(), None)) == {"requestId": "r-1", "entityId": "e-1", "success": True}


@pytest.mark.parametrize(
    ("outcome", "members"),
    [
        (True, {"matches": True}),
        (["truthy"], {"matches": True}),
        (False, {"matches": False}),
        (None, {"matches": False}),
        (Rejected("too small"), {"matches": False, "reason": "too small"}),
    ],
)
def test_a_verdict_becomes_a_match(outcome, members):
    event = build_answer(a_request(CRITERIA, criteriaName="worthy"), outcome)
    assert event.type == "EntityCriteriaCalculationResponse"
    assert said(event) == {"requestId": "r-1", "entityId": "e-1", "success": True, **members}


def test_a_fire_time_becomes_a_typed_result():
    event = build_answer(a_request(FUNCTION, functionName="due"), {"fireAfterMs": 5})
    assert event.type == "EntityFunctionCalculationResponse"
    assert said(event) == {
        "requestId": "r-1",
        "entityId": "e-1",
        "success": True,
        "resultKind": "Schedule",
        "result": {"fireAfterMs": 5},
    }


def test_warnings_go_with_the_answer():
    request = a_request()
    request.context.warn("rounded")
    assert said(build_answer(request, None))["warnings"] == ["rounded"]
    assert said(build_failed_answer(request, code="X", message="no"))["warnings"] == ["rounded"]
    assert a_request().context.warnings == []


def test_a_failure_carries_code_and_message_even_of_broken_text():
    payload = said(build_failed_answer(a_request(), code="OSError", message="no file \ud800"))
    assert payload["success"] is False
    assert payload["error"] == {"code": "OSError", "message": "no file ?"}


def test_a_probe_is_acknowledged_by_its_payload_id():
    probe = CloudEvent(
        id="event", type="CalculationMemberKeepAliveEvent", text_data='{"id": "member", "memberId": "member"}'
    )
    event = build_acknowledgement(probe)
    assert event.type == "EventAckResponse"
    assert said(event) == {"sourceEventId": "member", "success": True}


def test_joining_declares_the_tags():
    event = build_join(("a", "b"))
    assert event.type == "CalculationMemberJoinEvent"
    assert said(event) == {"tags": ["a", "b"]}


@pytest.mark.parametrize("outcome", [True, 5, [1, 2], "text", Decimal("1.5"), (1, 2)])
def test_what_is_no_object_is_no_document(outcome):
    """Decision W13."""
    with pytest.raises(NotJson, match="a processor returns an object or nothing, not "):
        build_answer(a_request(), outcome)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [lambda n: {"a": n}, lambda n: {"a": [{"b": n}]}, lambda n: {"a": None, "b": (1, n)}])
def test_a_float_that_is_no_number_is_not_sent_as_null(number, place):
    """Decision W13."""
    with pytest.raises(NotJson, match="is no number of JSON"):
        build_answer(a_request(), place(number))


@pytest.mark.parametrize("document", [{"a": "x\0"}, {"a\0": 1}, {"a": ["\0"]}])
def test_a_nul_character_is_not_sent(document):
    """Decision W13."""
    with pytest.raises(NotJson, match="the result is not a document: "):
        build_answer(a_request(), document)


def test_null_and_the_text_of_an_escape_are_sent():
    document = {"a": None, "b": "null", "c": "\\u0000", "d": [None, 1.5]}
    answer = said(build_answer(a_request(), document))
    assert answer["payload"] == {"type": "JSON", "data": document}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("sku"), "KeyError: 'sku'"),
        (TypeError("no number"), "TypeError: no number"),
        (ValueError("out of stock"), "out of stock"),
        (UnknownFunction("this node has no processor named x"), "this node has no processor named x"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_slip_of_the_code_is_told_with_its_type_and_a_refusal_by_its_text(error, text):
    assert describe_error(error) == text


@pytest.mark.parametrize(
    ("told", "limit"),
    [
        ("65536", 65_536),
        (None, 4_194_304),
        ("", 4_194_304),
        ("much", 4_194_304),
        (b"65536", 4_194_304),
        ("9" * 99, 4_194_304),
    ],
)
def test_a_server_that_does_not_tell_how_long_answers_may_be_takes_what_grpc_does(told: str | bytes | None, limit: int):
    assert read_max_message(told) == limit


@pytest.mark.parametrize("multiply", [lambda n: n * 1.5, lambda n: 1.5 * n])
def test_a_number_of_a_document_that_meets_a_float_is_told_with_what_to_write(multiply: Callable[[Decimal], object]):
    with pytest.raises(TypeError) as slip:
        multiply(Decimal(2))
    assert describe_error(slip.value).endswith(' are int and Decimal: write Decimal("1.5"), not 1.5')
