"""Direct search end to end (docs/reference/search.md#order-of-checks, docs/reference/search.md#direct-search,
docs/reference/search.md#sorting).
"""

import json
import re
from uuid import uuid4

import pytest

from tests.builders import Json, a_workflow, manual
from tests.integration.search.finding import (
    EVERYTHING,
    NOTHING,
    PARCEL,
    PATH,
    a_parcel_model,
    all_of,
    any_of,
    array,
    asked,
    envelopes,
    found,
    lifecycle,
    parcels,
    simple,
)
from tests.service import Api, RunningService, done, refused


@pytest.fixture
def parcel_api(api: Api) -> Api:
    """A caller whose tenant has a model of parcels."""
    a_parcel_model(api)
    return api


def test_an_answer_is_one_envelope_per_line_with_exactly_the_members_of_the_contract(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {"name": "é\n", "weight": 12.50})
    response = asked(parcel_api, EVERYTHING)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    [line] = response.text.split("\n")[:-1]
    assert line == parcel_api.get(f"/entity/{saved.id}").text.rstrip("\n")
    envelope = json.loads(line)
    assert set(envelope) == {"type", "data", "meta"}
    assert set(envelope["meta"]) == {
        *("id", "modelKey", "state", "creationDate", "lastUpdateTime", "transactionId", "transitionForLatestSave")
    }


def test_clients_that_know_other_ends_of_lines_find_one_envelope_per_line(parcel_api: Api) -> None:
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g"
    parcels(parcel_api, {"name": text}, {"name": "ä"})
    response = asked(parcel_api, EVERYTHING)
    for lines in (response.iter_lines(), response.text.splitlines()):
        assert [json.loads(line)["data"]["name"] for line in lines] == [text, "ä"]


def test_no_match_is_an_empty_body(parcel_api: Api) -> None:
    parcels(parcel_api, {})
    response = asked(parcel_api, NOTHING)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "application/x-ndjson"


def test_the_accept_header_changes_nothing(parcel_api: Api) -> None:
    parcels(parcel_api, {})
    assert asked(parcel_api, EVERYTHING, headers={"Accept": "application/json"}).text.count("\n") == 1


def test_matches_are_in_order_of_their_ids(parcel_api: Api) -> None:
    ids = [saved.id for saved in parcels(parcel_api, *[{} for _ in range(5)])]
    assert [envelope["meta"]["id"] for envelope in envelopes(parcel_api, EVERYTHING)] == sorted(ids)


def test_ids_sort_in_both_directions(parcel_api: Api) -> None:
    ids = sorted(saved.id for saved in parcels(parcel_api, *[{} for _ in range(5)]))
    assert [envelope["meta"]["id"] for envelope in envelopes(parcel_api, EVERYTHING, sort="@id:desc")] == ids[::-1]


def test_a_committed_write_is_visible_to_the_next_search(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {"name": "new"})
    assert found(parcel_api, simple("$.name", "EQUALS", "new")) == ["new"]
    parcel_api.update(saved.id, {**PARCEL, "name": "newer"})
    assert found(parcel_api, simple("$.name", "EQUALS", "new")) == []
    done(parcel_api.delete(f"/entity/{saved.id}"))
    assert found(parcel_api, EVERYTHING) == []


