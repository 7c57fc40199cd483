"""What documents may do to a schema under a change level: docs/reference/models.md#change-level."""

import time
from collections.abc import Callable
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.failures import BadRequest, Failure, PolymorphicSlot
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import (
    ChangeLevel,
    InvalidUniqueKeyDefinition,
    SchemaNode,
    UniqueKey,
    infer,
    merge,
    normalise,
    require_field_limit,
    schema_from_stored,
    schema_to_stored,
)
from tests.unit.schema.builders import compare_and_extend, extend_compiled, schema_of
from tests.unit.schema.strategies import documents, relatives, values

LEVELS = (ChangeLevel.ARRAY_LENGTH, ChangeLevel.ARRAY_ELEMENTS, ChangeLevel.TYPE, ChangeLevel.STRUCTURAL)


def outcome(extend: Callable[[], SchemaNode]) -> SchemaNode | type[Failure]:
    try:
        return extend()
    except Failure as failure:
        return type(failure)


def attempt(schema: SchemaNode, document: JsonValue, level: ChangeLevel) -> SchemaNode | type[Failure]:
    return outcome(lambda: compare_and_extend(schema, document, level))


def attempt_compiled(schema: SchemaNode, document: JsonValue, level: ChangeLevel) -> SchemaNode | type[Failure]:
    return outcome(lambda: extend_compiled(schema, document, level))


def word_for(result: SchemaNode | type[Failure], schema: SchemaNode) -> str:
    if isinstance(result, SchemaNode):
        return "ok" if result is schema else "grow"
    return {BadRequest: "-", PolymorphicSlot: "P"}[result]


def refusal(sample: str, document: str, level: ChangeLevel) -> str:
    with pytest.raises(Failure) as failure:
        compare_and_extend(schema_of(sample), decode(document), level)
    return failure.value.detail


