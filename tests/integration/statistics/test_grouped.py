"""Grouping the entities of a model (docs/reference/entities.md#the-groups), and what is refused
(docs/reference/entities.md#the-request-of-a-grouped-statistic,
docs/reference/entities.md#conditions-of-grouped-statistics).
"""

from typing import Any

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.service import Api, RunningService, done, refused

STOCK: Json = {"sku": "K-9", "warehouse": "RIX", "qty": 12, "price": 1.5, "dim": {"width": 2}, "tags": ["cold"]}
PATH = "/entity/stats/stock/1/query"


def a_stock_model(api: Api) -> None:
    workflow = a_workflow(AVAILABLE=[manual("sell", to="SOLD")], SOLD=[])
    api.a_model(workflow, model="stock/1", sample=STOCK)


def stock(api: Api, **members: Json) -> str:
    """The id of a stock item with just these members."""
    return api.create(members, model="stock/1").id


def query(api: Api, *group_by: str, **members: Json) -> Json:
    return done(api.post(PATH, {"groupBy": list(group_by), **members}))


def shape(buckets: Json) -> list[tuple[Any, ...]]:
    """Key values and count of each bucket, in order."""
    return [(*(key["value"] for key in bucket["groupKey"]), bucket["count"]) for bucket in buckets]


def test_the_answer_is_exactly_as_specified(api: Api) -> None:
    a_stock_model(api)
    for qty in (1, 2):
        stock(api, warehouse="RIX", qty=qty, price=qty)
    stock(api, qty=4)
    response = api.post(
        PATH,
        {
            "groupBy": ["$.warehouse", "state"],
            "aggregations": [{"op": "sum", "field": "$.qty", "as": "onHand"}, {"op": "stdev", "field": "$.price"}],
        },
    )
    assert response.headers["content-type"] == "application/json"
    assert response.text == (
        '[{"aggregations":{"onHand":3,"stdev_price":0.7071067811865476},"count":2,'
        '"groupKey":[{"path":"$.warehouse","value":"RIX"},{"path":"state","value":"AVAILABLE"}]},'
        '{"aggregations":{"onHand":4,"stdev_price":null},"count":1,'
        '"groupKey":[{"path":"$.warehouse","value":null},{"path":"state","value":"AVAILABLE"}]}]\n'
    )


def test_without_aggregations_buckets_have_none(api: Api) -> None:
    a_stock_model(api)
    stock(api, qty=1)
    assert query(api, "state") == [{"groupKey": [{"path": "state", "value": "AVAILABLE"}], "count": 1}]
    assert query(api, "state", aggregations=[]) == query(api, "state")


def test_no_entities_make_no_buckets(api: Api) -> None:
    a_stock_model(api)
    assert query(api, "state") == []


def test_the_keys_follow_the_order_of_the_request(api: Api) -> None:
    a_stock_model(api)
    stock(api, warehouse="RIX", sku="A")
    assert query(api, "state", "sku", "$['warehouse']")[0]["groupKey"] == [
        {"path": "state", "value": "AVAILABLE"},
        {"path": "$.sku", "value": "A"},
        {"path": "$.warehouse", "value": "RIX"},
    ]


def test_every_kind_of_value_has_its_bucket(api: Api) -> None:
    for value in ("x", 1, 1.5, True, {"a": 1}):
        api.import_model("mixed/1", {"v": value})
    api.lock("mixed/1")
    for value in ("42", 42, True, "true", False, None, {"a": 1}, 42.5):
        api.create({"v": value}, model="mixed/1")
    api.create({}, model="mixed/1")
    buckets = done(api.post("/entity/stats/mixed/1/query", {"groupBy": ["v"]}))
    assert shape(buckets) == [(None, 3), ("42", 2), ("true", 2), ("42.5", 1), ("false", 1)]


def test_arrays_are_null_and_have_no_members(api: Api) -> None:
    a_stock_model(api)
    stock(api, tags=["cold", "new"])
    assert shape(query(api, "$.tags")) == [(None, 1)]
    assert shape(query(api, "$.tags.0")) == [(None, 1)]


