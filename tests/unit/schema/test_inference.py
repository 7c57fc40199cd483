"""From samples to types and trees: every row of the tables in docs/reference/models.md#the-schema."""

import itertools
import time
from decimal import Decimal
from functools import reduce

import pytest
from hypothesis import given

from statewright.failures import BadRequest
from statewright.jsonval.codec import decode
from statewright.jsonval.numbers import DECIMAL_TYPES, INTEGER_TYPES
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema import ChangeLevel, Kind, SchemaNode, infer, merge, normalise
from statewright.schema.node import collapse, find_sample_limit, leaf, type_set
from tests.unit.schema.builders import compare_and_extend, schema_of, types_of
from tests.unit.schema.strategies import values


@pytest.mark.parametrize(
    ("literals", "expected"),
    [
        ("1 1.0 1e0 -0.0 100 2147483647 -2147483648", "INTEGER"),
        ("2147483648 -2147483649 9223372036854775807 -9223372036854775808", "LONG"),
        ("9223372036854775808 -9223372036854775809 170141183460469231731687303715884105727", "BIG_INTEGER"),
        ("-170141183460469231731687303715884105728", "BIG_INTEGER"),
        ("170141183460469231731687303715884105728 -170141183460469231731687303715884105729", "UNBOUND_INTEGER"),
        ("1e60 2.5e200 1e6144", "UNBOUND_INTEGER"),
        ("0.1 1.5 2.71828182845904 1e-292", "DOUBLE"),
        ("2.718281828459045 2.718281828459045235", "BIG_DECIMAL"),
        ("31415926535897932384.626433832795028841 170141183460469231731.5", "BIG_DECIMAL"),
        ("2.71828182845904523536 31415926535897932384.6264338327950288419", "UNBOUND_DECIMAL"),
        ("1e-293 170141183460469231732.5", "UNBOUND_DECIMAL"),
    ],
)
def test_a_number_is_classified_by_its_exact_value(literals: str, expected: str):
    assert {types_of(literal) for literal in literals.split()} == {expected}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024", "0000", "9999"], "YEAR"),
        (["2024-09"], "YEAR_MONTH"),
        (["2024-02-29", "0000-01-01"], "LOCAL_DATE"),
        (["9:30", "09:30:15,25", "23:59:59.123456789"], "LOCAL_TIME"),
        (["2024-09-09T10:30"], "LOCAL_DATE_TIME"),
        (["2024-09-09T10:30Z", "2024-09-09T10:30:00.5+02:00"], "ZONED_DATE_TIME"),
        (["20245", "+2024", "2024-13", "2024-02-30", "24:00", "09:5", "2024-09-09 10:30:00"], "STRING"),
        (["2024-09-09T10:30+0100", "2024-09-09T10:30+01", "2024-09-09t10:30", "2024-09-09T10:30z"], "STRING"),
        (["2024-09-09T10:30+01:00[Europe/Paris]", " 2024", "2024\\n", "٢٠٢٤", "", "x"], "STRING"),
        (["3f2504e0-4f89-11d3-9a0c-0305e82c3301"], "STRING"),
    ],
)
def test_a_text_is_classified_by_its_shape(texts: list[str], expected: str):
    assert {types_of(f'"{text}"') for text in texts} == {expected}


@pytest.mark.parametrize(("literal", "expected"), [("true", "BOOLEAN"), ("false", "BOOLEAN"), ("null", "NULL")])
def test_the_other_scalars_have_a_type_each(literal: str, expected: str):
    assert types_of(literal) == expected


@pytest.mark.parametrize(
    ("members", "result"),
    [
        ("INTEGER LONG", "LONG"),
        ("LONG BIG_INTEGER UNBOUND_INTEGER", "UNBOUND_INTEGER"),
        ("INTEGER DOUBLE", "DOUBLE"),
        ("LONG DOUBLE", "UNBOUND_DECIMAL"),
        ("INTEGER BIG_DECIMAL", "BIG_DECIMAL"),
        ("LONG BIG_DECIMAL", "BIG_DECIMAL"),
        *((f"BIG_INTEGER {decimal}", "UNBOUND_DECIMAL") for decimal in DECIMAL_TYPES),
        *((f"UNBOUND_INTEGER {decimal}", "UNBOUND_DECIMAL") for decimal in DECIMAL_TYPES),
        ("DOUBLE BIG_DECIMAL", "UNBOUND_DECIMAL"),
        *((f"{number} UNBOUND_DECIMAL", "UNBOUND_DECIMAL") for number in (*INTEGER_TYPES, *DECIMAL_TYPES)),
    ],
)
def test_several_numeric_types_collapse_into_one(members: str, result: str):
    assert collapse(map(DataType, members.split())) == result


def test_collapsing_depends_neither_on_order_nor_on_grouping_nor_on_repetition():
    numerics = (*INTEGER_TYPES, *DECIMAL_TYPES)
    for a, b, c in itertools.product(numerics, repeat=3):
        assert collapse((collapse((a, b)), c)) == collapse((a, collapse((b, c)))) == collapse((c, b, a, a))


def test_a_type_set_is_in_canonical_order_without_null():
    everything = type_set(reversed(DataType))
    assert everything == tuple(
        data_type for data_type in DataType if data_type not in (*INTEGER_TYPES, "DOUBLE", "BIG_DECIMAL", "NULL")
    )
    assert type_set([DataType.NULL]) == (DataType.NULL,)


def element_types(sample: str) -> str:
    element = infer(decode(sample)).element
    return "-" if element is None else f"{element.kind} {' '.join(element.types)}".strip()


