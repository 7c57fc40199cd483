"""What is served without credentials, and the admin listener
(docs/reference/authentication.md#routes-without-credentials, docs/reference/service.md#health,
docs/reference/service.md#openapi).
"""

import asyncio
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlsplit

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from statewright.settings import Secret
from tests.database import Template
from tests.service import Api, RunningService, done, hosted


def test_health_is_public(service: RunningService) -> None:
    response = service.anonymous().get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "UP"})
    assert response.headers["content-type"] == "application/json"


def test_the_documents_are_at_the_root(service: RunningService) -> None:
    root = Api(service.root)
    assert root.get("/openapi.json").headers["content-type"] == "application/json"
    assert root.get("/docs").headers["content-type"] == "text/html; charset=utf-8"
    assert service.anonymous().get("/openapi.json").status_code == 401


class Page(HTMLParser):
    """What is on a page: its elements and ids, where it leads, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.ids, self.links, self.words = set[str](), set[str](), set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.elements.add(tag)
        self.ids.add(named.get("id") or "")
        self.links.add(named.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_of_the_api_is_complete_without_the_world_outside(service: RunningService) -> None:
    root = Api(service.root)
    page, document = Page(root.get("/docs").text), root.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"] in page.words
            assert (path if "servers" in operation else f"{service.context_path}{path}") in page.words
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= page.ids
    assert {link.removeprefix("#") for link in page.links if link.startswith("#")} <= page.ids
    assert page.elements.isdisjoint({"img", "iframe"})
    assert "C&lt;" in root.get("/docs").text  # a hit policy, not an element


def test_the_process_is_alive_and_ready(service: RunningService) -> None:
    admin = Api(service.admin)
    for method in ("GET", "HEAD", "POST"):
        assert admin.request(method, "/livez").status_code == 200
        assert admin.request(method, "/readyz").status_code == 200
    assert admin.get("/livez").text == "ok"
    assert admin.get("/readyz").text == "ready"
    assert admin.get("/no/such/path").status_code == 404


def test_a_service_that_lost_its_database_is_alive_and_not_ready_until_it_is_back(
    database_template: Template,
) -> None:
    with hosted(database_template.clone()) as service:
        admin = Api(service.admin)
        assert admin.get("/readyz").text == "ready"
        asyncio.run(shut(service.database, allow="false"))
        response = admin.get("/readyz")
        assert (response.status_code, response.text) == (503, "not ready\n")
        assert admin.get("/livez").text == "ok"
        problem = service.api("acme").get("/model/")
        assert (problem.status_code, problem.json()["properties"]) == (
            503,
            {"errorCode": "STORAGE_UNAVAILABLE", "retryable": True},
        )
        assert "statewright" not in problem.text.replace("/model/", "")
        asyncio.run(shut(service.database, allow="true"))
        assert admin.get("/readyz").text == "ready"
        assert done(service.api("acme").get("/model/")) == []


async def shut(url: str, *, allow: str) -> None:
    """Close a database to everybody and throw out who is in, or open it again."""
    parts = urlsplit(url)
    name = parts.path.removeprefix("/")
    admin = await asyncpg.connect(parts._replace(path="/postgres").geturl())
    try:
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allow}')
        await admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", name)
    finally:
        await admin.close()


def test_metrics_are_prometheus_text_and_count_requests(service: RunningService, api: Api) -> None:
    api.a_model()
    api.create()
    response = Api(service.admin).get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert families, "no metrics at all"
    assert any(sample.value > 0 for family in families.values() for sample in family.samples if "http" in sample.name)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("", 401), ("Bearer wrong", 401), ("bearer letmein", 401), ("Bearer  letmein", 401), ("Bearer letmein", 200)],
)
def test_metrics_can_demand_a_bearer(guarded: RunningService, authorization: str, status: int) -> None:
    response = Api(guarded.admin).get("/metrics", Authorization=authorization)
    assert response.status_code == status
    if status == 401:
        assert response.text == "unauthorized"
        assert response.headers["www-authenticate"] == 'Bearer realm="cyoda metrics"'
    assert Api(guarded.admin).get("/readyz").status_code == 200


@pytest.fixture(scope="module")
def guarded(database_template: Template) -> Iterator[RunningService]:
    """A service whose metrics have a bearer."""
    with hosted(database_template.clone(), metrics_bearer=Secret("letmein")) as running:
        yield running