def test_nested_members_are_reached_and_unknown_ones_are_missing_everywhere(api: Api) -> None:
    a_stock_model(api)
    stock(api, dim={"width": 7})
    stock(api, qty=1)
    assert shape(query(api, "dim.width")) == [(None, 1), ("7", 1)]
    assert shape(query(api, "$.no.such.place")) == [(None, 2)]
    assert query(api, "state", aggregations=[{"op": "sum", "field": "no.such"}])[0]["aggregations"] == {
        "sum_no.such": None
    }


def test_a_path_deeper_than_any_document_is_missing_everywhere(api: Api) -> None:
    a_stock_model(api)
    stock(api, qty=1)
    assert shape(query(api, ".".join("a" * 256))) == [(None, 1)]


def test_names_are_data_and_never_part_of_the_statement(api: Api) -> None:
    name = "a' || (SELECT 1) || '\" $1 %s \\"
    api.a_model(model="odd/1", sample={name: 1})
    api.create({name: 5}, model="odd/1")
    answer = done(
        api.post("/entity/stats/odd/1/query", {"groupBy": [name], "aggregations": [{"op": "max", "field": name}]})
    )
    assert answer == [
        {"groupKey": [{"path": f"$.{name}", "value": "5"}], "count": 1, "aggregations": {f"max_{name}": 5}}
    ]


def test_the_member_state_is_not_the_workflow_state(api: Api) -> None:
    api.a_model(model="case/1", sample={"state": "draft"})
    api.create({"state": "draft"}, model="case/1")
    buckets = done(api.post("/entity/stats/case/1/query", {"groupBy": ["$.state", "state"]}))
    assert shape(buckets) == [("draft", "CREATED", 1)]


def test_buckets_come_by_size_then_by_keys_null_first_then_bytes(api: Api) -> None:
    a_stock_model(api)
    for warehouse in ("b", "B", "é", "z", "b", "10", "9", ""):
        stock(api, warehouse=warehouse, sku="s")
    stock(api, warehouse="B", sku="a")
    stock(api, sku="s")
    assert shape(query(api, "warehouse", "sku")) == [
        ("b", "s", 2),
        (None, "s", 1),
        ("", "s", 1),
        ("10", "s", 1),
        ("9", "s", 1),
        ("B", "a", 1),
        ("B", "s", 1),
        ("z", "s", 1),
        ("é", "s", 1),
    ]


def test_the_limit_cuts_after_sorting(api: Api) -> None:
    a_stock_model(api)
    for warehouse in ("a", "b", "b", "c", "c", "c"):
        stock(api, warehouse=warehouse)
    assert shape(query(api, "warehouse", limit=2)) == [("c", 3), ("b", 2)]


def test_the_count_includes_entities_without_a_number(api: Api) -> None:
    api.import_model("mixed/1", {"n": 1})
    api.import_model("mixed/1", {"n": "x"})
    api.lock("mixed/1")
    for document in ({"n": 2}, {"n": "100"}, {"n": None}, {}):
        api.create(document, model="mixed/1")
    asked = [{"op": op, "field": "n"} for op in ("sum", "avg", "min", "max", "stdev")]
    [bucket] = done(api.post("/entity/stats/mixed/1/query", {"groupBy": ["state"], "aggregations": asked}))
    assert bucket["count"] == 4
    assert bucket["aggregations"] == {"sum_n": 2, "avg_n": 2, "min_n": 2, "max_n": 2, "stdev_n": None}


def test_integers_beyond_double_precision_are_summed_exactly(api: Api) -> None:
    api.a_model(model="big/1", sample={"n": 9007199254740993})
    for n in ("9007199254740993", "9007199254740995", "1"):
        done(api.post("/entity/JSON/big/1", f'{{"n":{n}}}'))
    asked = [{"op": op, "field": "n"} for op in ("sum", "min", "max")]
    response = api.post("/entity/stats/big/1/query", {"groupBy": ["state"], "aggregations": asked})
    assert '{"max_n":9007199254740995,"min_n":1,"sum_n":18014398509481989}' in response.text


# Conditions


