"""Callouts to members of another node (docs/reference/grpc.md#callouts-through-other-nodes)."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from statewright.cluster.local_links import LocalLinks
from statewright.ids import NodeId
from statewright.sdk import Node as SdkNode
from tests.builders import SAMPLE, a_processor, a_workflow, automated, judged_by
from tests.integration.cluster.conftest import sees
from tests.integration.node import Node, a_node
from tests.integration.transactions.conftest import connected
from tests.service import RunningService, done, eventually, refused

LARGE = {**SAMPLE, "year": 12345678901234567890}

MODES = ("SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH")


def moved_by(processor: object) -> object:
    return a_workflow(NEW=[automated("GO", to="DONE", processors=[processor])], DONE=[])


@pytest.fixture(params=["socket", "grpc"])
def far(
    here: RunningService,
    there: RunningService,
    tenant: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Node]:
    """A member on the other node, which this one knows; callouts to it are carried by either way."""

    async def find_no_link(links: LocalLinks, node: NodeId) -> None:
        return None

    if request.param == "grpc":
        monkeypatch.setattr(LocalLinks, "connect", find_no_link)
    forwarded = here.parts.node.callouts.forwarded
    before = dict(forwarded)
    with a_node(there, tenant, "node") as node:
        eventually(lambda: sees(here, tenant, "node"))
        yield node
    changed = {over for over in before if forwarded[over] != before[over]}
    assert changed <= {request.param}


@pytest.mark.parametrize("mode", MODES)
def test_a_processor_of_any_mode_runs_on_a_member_of_another_node(
    here: RunningService, far: Node, tenant: str, mode: str
) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor(mode=mode)), sample=LARGE)
    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(api.create, LARGE, model=model)
        request = far.return_next({**SAMPLE, "year": 9007199254740993})
        entity = api.read(created.result(20).id)
    assert request.data["year"] == 12345678901234567890
    assert request.attributes["authid"] == "alice"
    assert ("cyodatxtoken" in request.attributes) == (mode != "COMMIT_BEFORE_DISPATCH")
    assert entity["meta"]["state"] == "DONE"
    assert entity["data"]["year"] == (12345678901234567890 if mode == "ASYNC_NEW_TX" else 9007199254740993)


def test_a_criterion_is_judged_by_a_member_of_another_node(here: RunningService, far: Node, tenant: str) -> None:
    api = here.api(tenant)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", criterion=judged_by("is-due"))], DONE=[]))
    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(api.create, model=model)
        far.answer_next(matches=True, reason="because")
        assert api.state(created.result(20).id) == "DONE"


def test_what_the_far_member_says_of_a_failure_arrives_word_by_word(
    here: RunningService, far: Node, tenant: str
) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor()))
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
        far.fail_next("the ledger is closed")
        problem = refused(answered.result(20), 400, "WORKFLOW_FAILED")
    assert "the ledger is closed" in problem["detail"]


def test_a_far_member_that_keeps_silent_is_a_timeout_like_a_near_one(
    here: RunningService, far: Node, tenant: str
) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor(responseTimeoutMs=100)))
    problem = refused(api.post(f"/entity/JSON/{model}", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["properties"]["cause"] == "DISPATCH_TIMEOUT"
    far.next()


def test_a_far_member_that_leaves_in_the_middle_is_a_lost_one(here: RunningService, far: Node, tenant: str) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor()))
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
        far.next()
        far.leave()
        refused(answered.result(20), 503, "COMPUTE_MEMBER_DISCONNECTED")


def test_near_members_are_preferred_and_far_ones_share_what_is_left(
    here: RunningService, there: RunningService, tenant: str
) -> None:
    api, calls, lock = here.api(tenant), Counter[str](), threading.Lock()

    def a_worker(name: str) -> SdkNode:
        node = SdkNode(tags=["node"])

        @node.processor("enrich")
        def enrich(document, context):  # type: ignore[no-untyped-def]
            with lock:
                calls[name] += 1

        return node

    model = api.a_model(moved_by(a_processor()))
    with connected(there, tenant, a_worker("far one")), connected(there, tenant, a_worker("far other")):
        eventually(lambda: len(here.parts.node.peer_table.peers[there.parts.node.id].members) >= 2)
        for _ in range(10):
            api.create(model=model)
        assert calls == {"far one": 5, "far other": 5}
        with connected(here, tenant, a_worker("near")):
            for _ in range(10):
                api.create(model=model)
        assert calls == {"far one": 5, "far other": 5, "near": 10}


def test_a_callout_waits_for_a_member_to_join_anywhere(
    here: RunningService, there: RunningService, tenant: str
) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor()))
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        created = pool.submit(api.create, model=model)
        eventually(lambda: here.parts.node.peer_table._waiting)
        late = stack.enter_context(a_node(there, tenant, "node"))
        late.return_next(dict(SAMPLE))
        assert api.state(created.result(20).id) == "DONE"


def test_nobody_anywhere_is_said_after_the_wait(here: RunningService, tenant: str) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor(tags="nowhere")))
    problem = refused(api.post(f"/entity/JSON/{model}", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert f'no peer with tags "nowhere" for tenant {tenant} after 2s' in problem["detail"]
    assert problem["properties"]["retryable"] is True


def test_members_of_other_tenants_are_nobodys(here: RunningService, far: Node, tenant: str) -> None:
    api = here.api(f"{tenant}-other")
    model = api.a_model(moved_by(a_processor()))
    refused(api.post(f"/entity/JSON/{model}", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert far.is_idle


def test_a_client_that_gives_up_withdraws_its_callout_from_the_other_node(
    here: RunningService, there: RunningService, far: Node, tenant: str
) -> None:
    api = here.api(tenant)
    model = api.a_model(moved_by(a_processor(responseTimeoutMs=60_000)))
    with httpx.Client(trust_env=False, timeout=30) as client, ThreadPoolExecutor(1) as pool:
        going = pool.submit(
            client.post,
            f"{api.url}/entity/JSON/{model}",
            json=dict(SAMPLE),
            headers={"Authorization": f"Bearer {api.token}"},
            timeout=httpx.Timeout(30, read=1.0),
        )
        far.next()
        with pytest.raises(httpx.TransportError):
            going.result(20)
    [member] = there.parts.members.list_members(tenant)  # type: ignore[arg-type]
    eventually(lambda: member.in_flight == 0)
    assert done(api.get(f"/entity/{model}")) == []