def test_only_the_callers_tenant_and_the_named_version_are_searched(service: RunningService, parcel_api: Api) -> None:
    other = service.api(f"tenant-{uuid4().hex[:12]}")
    a_parcel_model(other)
    parcels(other, {"name": "theirs"})
    parcel_api.a_model(model="parcel/2", sample=PARCEL)
    parcel_api.create({**PARCEL, "name": "second version"}, model="parcel/2")
    parcels(parcel_api, {"name": "mine"})
    assert found(parcel_api, EVERYTHING) == ["mine"]
    [theirs] = [envelope["meta"]["id"] for envelope in envelopes(other, EVERYTHING)]
    assert found(parcel_api, lifecycle("id", "EQUALS", theirs)) == []


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (simple("$.weight", "EQUALS", 12.5), "a"),
        (simple("$.weight", "GREATER_THAN", "3"), "a b"),
        (simple("$.weight", "BETWEEN", [1, 12.5]), "b"),
        (simple("weight", "BETWEEN_INCLUSIVE", [1, 12.5]), "a b"),
        (simple("$.count", "EQUALS", 42.0), "b"),
        (simple("$.count", "NOT_EQUAL", 42.5), "a b"),
        (simple("$.name", "IEQUALS", "B"), "b"),
        (simple("$.name", "LIKE", "%"), "a b c"),
        (simple("$.name", "MATCHES_PATTERN", "[bc]"), "b c"),
        (simple("$.fragile", "EQUALS", False), "b"),
        (simple("$.sent", "GREATER_OR_EQUAL", "2031-05"), "a b"),
        (simple("$.sent", "LESS_THAN", "2031-05-07"), "a"),
        (simple("$.scanned", "LESS_OR_EQUAL", "2031-05-06T08:00:00+02:00"), "a"),
        (simple("$.note", "IS_NULL"), "a b c"),
        (simple("$.weight", "NOT_NULL"), "a b"),
        (simple("$.buyer", "NOT_NULL"), "a b"),
        (simple("$.buyer.city", "NOT_EQUAL", "Oslo"), "b"),
        (simple("$.lines[*].sku", "EQUALS", "B2"), "b"),
        (simple("$.lines[*].quantity", "GREATER_THAN", 1), "a"),
        (simple("$.lines[1].sku", "NOT_NULL"), "b"),
        (simple("$.tags[*]", "EQUALS", "red"), "a b"),
        (simple("$.tags", "IS_NULL"), "c"),
        (array("$.tags", "red", None), "a b"),
        (array("$.tags[*]", None, "green"), "a"),
        (lifecycle("state", "EQUALS", "CREATED"), "a b c"),
        (lifecycle("previousTransition", "EQUALS", "loopback"), "a b c"),
        (lifecycle("creationDate", "GREATER_THAN", "2020"), "a b c"),
        (lifecycle("creationDate", "CONTAINS", "20"), ""),
        (all_of(simple("$.weight", "NOT_NULL"), simple("$.name", "EQUALS", "b")), "b"),
        (any_of(simple("$.name", "EQUALS", "a"), simple("$.name", "EQUALS", "c"), NOTHING), "a c"),
        (EVERYTHING, "a b c"),
        (NOTHING, ""),
    ],
)
def test_conditions_select_what_they_say(parcel_api: Api, condition: Json, names: str) -> None:
    bare = dict.fromkeys(PARCEL, ...)
    parcels(
        parcel_api,
        {"name": "a"},
        {
            "name": "b",
            "weight": 5,
            "count": 42,
            "fragile": False,
            "sent": "2031-05-07",
            "scanned": "2031-05-06T06:00:00.001Z",
            "buyer": {"name": "Bo", "city": "Rome"},
            "lines": [{"sku": "A1", "quantity": 1}, {"sku": "B2", "quantity": 0}],
            "tags": ["red"],
        },
        {**bare, "name": "c"},
    )
    assert found(parcel_api, condition, sort="name") == names.split()


def test_as_many_matches_as_the_limit_are_fine_and_one_more_is_refused(parcel_api: Api) -> None:
    parcels(parcel_api, {}, {}, {})
    for condition in (EVERYTHING, simple("$.name", "MATCHES_PATTERN", ".")):
        assert len(envelopes(parcel_api, condition, limit=3)) == 3
        problem = refused(asked(parcel_api, condition, limit=2, sort="weight"), 400, "SEARCH_RESULT_LIMIT")
        assert problem["instance"] == f"/api{PATH}"


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (["name"], "a b c d"),
        (["name:desc"], "d c b a"),
        (["$.weight:asc"], "b d a c"),
        (["weight:desc"], "a d b c"),
        (["fragile", "name:desc"], "b d a c"),
        (["buyer.city:desc", "name"], "b a c d"),
        (["@state", "name:desc"], "d c b a"),
        (["sent", "@lastUpdateTime"], "d a b c"),
    ],
)
def test_sorting_puts_missing_values_last_and_ids_decide_the_rest(parcel_api: Api, sort: list[str], names: str) -> None:
    parcels(
        parcel_api,
        {"name": "a", "weight": 100, "fragile": True, "buyer": {"name": "x", "city": "Oslo"}},
        {"name": "b", "weight": 9.5, "fragile": False, "buyer": {"name": "x", "city": "Paris"}},
        {"name": "c", "weight": None, "fragile": None, "buyer": ...},
        {"name": "d", "weight": 10, "fragile": True, "buyer": {"name": "x"}, "sent": "2030-01-01"},
    )
    for condition in (EVERYTHING, simple("$.name", "MATCHES_PATTERN", ".")):
        assert found(parcel_api, condition, sort=sort) == names.split()


