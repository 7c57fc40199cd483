"""Members of other nodes as operators see them, and draining them (docs/reference/operations.md#members)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual
from tests.integration.cluster.conftest import sees
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.service import PATIENCE_S, RunningService, done, eventually, refused


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_each_node_lists_the_members_of_all_with_their_calls(
    here: RunningService, there: RunningService, tenant: str, clients: ThreadPoolExecutor
) -> None:
    api, ops = here.api(tenant), ops_api(here, tenant, "ROLE_OPERATOR")
    go = manual("GO", to="HERE", processors=[a_processor(tags="mail", mode="ASYNC_NEW_TX")])
    entity = api.create(model=api.a_model(a_workflow(HERE=[go]))).id
    with a_node(there, tenant, "mail") as node, a_node(here, tenant, "print"):
        eventually(lambda: sees(here, tenant, "mail"))
        for answer in (node.answer_next, lambda: node.fail_next("no")):
            firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
            answer()
            assert firing.result(PATIENCE_S).status_code == 200

        def find() -> Json:
            return {each["node"]: each for each in done(ops.get("/members"))["items"]}

        eventually(lambda: find()[there.parts.node.id].get("failed") == 1)
        remote, local = find()[there.parts.node.id], find()[here.parts.node.id]
        assert remote.keys() == local.keys()
        assert (remote["succeeded"], remote["failed"], remote["timedOut"], remote["inFlight"]) == (1, 1, 0, 0)
        assert remote["software"].startswith("grpc-python")
        assert remote["principal"] == local["principal"] == {"id": "node", "kind": "service"}


def test_a_member_of_another_node_is_drained(
    here: RunningService, there: RunningService, tenant: str, clients: ThreadPoolExecutor
) -> None:
    api, ops = here.api(tenant), ops_api(here, tenant, "ROLE_OPERATOR")
    go = manual("GO", to="DONE", processors=[a_processor(tags="mail")])
    api.a_model(a_workflow(NEW=[go], DONE=[]))
    entity, other = api.create().id, api.create().id
    with a_node(there, tenant, "mail") as node:
        eventually(lambda: sees(here, tenant, "mail"))
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        request = node.next()
        [member] = done(ops.get("/members"))["items"]
        answer = ops.post(f"/members/{member['id']}/drain")
        assert (answer.status_code, answer.json()["draining"]) == (202, True)
        # Without a pause: the node that was asked to drain refuses, whatever others still believe.
        refused(api.put(f"/entity/JSON/{other}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
        assert node.is_idle
        eventually(lambda: done(ops.get("/members"))["items"][0]["draining"])
        node.answer(request)
        assert firing.result(PATIENCE_S).status_code == 200
        eventually(lambda: node.ending == "OK")