@pytest.mark.parametrize(
    ("sample", "element"),
    [
        ("[]", "LEAF NULL"),
        ("[null]", "LEAF NULL"),
        ('["a",null]', "LEAF STRING"),
        ("[1,2.5,5000000000]", "LEAF UNBOUND_DECIMAL"),
        ('[1,"x",true,null]', "LEAF INTEGER STRING BOOLEAN"),
        ("[[1],[2.5]]", "ARRAY"),
        ("[{}]", "OBJECT"),
        ("[{},null]", "OBJECT NULL"),
        ("[null,[]]", "ARRAY NULL"),
        ('[{},"x",null,1]', "OBJECT INTEGER STRING"),
        ('["x",[]]', "ARRAY STRING"),
        ("[[],{}]", "OBJECT"),
    ],
)
def test_the_items_of_an_array_share_one_node(sample: str, element: str):
    assert element_types(sample) == element


def test_objects_in_an_array_pool_their_members():
    element = infer(decode('[{"a":1},{"b":2}]')).element
    assert element is not None
    assert set(element.children) == {"a", "b"}


def test_member_names_are_kept_as_they_are():
    assert set(schema_of('{"":1,"a.b":1,"[]":1,"/":1}').children) == {"", "a.b", "[]", "/"}


def test_imports_widen_and_mix_and_never_fail():
    schema = schema_of('{"a":1}', '{"a":"x"}', '{"a":{"b":1}}', '{"a":null}')
    assert schema.children["a"] == SchemaNode(
        kind=Kind.OBJECT, types=(DataType.INTEGER, DataType.STRING), children={"b": leaf(DataType.INTEGER)}
    )


def test_the_array_branch_of_an_object_or_array_slot_is_lost():
    schema = schema_of('{"x":[{"a":1},[2,3]]}')
    assert schema == schema_of('{"x":[{"a":1}]}')


def test_importing_a_sample_again_changes_nothing():
    sample = '{"x":[{"a":1},[2,3],null,"s"],"y":null,"z":{"w":[[]]}}'
    assert schema_of(sample, sample) == schema_of(sample)


@given(values(), values())
def test_merging_is_commutative(a: JsonValue, b: JsonValue):
    assert merge(infer(a), infer(b)) == merge(infer(b), infer(a))


@given(values(), values(), values())
def test_merging_is_associative(a: JsonValue, b: JsonValue, c: JsonValue):
    left, middle, right = infer(a), infer(b), infer(c)
    assert merge(merge(left, middle), right) == merge(left, merge(middle, right))


@given(values(), values())
def test_merging_is_idempotent(a: JsonValue, b: JsonValue):
    merged = merge(infer(a), infer(b))
    assert merge(merged, infer(a)) == merge(merged, merged) == merged


@given(values())
def test_normal_form_is_idempotent(value: JsonValue):
    once = normalise(infer(value))
    assert normalise(once) == once


@given(values(), values(), values())
def test_normal_form_may_be_taken_at_any_time(a: JsonValue, b: JsonValue, c: JsonValue):
    """Whether after each import or once at the end."""
    trees = [infer(a), infer(b), infer(c)]
    stepwise = reduce(lambda known, new: normalise(merge(known, new)), trees)
    assert normalise(stepwise) == normalise(reduce(merge, trees))


@given(values(), values(), values(), values())
def test_the_items_of_an_array_are_what_merging_makes_of_them(a: JsonValue, b: JsonValue, c: JsonValue, d: JsonValue):
    items: list[JsonValue] = [a, b, c, d, *range(-2, 3)]
    assert infer(items).element == reduce(merge, map(infer, items))


@pytest.mark.parametrize(
    "numbers",
    [(1, 2**31), (-(2**31) - 1, 5), (2**63, -1), (-(2**127) - 1, 0), (1, Decimal("1.5")), (2**62, Decimal("1.5")), ()],
)
def test_whole_numbers_of_an_array_are_learnt_as_if_one_by_one(numbers: tuple[JsonValue, ...]):
    expected = reduce(merge, map(infer, numbers), infer(None))
    assert infer([None, *numbers]).element == expected
    assert infer([]).element == infer(None)


@pytest.mark.parametrize(
    "sample",
    [
        [{f"k{n}": n} for n in range(300_000)],
        {f"k{n}": n for n in range(300_000)},
        [[[{f"k{n}": {"a": n}}]] for n in range(300_000)],
    ],
)
def test_a_sample_of_too_many_names_is_left_where_the_limit_is_met(sample: JsonValue):
    taken = time.process_time()
    with pytest.raises(BadRequest, match="would have more than 20000 fields, and 10000 is the most"):
        infer(sample, find_sample_limit())
    assert time.process_time() - taken < 5


def test_learning_many_different_names_takes_time_in_proportion_to_them():
    sample: JsonValue = [{f"k{n}": n} for n in range(100_000)]
    taken = time.process_time()
    assert len((infer(sample).element or infer(None)).children) == 100_000
    assert time.process_time() - taken < 5


def test_a_long_array_of_numbers_is_learnt_quickly():
    sample: JsonValue = [7] * 5_000_000
    taken = time.process_time()
    assert infer(sample).element == infer(7)
    assert time.process_time() - taken < 3


def test_a_model_beyond_the_limit_takes_samples_as_large_as_itself():
    large: JsonValue = {f"k{n}": 1 for n in range(30_000)}
    known = normalise(infer(large))
    assert find_sample_limit(known) == 30_000
    assert compare_and_extend(known, large, ChangeLevel.STRUCTURAL) is known