@pytest.mark.parametrize(
    ("sample", "document", "verdicts"),
    [
        # field absent
        ('{"a":1}', "{}", "ok ok ok ok"),
        # new field, anywhere
        ('{"a":1}', '{"a":1,"b":2}', "- - - grow"),
        ('{"a":{}}', '{"a":{"b":null}}', "- - - grow"),
        ('{"a":[{"b":1}]}', '{"a":[{"c":1}]}', "- - - grow"),
        ('{"a":[[{"b":1}]]}', '{"a":[[{"c":1}]]}', "- - - grow"),
        ('{"a":1}', '{"":2}', "- - - grow"),
        # exactly the stored type set
        ('{"a":1}', '{"a":2}', "ok ok ok ok"),
        ('{"a":null}', '{"a":null}', "ok ok ok ok"),
        # narrower, assignable
        ('{"a":2.5}', '{"a":3}', "- - ok ok"),
        ('{"a":[{"b":1},{"b":"x"}]}', '{"a":[{"b":"x"}]}', "- - ok ok"),
        # null into a scalar
        ('{"a":1}', '{"a":null}', "- - ok ok"),
        # not assignable
        ('{"a":1}', '{"a":1.5}', "- - grow grow"),
        ('{"a":1}', '{"a":"x"}', "- - grow grow"),
        ('{"a":"x"}', '{"a":"2024-05-01"}', "- - grow grow"),
        # scalar into a field so far only null
        ('{"a":null}', '{"a":1}', "- - grow grow"),
        # null into a container
        ('{"a":{"b":1}}', '{"a":null}', "- - grow grow"),
        ('{"a":[1]}', '{"a":null}', "- - grow grow"),
        ('{"x":[{"a":{"b":1}},{"a":null}]}', '{"x":[{"a":null}]}', "- - ok ok"),
        # array of scalars with the same element types
        ('{"a":["x"]}', '{"a":["y","z",null]}', "ok ok ok ok"),
        ('{"a":[]}', '{"a":[]}', "ok ok ok ok"),
        ('{"a":[]}', '{"a":[null]}', "ok ok ok ok"),
        ('{"a":[1,"x"]}', '{"a":["y",2]}', "ok ok ok ok"),
        ('{"a":[[1]]}', '{"a":[[2],[3,4]]}', "ok ok ok ok"),
        # [] where elements are scalars
        ('{"a":["x"]}', '{"a":[]}', "- ok ok ok"),
        ('{"a":[[1]]}', '{"a":[[]]}', "- ok ok ok"),
        # assignable element types
        ('{"a":[2.5]}', '{"a":[1]}', "- ok ok ok"),
        ('{"a":[1,"x"]}', '{"a":["x"]}', "- ok ok ok"),
        ('{"a":[1,2.5,5000000000]}', '{"a":[1,2.5,5000000000]}', "ok ok ok ok"),
        # new element types
        ('{"a":[1]}', '{"a":["x"]}', "- grow grow grow"),
        ('{"a":[1]}', '{"a":[2.5]}', "- grow grow grow"),
        ('{"a":[[1]]}', '{"a":[[2.5]]}', "- grow grow grow"),
        # only [] was seen
        ('{"a":[]}', '{"a":["x"]}', "- grow grow grow"),
        # null among objects
        ('{"a":[{"b":1}]}', '{"a":[{"b":1},null]}', "grow grow grow grow"),
        ('{"a":[{"b":1},null]}', '{"a":[null,{"b":1}]}', "ok ok ok ok"),
        # [] where elements are objects or arrays
        ('{"a":[{"b":1}]}', '{"a":[]}', "- grow grow grow"),
        ('{"a":[[1]]}', '{"a":[]}', "- grow grow grow"),
        ('{"a":[{"b":1},null]}', '{"a":[]}', "- ok ok ok"),
        # [null] where elements are objects or arrays
        ('{"a":[{"b":1}]}', '{"a":[null]}', "- grow grow grow"),
        ('{"a":[[1]]}', '{"a":[null]}', "- grow grow grow"),
        ('{"a":[{"b":1},null]}', '{"a":[null]}', "- ok ok ok"),
        # type change inside elements
        ('{"a":[{"b":1}]}', '{"a":[{"b":"x"}]}', "- - grow grow"),
        # kinds that differ
        ('{"a":1}', '{"a":{}}', "P P P P"),
        ('{"a":1}', '{"a":[]}', "P P P P"),
        ('{"a":{}}', '{"a":1}', "P P P P"),
        ('{"a":{}}', '{"a":[]}', "P P P P"),
        ('{"a":[]}', '{"a":"x"}', "P P P P"),
        ('{"a":[]}', '{"a":{}}', "P P P P"),
        ('{"a":[1]}', '{"a":[[1]]}', "P P P P"),
        ('{"a":[[1]]}', '{"a":[{}]}', "P P P P"),
        # a lone scalar in a mixed slot
        ('{"v":[{"a":1},"x"]}', '{"v":["y"]}', "P P P P"),
        ('{"v":[{"a":1},"x"]}', '{"v":[{"a":2},"y"]}', "ok ok ok ok"),
        # not expressible: refused with 500 by the reference
        ('{"a":null}', '{"a":{"b":1}}', "- - - -"),
        ('{"a":null}', '{"a":[]}', "- - - -"),
        ('{"a":[]}', '{"a":[{"b":1}]}', "- - - -"),
        ('{"a":[]}', '{"a":[[1]]}', "- - - -"),
        ('{"a":[{"a":1}]}', '{"a":[{"a":2},"x"]}', "- - - -"),
        ('{"a":[[1]]}', '{"a":[[2],true]}', "- - - -"),
        # new sub-trees are taken over as they are
        ("{}", '{"a":[{"b":null},"x",{"b":[]}]}', "- - - grow"),
        # other roots
        ("{}", "null", "- - grow grow"),
        ("{}", "1", "P P P P"),
        ("{}", "[]", "P P P P"),
        ("[1]", "[2]", "ok ok ok ok"),
    ],
)
def test_each_level_lets_through_what_the_matrix_says(sample: str, document: str, verdicts: str):
    schema = schema_of(sample)
    for way in (attempt, attempt_compiled):
        results = [way(schema, decode(document), level) for level in LEVELS]
        assert [word_for(result, schema) for result in results] == verdicts.split()


@pytest.mark.parametrize(
    ("sample", "document", "level", "reason"),
    [
        ('{"a":{}}', '{"a":{"b":1}}', "TYPE", 'new field "b" at .a.b requires STRUCTURAL level, but level is "TYPE"'),
        (
            '{"a":[{"b":1}]}',
            '{"a":[{"b":"x"}]}',
            "ARRAY_ELEMENTS",
            'type change at .a[].b requires TYPE level, but level is "ARRAY_ELEMENTS"',
        ),
        (
            '{"a":{"b":[1]}}',
            '{"a":{"b":null}}',
            "ARRAY_LENGTH",
            'nullable marker at .a.b requires TYPE level, but level is "ARRAY_LENGTH"',
        ),
        (
            '{"a":[[1]]}',
            '{"a":[["x"]]}',
            "ARRAY_LENGTH",
            'array element type change at .a[][] requires ARRAY_ELEMENTS level, but level is "ARRAY_LENGTH"',
        ),
        (
            '{"a":[{}]}',
            '{"a":[]}',
            "ARRAY_LENGTH",
            'nullable marker on array element at .a[] requires ARRAY_ELEMENTS level, but level is "ARRAY_LENGTH"',
        ),
    ],
)
def test_a_refusal_names_the_change_and_the_level_it_needs(sample: str, document: str, level: str, reason: str):
    assert refusal(sample, document, ChangeLevel(level)) == f"BAD_REQUEST: change level violation: {reason}"


