"""Draining calculation members (docs/reference/operations.md#draining-a-member)."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from statewright.sdk import Node as SdkNode
from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual
from tests.integration.node import Node, a_node
from tests.integration.ops.builders import ops_api
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


@pytest.fixture
def node(service: RunningService, tenant: str) -> Iterator[Node]:
    with a_node(service, tenant, "mail") as node:
        yield node


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def mailing(api: Api) -> str:
    """An entity that a member with the tag moves."""
    go = manual("GO", to="DONE", processors=[a_processor(tags="mail")])
    return api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[]))).id


def drain(ops: Api, query: str = "") -> Json:
    """Drain the only member."""
    [member] = done(ops.get("/members"))["items"]
    answer = ops.post(f"/members/{member['id']}/drain{query}")
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_a_drained_member_gets_nothing_and_what_it_has_is_finished(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity, other = mailing(api), api.create().id
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    request = node.next()
    drained = drain(ops)
    assert (drained["draining"], drained["inFlight"]) == (True, 1)
    refused(api.put(f"/entity/JSON/{other}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert node.is_idle
    assert node.ending is None
    node.answer(request)
    assert firing.result(PATIENCE_S).status_code == 200
    eventually(lambda: node.ending == "OK")
    assert done(ops.get("/members"))["items"] == []


def test_a_stream_ends_in_time_although_its_member_is_busy(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    firing = clients.submit(api.put, f"/entity/JSON/{mailing(api)}/GO", SAMPLE)
    node.next()
    drain(ops, "?within=PT0S")
    refused(firing.result(PATIENCE_S), 503, "COMPUTE_MEMBER_DISCONNECTED")
    eventually(lambda: node.ending == "OK")


def test_a_python_node_that_is_drained_ends(service: RunningService, tenant: str, ops: Api) -> None:
    async def serve() -> None:
        async with asyncio.timeout(PATIENCE_S):
            token = a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
            await SdkNode(tags=["mail"]).serve(service.grpc, token=token, api=service.url)

    with ThreadPoolExecutor() as pool:
        serving = pool.submit(asyncio.run, serve())
        eventually(lambda: done(ops.get("/members"))["items"] != [])
        drain(ops)
        serving.result(PATIENCE_S)


def test_draining_is_on_record_and_for_operators(service: RunningService, tenant: str, ops: Api, node: Node) -> None:
    [member] = done(ops.get("/members"))["items"]
    path = f"/members/{member['id']}/drain"
    refused(ops_api(service, tenant).post(path), 403, "FORBIDDEN")
    stranger = ops_api(service, f"{tenant}-other", "ROLE_ADMIN")
    assert (
        refused(stranger.post(path), 404, "MEMBER_NOT_FOUND")["detail"]
        == (refused(ops.post("/members/nobody/drain"), 404, "MEMBER_NOT_FOUND")["detail"])
    )
    assert done(ops.get("/audit?action=member.drain"))["items"] == []
    for within in ("P1M", "P999999999999W"):
        refused(ops.post(f"{path}?within={within}"), 400, "BAD_REQUEST")
    drain(ops)
    [act] = done(ops.get("/audit?action=member.drain"))["items"]
    assert (act["actor"]["id"], act["target"]) == ("olga", {"kind": "MEMBER", "id": member["id"]})


def test_what_a_member_says_of_itself_is_told(ops: Api, node: Node) -> None:
    [member] = done(ops.get("/members?stale=false"))["items"]
    assert member["software"].startswith("grpc-python")
    assert member["principal"] == {"id": "node", "kind": "service"}
    assert member["lastSeenAt"] >= member["connectedAt"]
    assert done(ops.get("/members?stale=true"))["items"] == []