def test_a_condition_selects_what_is_grouped(api: Api) -> None:
    a_stock_model(api)
    for warehouse, qty in (("a", 1), ("a", 5), ("b", 9), ("c", 0)):
        stock(api, warehouse=warehouse, qty=qty)
    assert shape(query(api, "warehouse", condition=when("$.qty", "GREATER_THAN", 0))) == [("a", 2), ("b", 1)]
    assert query(api, "warehouse", condition=when("$.qty", "GREATER_THAN", 99)) == []


def test_lifecycle_groups_and_arrays_are_conditions_too(api: Api) -> None:
    a_stock_model(api)
    sold = stock(api, warehouse="a", tags=["x", "y"])
    api.update(sold, {"warehouse": "a", "tags": ["x", "y"]}, fire="sell")
    stock(api, warehouse="b", tags=["x", "z"])
    is_sold = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "SOLD"}
    is_b = when("$.warehouse", "EQUALS", "b")
    either = {"type": "group", "operator": "OR", "conditions": [is_sold, is_b]}
    both = {"type": "group", "operator": "AND", "conditions": [is_sold, is_b]}
    y_second = {"type": "array", "jsonPath": "$.tags", "values": [None, "y"]}
    assert shape(query(api, "state", condition=is_sold)) == [("SOLD", 1)]
    assert shape(query(api, "warehouse", condition=either)) == [("a", 1), ("b", 1)]
    assert query(api, "warehouse", condition=both) == []
    assert shape(query(api, "warehouse", condition=y_second)) == [("a", 1)]


def test_a_condition_that_the_database_can_only_narrow_is_judged_to_the_end(api: Api) -> None:
    api.a_model(model="day/1", sample={"day": "2026-03-01", "kind": "x"})
    for day, kind in (("2026-03-01", "Straße"), ("2026-03-02", "STRASSE"), ("2026-03-03", "other")):
        api.create({"day": day, "kind": kind}, model="day/1")
    conditions = [
        when("$.day", "GREATER_THAN", "2026-03-01"),
        when("$.kind", "MATCHES_PATTERN", "(?i)s.*E"),
        when("$.kind", "ICONTAINS", "STRA"),
    ]
    answers = [
        shape(done(api.post("/entity/stats/day/1/query", {"groupBy": ["day"], "condition": condition})))
        for condition in conditions
    ]
    assert answers == [
        [("2026-03-02", 1), ("2026-03-03", 1)],
        [("2026-03-01", 1), ("2026-03-02", 1)],
        [("2026-03-01", 1), ("2026-03-02", 1)],
    ]


def test_unknown_paths_and_operands_of_other_types_just_do_not_match(api: Api) -> None:
    a_stock_model(api)
    stock(api, qty=1)
    assert query(api, "state", condition=when("$.colour", "EQUALS", "red")) == []
    assert query(api, "state", condition=when("$.qty", "GREATER_THAN", "many")) == []
    assert query(api, "state", condition=when("$.dim", "EQUALS", "x")) == []


LIFECYCLE = {"type": "lifecycle", "operatorType": "EQUALS"}


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({}, "INVALID_CONDITION"),
        ([], "INVALID_CONDITION"),
        ("x", "INVALID_CONDITION"),
        ({"type": "nonsense"}, "INVALID_CONDITION"),
        ({"type": "simple", "jsonPath": 5, "operatorType": "EQUALS", "value": 1}, "INVALID_CONDITION"),
        (when("$.qty", "NEARLY", 1), "INVALID_CONDITION"),
        (when("$.qty", "BETWEEN", [1]), "INVALID_CONDITION"),
        (when("$.qty", "BETWEEN", 1), "INVALID_CONDITION"),
        (when("$.qty", "EQUALS", {"a": 1}), "INVALID_CONDITION"),
        (when("$.sku", "MATCHES_PATTERN", "("), "INVALID_CONDITION"),
        ({"type": "group", "operator": "NOT", "conditions": []}, "INVALID_CONDITION"),
        ({"type": "function", "function": {"name": "f"}}, "INVALID_CONDITION"),
        ({**LIFECYCLE, "field": "version", "value": 1}, "INVALID_FIELD_PATH"),
        ({**LIFECYCLE, "field": "creationDate", "value": "soon"}, "CONDITION_TYPE_MISMATCH"),
    ],
)
def test_a_bad_condition_is_refused_by_its_own_code(api: Api, condition: Json, code: str) -> None:
    a_stock_model(api)
    refused(api.post(PATH, {"groupBy": ["state"], "condition": condition}), 400, code)


