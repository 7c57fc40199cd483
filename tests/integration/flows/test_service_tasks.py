"""Requests, resources and entities that the service itself does for flows (docs/reference/flows.md#requests)."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from urllib.parse import parse_qs, urlsplit

import pytest

from statewright.entity import system_principal
from statewright.ids import TenantId
from statewright.net import uuid_to_ulid
from statewright.services.core import Caller
from statewright.services.flows.service_tasks import write_entity
from statewright.services.processes.background import sweep_leases
from tests.builders import Json
from tests.database import Template
from tests.integration.flows.conftest import Flows, done
from tests.service import Api, RunningService, a_token, eventually, hosted


@dataclass
class Asked:
    """A request as the server got it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server; paths have answers of their own: status, content type, body."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Callable[[], tuple[int, str, bytes]]] = field(default_factory=dict)

    def answer(self, path: str, value: Json, status: int = 200, media: str = "application/json") -> str:
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.answers[path] = lambda: (status, media, body)
        return f"{self.url}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    """A server that listens on the loopback interface."""
    found = Site()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append(Asked(self.command, parts.path, parse_qs(parts.query), headers, self.rfile.read(length)))
            status, media, body = found.answers.get(parts.path, lambda: (404, "text/plain", b"no"))()
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def calling(database_template: Template) -> Iterator[RunningService]:
    """A service that sends requests of flows, to this machine, too."""
    networks = (ip_network("127.0.0.0/8"),)
    with hosted(database_template.clone(), flows_requests=True, egress_networks=networks) as running:
        yield running


@pytest.fixture
def callers(calling: RunningService, tenant: str) -> Flows:
    return Flows(Api(calling.root, a_token(tenant)))


def end(flows: Flows, instance: Json, status: str = "COMPLETED") -> Json:
    """The instance at its end, which has this status."""
    eventually(lambda: flows.read(instance)["status"] not in ("RUNNING", "TERMINATING"))
    ended = flows.read(instance)
    assert ended["status"] == status, ended.get("failureReason")
    return ended


def test_a_request_adds_status_and_response_to_the_input(callers: Flows, site: Site):
    url = site.answer("/orders/7", {"total": 12})
    instance = callers.run(
        f"request:get (- url: '{site.url}/orders/{{input[id]}}?q={{input[q]}}' -)", {"id": 7, "q": "a b&c"}
    )
    result = end(callers, instance)["result"]
    assert result == {"id": 7, "q": "a b&c", "request_status": 200, "response": {"total": 12}}
    [asked] = site.asked
    assert (asked.method, asked.query, asked.body) == ("GET", {"q": ["a b&c"]}, b"")
    assert url.endswith(asked.path)


def test_a_post_sends_the_input_or_a_template(callers: Flows, site: Site):
    site.answer("/in", "thanks", media="text/plain")
    template = {"url": f"{site.url}/in", "template": '{"name": "{input[name]}"}', "output_mode": "response_text"}
    source = f"request:post (- url: {site.url}/in -) → request:put ({json.dumps(template)})"
    result = end(callers, callers.run(source, {"name": 'A "quoted" one'}))["result"]
    assert result == {"name": 'A "quoted" one', "request_status": 200, "response": "thanks"}
    first, second = site.asked
    assert (first.method, json.loads(first.body)) == ("POST", {"name": 'A "quoted" one'})
    assert (second.method, json.loads(second.body)) == ("PUT", {"name": 'A "quoted" one'})
    assert first.headers["content-type"] == "application/json"


def test_the_input_overrides_parameters_and_categories_choose_the_base(callers: Flows, site: Site):
    site.answer("/v2/gone", {"e": 1}, status=410)
    flow = callers.upload(
        "request:delete (- {url: gone, category: pay, error_on_status: true, output_mode: [status]} -)",
        baseUris={"pay:test": f"{site.url}/v2/"},
    )
    value = {"environ": "test", "error_on_status": False, "category": "ignored"}
    result = end(callers, callers.start(flow, value))["result"]
    assert result == {**value, "request_status": 410}
    assert (site.asked[0].method, site.asked[0].path) == ("DELETE", "/v2/gone")
    failed = end(callers, callers.start(flow, {"environ": "live"}), "FAILED")
    assert "no baseUris for pay:live" in failed["failureReason"]


def test_a_request_that_waits_is_completed_by_another_program(callers: Flows, site: Site):
    site.answer("/begin", {}, status=202)
    instance = callers.run(f"request:post (- {{url: '{site.url}/begin?x=1', sync: false}} -) → B", {"v": 1})
    eventually(lambda: len(site.asked) == 1)
    query = {name: values[0] for name, values in site.asked[0].query.items()}
    assert (query["x"], query["littleflow-workflow"], query["littleflow-index"]) == ("1", instance["id"], "1")
    assert (query["littleflow-name"], query["littleflow-base"]) == ("request:post", "request:post")
    assert callers.read(instance)["activeNodes"] == [1]
    callers.complete({"id": query["littleflow-job"]}, {"late": True})
    assert callers.job("B")["variables"]["input"] == {"late": True}
    assert len(site.asked) == 1


def test_what_may_pass_is_tried_again_and_what_may_not_fails(callers: Flows, site: Site):
    answers = iter([(503, "text/plain", b""), (200, "application/json", b'{"ok":1}')])
    site.answers["/flaky"] = lambda: next(answers)
    instance = callers.run(f"request:get (- url: {site.url}/flaky -)", retries=1)
    assert end(callers, instance)["result"]["response"] == {"ok": 1}
    site.answer("/missing", "no", status=404)
    failed = end(callers, callers.run(f"request:get (- url: {site.url}/missing -)", retries=3), "FAILED")
    assert failed["failureReason"] == "REQUEST: the server answered 404"
    assert [asked.path for asked in site.asked] == ["/flaky", "/flaky", "/missing"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("request:get", "PARAMETERS: url"),
        ("request:get (- url: /relative -)", "url_malformed"),
        ("request:get (- url: 'http://169.254.169.254/latest' -)", "address_refused"),
        ("request:get (- url: 'ftp://example.com/x' -)", "scheme_refused"),
        ("request:get (- url: 'http://x/{input[none]}' -)", "TEMPLATE"),
        ("request:get (- {url: 'http://x', output_mode: all} -)", "PARAMETERS: output_mode"),
        ("request:get (- {url: 'http://x', sync: 1} -)", "PARAMETERS: sync"),
        ("<data.json> → A", "RESOURCE: the reference is relative"),
        ("<s3://bucket/x> → A", "scheme_refused"),
        ("A → <http://10.0.0.1/x>", "address_refused"),
        ("A → <http://x/>(- method: GET -)", "PARAMETERS: method"),
        ("<entity:nowhere> → A", "RESOURCE: nowhere is no id"),
        ("<entity:prize/1> → A", "RESOURCE: to read"),
        ("<entity:00000000-0000-0000-0000-000000000000> → A", "ENTITY_NOT_FOUND"),
        ("A → <entity:unknown/1>", "MODEL_NOT_FOUND"),
        (f"A → <entity:unknown/{'9' * 5_000}>", "RESOURCE: a reference to entities"),
        ("<http://[::1> → A", "RESOURCE: Invalid IPv6 URL"),
        ("request:get (- {url: 'http://[::1', sync: false} -)", "PARAMETERS: url: Invalid IPv6 URL"),
    ],
)
def test_what_cannot_be_done_fails_its_node_with_the_reason(callers: Flows, source: str, reason: str):
    instance = callers.run(source)
    for job in callers.poll("A"):
        callers.complete(job, {"a": 1})
    assert reason in end(callers, instance, "FAILED")["failureReason"]


def test_a_relative_reference_that_is_none_fails_its_node_with_the_reason(callers: Flows):
    instance = callers.run("<//[x> → A", baseUri="http://example.com/")
    assert end(callers, instance, "FAILED")["failureReason"].endswith("RESOURCE: Invalid IPv6 URL")


def test_resources_are_read_by_their_content_type_and_written_as_json(callers: Flows, site: Site):
    site.answer("/lines", '{"n": 1}\n{"n": 2}\n', media="application/x-ndjson; charset=utf-8")
    site.answer("/docs", "a: 1\n---\n- 2\n", media="text/yaml")
    site.answer("/seq", '\x1e{"s": 1}\n\x1e[2]\n', media="application/json-seq")
    site.answer("/data.json", "5", media="")
    site.answer("/store", {"ok": True}, status=201)
    read = " ".join(f"<{name}> → A → :x ;" for name in ("lines", "docs", "seq"))
    source = f"{read} <data.json>(- content-type: application/json -) → A → :x ; :x → A → <store>(- method: PUT -)"
    instance = callers.run(source, baseUri=f"{site.url}/")
    for count in (4, 1):
        jobs = list[Json]()
        while len(jobs) < count:
            jobs += callers.poll("A", waitSeconds=5)
        for job in jobs:
            callers.complete(job, job["variables"]["input"])
    result = end(callers, instance)["result"]
    assert result == {"ok": True}
    [written] = [asked for asked in site.asked if asked.method == "PUT"]
    assert json.loads(written.body) == [[{"n": 1}, {"n": 2}], [{"a": 1}, [2]], [{"s": 1}, [2]], [5]]


def test_entities_are_read_made_and_updated_without_a_network(flows: Flows, api: Api):
    api.a_model(model="order/1", sample={"total": 1, "note": "x"})
    entity = str(api.create({"total": 7, "note": "first"}, model="order/1").id)
    source = f"<entity:order/1/{entity}> → A → <entity:order/1>"
    instance = flows.run(source)
    eventually(lambda: flows.read(instance)["activeNodes"] == [2])
    job = flows.job("A")
    assert job["variables"]["input"] == {"total": 7, "note": "first"}
    flows.complete(job, {"total": 8, "note": "second"})
    made = end(flows, instance)["result"]["id"]
    assert api.read(made)["data"] == {"total": 8, "note": "second"}
    assert flows.poll("entity:read", "entity:write") == []
    updated = flows.run(f"A → <entity:{made}>")
    flows.complete(flows.job("A"), {"total": 9, "note": "third"})
    assert end(flows, updated)["result"] == {"id": made}
    assert api.read(made)["data"]["note"] == "third"


def test_a_request_whose_lease_has_ended_is_sent_again_and_counts_once(
    callers: Flows, calling: RunningService, site: Site
):
    let_go, asked = threading.Event(), iter([1, 2])
    outcomes = calling.parts.runtime.processes.egress.outcomes
    before = outcomes["response"]

    def answer() -> tuple[int, str, bytes]:
        number = next(asked)
        if number == 1:
            let_go.wait(30)
        return 200, "application/json", b'{"n":%d}' % number

    site.answers["/slow"] = answer
    instance = callers.run(f"request:get (- url: {site.url}/slow -)")
    eventually(lambda: len(site.asked) == 1)
    assert callers.poll("request:get") == []
    runtime = calling.parts.runtime

    async def end_lease() -> int:
        async with runtime.core.pool.connection() as connection:
            await connection.execute("UPDATE process_job SET lock_expires_at = 1 WHERE job_type = 'request:get'")
        return await sweep_leases(runtime.processes)

    assert asyncio.run_coroutine_threadsafe(end_lease(), calling.loop).result() == 1
    assert end(callers, instance)["result"]["response"] == {"n": 2}
    let_go.set()
    eventually(lambda: outcomes["response"] == before + 2)
    assert callers.read(instance)["result"]["response"] == {"n": 2}


def test_an_entity_is_made_once_however_often_its_job_is_done(
    flows: Flows, service: RunningService, api: Api, tenant: str
):
    api.a_model(model="order/1", sample={"total": 1})
    instance = flows.run("A → <entity:order/1>")
    flows.complete(flows.job("A"), {"total": 8})
    made = end(flows, instance)["result"]["id"]
    payload: Json = {"uri": "entity:order/1", "input": {"total": 8}, "parameters": {}}
    caller = Caller(system_principal(TenantId(tenant)))
    again = write_entity(service.parts.runtime.core, caller, payload, uuid_to_ulid(made))
    assert asyncio.run_coroutine_threadsafe(again, service.loop).result() == {"id": made}
    assert len(done(api.get(f"/entity/{made}/changes"))) == 1
    assert len(done(api.get("/entity/order/1?pageSize=9"))) == 1


def test_without_the_setting_requests_and_resources_are_jobs_for_workers(flows: Flows):
    flows.run("request:get (- url: 'http://example.com' -)")
    job = flows.job("request:get")
    assert job["variables"]["parameters"] == {"url": "http://example.com"}
    based = flows.run("<data.json> → A", baseUri="http://example.com/in/")
    assert flows.job("resource:read")["variables"]["uri"] == "http://example.com/in/data.json"
    assert done(flows.api.get(f"/v1/flows/definitions/{based['definitionId']}"))["tasks"] == ["resource:read", "A"]


@pytest.mark.parametrize(
    "settings", [{"baseUri": "data/"}, {"baseUri": "ftp://x/"}, {"baseUris": {"a": "x"}}, {"baseUris": {"a": 1}}]
)
def test_a_base_that_is_no_url_is_refused(flows: Flows, settings: Json):
    refused = flows.api.post("/v1/flows/definitions", {"id": "x", "source": "A", "settings": settings})
    assert refused.status_code == 400, refused.text