@pytest.mark.parametrize(
    ("sample", "document", "place"),
    [
        ('{"a":{"b":1}}', '{"a":{"b":[1]}}', ".a.b: ARRAY where the model has LEAF"),
        ('{"a":[{}]}', '{"a":["x"]}', ".a[]: LEAF where the model has OBJECT"),
        ("{}", "7", "$: LEAF where the model has OBJECT"),
    ],
)
def test_a_kind_conflict_names_the_place_and_both_kinds_and_no_level(sample: str, document: str, place: str):
    detail = refusal(sample, document, ChangeLevel.STRUCTURAL)
    assert detail == f"POLYMORPHIC_SLOT: polymorphic slot at {place}"


@pytest.mark.parametrize(
    ("sample", "document", "reason"),
    [
        ('{"a":null}', '{"a":{"b":1}}', ".a: known only as null so far, cannot become OBJECT"),
        ('{"a":[]}', '{"a":[[1]]}', ".a[]: known only as null so far, cannot become ARRAY"),
        ('{"a":[{"b":1}]}', '{"a":[{},true,"x"]}', ".a[]: known as OBJECT, cannot also hold STRING, BOOLEAN"),
        ('{"a":[{"b":1},2]}', '{"a":[{},2.5]}', ".a[]: known as OBJECT, cannot also hold DOUBLE"),
    ],
)
def test_what_the_schema_cannot_express_is_a_bad_request_naming_the_place(sample: str, document: str, reason: str):
    detail = refusal(sample, document, ChangeLevel.STRUCTURAL)
    assert detail == f"BAD_REQUEST: the schema cannot be extended at {reason}"


def test_an_extension_is_the_merge():
    """The example of docs/reference/models.md#refusals-under-a-change-level."""
    grown = compare_and_extend(
        schema_of('{"name":"a","amount":1}'), decode('{"name":"b","amount":2.5,"vip":true}'), ChangeLevel.STRUCTURAL
    )
    assert grown == schema_of('{"name":"a","amount":2.5,"vip":true}')


def test_a_document_that_teaches_nothing_leaves_the_very_same_schema():
    schema = schema_of('{"a":2.5}')
    assert compare_and_extend(schema, decode('{"a":3}'), ChangeLevel.TYPE) is schema


def test_a_unique_key_must_stay_on_scalars():
    """The guard comes before the refusal of what cannot be expressed
    (docs/reference/models.md#refusals-under-a-change-level).
    """
    schema, keys = schema_of('{"a":null}'), [UniqueKey("k", ("$.a",))]
    for extend in (compare_and_extend, extend_compiled):
        with pytest.raises(InvalidUniqueKeyDefinition) as failure:
            extend(schema, decode('{"a":{"b":1}}'), ChangeLevel.TYPE, keys)
        assert failure.value.detail == (
            "INVALID_UNIQUE_KEY_DEFINITION: schema change would invalidate a composite unique key: "
            'key "k": field "$.a" is not a known scalar leaf'
        )


def test_a_unique_key_does_not_hinder_other_growth():
    keys = [UniqueKey("k", ("$.a",))]
    grown = compare_and_extend(schema_of('{"a":1}'), decode('{"a":"x","b":[1]}'), ChangeLevel.STRUCTURAL, keys)
    assert grown == schema_of('{"a":1}', '{"a":"x","b":[1]}')


def test_levels_include_those_before_them():
    included = [[level.includes(other) for other in LEVELS] for level in LEVELS]
    assert included == [[rank >= other for other in range(4)] for rank in range(4)]


@pytest.mark.parametrize(("opening", "closing"), [('{"a":' * 256, "}" * 256), ("[" * 256, "]" * 256)])
def test_the_deepest_document_can_extend_a_schema(opening: str, closing: str):
    deep, other = f"{opening}1{closing}", f'{opening}"x"{closing}'
    known = schema_of(deep)
    assert extend_compiled(known, decode(deep), ChangeLevel.STRUCTURAL) is known
    assert extend_compiled(known, decode(other), ChangeLevel.STRUCTURAL) == schema_of(deep, other)


