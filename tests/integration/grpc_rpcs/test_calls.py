"""What is wrong with a call itself ends it with a status (docs/reference/grpc.md#envelope,
docs/reference/grpc.md#event-types, docs/reference/grpc.md#how-requests-are-read).
"""

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import SAMPLE, Json
from tests.integration.grpc_rpcs.client import (
    CREATE,
    NEW,
    REQUIRED,
    RPC_OF,
    STREAMED,
    UNARY,
    UNKNOWN,
    Rpcs,
    Status,
    an_event,
    payload_of,
)
from tests.service import Api

RPCS = [*UNARY, *STREAMED]
CALLED = {
    "entityModelManage": "model",
    "entityManage": "entity",
    "entityManageCollection": "collection",
    "entitySearch": "search",
    "entitySearchCollection": "search collection",
}


def invalid(text: str) -> Status:
    return grpc.StatusCode.INVALID_ARGUMENT, text


@pytest.mark.parametrize("rpc", RPCS)
def test_a_call_without_credentials_is_unauthenticated_whatever_it_says(rpcs: Rpcs, rpc: str) -> None:
    for token in (None, "nonsense"):
        anonymous = Rpcs(rpcs.address, token)
        for event in (CloudEvent(type="NoSuchRequest"), an_event("EntityCreateRequest", **CREATE)):
            assert anonymous.status(event, rpc) == (grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


@pytest.mark.parametrize("rpc", RPCS)
def test_a_type_of_another_rpc_is_refused_by_name(rpcs: Rpcs, rpc: str) -> None:
    others = [kind for kind, home in RPC_OF.items() if home != rpc]
    for kind in (*others, "CalculationMemberJoinEvent", "entityCreateRequest", ""):
        event = CloudEvent(id="1", type=kind, text_data='{"id":"1"}')
        assert rpcs.status(event, rpc) == invalid(f"unsupported {CALLED[rpc]} event type: {kind}")


@pytest.mark.parametrize("rpc", RPCS)
def test_an_event_without_json_is_an_envelope_error(rpcs: Rpcs, rpc: str) -> None:
    for kind in (*(UNARY | STREAMED)[rpc], "NoSuchRequest"):
        packed = CloudEvent(id="1", type=kind)
        packed.proto_data.CopyFrom(AnyMessage(type_url="x"))
        for event in (CloudEvent(id="1", type=kind), packed):
            code, text = rpcs.status(event, rpc)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert text.startswith("invalid CloudEvent: unsupported CloudEvent data variant")


def test_binary_data_is_as_good_as_text(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    event = an_event("EntityCreateRequest", **CREATE)
    event.binary_data = event.text_data.encode()
    assert event.WhichOneof("data") == "binary_data"
    [response] = rpcs.send(event)
    assert payload_of(response)["success"] is True


def test_nothing_but_id_type_and_data_of_an_event_is_looked_at(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    event = an_event("EntityCreateRequest", **CREATE)
    event.source, event.spec_version = "\n", "0.3"
    event.attributes["authid"].ce_string = "mallory"
    [response] = rpcs.send(event)
    assert payload_of(response)["success"] is True


def test_an_answer_repeats_the_id_of_the_event_and_not_that_of_the_payload(rpcs: Rpcs) -> None:
    event = an_event("EntityGetRequest", id="p-1", entityId=UNKNOWN)
    [response] = rpcs.send(event)
    payload = payload_of(response)
    assert (payload["id"], payload["requestId"]) == ("ce-7", "ce-7")
    assert response.id not in {"ce-7", "p-1"}
    event.id = ""
    [response] = rpcs.send(event)
    assert (payload_of(response)["id"], payload_of(response)["requestId"]) == ("", "")


def test_only_two_requests_need_nothing() -> None:
    assert set(RPC_OF) - set(REQUIRED) == {"EntityModelGetAllRequest", "EntityModelSetUniqueKeysRequest"}


@pytest.mark.parametrize("kind", REQUIRED)
def test_a_required_member_must_be_there(rpcs: Rpcs, kind: str) -> None:
    members = {"id": "p-1"} | REQUIRED[kind]
    rpcs.ask(kind, **members)
    for name in members:
        rest = {other: value for other, value in members.items() if other != name}
        text = rpcs.invalid(kind, **({"id": None} | rest))
        assert text.startswith("invalid payload: ")
        assert f"`{name}`" in text


INNER = [
    ("EntityCreateRequest", ("payload",), ("model", "data")),
    ("EntityCreateRequest", ("payload", "model"), ("name", "version")),
    ("EntityUpdateRequest", ("payload",), ("entityId", "data")),
    ("EntityPatchRequest", ("payload",), ("entityId", "patch")),
    ("EntityModelDeleteRequest", ("model",), ("name", "version")),
]


@pytest.mark.parametrize(("kind", "path", "names"), INNER)
def test_so_must_required_members_of_members(
    rpcs: Rpcs, kind: str, path: tuple[str, ...], names: tuple[str, ...]
) -> None:
    for name in names:
        text = rpcs.invalid(kind, **without(REQUIRED[kind], *path, name))
        assert text == f"invalid payload: Object missing required field `{name}` - at `$.{'.'.join(path)}`"


def without(value: Json, *path: str) -> Json:
    """A copy without the member that the path leads to."""
    first, *rest = path
    if not rest:
        return {name: member for name, member in value.items() if name != first}
    return {**value, first: without(value[first], *rest)}


@pytest.mark.parametrize("kind", REQUIRED)
def test_null_passes_for_an_empty_text_or_object_and_is_judged_like_one(rpcs: Rpcs, kind: str) -> None:
    choices = {"dataFormat", "patchFormat", "converter"} | (
        {"transition"} if kind == "EntityModelTransitionRequest" else set()
    )
    elsewhere = {"payloads", "condition"} | ({"payload"} if kind == "EntityModelImportRequest" else set())
    for name in REQUIRED[kind].keys() - choices - elsewhere:
        for payload in rpcs.ask(kind, **(REQUIRED[kind] | {name: None})):
            assert payload["success"] is False or kind.startswith("EntityStats")
            assert payload["error"]["code"] == "CLIENT_ERROR", payload
    for name in REQUIRED[kind].keys() & choices:
        for value in (None, "", "json", "OTHER"):
            assert rpcs.invalid(kind, **(REQUIRED[kind] | {name: value})).startswith("invalid payload: ")


MISFITS: list[tuple[str, Json]] = [
    ("EntityDeleteRequest", {"entityId": 7}),
    ("EntityDeleteRequest", {"id": 7}),
    ("EntityDeleteRequest", {"entityId": "a\0b"}),
    ("EntityModelDeleteRequest", {"model": "prize/1"}),
    ("EntityModelDeleteRequest", {"model": {"name": "prize", "version": "1"}}),
    ("EntityModelDeleteRequest", {"model": {"name": "prize", "version": True}}),
    ("EntityModelDeleteRequest", {"model": {"name": "prize", "version": 2**31}}),
    ("EntityModelDeleteRequest", {"model": {"name": "pri\0ze", "version": 1}}),
    ("EntityModelExportRequest", {"converter": "JSON_SCHEMA"}),
    ("EntityModelTransitionRequest", {"transition": "lock"}),
    ("EntityGetRequest", {"pointInTime": "yesterday"}),
    ("EntityGetRequest", {"pointInTime": ""}),
    ("EntityGetRequest", {"pointInTime": 1700000000}),
    ("EntityGetAllRequest", {"pageSize": "20"}),
    ("EntityGetAllRequest", {"pointInTime": "2024-13-01T00:00:00Z"}),
    ("EntitySearchRequest", {"orderBy": [{"source": "data"}]}),
    ("EntitySearchRequest", {"orderBy": [{"path": "year", "source": "elsewhere"}]}),
    ("EntitySearchRequest", {"limit": 2**63}),
    ("EntityStatsByStateGetRequest", {"states": "NEW"}),
    ("EntityStatsByStateGetRequest", {"states": ["N\0W"]}),
    ("EntityCreateCollectionRequest", {"payloads": {}}),
    ("EntityUpdateRequest", {"payload": {"entityId": UNKNOWN, "data": {}, "transition": 1}}),
]


@pytest.mark.parametrize(("kind", "members"), MISFITS)
def test_a_value_of_the_wrong_kind_is_an_invalid_payload(rpcs: Rpcs, kind: str, members: Json) -> None:
    text = rpcs.invalid(kind, **(REQUIRED[kind] | members))
    assert text.startswith("invalid payload: ")
    assert f"$.{next(iter(members))}" in text


@pytest.mark.parametrize("number", ["1.0", "1e0", "1E1"])
def test_integers_are_written_without_fraction_and_exponent(rpcs: Rpcs, number: str) -> None:
    text = f'{{"id":"1","model":{{"name":"prize","version":{number}}}}}'
    code, _ = rpcs.status(CloudEvent(id="1", type="EntityModelDeleteRequest", text_data=text))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


BROKEN = ["", "{", "[]", "null", '"text"', '{"id":"\\ud800"}', '{"id":tru}', '{"x":' + "[" * 100_000 + "}"]


@pytest.mark.parametrize("text", BROKEN)
def test_a_payload_that_is_no_object_is_an_invalid_payload(rpcs: Rpcs, text: str) -> None:
    for kind in (*REQUIRED, "EntityModelSetUniqueKeysRequest"):
        for event in (CloudEvent(type=kind, text_data=text), CloudEvent(type=kind, binary_data=text.encode())):
            code, said = rpcs.status(event)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert said.startswith("invalid payload: ")


def test_bytes_that_are_no_text_are_an_invalid_payload(rpcs: Rpcs) -> None:
    for raw in (b"\xff", b'{"id":"\xff"}', b'\xef\xbb\xbf{"id":"1"}'):
        code, _ = rpcs.status(CloudEvent(type="EntityDeleteRequest", binary_data=raw))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_what_follows_the_payload_is_ignored_by_writes_and_refused_by_all_others(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    writes = {*UNARY["entityManage"], *STREAMED["entityManageCollection"]}
    for kind, members in REQUIRED.items():
        event = an_event(kind, **members)
        event.text_data += ' {"id":"another"} and so on'
        if kind in writes:
            assert len(rpcs.send(event)) == 1
        else:
            assert rpcs.status(event)[1].startswith("invalid payload: "), kind


def test_bytes_that_are_no_text_may_follow_a_write(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    event = an_event("EntityCreateRequest", **(CREATE | {"payload": NEW | {"data": {**SAMPLE, "category": "ψ"}}}))
    event.binary_data = b" " + event.text_data.encode() + b"\n\xff\xfe"
    [response] = rpcs.send(event)
    entity = payload_of(response)["transactionInfo"]["entityIds"][0]
    assert rpcs.read(entity)["data"]["category"] == "ψ"


def test_unknown_members_and_those_of_answers_are_ignored(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    extra = {"error": 7, "warnings": "none", "success": "maybe", "owner": {}, "transactionTimeoutMs": None}
    rpcs.done("EntityCreateRequest", **CREATE, **extra)


def test_the_payload_of_a_listing_of_models_is_not_looked_at(rpcs: Rpcs) -> None:
    for text in ("", "no JSON", "{}"):
        [response] = rpcs.send(CloudEvent(id="ce-7", type="EntityModelGetAllRequest", text_data=text))
        assert payload_of(response)["models"] == []


def test_an_event_over_the_limit_is_too_much(rpcs: Rpcs) -> None:
    big = an_event("EntityCreateRequest", **(CREATE | {"payload": NEW | {"data": {"x": "y" * 17_000_000}}}))
    assert rpcs.status(big)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
