"""How inputs are formed of outputs."""

import pytest

from statewright.flows.values import (
    UnmergeableInput,
    collect_columns,
    combine_inputs,
    list_elements,
    merge_input,
    normalize_output,
)
from statewright.jsonval.values import JsonValue


@pytest.mark.parametrize(
    ("given", "travels"),
    [(None, {}), ({}, {}), ([], []), ({"a": 1}, {"a": 1}), (5, [5]), ("x", ["x"]), (False, [False])],
)
def test_outputs_are_objects_or_arrays(given: JsonValue, travels: JsonValue) -> None:
    assert normalize_output(given) == travels


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {}),
        ([{}, {}], {}),
        ([{}, {"a": 1}], {"a": 1}),
        ([{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 1}]),
        ([[], {"a": 1}], [[], {"a": 1}]),
        ([[1], [2]], [[1], [2]]),
        ([[]], []),
    ],
)
def test_inputs_are_combined_without_empty_objects(values: list[JsonValue], expected: JsonValue) -> None:
    assert combine_inputs(values) == expected


@pytest.mark.parametrize(
    ("value", "merged"),
    [
        ({"a": 1}, {"a": 1}),
        ([], {}),
        ([{"a": 1, "b": 1}, {"a": 2}], {"a": 2, "b": 1}),
        ([[{"a": 1}, [{"b": 2}]], {"c": 3}], {"a": 1, "b": 2, "c": 3}),
    ],
)
def test_merging_makes_one_object(value: JsonValue, merged: JsonValue) -> None:
    assert merge_input(value) == merged


def test_merging_changes_nothing_it_is_given() -> None:
    value: JsonValue = [{"a": 1}, {"a": 2}]
    merge_input(value)
    assert value == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("value", [[1], [{"a": 1}, "x"], [[None]]])
def test_only_objects_can_be_merged(value: JsonValue) -> None:
    with pytest.raises(UnmergeableInput, match="cannot be merged"):
        merge_input(value)


def test_whatever_is_no_array_is_one_element() -> None:
    assert list_elements({}) == [{}]
    assert list_elements([]) == []
    assert list_elements([1, 2]) == [1, 2]


def test_iterated_subflows_give_a_column_per_edge() -> None:
    assert collect_columns([[{"c": 1}, {"d": 1}], [{"c": 2}, {"d": 2}]], 2) == [
        [{"c": 1}, {"c": 2}],
        [{"d": 1}, {"d": 2}],
    ]
    assert collect_columns([], 2) == [[], []]
