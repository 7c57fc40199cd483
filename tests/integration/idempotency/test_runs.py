"""Requests with keys whose runs call members, commit in segments, join others, or are cut off
(docs/reference/operations.md#idempotent-requests).
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from datetime import timedelta

import httpx
import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.database import Template, connected
from tests.integration.node import Node, a_node
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done, eventually, hosted, refused


def with_processor(mode: str) -> Json:
    """A lifecycle whose entities call a member as they are created."""
    processors = [a_processor(mode=mode, responseTimeoutMs=60_000)]
    return a_workflow(NEW=[automated("GO", to="DONE", processors=processors)], DONE=[])


@pytest.fixture(scope="module")
def services(database_template: Template) -> Iterator[list[RunningService]]:
    """Two services on one database, which wait only briefly for twins."""
    brief = {"idempotency_wait": timedelta(seconds=0.5)}
    with ExitStack() as stack:
        one = stack.enter_context(hosted(database_template.clone(), **brief))
        yield [one, stack.enter_context(hosted(nullcontext(one.database), **brief))]


@pytest.fixture
def here(services: list[RunningService], tenant: str) -> Api:
    return services[0].api(tenant)


@pytest.fixture
def there(services: list[RunningService], tenant: str) -> Api:
    return services[1].api(tenant)


@pytest.fixture
def node(services: list[RunningService], tenant: str) -> Iterator[Node]:
    with a_node(services[0], tenant, "node") as node:
        yield node


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def create(api: Api, key: str, document: Json = SAMPLE) -> httpx.Response:
    return api.post("/entity/JSON/prize/1", document, Idempotency_Key=key)


def replayed(response: httpx.Response) -> bool:
    return response.headers.get("idempotency-replayed") == "true"


def change_record(service: RunningService, text: str, tenant: str) -> None:
    """Do something to the records of a tenant behind the back of the service."""

    async def execute() -> None:
        async with connected(service.database) as connection:
            await connection.execute(text, tenant)

    asyncio.run(execute())


GONE = "UPDATE idempotency SET node = 'gone', token = gen_random_uuid() WHERE tenant = $1"
"""What a node leaves behind that was killed."""


def test_a_twin_waits_for_the_first_here_and_is_told_to_come_again_elsewhere(
    here: Api, there: Api, node: Node, crowd: ThreadPoolExecutor
) -> None:
    here.a_model(with_processor("SYNC"))
    first = crowd.submit(create, here, "k")
    request = node.next()
    for api in (here, there):
        busy = create(api, "k")
        refused(busy, 409, "IDEMPOTENCY_IN_PROGRESS")
        assert (busy.headers["retry-after"], busy.json()["properties"]["retryable"]) == ("1", True)
        refused(create(api, "k", {"year": 1}), 409, "IDEMPOTENCY_CONFLICT")
    twins = [crowd.submit(create, api, "k") for api in (here, there)]
    node.answer(request)
    answers = [first.result().content, *(done_or_later(twin.result(), there).content for twin in twins)]
    assert len({*answers}) == 1
    assert node.is_idle
    assert len(done(here.get("/entity/prize/1"))) == 1


def done_or_later(response: httpx.Response, api: Api) -> httpx.Response:
    """The answer of a request that is repeated until it has one."""
    while response.status_code == 409:
        response = create(api, "k")
    done(response)
    assert replayed(response)
    return response


def test_a_failed_run_without_segments_leaves_the_key_free(here: Api, there: Api, node: Node, crowd) -> None:
    here.a_model(with_processor("SYNC"))
    failing = crowd.submit(create, here, "k")
    node.fail_next("no luck")
    refused(failing.result(), 400, "WORKFLOW_FAILED")
    again = crowd.submit(create, there, "k", {"year": 7})
    node.answer_next()
    assert not replayed(again.result())
    assert done(again.result())


def test_a_failure_behind_a_segment_is_repeated_and_nobody_is_called(here: Api, there: Api, node: Node, crowd) -> None:
    here.a_model(with_processor("COMMIT_BEFORE_DISPATCH"))
    failing = crowd.submit(create, here, "k")
    node.fail_next("no luck")
    problem = refused(failing.result(), 400, "WORKFLOW_FAILED")
    for api in (here, there):
        again = create(api, "k")
        assert replayed(again)
        assert (again.status_code, again.json()) == (400, problem)
    assert node.is_idle
    [entity] = [each["meta"]["id"] for each in done(here.get("/entity/prize/1"))]
    events = here.events(entity, problem["properties"]["transactionId"])
    assert events[-1]["data"]["success"] is False


def test_a_run_that_was_cut_off_behind_a_segment_is_never_run_again(
    here: Api, there: Api, node: Node, crowd, services, tenant
) -> None:
    here.a_model(with_processor("COMMIT_BEFORE_DISPATCH"))
    cut_off = crowd.submit(create, here, "k")
    request = node.next()
    change_record(services[0], GONE, tenant)
    for api in (there, there):
        problem = refused(create(api, "k"), 409, "IDEMPOTENCY_INTERRUPTED")
    [entity] = [each["meta"]["id"] for each in done(here.get("/entity/prize/1"))]
    assert problem["properties"]["entityIds"] == [entity]
    ops = ops_api(services[1], tenant)
    found = done(ops.get("/idempotency/k"))
    assert (found["status"], found["entityIds"]) == ("INTERRUPTED", [entity])
    assert found["transactionId"] == problem["properties"]["transactionId"]
    node.answer(request)  # the first node was taken for dead, and wakes up
    refused(cut_off.result(), 409, "CONFLICT")
    assert here.state(entity) == "NEW"


def test_what_a_lost_node_had_only_claimed_is_taken_over(here: Api, there: Api, node: Node, crowd, services, tenant):
    here.a_model(with_processor("SYNC"))
    lost = crowd.submit(create, here, "k")
    request = node.next()
    change_record(services[0], GONE, tenant)
    again = crowd.submit(create, there, "k")
    other = node.next()
    node.answer(request)
    refused(lost.result(), 409, "CONFLICT")
    node.answer(other)
    assert done(again.result())
    assert len(done(here.get("/entity/prize/1"))) == 1


def test_a_collection_goes_on_behind_its_durable_chunks(here: Api, there: Api, node: Node, crowd, services, tenant):
    here.a_model(with_processor("SYNC"))
    items = [{"year": year} for year in range(6)]

    def create_all(api: Api) -> httpx.Response:
        return api.post("/entity/JSON/prize/1?transactionWindow=2", items, Idempotency_Key="k")

    cut_off = crowd.submit(create_all, here)
    for _ in range(2):
        node.answer_next()
    late = node.next()
    change_record(services[0], GONE, tenant)
    again = crowd.submit(create_all, there)
    seen = [node.next()]
    node.answer(late)
    node.answer(seen[0])
    while not again.done() or not node.is_idle:
        if not node.is_idle:
            request = node.next()
            seen.append(request)
            node.answer(request)
    refused(cut_off.result(), 409, "CONFLICT")
    assert [len(element["entityIds"]) for element in done(again.result())] == [2, 2, 2]
    years = sorted(each["data"]["year"] for each in done(here.get("/entity/prize/1")))
    assert years == list(range(6))
    assert create_all(here).content == again.result().content


def test_a_callback_records_its_key_with_the_transaction_it_joins(here: Api, node: Node, crowd, services, tenant):
    here.a_model(with_processor("SYNC"))
    here.a_model(model="note/1", sample={"n": 0})

    def note(token: str, key: str) -> httpx.Response:
        joined = services[0].api(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
        return joined.post("/entity/JSON/note/1", {"n": 1}, Idempotency_Key=key, X_Tx_Token=token)

    failing = crowd.submit(here.post, "/entity/JSON/prize/1", SAMPLE)
    request = node.next()
    done(note(request.attributes["cyodatxtoken"], "note"))
    node.answer(request, success=False, error={"code": "E", "message": "no luck"})
    refused(failing.result(), 400, "WORKFLOW_FAILED")
    assert done(here.get("/entity/note/1")) == []
    going = crowd.submit(here.post, "/entity/JSON/prize/1", SAMPLE)
    request = node.next()
    answers = [note(request.attributes["cyodatxtoken"], "note") for _ in range(2)]
    assert [replayed(answer) for answer in answers] == [False, True]
    assert answers[0].content == answers[1].content
    node.answer(request)
    done(going.result())
    assert len(done(here.get("/entity/note/1"))) == 1


def test_records_are_shown_and_swept(here: Api, services: list[RunningService], tenant: str) -> None:
    here.a_model(a_workflow(HERE=[manual("GO", to="HERE")]))
    saved = done(create(here, "a/b"))[0]
    ops, operator = ops_api(services[0], tenant), ops_api(services[0], tenant, "ROLE_OPERATOR", user="olga")
    found = done(ops.get("/idempotency/a%2Fb"))
    assert (found["status"], found["answerStatus"]) == ("DONE", 200)
    assert (found["transactionId"], found["entityIds"]) == (saved["transactionId"], saved["entityIds"])
    refused(ops.get("/idempotency/a%2Fb?principal=bob"), 403, "FORBIDDEN")
    refused(ops.get("/idempotency/other"), 404, "IDEMPOTENCY_KEY_NOT_FOUND")
    assert done(operator.get("/idempotency/a%2Fb?principal=alice")) == found
    refused(operator.get("/idempotency/a%2Fb"), 404, "IDEMPOTENCY_KEY_NOT_FOUND")
    change_record(services[0], "UPDATE idempotency SET expires_at = 0 WHERE tenant = $1", tenant)
    assert not replayed(create(here, "a/b"))
    assert len(done(here.get("/entity/prize/1"))) == 2
    change_record(services[0], "UPDATE idempotency SET expires_at = 0 WHERE tenant = $1", tenant)
    sweep(services[0])
    refused(ops.get("/idempotency/a%2Fb"), 404, "IDEMPOTENCY_KEY_NOT_FOUND")


def sweep(service: RunningService) -> None:
    sweeper = service.parts.runtime.operations.idempotency_sweeper
    asyncio.run_coroutine_threadsafe(sweeper.run_once(), service.loop).result(30)
    eventually(lambda: sweeper.removal.removed > 0)
