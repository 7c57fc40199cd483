"""No event of a client or a member holds the event loop for long (docs/reference/grpc.md#limits-and-shutdown)."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import grpc
import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import a_processor, a_workflow, automated, judged_by
from tests.integration.event_loop.bodies import (
    MAX_EVENT,
    USUAL_EVENT,
    Body,
    a_condition,
    document,
    fill,
    repeat,
    xml,
)
from tests.integration.event_loop.conftest import TENANT, Door
from tests.integration.event_loop.watchdog import require_free_loop
from tests.integration.grpc_rpcs.client import RPC_OF, SERVICE, UNARY, Rpcs, an_event, channel
from tests.integration.node import Node, a_node

HELD: Final = b'{"name":"held","version":1}'
SOUGHT: Final = b'{"name":"sought","version":1}'
UNKNOWN: Final = b'"00000000-0000-1000-8000-000000000000"'


def _create(data: bytes, media: bytes = b"JSON") -> bytes:
    return b'{"id":"x","dataFormat":"%b","payload":{"model":%b,"data":%b}}' % (media, HELD, data)


@cache
def _members() -> bytes:
    """An object of 300,000 members; each costs what reads it a name."""
    return fill("{", lambda n: f'"k{n}":1', "}", MAX_EVENT - 1000)


def _create_all(item: bytes) -> bytes:
    return repeat('{"id":"x","dataFormat":"JSON","payloads":[', item.decode(), "]}", USUAL_EVENT)


EVENTS: dict[str, tuple[str, Body]] = {
    **{
        f"create-{name}": ("EntityCreateRequest", lambda name=name: _create(document(name, MAX_EVENT)))  # type: ignore[misc]
        for name in ("numbers", "records", "empty-arrays", "names", "cut-off")
    },
    "create-xml": ("EntityCreateRequest", lambda: _create(json.dumps(xml(USUAL_EVENT).decode()).encode(), b"XML")),
    "text-after-it": ("EntityCreateRequest", lambda: _create(document("records", MAX_EVENT)) + b" and more"),
    "no-payload": ("EntityCreateRequest", lambda: b'{"id":"x","payload":%b}' % document("records", MAX_EVENT)),
    "no-payload-and-more": (
        "EntityCreateRequest",
        lambda: b'{"id":"x","payload":%b} x' % document("records", MAX_EVENT),
    ),
    "create-other-members": ("EntityCreateRequest", lambda: b'{"id":"x","payload":%b}' % _members()),
    "create-names-and-more": (
        "EntityCreateRequest",
        lambda: b'{"id":"x","dataFormat":"JSON","payload":{"model":%b,"data":%b}} and more' % (HELD, _members()),
    ),
    "update": (
        "EntityUpdateRequest",
        lambda: (
            b'{"id":"x","dataFormat":"JSON","payload":{"entityId":%b,"data":%b}}'
            % (UNKNOWN, document("records", MAX_EVENT))
        ),
    ),
    "patch": (
        "EntityPatchRequest",
        lambda: (
            b'{"id":"x","patchFormat":"JSON_PATCH","payload":{"entityId":%b,"ifMatch":"*","patch":%b}}'
            % (UNKNOWN, repeat("[", '{"op":"add","path":"/v/0","value":1}', "]", USUAL_EVENT))
        ),
    ),
    "create-all": ("EntityCreateCollectionRequest", lambda: _create_all(b'{"model":%b,"data":{"v":[1]}}' % HELD)),
    "update-all": ("EntityUpdateCollectionRequest", lambda: _create_all(b'{"entityId":%b,"data":{"v":[1]}}' % UNKNOWN)),
    "search": (
        "EntitySearchRequest",
        lambda: b'{"id":"x","model":%b,"condition":%b}' % (SOUGHT, a_condition().encode()),
    ),
    "snapshot": (
        "EntitySnapshotSearchRequest",
        lambda: b'{"id":"x","model":%b,"condition":%b}' % (SOUGHT, a_condition().encode()),
    ),
    "import": (
        "EntityModelImportRequest",
        lambda: (
            b'{"id":"x","model":{"name":"other","version":9},"converter":"SAMPLE_DATA","dataFormat":"JSON","payload":%b}'
            % document("different-names", MAX_EVENT)
        ),
    ),
    "unique-keys": (
        "EntityModelSetUniqueKeysRequest",
        lambda: (
            b'{"id":"x","model":{"name":"held-open","version":1},"uniqueKeys":%b}'
            % fill("[", lambda n: f'{{"id":"k{n}","fields":["$.v"]}}', "]", USUAL_EVENT)
        ),
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_large_event_leaves_the_loop_free(name: str, door: Door) -> None:
    kind, build = EVENTS[name]
    event = CloudEvent(id="ce-7", type=kind, text_data=build().decode())
    message = event.SerializeToString()
    assert len(message) <= MAX_EVENT
    rpc = RPC_OF[kind]

    def work() -> None:
        pick = channel(door.service.grpc).unary_unary if rpc in UNARY else channel(door.service.grpc).unary_stream
        call = pick(SERVICE + rpc)(message, metadata=[("authorization", f"Bearer {door.api.token}")], timeout=60)
        if rpc not in UNARY:
            list(call)

    def work_or_be_refused() -> None:
        code = grpc.StatusCode.OK
        try:
            work()
        except grpc.RpcError as refused:
            code = refused.code()  # type: ignore[attr-defined]  # a call, too
        assert code in {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}

    require_free_loop(door.service.loop, work_or_be_refused)


def test_very_many_attributes_are_refused_and_leave_the_loop_free(door: Door) -> None:
    event = CloudEvent(id="ce-7", type="EntityGetRequest", text_data="{}")
    for n in range(170_000):
        event.attributes[f"k{n}"].ce_boolean = True
    message = event.SerializeToString()
    rpc = RPC_OF["EntityGetRequest"]

    def work() -> None:
        call = channel(door.service.grpc).unary_unary(SERVICE + rpc)
        with pytest.raises(grpc.RpcError) as refused:
            call(message, metadata=[("authorization", f"Bearer {door.api.token}")], timeout=60)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]  # a call, too

    require_free_loop(door.service.loop, work)


@pytest.fixture(scope="module")
def node(door: Door) -> Iterator[Node]:
    """A member that answers callouts, and models whose transitions need it."""
    judged = a_workflow(New=[automated("GO", to="Gone", criterion=judged_by("judge", tags="held"))], Gone=[])
    changed = a_workflow(New=[automated("GO", to="Gone", processors=[a_processor(tags="held")])], Gone=[])
    door.api.a_model(judged, model="held-judged/1", sample={"v": [1]})
    door.api.a_model(changed, model="held-changed/1", sample={"v": [1]})
    with a_node(door.service, TENANT, "held") as joined:
        yield joined


def _require_free_callout(door: Door, node: Node, model: str, answer: bytes, document: bytes = b'{"v":[1]}') -> None:
    """A create whose callout is answered so leaves the loop free."""

    def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            creating = pool.submit(door.send, f"POST /entity/JSON/{model}/1", document)
            node.answer_literally(answer.decode())
            status, text = creating.result()
        assert status < 500, text[:500]

    require_free_loop(door.service.loop, work)


@pytest.mark.parametrize("name", ["numbers", "records", "empty-arrays"])
def test_a_large_document_of_a_processor_leaves_the_loop_free(name: str, door: Door, node: Node) -> None:
    answer = b'"success":true,"payload":{"type":"JSON","data":%b}' % document(name, MAX_EVENT)
    _require_free_callout(door, node, "held-changed", answer)


def test_a_large_document_for_a_processor_leaves_the_loop_free(door: Door, node: Node) -> None:
    document = repeat('{"v":[', "7", "]}", 3 * 1024 * 1024)
    _require_free_callout(door, node, "held-changed", b'"success":true', document)


@pytest.mark.parametrize("defect", ['"success":NaN,%s', "%s} and more"])
def test_a_large_answer_that_cannot_be_used_leaves_the_loop_free(defect: str, door: Door, node: Node) -> None:
    _require_free_callout(door, node, "held-changed", (defect % _members()[1:-1].decode()).encode())


@pytest.mark.parametrize("member", ["reason", "warnings", "result"])
def test_a_large_answer_of_a_criterion_leaves_the_loop_free(member: str, door: Door, node: Node) -> None:
    values = {
        "reason": b'"%b"' % (b'\\"' * ((USUAL_EVENT - 100) // 2 // 2)),
        "warnings": repeat("[", '"careful"', "]", USUAL_EVENT),
        "result": document("records", MAX_EVENT),
    }
    answer = b'"success":true,"matches":false,"%b":%b' % (member.encode(), values[member])
    _require_free_callout(door, node, "held-judged", answer)


def test_reads_of_a_large_document_leave_the_loop_free(door: Door) -> None:
    entity = door.api.create({"v": [1]}, model="held/1").id
    assert door.send(f"PUT /entity/JSON/{entity}", document("numbers", MAX_EVENT))[0] == 200
    rpcs = Rpcs(door.service.grpc, door.api.token)
    event = an_event("EntityGetRequest", entityId=entity)
    require_free_loop(door.service.loop, lambda: rpcs.send(event))
