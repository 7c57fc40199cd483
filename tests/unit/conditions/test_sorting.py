"""Sort keys: how they are written, what they may name, what they mean (docs/reference/search.md#sorting)."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from statewright.conditions.sorting import SortKey, parse_sort, resolve_sort, sort_items
from statewright.entity import EntityMeta
from statewright.failures import InvalidFieldPath
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import META, a_field, fields

FIELDS = {
    **fields(text="STRING", number="INTEGER", flag="BOOLEAN", day="LOCAL_DATE STRING", mixed="INTEGER STRING"),
    **fields(raw="BYTE_ARRAY", empty="NULL", maybe="NULL DOUBLE", either="BOOLEAN STRING", key="UUID_TYPE"),
    "$.deep.text": a_field("STRING"),
    "$.tags[*]": a_field("STRING"),
}


def parsed(*tokens: str) -> tuple[SortKey, ...]:
    return parse_sort(tokens, max_keys=16)


@pytest.mark.parametrize(
    ("token", "key"),
    [
        ("a", SortKey(path="a")),
        ("a:asc", SortKey(path="a")),
        ("a.b-c.d_1:desc", SortKey(path="a.b-c.d_1", descending=True)),
        ("$.a:desc", SortKey(path="a", descending=True)),
        ("meta.label.x", SortKey(path="meta.label.x")),
        ("größe.値:desc", SortKey(path="größe.値", descending=True)),
        ("state", SortKey(path="state")),
        ("@state", SortKey(path="state", source="meta")),
        ("@id:desc", SortKey(path="id", source="meta", descending=True)),
    ],
)
def test_a_key_is_a_path_with_a_direction(token: str, key: SortKey):
    assert parsed(token) == (key,)


@pytest.mark.parametrize(
    "token",
    [
        *(
            "",
            ":",
            "a:",
            "a:UP",
            "a:DESC",
            "a:b:asc",
            ".a",
            "a.",
            "a..b",
            "$.",
            "$.$.a",
            "$",
            "a[0]",
            "a[*]",
            "a,b",
            "a b",
        ),
        *("@", "@version", "@State", "@previousTransition", "@state.x", "@$.state", "@current_state"),
    ],
)
def test_what_is_none_is_refused_with_its_words(token: str):
    with pytest.raises(InvalidFieldPath) as refusal:
        parsed(token)
    assert f'"{token}"' in refusal.value.message


def test_the_same_key_twice_is_refused_even_in_two_directions():
    with pytest.raises(InvalidFieldPath, match="duplicate"):
        parsed("a:desc", "$.a")
    assert len(parsed("state", "@state")) == 2


def test_there_may_be_so_many_keys_and_no_more():
    assert len(parsed(*[f"f{number}" for number in range(16)])) == 16
    with pytest.raises(InvalidFieldPath, match="16"):
        parsed(*[f"f{number}" for number in range(17)])


@pytest.mark.parametrize("path", ["text", "number", "flag", "day", "maybe", "key", "deep.text"])
def test_fields_of_one_ordering_class_can_be_sorted_by(path: str):
    assert resolve_sort([SortKey(path=path)], FIELDS)


@pytest.mark.parametrize("path", ["mixed", "either", "raw", "empty", "deep", "tags", "tags.0", "other", "tags[*]"])
def test_others_cannot(path: str):
    with pytest.raises(InvalidFieldPath) as refusal:
        resolve_sort([SortKey(path=path)], FIELDS)
    assert path in refusal.value.message


def test_an_unknown_metadata_field_is_refused_also_where_no_text_was_parsed():
    with pytest.raises(InvalidFieldPath, match="previousTransition"):
        resolve_sort([SortKey(path="previousTransition", source="meta")], {})


def in_order(values: list[JsonValue], path: str = "number", *, descending: bool = False) -> list[JsonValue]:
    order = resolve_sort([SortKey(path=path, descending=descending)], FIELDS)
    ids = [f"{number:04}" for number in range(len(values))]
    items = [(value, replace(META, id=id_)) for value, id_ in zip(values, ids, strict=True)]
    return [value for value, _ in sort_items(order, items, lambda item: ({path: item[0]}, item[1]))]


def test_numbers_sort_by_exact_value():
    huge = 2**53
    assert in_order([huge + 1, Decimal("0.1"), huge, -1, Decimal("-1E+400")]) == [
        *(Decimal("-1E+400"), -1, Decimal("0.1"), huge, huge + 1)
    ]


def test_missing_values_and_those_of_another_kind_come_last_in_both_directions():
    assert in_order([None, 2, "x", True, 1]) == [1, 2, None, "x", True]
    assert in_order([None, 2, "x", True, 1], descending=True) == [2, 1, None, "x", True]


def test_texts_sort_by_code_points_and_false_before_true():
    assert in_order(["é", "a", "Z", "10", "9"], "text") == ["10", "9", "Z", "a", "é"]
    assert in_order([True, False], "flag") == [False, True]


def test_ids_decide_in_ascending_order_what_keys_leave_open():
    metas = [replace(META, id=id_) for id_ in "cab"]
    for key in (SortKey(path="number"), SortKey(path="state", source="meta", descending=True)):
        found = sort_items(resolve_sort([key], FIELDS), metas, lambda meta: ({}, meta))
        assert [meta.id for meta in found] == ["a", "b", "c"]


def test_an_empty_metadata_text_counts_as_missing_and_an_early_instant_does_not():
    def by(name: str, **values: str | int) -> EntityMeta:
        return replace(META, id=name, **values)

    metas = [by("a", transition="", creation_date=5), by("b", transition="x", creation_date=0)]
    transitions = resolve_sort(parsed("@transitionForLatestSave:desc"), {})
    assert [meta.id for meta in sort_items(transitions, metas, lambda meta: ({}, meta))] == ["b", "a"]
    dates = resolve_sort(parsed("@creationDate"), {})
    assert [meta.id for meta in sort_items(dates, metas, lambda meta: ({}, meta))] == ["b", "a"]
