"""The help endpoints (docs/reference/service.md#help)."""

import json
from typing import Any

import pytest

from statewright.settings import SETTINGS
from tests.service import Api, RunningService, done, refused

MEMBERS = {"topic", "path", "title", "synopsis", "body", "sections", "see_also", "stability", "actions"}


@pytest.fixture
def reader(service: RunningService) -> Api:
    """Somebody without credentials."""
    return service.anonymous()


def tree(reader: Api) -> list[Any]:
    return list(done(reader.get("/help"))["topics"])


def test_the_tree_has_parents_before_children_and_siblings_in_order(reader: Api) -> None:
    answer = done(reader.get("/help"))
    assert (answer["schema"], answer.keys()) == (1, {"schema", "version", "topics"})
    paths = [topic["path"] for topic in answer["topics"]]
    assert paths == sorted(paths)
    assert all(path[:-1] in paths for path in paths if len(path) > 1)


def test_a_descriptor_has_exactly_the_specified_members(reader: Api) -> None:
    ids = {topic["topic"] for topic in tree(reader)}
    for topic in tree(reader):
        assert topic.keys() - {"children"} == MEMBERS
        assert topic["topic"] == ".".join(topic["path"])
        assert topic["synopsis"]
        assert "\n\n" not in topic["synopsis"]
        assert set(topic["see_also"]) <= ids
        children = sorted(id_ for id_ in ids if id_.rpartition(".")[0] == topic["topic"])
        assert topic.get("children", []) == children
        assert "children" not in topic or children
        assert topic["stability"] in {"stable", "experimental"}


@pytest.mark.parametrize("name", ["errors.FORBIDDEN", "errors/FORBIDDEN", "workflows/schema-version", "crud"])
def test_a_topic_is_found_by_either_separator(reader: Api, name: str) -> None:
    topic = done(reader.get(f"/help/{name}"))
    assert topic in tree(reader)
    assert topic["topic"] == name.replace("/", ".")


def test_every_error_code_that_is_documented_for_an_operation_has_a_topic(reader: Api) -> None:
    document = done(reader.get("/help/openapi/json"))
    answers = [
        answer
        for path in document["paths"].values()
        for operation in path.values()
        for answer in operation["responses"].values()
        if "application/problem+json" in answer.get("content", {}) and answer["description"].isupper()
    ]
    codes = {code for answer in answers for code in answer["description"].split(", ")}
    assert len(codes) > 30
    for code in codes:
        assert done(reader.get(f"/help/errors/{code}"))["title"] == code


def test_a_retryable_code_says_so(reader: Api) -> None:
    assert "may succeed" in done(reader.get("/help/errors/CONFLICT"))["body"]
    assert "does not help" in done(reader.get("/help/errors/BAD_REQUEST"))["body"]
    assert "400" in done(reader.get("/help/errors/BAD_REQUEST"))["body"]


def test_all_settings_are_listed_with_their_defaults_and_without_values(reader: Api) -> None:
    response = reader.get("/help/config/all")
    assert response.headers["content-length"] == str(len(response.content))
    answer = done(response)
    assert answer["schema"] == 1
    rows = answer["vars"]
    assert {row["name"] for row in rows} == {f"STATEWRIGHT_{name.upper()}" for name in SETTINGS}
    assert [(row["topic"], row["name"]) for row in rows] == sorted((row["topic"], row["name"]) for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["STATEWRIGHT_STATS_GROUP_MAX"]["default"] == "10000"
    assert by_name["STATEWRIGHT_IAM_MODE"]["default"] == "mock"  # this service runs in another mode
    assert "default" not in by_name["STATEWRIGHT_JWT_SIGNING_KEY"]
    assert "PRIVATE KEY-----\\n" not in response.text
    for row in rows:
        done(reader.get(f"/help/{row['topic']}"))


@pytest.mark.parametrize(
    ("action", "media_type"),
    [
        ("openapi/json", "application/json"),
        ("openapi.yaml", "application/yaml"),
        ("openapi/tags", "text/plain; charset=utf-8"),
        ("workflows/schema-version/versions", "application/json"),
    ],
)
def test_an_action_gives_its_raw_output(reader: Api, action: str, media_type: str) -> None:
    response = reader.get(f"/help/{action}")
    assert response.status_code == 200
    assert response.headers["content-type"] == media_type
    assert response.headers["content-length"] == str(len(response.content))


def test_actions_are_listed_by_their_topic(reader: Api) -> None:
    assert done(reader.get("/help/openapi"))["actions"] == ["json", "yaml", "tags"]
    tags = reader.get("/help/openapi/tags").text.split()
    assert tags == sorted(tags)
    for tag in tags:
        done(reader.get(f"/help/{tag}"))
    assert json.loads(reader.get("/help/openapi/yaml").text)["openapi"] == "3.1.0"


@pytest.mark.parametrize("name", ["nonsense", "errors/NONSENSE", "errors/FORBIDDEN/json", "json", "Errors"])
def test_an_unknown_topic_is_not_found(service: RunningService, reader: Api, name: str) -> None:
    problem = refused(reader.get(f"/help/{name}"), 404, "HELP_TOPIC_NOT_FOUND")
    assert problem["detail"] == f"HELP_TOPIC_NOT_FOUND: no such help topic: {name}"
    assert problem["instance"] == f"{service.context_path}/help/{name}"


@pytest.mark.parametrize(
    "name", ["", "errors//FORBIDDEN", "errors..FORBIDDEN", ".errors", "errors/", "a b", "%2e", "-x"]
)
def test_what_can_be_no_topic_is_refused(reader: Api, name: str) -> None:
    refused(reader.get(f"/help/{name}"), 400, "BAD_REQUEST")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_help_can_only_be_read(reader: Api, method: str) -> None:
    for path in ("/help", "/help/errors", "/help/nonsense"):
        response = reader.request(method, path)
        problem = refused(response, 405, "BAD_REQUEST")
        assert problem["title"] == "Method Not Allowed"
        assert response.headers["allow"] == "GET"


def test_a_path_that_only_begins_like_help_is_no_help(reader: Api) -> None:
    refused(reader.get("/helpless"), 401, "UNAUTHORIZED")


def test_a_page_has_the_forms_md_and_json(reader: Api) -> None:
    page = reader.get("/help/workflows.md")
    topic = done(reader.get("/help/workflows"))
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    assert page.text == topic["body"]
    assert done(reader.get("/help/workflows.json")) == topic
    assert done(reader.get("/help/errors.FORBIDDEN.json"))["title"] == "FORBIDDEN"
    refused(reader.get("/help/nonsense.md"), 404, "HELP_TOPIC_NOT_FOUND")


def test_the_synopsis_of_a_page_is_its_first_paragraph(reader: Api) -> None:
    topic = done(reader.get("/help/workflows"))
    assert topic["title"] == "Workflows"
    assert topic["synopsis"].startswith("A workflow is a finite state machine")
    assert {"models", "predicates", "grpc"} <= set(topic["see_also"])


def test_the_schema_of_workflows_is_served_for_editors(reader: Api) -> None:
    response = reader.get("/help/workflows/schema")
    assert response.headers["content-type"] == "application/schema+json"
    assert "Transition" in response.json()["$defs"]
