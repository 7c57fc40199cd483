"""Every payload that is sent, by the server or by our own node, is what was published for its type."""

import pytest

from statewright.api.grpc.entities import ENTITY_MANAGE, ENTITY_MANAGE_COLLECTION
from statewright.api.grpc.envelope import JOIN, RESPONSE_TYPES, read_join, read_response
from statewright.api.grpc.models import ENTITY_MODEL_MANAGE
from statewright.api.grpc.search import ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION
from statewright.jsonval.codec import encode
from tests.builders import Json
from tests.integration.grpc_rpcs import published
from tests.integration.grpc_rpcs.client import RPC_OF
from tests.integration.grpc_rpcs.conversation import KINDS, RESPONSES

SERVED = {
    "entityManage": ENTITY_MANAGE,
    "entityManageCollection": ENTITY_MANAGE_COLLECTION,
    "entityModelManage": ENTITY_MODEL_MANAGE,
    "entitySearch": ENTITY_SEARCH,
    "entitySearchCollection": ENTITY_SEARCH_COLLECTION,
}


def test_all_types_are_known_and_no_others() -> None:
    assert published.types() == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sent_is_as_published(heard: dict[str, list[Json]], kind: str) -> None:
    assert heard[kind], "nobody has sent one"
    for payload in heard[kind]:
        assert published.faults(kind, payload) == [], payload


@pytest.mark.parametrize("kind", sorted(RESPONSES - {"EntityModelGetAllResponse"}))
def test_every_response_was_heard_as_success_and_as_failure(heard: dict[str, list[Json]], kind: str) -> None:
    assert {payload["success"] for payload in heard[kind]} == {True, False}


@pytest.mark.parametrize("kind", sorted({*RPC_OF, JOIN, *RESPONSE_TYPES}))
def test_published_examples_are_understood(kind: str) -> None:
    for example in published.documents()[kind]["examples"]:
        text = encode(example).decode()
        if kind in RPC_OF:
            SERVED[RPC_OF[kind]].operations[kind].prepare(text, False)
        elif kind == JOIN:
            assert read_join(text).tags == tuple(example["tags"])
        else:
            assert read_response(text).request_id == example["requestId"]


@pytest.mark.parametrize("rpc", SERVED)
def test_an_rpc_takes_the_types_published_for_it(rpc: str) -> None:
    payloads = {kind: published.documents()[kind] for kind in published.types()}
    wanted = {kind for kind, schema in payloads.items() if rpc in schema["x-rpc"] and kind.endswith("Request")}
    assert set(SERVED[rpc].operations) == wanted


def test_every_example_of_a_schema_fits_it() -> None:
    for kind, schema in published.documents().items():
        for example in schema.get("examples", ()):
            assert [error.message for error in published.validator(kind).iter_errors(example)] == [], kind