def test_a_search_of_the_past_sees_the_versions_of_then(parcel_api: Api) -> None:
    first, second = parcels(parcel_api, {"name": "a"}, {"name": "b"})
    then = parcel_api.read(second.id)["meta"]["lastUpdateTime"]
    parcel_api.update(first.id, {**PARCEL, "name": "a2"})
    done(parcel_api.delete(f"/entity/{second.id}"))
    parcels(parcel_api, {"name": "c"})
    for condition in (EVERYTHING, simple("$.name", "MATCHES_PATTERN", ".*")):
        assert found(parcel_api, condition, sort="name") == ["a2", "c"]
        assert found(parcel_api, condition, sort="name", pointInTime=then) == ["a", "b"]
        assert found(parcel_api, condition, sort="name", pointInTime="2999-01-01T00:00:00Z") == ["a2", "c"]
        assert found(parcel_api, condition, pointInTime="2001-01-01") == []
    assert found(parcel_api, simple("$.name", "EQUALS", "a2"), pointInTime=then) == []


def test_the_metadata_of_a_past_version_are_those_of_then(api: Api) -> None:
    workflow = a_workflow(NEW=[manual("SEND", to="SENT")], SENT=[])
    api.a_model(workflow, model="parcel/1", sample=PARCEL)
    [saved] = parcels(api, {})
    created = api.read(saved.id)["meta"]["lastUpdateTime"]
    api.update(saved.id, PARCEL, fire="SEND")
    assert found(api, lifecycle("state", "EQUALS", "NEW"), pointInTime=created) == ["a"]
    assert found(api, lifecycle("state", "EQUALS", "NEW")) == []
    [envelope] = envelopes(api, lifecycle("transitionForLatestSave", "EQUALS", "SEND"))
    assert envelope["meta"]["state"] == "SENT"
    assert "pointInTime" not in envelopes(api, EVERYTHING, pointInTime=created)[0]["meta"]


def test_a_lifecycle_time_is_compared_by_milliseconds(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {})
    stored = parcel_api.read(saved.id)["meta"]["creationDate"]
    head, _, fraction = stored.rstrip("Z").partition(".")
    floored = f"{head}.{fraction[:3].ljust(3, '0')}Z"
    assert found(parcel_api, lifecycle("creationDate", "EQUALS", floored)) == ["a"]
    assert found(parcel_api, lifecycle("creationDate", "GREATER_THAN", floored)) == []


def test_numbers_keep_their_digits(api: Api) -> None:
    api.a_model(model="parcel/1", sample='{"name": "x", "n": 9007199254740993, "d": 0.1000000000000000000001}')
    for name, number in (("odd", 9007199254740993), ("even", 9007199254740992)):
        done(api.post("/entity/JSON/parcel/1", f'{{"name": "{name}", "n": {number}}}'))
    assert found(api, '{"type":"simple","jsonPath":"$.n","operatorType":"EQUALS","value":9007199254740993}') == ["odd"]


def test_unknown_parameters_are_ignored(parcel_api: Api) -> None:
    parcels(parcel_api, {})
    assert found(parcel_api, EVERYTHING, timeoutMillis="soon", pageSize="-3") == ["a"]


def test_older_clients_get_an_array(parcel_api: Api) -> None:
    [saved] = parcels(parcel_api, {})
    response = asked(parcel_api, EVERYTHING, path="/search/parcel/1", pointInTime="2999-01-01T00:00:00 00:00")
    assert response.headers["content-type"] == "application/json"
    assert [envelope["meta"]["id"] for envelope in done(response)] == [saved.id]
    assert done(asked(parcel_api, NOTHING, path="/search/parcel/1")) == []


@pytest.mark.parametrize(
    ("operator", "value", "names"),
    [
        ("NOT_EQUALS", 2, ["a", "c"]),
        ("GREATER_THAN_OR_EQUAL", 2, ["b", "c"]),
        ("LESS_THAN_OR_EQUAL", 2, ["a", "b"]),
        ("IN", [1, 3, 9], ["a", "c"]),
        ("NOT_IN", [1, 3], ["b"]),
    ],
)
def test_older_clients_have_other_names_for_some_operators(
    parcel_api: Api, operator: str, value: Json, names: list[str]
) -> None:
    parcels(parcel_api, *({"name": name, "count": number} for name, number in (("a", 1), ("b", 2), ("c", 3))))
    leaf = simple("$.count", operator, value)
    for condition in (leaf, all_of(leaf)):
        answered = done(asked(parcel_api, condition, path="/search/parcel/1", sort="name"))
        assert [envelope["data"]["name"] for envelope in answered] == names
        assert asked(parcel_api, condition, path="/search/direct/parcel/1").status_code == 400
    if isinstance(value, list):
        for wrong in ([], 1, list(range(1001))):
            problem = refused(
                asked(parcel_api, simple("$.count", operator, wrong), path="/search/parcel/1"), 400, "BAD_REQUEST"
            )
            assert f"{operator} takes a list of 1 to 1000 values" in problem["detail"]