def test_a_condition_nested_too_deep_is_invalid(api: Api) -> None:
    a_stock_model(api)
    condition = when("$.qty", "EQUALS", 1)
    for _ in range(51):
        condition = {"type": "group", "operator": "AND", "conditions": [condition]}
    refused(api.post(PATH, {"groupBy": ["state"], "condition": condition}), 400, "INVALID_CONDITION")


# The past


def test_the_past_is_grouped_as_it_was(api: Api) -> None:
    a_stock_model(api)
    first = stock(api, warehouse="a", qty=1)
    gone = stock(api, warehouse="a", qty=2)
    between = api.read(gone)["meta"]["lastUpdateTime"]
    api.update(first, {"warehouse": "b", "qty": 10}, fire="sell")
    done(api.delete(f"/entity/{gone}"))
    stock(api, warehouse="c", qty=3)
    asked = {"aggregations": [{"op": "sum", "field": "qty"}]}
    then = query(api, "warehouse", "state", pointInTime=between, **asked)
    assert shape(then) == [("a", "AVAILABLE", 2)]
    assert then[0]["aggregations"] == {"sum_qty": 3}
    assert shape(query(api, "warehouse", "state")) == [("b", "SOLD", 1), ("c", "AVAILABLE", 1)]
    before = query(api, "warehouse", pointInTime="2001-01-01T00:00:00Z")
    assert before == []
    assert query(api, "warehouse", pointInTime="2999-01-01T00:00:00Z") == query(api, "warehouse")


def test_a_condition_looks_at_the_past_versions(api: Api) -> None:
    a_stock_model(api)
    entity = stock(api, warehouse="a", qty=1)
    then = api.read(entity)["meta"]["lastUpdateTime"]
    api.update(entity, {"warehouse": "b", "qty": 1})
    in_a = when("$.warehouse", "EQUALS", "a")
    in_any = when("$.warehouse", "MATCHES_PATTERN", "(?i)A")
    for condition in (in_a, in_any):
        assert shape(query(api, "warehouse", pointInTime=then, condition=condition)) == [("a", 1)]
        assert query(api, "warehouse", condition=condition) == []


# Refusals


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"groupBy": []}, "MISSING_GROUP_BY"),
        ({"groupBy": ["$.tags[*]"]}, "INVALID_GROUP_BY_PATH"),
        ({"groupBy": ["$.a", "a"]}, "DUPLICATE_GROUP_BY"),
        ({"aggregations": [{"op": "median", "field": "qty"}]}, "INVALID_AGGREGATION_OP"),
        ({"aggregations": [{"op": "sum", "field": "tags[0]"}]}, "INVALID_AGGREGATION_FIELD"),
        (
            {"aggregations": [{"op": "sum", "field": "a", "as": "x"}, {"op": "avg", "field": "a", "as": "x"}]},
            "DUPLICATE_AGGREGATION_ALIAS",
        ),
        ({"limit": 0}, "INVALID_LIMIT"),
        ({"limit": 10_001}, "INVALID_LIMIT"),
        ({"limit": "1"}, "MALFORMED_REQUEST"),
        ({"pointInTime": "soon"}, "MALFORMED_REQUEST"),
        ({"extra": 1}, "MALFORMED_REQUEST"),
    ],
)
def test_request_rules_come_before_the_model(api: Api, members: Json, code: str) -> None:
    body = {"groupBy": ["state"], **members}
    refused(api.post("/entity/stats/unknown/1/query", body), 400, code)


def test_a_body_that_is_no_json_is_malformed(api: Api) -> None:
    for body in ("", "{", "[]", '{"groupBy":["state"]} 1'):
        refused(api.post(PATH, body), 400, "MALFORMED_REQUEST")


