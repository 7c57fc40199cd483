"""Documents of instances without their large values (docs/adr/0029-large-values-stay-out-of-documents.md)."""

import copy
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statewright.jsonval.codec import decode_stored, encode, encode_large
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.processes import large_values
from statewright.services.processes.large_values import (
    ApartValues,
    Path,
    Reduced,
    encode_values,
    find_apart,
    get_at,
    insert_encoded,
    leave_out_known,
    leave_out_lasting,
    list_places,
    put_back,
)

PATTERNS = (("input",), ("results",), ("tokens", "*", "payloads", "*"))
SMALL_CHARS = 64
"""What a value may have in these tests before it is large."""

values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text("ab", max_size=4) | st.just("x" * 2 * SMALL_CHARS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.lists(st.integers(0, 9), min_size=SMALL_CHARS, max_size=SMALL_CHARS)
    ),
    max_leaves=8,
)
documents = st.fixed_dictionaries(
    {
        "id": st.text("ab", max_size=3),
        "input": values,
        "results": st.dictionaries(st.sampled_from("stuv"), values, max_size=4),
        "tokens": st.lists(st.fixed_dictionaries({"payloads": st.lists(values, max_size=2)}), max_size=3),
    }
)


def reduce_lasting(reduced: Reduced, patterns: Sequence[Path], before: JsonObject, known: ApartValues) -> Reduced:
    return leave_out_lasting(reduced, patterns, before, known, encode_values(reduced.document, patterns))


def restore(document: JsonObject, stored: dict[str, JsonValue]) -> JsonObject:
    """What a node reads that knows nothing of the instance."""
    whole = copy.deepcopy(document)
    for place in list_places(whole):
        put_back(whole, place.at, stored[place.name])
    whole.pop("parts", None)
    return whole


@given(documents, documents)
@settings(max_examples=300)
def test_what_is_left_out_is_put_back_and_nothing_is_changed_in_place(before: JsonObject, document: JsonObject) -> None:
    document["results"] = {**document["results"], **before["results"]}
    untouched, stored = copy.deepcopy(document), dict[str, JsonValue]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_values, "MIN_APART_CHARS", SMALL_CHARS)
        first = reduce_lasting(leave_out_known(document, PATTERNS, {}), PATTERNS, before, {})
        stored |= {one.name: decode_stored(bytes(one.value).decode()) for one in first.stored}
        again = leave_out_known(document, PATTERNS, first.apart)
        assert again.apart == first.apart
        changed = {**document, "tokens": [*document["tokens"], {"payloads": [1]}]}
        next_ = reduce_lasting(leave_out_known(changed, PATTERNS, first.apart), PATTERNS, document, first.apart)
        stored |= {one.name: decode_stored(bytes(one.value).decode()) for one in next_.stored}
    assert document == untouched
    for reduced, whole in ((first, document), (again, document), (next_, changed)):
        assert restore(reduced.document, stored) == whole
        places = list_places(reduced.document)
        assert all(get_at(reduced.document, place.at) is None for place in places)
        assert {one.name for one in find_apart(whole, places).values()} == {place.name for place in places}


def test_a_value_is_set_apart_when_it_has_lasted_and_stays_so_by_identity() -> None:
    rows: JsonValue = [{"n": n, "text": "x" * 80} for n in range(1_000)]
    document: JsonObject = {"input": {"id": 7, "rows": rows}, "results": {}, "tokens": []}
    new = reduce_lasting(leave_out_known(document, PATTERNS, {}), PATTERNS, {"input": {}}, {})
    assert (new.document, new.stored) == (document, ())
    lasting = reduce_lasting(leave_out_known(document, PATTERNS, {}), PATTERNS, copy.deepcopy(document), {})
    [part] = lasting.stored
    assert lasting.document["input"] == {"id": 7, "rows": None}
    assert lasting.document["parts"] == [
        {"at": ["input", "rows"], "names": [part.name], "chars": len(bytes(part.value))}
    ]
    moved: JsonObject = {**document, "input": {"id": 8}, "tokens": [{"payloads": [rows]}]}
    later = leave_out_known(moved, PATTERNS, lasting.apart)
    assert later.document["tokens"] == [{"payloads": [None]}]
    assert [place.at for place in list_places(later.document)] == [("tokens", 0, "payloads", 0)]


def test_objects_of_few_members_stay_for_those_who_search_them() -> None:
    long_list: JsonValue = ["y" * 1_000] * 1_000
    document: JsonObject = {"input": {"order": {"sku": "a", "lines": long_list}}, "results": {}}
    reduced = reduce_lasting(leave_out_known(document, PATTERNS, {}), PATTERNS, document, {})
    assert reduced.document["input"] == {"order": {"sku": "a", "lines": None}}
    many: JsonObject = {str(n): "z" * 1_000 for n in range(large_values.MAX_SEARCHED_MEMBERS + 1)}
    document = {"input": many, "results": {}}
    assert reduce_lasting(leave_out_known(document, PATTERNS, {}), PATTERNS, document, {}).document["input"] is None


@pytest.mark.parametrize("at", [[], ["nowhere", "deep"], ["tokens", 3], ["id", "x"]])
def test_a_place_that_is_not_there_is_damage(at: list[JsonValue]) -> None:
    with pytest.raises(ValueError, match="damaged"):
        put_back({"id": "a", "tokens": []}, at, 1)


@given(documents)
@settings(max_examples=200)
def test_a_value_with_inserted_texts_is_encoded_as_the_value_itself(document: JsonObject) -> None:
    untouched = copy.deepcopy(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_values, "MIN_APART_CHARS", SMALL_CHARS)
        encoded = encode_values(document, PATTERNS)
    written: JsonObject = {"document": document, "again": [document["input"], document["results"]]}
    assert encode(insert_encoded(written, encoded)) == encode(written)
    assert encode_large(insert_encoded(written, encoded)) == encode(written)
    assert document == untouched
