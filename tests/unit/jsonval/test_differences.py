"""Differences of documents as JSON Patches (docs/reference/operations.md#versions)."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.patches import MAX_OPERATIONS, apply_json_patch, build_json_patch, is_json_equal
from statewright.jsonval.values import JsonValue
from tests.unit.jsonval.strategies import values


@given(values(), values())
def test_applying_the_difference_gives_the_newer_document(old: JsonValue, new: JsonValue):
    patch = build_json_patch(old, new)
    assert is_json_equal(apply_json_patch(old, list(patch)), new)
    assert (patch == []) is is_json_equal(old, new)


SMALL = st.recursive(
    st.integers(0, 2), lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("ab~/"), inner)
)


@given(SMALL, SMALL)
def test_it_does_so_for_documents_that_are_alike(old: JsonValue, new: JsonValue):
    assert is_json_equal(apply_json_patch(old, list(build_json_patch(old, new))), new)


def test_operations_name_what_changed_and_nothing_else():
    old: JsonValue = {"a": 1, "b": {"c": [1, 2, 3, 4]}, "gone": None, "same": Decimal("1.0")}
    new: JsonValue = {"a": 2, "b": {"c": [1, 9, 4]}, "new/er": True, "same": 1}
    assert build_json_patch(old, new) == [
        {"op": "replace", "path": "/a", "value": 2},
        {"op": "replace", "path": "/b/c/1", "value": 9},
        {"op": "remove", "path": "/b/c/2"},
        {"op": "remove", "path": "/gone"},
        {"op": "add", "path": "/new~1er", "value": True},
    ]


def test_with_too_many_operations_the_whole_is_replaced():
    old: JsonValue = {str(number): 0 for number in range(MAX_OPERATIONS + 1)}
    new: JsonValue = dict.fromkeys(old, 1)  # type: ignore[arg-type]
    assert build_json_patch(old, new) == [{"op": "replace", "path": "", "value": new}]
