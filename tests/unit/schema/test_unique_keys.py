"""Composite unique keys: which are allowed, and what a document claims (docs/reference/models.md#unique-keys)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.codec import decode, decode_stored, encode
from statewright.jsonval.values import JsonValue
from statewright.schema import InvalidUniqueKey, UniqueKey, find_definition_fault, flatten_fields, read_claims
from statewright.schema.unique_keys import INCOMPLETE, NULL_OR_INVALID
from tests.unit.schema.builders import schema_of

SCHEMA = schema_of(
    '{"no":1,"note":null,"customer":{"email":"x"},"tags":["x"],"lines":[{"sku":"A"}],"a.b":1,"m":[1],"odd[0]":1,"*":1}',
    '{"no":"x"}',
    '{"ref":"x"}',
    '{"ref":{"id":1}}',
    '{"m":"x"}',
)


def key(*fields: str) -> UniqueKey:
    return UniqueKey("k", fields)


def claimed(fields: tuple[str, ...], document: str) -> bytes:
    """The values of the one claim; empty when the document is exempt."""
    found = read_claims([key(*fields)], decode(document))
    return b"".join(claim.values for claim in found)


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ([UniqueKey("", ("$.no",))], "key ID must not be empty"),
        ([key("$.no"), key("$.ref")], 'duplicate key ID "k"'),
        ([key()], 'key "k" has no fields'),
        ([key("$.no", "$.ref", "$.no")], 'key "k": duplicate field "$.no"'),
        *(
            ([key("$.no", path)], f'key "k": field "{path}" is not a known scalar leaf')
            for path in (
                "no",
                "$",
                "$.",
                "",
                "$.none",
                "$.customer",
                "$.customer.email.x",
                "$.tags",
                "$.tags[*]",
                "$.tags[0]",
                "$.lines",
                "$.lines[*].sku",
                "$.lines.sku",
                "$.m",
                "$.odd[0]",
                "$.*",
                "$.a.b",
            )
        ),
        ([key("$.none"), UniqueKey("", ())], 'key "k": field "$.none" is not a known scalar leaf'),
    ],
)
def test_the_first_fault_of_a_definition_is_named(keys: list[UniqueKey], fault: str):
    assert find_definition_fault(keys, SCHEMA) == fault


@pytest.mark.parametrize("path", ["$.no", "$.note", "$.customer.email", "$.ref", "$.ref.id"])
def test_scalar_leaves_may_be_fields_of_keys(path: str):
    """Polymorphic ones, those only seen as null, and slots that are also objects included."""
    assert find_definition_fault([key(path)], SCHEMA) is None
    assert path in flatten_fields(SCHEMA)


def test_several_keys_may_share_fields():
    assert find_definition_fault([UniqueKey("a", ("$.no", "$.ref")), UniqueKey("b", ("$.no",))], SCHEMA) is None


def test_no_keys_are_no_fault():
    assert find_definition_fault([], SCHEMA) is None


@pytest.mark.parametrize(
    "document", ["{}", '{"a":null}', '{"a":null,"b":{"c":null}}', '{"b":{}}', '{"b":7}', '{"b":[1]}']
)
def test_a_document_without_any_field_of_a_key_is_exempt(document: str):
    assert read_claims([key("$.a", "$.b.c")], decode(document)) == ()


@pytest.mark.parametrize(
    "document",
    [
        '{"a":1}',
        '{"a":1,"b":{"c":null}}',
        '{"a":1,"b":[{"c":1}]}',
        '{"b":{"c":1}}',
        '{"a":{},"b":{"c":1}}',
        '{"a":[],"b":{"c":1}}',
        f'{{"a":{"7" * 65},"b":{{"c":1}}}}',
        f'{{"a":0.{"7" * 65},"b":{{"c":1}}}}',
        '{"a":1.5e-6144,"b":{"c":1}}',
        f'{{"a":1{"0" * 6145},"b":{{"c":1}}}}',
    ],
)
def test_a_key_must_be_complete_and_scalar(document: str):
    with pytest.raises(InvalidUniqueKey) as refusal:
        read_claims([key("$.a", "$.b.c")], decode_stored(document))
    assert refusal.value.detail == f"INVALID_UNIQUE_KEY: {INCOMPLETE}"
    assert refusal.value.status == 422


def test_the_refusal_of_a_final_document_has_words_of_its_own():
    with pytest.raises(InvalidUniqueKey, match="one or more unique key fields are null or invalid"):
        read_claims([key("$.a", "$.b")], {"a": 1}, refusal=NULL_OR_INVALID)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "7.0"),
        ("7", "0.7e1"),
        ("700", "7e2"),
        ("0", "-0"),
        ("0", "-0.0"),
        ("0", "0e100"),
        ("-1.50", "-15e-1"),
        ("1e70", "1" + "0" * 70),
        ("1e-70", "0." + "0" * 69 + "1"),
        ('"a"', '"\\u0061"'),
    ],
)
def test_equal_values_make_equal_claims(one: str, other: str):
    assert claimed(("$.a",), f'{{"a":{one}}}') == claimed(("$.a",), f'{{"a":{other}}}') != b""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9007199254740992", "9007199254740993"),
        ("5", '"5"'),
        ("1", "true"),
        ("0", "false"),
        ("true", '"true"'),
        ("true", "false"),
        ("7", "-7"),
        ("7", "70"),
        ('"a"', '"A"'),
        ('"a"', '"a "'),
        ('"é"', '"e\u0301"'),
        ('"2024-05-01T10:00Z"', '"2024-05-01T10:00:00Z"'),
        ('""', '"0"'),
    ],
)
def test_different_values_make_different_claims(one: str, other: str):
    assert claimed(("$.a",), f'{{"a":{one}}}') != claimed(("$.a",), f'{{"a":{other}}}')


def test_each_key_makes_a_claim_of_its_own():
    keys = [UniqueKey("x", ("$.a",)), UniqueKey("y", ("$.b",)), UniqueKey("z", ("$.c",))]
    found = read_claims(keys, {"a": 1, "c": 1})
    assert [claim.key_id for claim in found] == ["x", "z"]
    assert found[0].values == found[1].values


def test_the_order_of_fields_is_part_of_the_claim():
    assert claimed(("$.a", "$.b"), '{"a":1,"b":2}') != claimed(("$.b", "$.a"), '{"a":1,"b":2}')


def scalars() -> st.SearchStrategy[JsonValue]:
    texts = st.text(st.sampled_from("ab1:ns0"), max_size=6)
    numbers = st.integers(-200, 200) | st.decimals(-20, 20, places=1).map(lambda number: Decimal(number))
    return texts | st.booleans() | numbers


@given(st.lists(scalars(), min_size=2, max_size=2), st.lists(scalars(), min_size=2, max_size=2))
def test_claims_are_equal_exactly_when_the_values_are(one: list[JsonValue], other: list[JsonValue]):
    """Separators and lengths inside the values included."""
    first, second = (read_claims([key("$.a", "$.b")], {"a": pair[0], "b": pair[1]}) for pair in (one, other))
    assert (first == second) == (list(map(identity, one)) == list(map(identity, other)))


def identity(value: JsonValue) -> tuple[str, object]:
    if isinstance(value, bool | str):
        return type(value).__name__, value
    return "number", value


@given(scalars())
def test_a_claim_survives_storage_of_the_document(value: JsonValue):
    document: JsonValue = {"a": value}
    assert read_claims([key("$.a")], decode(encode(document))) == read_claims([key("$.a")], document)