NAME = simple("$.name", "EQUALS", "a")


@pytest.mark.parametrize(
    ("condition", "query", "code", "words"),
    [
        (NAME, {"pointInTime": "yesterday"}, "BAD_REQUEST", "invalid value for parameter 'pointInTime'"),
        (NAME, {"trackingRead": "maybe"}, "BAD_REQUEST", "invalid value for parameter 'trackingRead'"),
        ("", {}, "BAD_REQUEST", "invalid condition: "),
        ("{", {}, "BAD_REQUEST", "invalid condition: "),
        ("null", {}, "BAD_REQUEST", "invalid condition: "),
        ({"key": "v"}, {}, "BAD_REQUEST", "invalid condition: "),
        ({**NAME, "type": "simplest"}, {}, "BAD_REQUEST", "invalid condition: "),
        ({**NAME, "jsonPath": 5}, {}, "BAD_REQUEST", "invalid condition: "),
        (json.dumps(NAME) + "x", {}, "BAD_REQUEST", "invalid condition: "),
        (NAME, {"sort": "name:UP"}, "INVALID_FIELD_PATH", "name:UP"),
        (NAME, {"sort": "lines[0]"}, "INVALID_FIELD_PATH", "lines[0]"),
        (NAME, {"sort": "a,b"}, "INVALID_FIELD_PATH", "a,b"),
        (NAME, {"sort": "@previousTransition"}, "INVALID_FIELD_PATH", "previousTransition"),
        (NAME, {"sort": ["name", "$.name:desc"]}, "INVALID_FIELD_PATH", "name"),
        (NAME, {"sort": [f"f{n}" for n in range(17)]}, "INVALID_FIELD_PATH", "16"),
        (NAME, {"limit": "many"}, "BAD_REQUEST", "invalid limit"),
        (NAME, {"limit": ""}, "BAD_REQUEST", "invalid limit"),
        (NAME, {"limit": 0}, "BAD_REQUEST", "invalid limit"),
        (NAME, {"limit": -1}, "BAD_REQUEST", "invalid limit"),
        (NAME, {"limit": 10001}, "BAD_REQUEST", "limit exceeds maximum 10000"),
        (simple("$.name", ""), {}, "BAD_REQUEST", "missing operatorType; valid: BETWEEN, "),
        (simple("$.name", "IN", ["a"]), {}, "BAD_REQUEST", 'unknown operatorType "IN"; valid: BETWEEN, '),
        (simple("$.name", "EQUALS", {"a": 1}), {}, "INVALID_CONDITION", "condition value is an object"),
        (simple("$.weight", "BETWEEN", [1]), {}, "BAD_REQUEST", "requires exactly two operands"),
        ({"type": "group", "operator": "NOT", "conditions": []}, {}, "BAD_REQUEST", "NOT"),
        ({"type": "function", "function": {"name": "f"}}, {}, "BAD_REQUEST", "function"),
        (
            any_of(simple("$.colour", "IS_NULL"), simple("$.x.y", "IS_NULL")),
            {},
            "INVALID_FIELD_PATH",
            "$.colour, $.x.y",
        ),
        (simple("$.name", "MATCHES_PATTERN", "(?=a)"), {}, "INVALID_CONDITION", "invalid regex pattern in condition: "),
        (simple("$.name", "LIKE", "%" * 100_000), {}, "INVALID_CONDITION", "more than 1000 wildcards"),
        (simple("$.name", "LIKE", "%a" * 100_000), {}, "INVALID_CONDITION", "more than 1000 wildcards"),
        (simple("$.buyer", "EQUALS", "a"), {}, "INVALID_FIELD_PATH", "$.buyer"),
        (simple("$.weight", "EQUALS", "heavy"), {}, "CONDITION_TYPE_MISMATCH", "heavy"),
        (simple("$.fragile", "EQUALS", "TRUE"), {}, "CONDITION_TYPE_MISMATCH", "BOOLEAN"),
        (lifecycle("version", "EQUALS", 1), {}, "INVALID_FIELD_PATH", 'unknown meta filter field "version"'),
        (lifecycle("creationDate", "EQUALS", "noon"), {}, "CONDITION_TYPE_MISMATCH", "creationDate"),
        (NAME, {"sort": "colour"}, "INVALID_FIELD_PATH", "colour"),
        (NAME, {"sort": "buyer"}, "INVALID_FIELD_PATH", "buyer"),
        (NAME, {"sort": "tags"}, "INVALID_FIELD_PATH", "tags"),
        (NAME, {"sort": "lines.sku"}, "INVALID_FIELD_PATH", "lines.sku"),
        (NAME, {"sort": "free"}, "INVALID_FIELD_PATH", "free"),
        (NAME, {"sort": "note"}, "INVALID_FIELD_PATH", "note"),
    ],
)
def test_what_is_refused_and_how(parcel_api: Api, condition: Json, query: Json, code: str, words: str) -> None:
    problem = refused(asked(parcel_api, condition, **query), 400, code)
    assert problem["detail"].startswith(f"{code}: ")
    assert words in problem["detail"]


