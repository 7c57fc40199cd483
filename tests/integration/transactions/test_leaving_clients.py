"""A client that goes away while a member works: its transaction goes with it, unless a segment was committed before the
call (docs/reference/workflows.md#commit_before_dispatch, docs/reference/grpc.md#callers-that-leave).
"""

import socket
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.integration.node import Node, a_node
from tests.service import Api, RunningService, eventually

SUBMISSION = '{"category": "physics", "year": 2024, "motivation": "submitted"}'
RESULT = {**SAMPLE, "motivation": "processed"}


@pytest.fixture
def node(service: RunningService, tenant: str) -> Iterator[Node]:
    with a_node(service, tenant, "node") as node:
        yield node


def a_client_that_fires(
    api: Api, mode: str, *, then: Sequence[Json] = (), **config: object
) -> tuple[str, socket.socket]:
    """An entity, and the connection of a client that waits for its transition; ``then`` are those of DONE."""
    go = manual("GO", to="DONE", processors=[a_processor(mode=mode, responseTimeoutMs=60_000, **config)])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[*then], END=[]))).id
    place = urlsplit(api.url)
    assert place.hostname
    assert place.port
    connection = socket.create_connection((place.hostname, place.port))
    head = [
        f"PUT {place.path}/entity/JSON/{entity}/GO HTTP/1.1",
        f"Host: {place.netloc}",
        f"Authorization: Bearer {api.token}",
        f"Content-Length: {len(SUBMISSION)}",
        "",
        SUBMISSION,
    ]
    connection.sendall("\r\n".join(head).encode())
    return entity, connection


SEGMENTING = [a_processor("charge", mode="COMMIT_BEFORE_DISPATCH", tags="nobody")]


@pytest.mark.parametrize(
    ("mode", "then"),
    [
        ("SYNC", []),
        ("ASYNC_SAME_TX", []),
        ("ASYNC_NEW_TX", []),
        pytest.param("SYNC", [manual("CHARGE", to="END", processors=SEGMENTING)], id="manual segment out of reach"),
    ],
)
def test_a_client_that_leaves_takes_its_transaction_along(
    api: Api, service: RunningService, node: Node, mode: str, then: list[Json]
) -> None:
    entity, connection = a_client_that_fires(api, mode, then=then)
    request = node.next()
    [member] = service.parts.members.list_members(api_tenant(api))
    connection.close()
    eventually(lambda: member.in_flight == 0)
    node.answer(request, payload={"type": "JSON", "data": RESULT})
    assert api.update(entity).id == entity  # nothing holds the entity
    assert len(api.get(f"/entity/{entity}/changes").json()) == 2
    assert api.state(entity) == "NEW"


@pytest.mark.parametrize("new_transaction", [False, True])
def test_what_was_committed_before_the_call_is_brought_to_its_end(api: Api, node: Node, new_transaction: bool) -> None:
    config = {"startNewTxOnDispatch": True} if new_transaction else {}
    entity, connection = a_client_that_fires(api, "COMMIT_BEFORE_DISPATCH", **config)
    request = node.next()
    connection.close()
    assert api.read(entity)["data"]["motivation"] == "submitted"
    node.answer(request, payload={"type": "JSON", "data": RESULT})
    eventually(lambda: api.state(entity) == "DONE")
    assert api.read(entity)["data"]["motivation"] == "processed"
    assert len(api.get(f"/entity/{entity}/changes").json()) == 3


def test_a_run_that_may_come_to_a_segment_is_brought_to_its_end(api: Api, node: Node) -> None:
    """It is not known before whether the criterion of the segment's transition will hold."""
    never = when("$.motivation", "EQUALS", "never")
    on = automated("CHARGE", to="END", criterion=never, processors=SEGMENTING)
    entity, connection = a_client_that_fires(api, "SYNC", then=[on])
    request = node.next()
    connection.close()
    node.answer(request, payload={"type": "JSON", "data": RESULT})
    eventually(lambda: api.state(entity) == "DONE")
    assert api.read(entity)["data"]["motivation"] == "processed"


def api_tenant(api: Api) -> str:
    """The tenant of the caller."""
    return str(api.get("/account").json()["userAccountInfo"]["legalEntity"]["id"])
