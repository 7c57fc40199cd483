"""Definitions over REST (docs/reference/steps.md#definitions,
docs/reference/steps.md#uploading-and-reading-definitions).
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.steps_http.conftest import an_error, definition, done, step, uploaded
from tests.service import Api

GREET = definition("HR::greet", step("hello", "SERVICE_TASK", "end", jobType="greet", retryCount=2))


def test_an_upload_is_answered_with_a_summary_of_four_members(v1: Api) -> None:
    summary = done(v1.post("/v1/definitions", GREET), 201)
    assert list(summary) == ["id", "version", "name", "uploadedAt"]
    assert (summary["id"], summary["version"], summary["name"]) == ("HR::greet", 1, "The HR::greet")
    assert summary["uploadedAt"].endswith("Z")


def test_the_same_content_is_the_same_version_and_other_content_the_next(v1: Api) -> None:
    first = done(v1.post("/v1/definitions", GREET), 201)
    respelled = json.dumps(dict(reversed(GREET.items())), indent=4)
    assert done(v1.post("/v1/definitions", respelled), 201) == first
    assert done(v1.post("/v1/definitions", GREET | {"description": "v2"}), 201)["version"] == 2
    assert done(v1.post("/v1/definitions", GREET), 201)["version"] == 1
    assert done(v1.get("/v1/definitions/HR::greet"))["version"] == 2


def test_two_first_uploads_at_once_both_succeed(v1: Api) -> None:
    bodies = [GREET | {"description": str(n)} for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda body: done(v1.post("/v1/definitions", body), 201), bodies))
    assert sorted(answer["version"] for answer in answers) == [1, 2, 3, 4]


def test_what_is_read_back_is_in_the_authors_order(v1: Api) -> None:
    route = step("route", "DECISION", conditionalNextSteps={"z > 1": "end", "a > 1": "calc", "true": "end"})
    calc = step("calc", "TRANSFORMATION", "end", transformations={"z": 1, "a": "${z + 1}"})
    uploaded(v1, definition("ordered", route, calc, metadata={"version": "1.0"}))
    read = done(v1.get("/v1/definitions/ordered"))
    assert list(read) == ["id", "version", "name", "steps", "metadata"]
    assert list(read["steps"][0]["conditionalNextSteps"]) == ["z > 1", "a > 1", "true"]
    assert list(read["steps"][1]["transformations"]) == ["z", "a"]
    assert done(v1.post("/v1/definitions", read), 201)["version"] == 1


def test_a_version_is_read_by_its_number_and_an_escaped_id_is_the_same(v1: Api) -> None:
    uploaded(v1, GREET, GREET | {"name": "Second"})
    assert done(v1.get("/v1/definitions/HR%3A%3Agreet/versions/1"))["name"] == "The HR::greet"
    assert done(v1.get("/v1/definitions/HR::greet/versions/2"))["name"] == "Second"
    assert an_error(v1.get("/v1/definitions/HR::greet/versions/3"), 404, "not-found") == "definition not found"
    assert an_error(v1.get("/v1/definitions/none"), 404, "not-found") == "definition not found"


def test_all_violations_are_told_together(v1: Api) -> None:
    wrong = {"id": "my flow", "name": "", "steps": [{"id": "score", "name": "Score", "type": "SERVICE_TASK"}]}
    reason = an_error(v1.post("/v1/definitions", wrong), 400, "bad-request")
    assert reason == "\n  ".join(
        [
            "validation error: validation errors:",
            'id "my flow" must match ^[A-Za-z0-9_:\\-]+$',
            "name is required",
            'step "score" (SERVICE_TASK): jobType is required',
            "no END step is reachable from the first step",
        ]
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "parse error: parse: EOF"),
        ('{"id": "x", "colour": 1}', 'parse error: parse: json: unknown field "colour"'),
        ('{"id": 7}', "parse error: parse: json: cannot unmarshal"),
        ("{", "parse error: parse: "),
    ],
)
def test_what_cannot_be_read_is_refused(v1: Api, body: str, reason: str) -> None:
    assert an_error(v1.post("/v1/definitions", body), 400, "bad-request").startswith(reason)


def test_warnings_are_told_to_those_who_ask(v1: Api) -> None:
    risky = definition("risky", step("route", "DECISION", conditionalNextSteps={"x > 1": "end"}))
    [warning] = done(v1.post("/v1/definitions?warnings=true", risky), 201)["warnings"]
    assert warning.startswith('step "route": no branch is certain to match')
    assert done(v1.get("/v1/definitions/risky/warnings")) == {"version": 1, "warnings": [warning]}
    an_error(v1.get("/v1/definitions/none/warnings"), 404, "not-found")


def test_definitions_are_drawn(v1: Api) -> None:
    uploaded(v1, GREET)
    for path in ("diagram", "versions/1/diagram"):
        drawn = v1.get(f"/v1/definitions/HR::greet/{path}")
        assert drawn.headers["content-type"] == "text/plain; charset=utf-8"
        assert drawn.text.startswith('flowchart TD\n    s0["hello"]\n')
    an_error(v1.get("/v1/definitions/none/diagram"), 404, "not-found")


def test_a_list_has_one_summary_per_id_in_order(v1: Api) -> None:
    uploaded(v1, definition("b"), definition("a"), definition("a", description="v2"))
    page = done(v1.get("/v1/definitions"))
    assert (page["page"], page["pageSize"], page["total"]) == (0, 20, 2)
    assert [(item["id"], item["version"], item["versions"]) for item in page["items"]] == [
        ("a", 2, [1, 2]),
        ("b", 1, [1]),
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("keyword=ALPHA", ["alpha"]),
        ("keyword=the%20beta", ["beta_1"]),
        ("keyword=_", ["beta_1"]),
        ("keyword=%25", []),
        ("page=1&pageSize=1", ["beta_1"]),
        ("page=-3&pageSize=1", ["alpha"]),
        ("page=x&pageSize=y", ["alpha", "beta_1"]),
        ("page=7", []),
    ],
)
def test_lists_are_searched_and_paged(v1: Api, query: str, found: list[str]) -> None:
    uploaded(v1, definition("alpha"), definition("beta_1"))
    assert [item["id"] for item in done(v1.get(f"/v1/definitions?{query}"))["items"]] == found


def test_an_empty_list_is_a_list(v1: Api) -> None:
    assert done(v1.get("/v1/definitions?pageSize=100000")) == {"items": [], "page": 0, "pageSize": 1000, "total": 0}