LEVEL = st.sampled_from(LEVELS)


@given(relatives(), LEVEL)
def test_the_compiled_extender_decides_as_the_comparison_does(pair: tuple[JsonObject, JsonObject], level: ChangeLevel):
    sample, document = pair
    schema = normalise(infer(sample))
    assert attempt_compiled(schema, document, level) == attempt(schema, document, level)


@given(documents(), LEVEL)
def test_a_sample_teaches_its_own_schema_nothing(sample: JsonObject, level: ChangeLevel):
    schema = normalise(infer(sample))
    assert extend_compiled(schema, sample, level) is schema


@given(st.lists(relatives(), min_size=1, max_size=3), values(), LEVEL)
def test_the_schema_is_the_fold_of_what_was_accepted(
    pairs: list[tuple[JsonObject, JsonObject]], stranger: JsonValue, level: ChangeLevel
):
    """Law 8 of docs/reference/models.md#models, whatever storage does between the writes."""
    accepted: list[JsonValue] = [pairs[0][0]]
    schema = normalise(infer(pairs[0][0]))
    for document in (*(document for pair in pairs for document in pair), stranger):
        result = attempt(schema, document, level)
        if isinstance(result, SchemaNode):
            accepted.append(document)
            schema = schema_from_stored(schema_to_stored(result))
    assert schema == normalise(reduce(merge, map(infer, accepted)))


@given(relatives(), documents())
def test_parallel_extensions_converge(pair: tuple[JsonObject, JsonObject], other: JsonObject):
    """docs/reference/models.md#atomicity-of-growth: two writers that extend the same schema end with what a serial
    order gives.
    """
    sample, one = pair
    schema = normalise(infer(sample))
    first, second = (attempt(schema, document, ChangeLevel.STRUCTURAL) for document in (one, other))
    if isinstance(first, SchemaNode) and isinstance(second, SchemaNode):
        assert merge(first, second) == merge(second, first)
        serial = attempt(first, other, ChangeLevel.STRUCTURAL)
        assert not isinstance(serial, SchemaNode) or serial == normalise(merge(first, second))


@given(relatives(), LEVEL, LEVEL)
def test_a_higher_level_accepts_all_that_a_lower_one_does(
    pair: tuple[JsonObject, JsonObject], one: ChangeLevel, other: ChangeLevel
):
    sample, document = pair
    schema = normalise(infer(sample))
    lower, higher = sorted((one, other), key=LEVELS.index)
    accepted = attempt(schema, document, lower)
    assert not isinstance(accepted, SchemaNode) or attempt(schema, document, higher) == accepted


def test_a_schema_grows_to_ten_thousand_fields_and_no_further():
    full = normalise(infer({f"k{n}": 1 for n in range(10_000)}))
    assert attempt(schema_of("{}"), {f"k{n}": 1 for n in range(10_000)}, ChangeLevel.STRUCTURAL) == full
    with pytest.raises(BadRequest, match=r"would have 10001 fields, and 10000 is the most"):
        compare_and_extend(full, {"one": 1}, ChangeLevel.STRUCTURAL)
    with pytest.raises(BadRequest, match=r"would have 10002 fields"):
        compare_and_extend(full, {"k1": 1, "more": [1]}, ChangeLevel.STRUCTURAL)


def test_a_schema_that_is_larger_already_may_change_its_types():
    large = normalise(infer({f"k{n}": 1 for n in range(10_001)}))
    extended = compare_and_extend(large, {"k1": "a text"}, ChangeLevel.STRUCTURAL)
    assert isinstance(extended, SchemaNode)
    assert extended != large


def test_a_long_name_above_many_fields_is_refused():
    sample: JsonValue = {"n" * 5_000_000: {f"k{n}": 1 for n in range(9_000)}}
    with pytest.raises(BadRequest, match=r"paths of the model's fields would have 4\d{10} characters together"):
        require_field_limit(normalise(infer(sample)))


def test_many_new_fields_below_a_long_name_are_compared_quickly():
    name = "n" * 5_000_000
    taken = time.process_time()
    with pytest.raises(BadRequest, match="paths of the model"):
        compare_and_extend(
            normalise(infer({name: {"a": 1}})), {name: {f"k{n}": 1 for n in range(9_000)}}, ChangeLevel.STRUCTURAL
        )
    assert time.process_time() - taken < 5