@pytest.mark.parametrize("version", ["2", "01", "1.0", "x", "99999999999999999999", "-1"])
def test_whatever_names_no_model_is_not_found_and_comes_before_the_condition(api: Api, version: str) -> None:
    a_stock_model(api)
    body = {"groupBy": ["state"], "condition": {"type": "nonsense"}}
    problem = refused(api.post(f"/entity/stats/stock/{version}/query", body), 404, "MODEL_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}


def test_a_body_over_ten_mebibytes_is_too_large(api: Api) -> None:
    problem = refused(api.post(PATH, b" " * (10 * 1024 * 1024 + 1)), 413, "BAD_REQUEST")
    assert problem["title"] == "Request Entity Too Large"


def test_a_body_of_ten_mebibytes_is_read(api: Api) -> None:
    a_stock_model(api)
    body = b'{"groupBy":["state"]}'
    assert done(api.post(PATH, body + b" " * (10 * 1024 * 1024 - len(body)))) == []


def test_another_tenants_entities_are_not_grouped(service: RunningService, api: Api, tenant: str) -> None:
    a_stock_model(api)
    stock(api, qty=1)
    other = service.api(f"{tenant}-other")
    refused(other.post(PATH, {"groupBy": ["state"]}), 404, "MODEL_NOT_FOUND")
    a_stock_model(other)
    assert query(other, "state") == []


def test_a_model_need_not_be_locked(api: Api) -> None:
    api.import_model("draft/1")
    assert done(api.post("/entity/stats/draft/1/query", {"groupBy": ["state"]})) == []


# Inside a transaction


def test_a_callback_groups_what_its_transaction_has_written(api: Api, serving, callback) -> None:
    a_stock_model(api)
    node, seen = Node(tags=["node"]), {}
    changed, dropped = stock(api, warehouse="a", qty=1), stock(api, warehouse="a", qty=2)
    then = api.read(dropped)["meta"]["lastUpdateTime"]

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        joined.update(changed, {"warehouse": "b", "qty": 10}, fire="sell")
        done(joined.delete(f"/entity/{dropped}"))
        stock(joined, warehouse="b", qty=30)
        asked = {"aggregations": [{"op": "sum", "field": "qty"}]}
        seen["all"] = query(joined, "warehouse", "state", **asked)
        seen["sold"] = shape(query(joined, "state", condition=when("$.qty", "LESS_THAN", 20)))
        seen["pattern"] = shape(query(joined, "state", condition=when("$.warehouse", "MATCHES_PATTERN", "[b]")))
        seen["then"] = shape(query(joined, "warehouse", pointInTime=then))
        seen["outside"] = shape(query(api, "warehouse"))

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    api.create(SAMPLE, model=model)
    assert shape(seen["all"]) == [("b", "AVAILABLE", 1), ("b", "SOLD", 1)]
    assert [bucket["aggregations"]["sum_qty"] for bucket in seen["all"]] == [30, 10]
    assert seen["sold"] == [("SOLD", 1)]
    assert seen["pattern"] == [("AVAILABLE", 1), ("SOLD", 1)]
    assert seen["then"] == seen["outside"] == [("a", 2)]


def test_aggregations_of_what_has_no_numbers_are_null_and_told_in_a_header(api: Api) -> None:
    a_stock_model(api)
    stock(api, sku="K-9", qty=4)
    aggregations = [
        {"op": "sum", "field": "$.sku"},
        {"op": "max", "field": "$.colour", "as": "reddest"},
        {"op": "sum", "field": "$.qty"},
    ]
    response = api.post(PATH, {"groupBy": ["state"], "aggregations": aggregations})
    [group] = done(response)
    assert group["aggregations"] == {"sum_sku": None, "reddest": None, "sum_qty": 4}
    assert response.headers.get_list("warning") == [
        '299 - "aggregation sum_sku: sum needs numbers, and the model has no number (STRING) at $.sku"',
        '299 - "aggregation reddest: max needs numbers, and the model has no such field at $.colour"',
    ]
