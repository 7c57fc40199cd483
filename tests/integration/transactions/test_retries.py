"""The retry policy FIXED: who is asked again, how often, and when nobody is (decision W7)."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.integration.node import Node, Request, a_node
from tests.service import PATIENCE_S, Api, RunningService, eventually, refused

RESULT = {**SAMPLE, "motivation": "processed"}

Joining = Callable[[], Node]


@pytest.fixture
def join(service: RunningService, tenant: str) -> Iterator[Joining]:
    """Lets one more member join."""
    with ExitStack() as members:
        yield lambda: members.enter_context(a_node(service, tenant, "node"))


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def an_entity(api: Api, mode: str, policy: str) -> str:
    processor = a_processor(mode=mode, retryPolicy=policy, responseTimeoutMs=60_000)
    flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[processor])], DONE=[])
    return api.create(model=api.a_model(flow)).id


def asked(members: list[Node]) -> tuple[Node, Request]:
    """Which member is asked, and what."""
    eventually(lambda: any(not member.is_idle for member in members))
    [member] = [member for member in members if not member.is_idle]
    return member, member.next()


def lost_in_turn(members: list[Node], firing: "Future[httpx.Response]") -> int:
    """Let each member leave as soon as it is asked, until the client is answered; how many were asked."""
    for count in range(len(members) + 1):
        eventually(lambda: firing.done() or any(not member.is_idle for member in members))
        if firing.done():
            return count
        member, _ = asked(members)
        members.remove(member)
        member.leave()
    raise AssertionError("the client was not answered")


def test_between_segments_another_member_is_asked_when_one_is_lost(
    api: Api, join: Joining, clients: ThreadPoolExecutor
) -> None:
    members = [join(), join()]
    entity = an_entity(api, "COMMIT_BEFORE_DISPATCH", "FIXED")
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    first, lost = asked(members)
    members.remove(first)
    first.leave()
    second, request = asked(members)
    assert request["requestId"] != lost["requestId"]
    second.answer(request, payload={"type": "JSON", "data": RESULT})
    assert firing.result(PATIENCE_S).status_code == 200
    assert api.read(entity)["data"] == RESULT
    assert len(api.get(f"/entity/{entity}/changes").json()) == 3  # the state before the call is committed once


def test_there_are_three_attempts_and_no_more(api: Api, join: Joining, clients: ThreadPoolExecutor) -> None:
    members = [join() for _ in range(4)]
    entity = an_entity(api, "COMMIT_BEFORE_DISPATCH", "FIXED")
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    assert lost_in_turn(members, firing) == 3
    problem = refused(firing.result(), 400, "WORKFLOW_FAILED")
    assert problem["properties"]["cause"] == "COMPUTE_MEMBER_DISCONNECTED"


@pytest.mark.parametrize(
    ("mode", "policy", "status", "code"),
    [
        ("SYNC", "FIXED", 503, "COMPUTE_MEMBER_DISCONNECTED"),  # it may have been at work: once more could be twice
        ("ASYNC_SAME_TX", "FIXED", 503, "COMPUTE_MEMBER_DISCONNECTED"),
        ("COMMIT_BEFORE_DISPATCH", "NONE", 400, "WORKFLOW_FAILED"),
        ("COMMIT_BEFORE_DISPATCH", "", 400, "WORKFLOW_FAILED"),
    ],
)
def test_otherwise_one_attempt_is_all(
    api: Api, join: Joining, clients: ThreadPoolExecutor, mode: str, policy: str, status: int, code: str
) -> None:
    members = [join(), join()]
    entity = an_entity(api, mode, policy)
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    assert lost_in_turn(members, firing) == 1
    refused(firing.result(), status, code)