def test_the_first_check_that_fails_decides(parcel_api: Api) -> None:
    """Each fault is mended in the order in which the contract looks for them."""
    condition: Json = "?"
    query: Json = {"pointInTime": "?", "sort": "name:?", "limit": "?"}
    asked_for = {"path": "/search/direct/parcels/1"}

    def refusal() -> tuple[int, str]:
        response = asked(parcel_api, condition, **asked_for, **query)
        return response.status_code, re.sub(r"^(\w+): (.{0,16}).*", r"\1 \2", response.json()["detail"])

    assert refusal() == (400, "BAD_REQUEST invalid value fo")
    del query["pointInTime"]
    assert refusal() == (400, "BAD_REQUEST invalid conditio")
    condition = any_of(
        lifecycle("x", "EQUALS", 1),
        simple("$.y", "IS_NULL"),
        simple("$.name", "MATCHES_PATTERN", "("),
        simple("$.z", ""),
    )
    assert refusal() == (400, "INVALID_FIELD_PATH malformed sort k")
    query["sort"] = "zz"
    assert refusal() == (400, 'BAD_REQUEST invalid limit: "')
    query["limit"] = 1
    assert refusal() == (400, "BAD_REQUEST missing operator")
    condition["conditions"].pop()
    assert refusal() == (404, "MODEL_NOT_FOUND model parcels/1 ")
    asked_for.clear()
    assert refusal() == (400, "INVALID_FIELD_PATH condition refere")
    del condition["conditions"][1]
    assert refusal() == (400, "INVALID_CONDITION invalid regex pa")
    condition["conditions"].pop()
    assert refusal() == (400, "INVALID_FIELD_PATH unknown meta fil")
    condition["conditions"].pop()
    assert refusal()[1].startswith("INVALID_FIELD_PATH sort key")


def test_an_unbound_version_is_refused_by_its_name(parcel_api: Api) -> None:
    problem = refused(asked(parcel_api, NAME, path="/search/direct/parcel/1.0"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "modelVersion"


def test_fifty_groups_around_a_leaf_are_accepted_and_one_more_is_not(parcel_api: Api) -> None:
    parcels(parcel_api, {})
    condition: Json = NAME
    for _ in range(50):
        condition = all_of(condition)
    assert found(parcel_api, condition) == ["a"]
    refused(asked(parcel_api, all_of(condition)), 400, "BAD_REQUEST")


def test_a_body_beyond_ten_mebibytes_is_refused(parcel_api: Api) -> None:
    problem = refused(asked(parcel_api, b" " * (10 * 1024 * 1024 + 1)), 413, "BAD_REQUEST")
    assert "failed to read request body" in problem["detail"]


def test_thousands_of_alternatives_are_one_lookup(parcel_api: Api) -> None:
    saved = parcels(parcel_api, {"name": "a"}, {"name": "b"})
    names = any_of(*[simple("$.name", "EQUALS", f"n{n}") for n in range(5000)], NAME)
    assert found(parcel_api, names) == ["a"]
    ids = any_of(*[lifecycle("id", "EQUALS", one.id) for one in saved])
    assert found(parcel_api, ids, sort="name") == ["a", "b"]


def test_a_model_needs_no_lock_to_be_searched(api: Api) -> None:
    api.import_model("parcel/1", PARCEL)
    assert found(api, EVERYTHING) == []


def test_a_path_that_the_model_has_just_learnt_is_known(service: RunningService, api: Api) -> None:
    api.import_model("parcel/1", PARCEL)
    refused(asked(api, simple("$.colour", "IS_NULL")), 400, "INVALID_FIELD_PATH")
    api.import_model("parcel/1", {"colour": "red"})
    assert found(api, simple("$.colour", "IS_NULL")) == []
