"""Answers that differ from those of other servers on purpose
(docs/reference/errors.md#differences-from-other-servers): a test for each row of the table.
"""

from pathlib import Path

from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.service import Api, RunningService, done, refused

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
TOO_LARGE = b'{"text": "%b"}' % (b"x" * 10 * 1024 * 1024)


def test_each_row_of_the_table_has_a_test() -> None:
    table = PAGE.read_text("utf-8").partition("## Differences from other servers")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    tests = [name for name in globals() if name.startswith("test_") and name != "test_each_row_of_the_table_has_a_test"]
    assert len(rows) == len(tests)


def test_a_body_over_the_limit_is_413(api: Api) -> None:
    refused(api.post("/search/direct/prize/1", TOO_LARGE), 413, "BAD_REQUEST")


def test_an_unknown_path_is_a_problem_document(api: Api) -> None:
    assert refused(api.get("/entity/a/b/c/d"), 404, "NOT_FOUND")["detail"].startswith("NOT_FOUND: ")


def test_a_method_that_the_path_lacks_is_a_problem_document(api: Api) -> None:
    answer = api.put("/search/direct/prize/1")
    refused(answer, 405, "BAD_REQUEST")
    assert "POST" in answer.headers["allow"].split(", ")


def test_the_type_is_a_link(service: RunningService, api: Api) -> None:
    problem = refused(api.get("/entity/prize/1"), 404, "MODEL_NOT_FOUND")
    assert problem["type"] == "/api/help/errors.MODEL_NOT_FOUND"
    assert done(Api(service.root).get(problem["type"]))["topic"] == "errors.MODEL_NOT_FOUND"


def test_the_instance_has_the_context_path(api: Api) -> None:
    assert refused(api.get("/entity/prize/1"), 404, "MODEL_NOT_FOUND")["instance"] == "/api/entity/prize/1"


def test_a_refused_client_is_challenged(service: RunningService) -> None:
    assert service.anonymous().get("/account").headers["www-authenticate"] == 'Bearer realm="statewright"'
    asked = service.anonymous().post("/oauth/token", b"grant_type=client_credentials")
    assert (asked.status_code, asked.headers["www-authenticate"].partition(" ")[0]) == (401, "Basic")


def test_an_invalid_client_is_told_the_reason(service: RunningService) -> None:
    answer = service.anonymous().post("/oauth/token", b"grant_type=client_credentials").json()
    assert answer["error"] == "invalid_client"
    assert answer["error_description"].startswith("there are no credentials")


def test_messages_name_model_item_and_tags(api: Api) -> None:
    missing = refused(api.put("/model/prize/7/lock"), 404, "MODEL_NOT_FOUND")
    assert (missing["properties"]["entityName"], missing["properties"]["entityVersion"]) == ("prize", 7)
    work = a_processor("price", tags="gpu")
    api.a_model(a_workflow(New=[manual("GO", to="Gone", processors=[work])], Gone=[]))
    item = refused(
        api.post("/entity/JSON", [{"model": {"name": "prize", "version": 1}, "payload": '{"year": []}'}]),
        400,
        "BAD_REQUEST",
    )
    assert "item 0: " in item["detail"]
    lonely = refused(api.put(f"/entity/JSON/{api.create().id}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert '"gpu"' in lonely["detail"]
