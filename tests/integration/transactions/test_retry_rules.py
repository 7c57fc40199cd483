"""Rules of retries in annotations: who is asked again, after what, and what is left of attempts that failed
(docs/reference/workflows.md#retries).

``STATEWRIGHT_TEST_PAUSES=200`` has so many runs pause at once.
"""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from statewright.jsonval.codec import encode
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual
from tests.integration.node import Node, Request, a_node
from tests.integration.transactions.conftest import JoinedApi
from tests.service import PATIENCE_S, Api, RunningService, eventually, refused

RESULT = {**SAMPLE, "motivation": "processed"}
PAUSES = int(os.environ.get("STATEWRIGHT_TEST_PAUSES", "40"))
AT_ONCE = {"delay": "PT0S", "jitter": 0}

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


def ruled(retry: Json, mode: str = "SYNC", **config: Json) -> Json:
    return a_processor(mode=mode, **config) | {"annotations": {"statewright": {"retry": retry}}}


def an_entity(api: Api, processor: Json) -> str:
    flow = a_workflow(NEW=[manual("GO", to="DONE", processors=[processor])], DONE=[])
    return api.create(model=api.a_model(flow)).id


def asked(members: list[Node]) -> tuple[Node, Request]:
    """Which member is asked, and what."""
    eventually(lambda: any(not member.is_idle for member in members))
    [member] = [member for member in members if not member.is_idle]
    return member, member.next()


def fail(member: Node, request: Request, **error: Json) -> None:
    member.answer(request, success=False, error={"code": "E", "message": "not now", **error})


Firing = Callable[[str], "Future[httpx.Response]"]


@pytest.fixture
def fire(api: Api, clients: ThreadPoolExecutor) -> Firing:
    return lambda entity: clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)


def test_after_an_error_that_is_listed_another_member_is_asked(api: Api, join: Joining, fire: Firing) -> None:
    members = [join(), join()]
    firing = fire(an_entity(api, ruled({**AT_ONCE, "on": ["ERROR"]})))
    first, request = asked(members)
    fail(first, request)
    second, request = asked(members)
    assert second is not first
    second.answer(request, payload={"type": "JSON", "data": RESULT})
    assert firing.result(PATIENCE_S).status_code == 200
    assert all(member.is_idle for member in members)


def test_a_member_that_is_lost_is_followed_by_another(api: Api, join: Joining, fire: Firing) -> None:
    members = [join(), join()]
    firing = fire(an_entity(api, ruled({**AT_ONCE, "on": ["DISCONNECTED"]})))
    first, _ = asked(members)
    members.remove(first)
    first.leave()
    second, request = asked(members)
    second.answer(request)
    assert firing.result(PATIENCE_S).status_code == 200


@pytest.mark.parametrize("retry", [{**AT_ONCE}, {**AT_ONCE, "on": ["TIMEOUT", "DISCONNECTED"]}, None])
def test_an_error_that_is_not_listed_is_final(api: Api, join: Joining, fire: Firing, retry: Json) -> None:
    member = join()
    firing = fire(an_entity(api, a_processor() if retry is None else ruled(retry)))
    fail(member, member.next())
    refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert member.is_idle


def test_a_member_can_say_that_trying_again_is_useless(api: Api, join: Joining, fire: Firing) -> None:
    member = join()
    firing = fire(an_entity(api, ruled({**AT_ONCE, "attempts": 5, "on": ["ERROR"]})))
    fail(member, member.next())
    fail(member, member.next(), retryable=False)
    refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert member.is_idle


