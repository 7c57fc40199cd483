"""What the body of a grouped statistic may say (docs/reference/entities.md#the-request-of-a-grouped-statistic)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.failures import (
    DuplicateAggregationAlias,
    DuplicateGroupBy,
    Failure,
    InvalidAggregationField,
    InvalidAggregationOp,
    InvalidGroupByPath,
    InvalidLimit,
    MalformedRequest,
    MissingGroupBy,
)
from statewright.services.statistics import MAX_ENTRIES, GroupedQuery, normalize_path, read_query

MOST = 50


def query(**members: Any) -> GroupedQuery:
    return read_query(json.dumps({"groupBy": ["state"], **members}).encode(), max_limit=MOST)


def refused(failure: type[Failure], **members: Any) -> None:
    with pytest.raises(failure) as refusal:
        query(**members)
    assert type(refusal.value) is failure
    assert refusal.value.status == 400


def an_aggregation(op: Any = "sum", field: Any = "$.qty", **members: Any) -> Any:
    return {"op": op, "field": field, **members}


@pytest.mark.parametrize(
    "body",
    ["", " ", "{", "[]", "null", '"state"', "1", '{"groupBy":["state"]} x', '{"groupBy":["state"],"groupBy":["a"]}'],
)
def test_a_body_that_is_no_json_object_is_malformed(body: str) -> None:
    with pytest.raises(MalformedRequest):
        read_query(body.encode(), max_limit=MOST)


@pytest.mark.parametrize(
    "members",
    [
        {"surprise": 1},
        {"aggregations": [an_aggregation(surprise=1)]},
        {"groupBy": "state"},
        {"groupBy": {"path": "state"}},
        {"groupBy": [1]},
        {"groupBy": [None]},
        {"aggregations": {}},
        {"aggregations": ["sum"]},
        {"aggregations": [an_aggregation(op=1)]},
        {"aggregations": [an_aggregation(field=["$.qty"])]},
        {"aggregations": [{"op": "sum", "field": "$.qty", "as": 5}]},
        {"pointInTime": 1700000000},
        {"pointInTime": "yesterday"},
        {"pointInTime": ""},
        {"limit": "5"},
        {"limit": 5.5},
        {"limit": True},
        {"limit": [5]},
    ],
)
def test_unknown_members_and_wrong_types_are_malformed(members: Any) -> None:
    refused(MalformedRequest, **members)


@pytest.mark.parametrize("limit", ["5.0", "1e1"])
def test_a_limit_that_is_not_written_as_an_integer_is_malformed(limit: str) -> None:
    with pytest.raises(MalformedRequest):
        read_query(f'{{"groupBy":["state"],"limit":{limit}}}'.encode(), max_limit=MOST)


def test_null_members_count_as_absent() -> None:
    assert query(condition=None, aggregations=None, pointInTime=None, limit=None) == query()


@pytest.mark.parametrize("body", ["{}", '{"groupBy":null}', '{"groupBy":[]}'])
def test_group_by_is_required(body: str) -> None:
    with pytest.raises(MissingGroupBy):
        read_query(body.encode(), max_limit=MOST)


@pytest.mark.parametrize(
    "path",
    [
        *("", "$", "$.", ".", "$.tags[0]", "$.tags[*]", "tags[]", "$.a]", "$[0]", "$['']", '$["a"]', "$.a.", "$['x]"),
        "$" + ".a" * 257,
    ],
)
def test_what_is_no_path_of_a_scalar_cannot_be_grouped_by_nor_aggregated(path: str) -> None:
    refused(InvalidGroupByPath, groupBy=[path])
    refused(InvalidAggregationField, aggregations=[an_aggregation(field=path)])


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("$.warehouse", "$.warehouse"),
        ("warehouse", "$.warehouse"),
        ("$['warehouse']", "$.warehouse"),
        ("$.dim['width']", "$.dim.width"),
        ("$.dim.['width']", "$.dim.width"),
        ("$..dim...width", "$.dim.width"),
        ("['dim']['width']", "$.dim.width"),
        ("$.a-b_c.9", "$.a-b_c.9"),
        ("$.größe", "$.größe"),
        ("$.state", "$.state"),
        ("['state']", "$.state"),
        ("$price", "$.$price"),
    ],
)
def test_paths_are_normalised(written: str, normal: str) -> None:
    assert normalize_path(written) == normal
    assert query(groupBy=[written]).group_by == (normal,)


@given(st.text())
def test_a_normal_path_is_normal(text: str) -> None:
    path = normalize_path(text)
    assert path is None or normalize_path(path) == path


def test_the_word_state_is_not_the_member_state() -> None:
    wanted = query(groupBy=["state", "$.state"])
    assert wanted.group_by == ("state", "$.state")
    assert wanted.to_grouping(max_groups=MOST).keys == (None, ("state",))


@pytest.mark.parametrize(
    "paths", [["state", "state"], ["$.a", "$.a"], ["$.a", "a"], ["$.a.b", "$['a']['b']"], ["$..a", "$.a"]]
)
def test_the_same_path_twice_is_a_duplicate(paths: list[str]) -> None:
    refused(DuplicateGroupBy, groupBy=paths)


@pytest.mark.parametrize("op", ["", None, "SUM", "count", "median", "stddev"])
def test_only_five_operations_are_known(op: str | None) -> None:
    refused(InvalidAggregationOp, aggregations=[an_aggregation(op=op)])


def test_an_aggregation_without_operation_or_field_is_refused() -> None:
    refused(InvalidAggregationOp, aggregations=[{"field": "$.qty"}])
    refused(InvalidAggregationField, aggregations=[{"op": "sum"}])


def test_results_are_named_after_operation_and_field_unless_they_have_a_name() -> None:
    wanted = query(
        aggregations=[
            an_aggregation("stdev", "$.price"),
            an_aggregation("avg", "dim['width']"),
            an_aggregation("sum", "$.qty", **{"as": "onHand"}),
            an_aggregation("min", "$.qty", **{"as": ""}),
        ]
    )
    assert list(wanted.aggregations) == ["stdev_price", "avg_dim.width", "onHand", "min_qty"]


def test_repeating_an_aggregation_is_silently_merged_and_the_first_name_wins() -> None:
    wanted = query(
        aggregations=[an_aggregation(), an_aggregation(field="qty"), an_aggregation(**{"as": "total"})],
    )
    assert wanted.aggregations == {"sum_qty": ("sum", "$.qty")}
    wanted = query(aggregations=[an_aggregation(**{"as": "total"}), an_aggregation()])
    assert wanted.aggregations == {"total": ("sum", "$.qty")}


@pytest.mark.parametrize(
    "aggregations",
    [
        [an_aggregation("sum", **{"as": "x"}), an_aggregation("avg", **{"as": "x"})],
        [an_aggregation("sum", "$.a", **{"as": "x"}), an_aggregation("sum", "$.b", **{"as": "x"})],
        [an_aggregation("sum", "$.a", **{"as": "avg_b"}), an_aggregation("avg", "$.b")],
    ],
)
def test_one_name_for_two_results_is_a_duplicate(aggregations: list[Any]) -> None:
    refused(DuplicateAggregationAlias, aggregations=aggregations)


@pytest.mark.parametrize("limit", [0, -1, MOST + 1, 10**30])
def test_a_limit_out_of_range_is_invalid(limit: int) -> None:
    refused(InvalidLimit, limit=limit)


@pytest.mark.parametrize("limit", [1, MOST])
def test_a_limit_within_range_is_taken(limit: int) -> None:
    assert query(limit=limit).to_grouping(max_groups=MOST).limit == limit


def test_without_a_limit_as_many_groups_are_wanted_as_are_allowed() -> None:
    assert query().to_grouping(max_groups=MOST).limit == MOST


def test_an_instant_is_read_with_its_offset() -> None:
    assert query(pointInTime="2026-03-01T02:00:00+02:00").instant == 1_772_323_200_000_000


def test_more_entries_than_the_database_has_columns_for_are_refused() -> None:
    refused(MalformedRequest, groupBy=[f"a{n}" for n in range(MAX_ENTRIES + 1)])
    refused(MalformedRequest, aggregations=[an_aggregation(field=f"a{n}") for n in range(MAX_ENTRIES + 1)])


def test_rules_are_checked_in_the_order_of_the_table() -> None:
    refused(MalformedRequest, groupBy=[], pointInTime="x", limit=0)
    refused(MissingGroupBy, groupBy=[], aggregations=[an_aggregation(op="x")], limit=0)
    refused(InvalidAggregationOp, aggregations=[an_aggregation(op="x")], limit=0)