def test_the_failure_that_is_told_is_the_last_one(api: Api, join: Joining, fire: Firing) -> None:
    member = join()
    firing = fire(an_entity(api, ruled({**AT_ONCE, "attempts": 3, "on": ["ERROR"]})))
    for told in ("first", "second", "third"):
        fail(member, member.next(), message=told)
    problem = refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert problem["detail"].endswith("third")
    assert member.is_idle


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"])
def test_what_the_callbacks_of_a_failed_attempt_wrote_is_gone(
    api: Api, join: Joining, fire: Firing, service: RunningService, tenant: str, mode: str
) -> None:
    member = join()
    others = api.a_model(model="note/1")
    config = {"startNewTxOnDispatch": True} if mode == "COMMIT_BEFORE_DISPATCH" else {}
    firing = fire(an_entity(api, ruled({**AT_ONCE, "attempts": 3, "on": ["ERROR"]}, mode, **config)))
    caller = service.api(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
    written = []
    for succeeds in (False, False, True):
        request = member.next()
        joined = JoinedApi(caller.url, caller.token, request.attributes["cyodatxtoken"])
        written.append(joined.create(model=others).id)
        if succeeds:
            member.answer(request)
        else:
            fail(member, request)
    assert firing.result(PATIENCE_S).status_code == 200
    assert [api.get(f"/entity/{each}").status_code for each in written] == [404, 404, 200]


def test_a_pause_ends_with_the_time_for_all_attempts(api: Api, join: Joining, fire: Firing) -> None:
    member = join()
    firing = fire(an_entity(api, ruled({"delay": "PT5M", "maxDelay": "PT5M", "totalTime": "PT1S", "on": ["ERROR"]})))
    fail(member, member.next())
    refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert member.is_idle


def test_an_attempt_ends_with_the_time_for_all_attempts(api: Api, join: Joining, fire: Firing) -> None:
    member = join()
    firing = fire(an_entity(api, ruled({"totalTime": "PT1S", "on": ["TIMEOUT"]})))
    member.next()  # and silence
    problem = refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert problem["properties"]["cause"] == "DISPATCH_TIMEOUT"


def test_a_criterion_is_asked_again(api: Api, join: Joining, clients: ThreadPoolExecutor) -> None:
    member = join()
    guarded = automated("GO", to="DONE", criterion=judged_by("fits"))
    guarded["criterionAnnotations"] = {"statewright": {"retry": {**AT_ONCE, "on": ["ERROR"]}}}
    model = api.a_model(a_workflow(NEW=[guarded], DONE=[]))
    creating = clients.submit(api.create, model=model)
    fail(member, member.next())
    member.answer_next(matches=True)
    assert api.read(creating.result(PATIENCE_S).id)["meta"]["state"] == "DONE"


def test_pauses_hold_nothing_that_others_need_and_end_when_clients_leave(
    api: Api, join: Joining, service: RunningService
) -> None:
    """More runs are in pauses than there are connections, and others go on meanwhile."""
    member = join()
    rule = {"delay": "PT5M", "maxDelay": "PT5M", "totalTime": "PT10M", "on": ["ERROR"]}
    model = api.a_model(a_workflow(NEW=[manual("GO", to="DONE", processors=[ruled(rule)])], DONE=[]))
    entities = [api.create(model=model).id for _ in range(PAUSES)]
    active = service.parts.runtime.core.commits.metrics.active
    connections = [start_firing(api, entity) for entity in entities]
    for _ in entities:
        fail(member, member.next())
    for entity in entities[:10]:
        assert api.read(entity)["meta"]["state"] == "NEW"
    api.create(model=model)
    assert service.parts.runtime.core.commits.metrics.active >= active + len(entities)
    for connection in connections:
        connection.close()
    eventually(lambda: service.parts.runtime.core.commits.metrics.active <= active)
    assert [api.state(entity) for entity in entities[:3]] == ["NEW"] * 3


def start_firing(api: Api, entity: str) -> socket.socket:
    """The connection of a client that waits for a transition."""
    place, body = urlsplit(api.url), encode(SAMPLE).decode()
    assert place.hostname
    assert place.port
    connection = socket.create_connection((place.hostname, place.port))
    head = f"PUT {place.path}/entity/JSON/{entity}/GO HTTP/1.1\r\nHost: {place.netloc}\r\n"
    connection.sendall(f"{head}Authorization: Bearer {api.token}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection
