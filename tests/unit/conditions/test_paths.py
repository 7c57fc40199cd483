"""Field paths: what they may look like and what they lead to (docs/reference/conditions.md#paths,
docs/reference/conditions.md#what-a-path-finds; decisions S2, S13).
"""

import pytest

from statewright.conditions.paths import EACH, MAX_STEPS, Path, array_at, parse_path
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import a_field, matches, simple

LINES = {"$.lines[*].sku": a_field("STRING"), "$.lines[*].qty": a_field("INTEGER"), "$.tags[*]": a_field("STRING")}
NESTED = {"$.lots[*].lines[*].sku": a_field("STRING"), "$.grid[*][*]": a_field("INTEGER")}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$", ()),
        ("$.order.buyer", ("order", "buyer")),
        ("order.buyer", ("order", "buyer")),
        ("  $.order  ", ("order",)),
        ("$.lines[*].sku", ("lines", EACH, "sku")),
        ("lines[*].sku", ("lines", EACH, "sku")),
        ("$.grid[*][*]", ("grid", EACH, EACH)),
        ("$.lines[0].sku", ("lines", 0, "sku")),
        ("$.lines[12][*]", ("lines", 12, EACH)),
        ("$.lines.0.sku", ("lines", "0", "sku")),
        ("$.first name.größe-x_1", ("first name", "größe-x_1")),
        ("$ref", ("$ref",)),
        ("$" + ".a" * MAX_STEPS, ("a",) * MAX_STEPS),
    ],
)
def test_a_path_is_a_row_of_steps(text: str, steps: tuple[object, ...]):
    path = parse_path(text)
    assert path is not None
    assert path.steps == steps


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "$.",
        "$..sku",
        "$.a.",
        ".a",
        "$.a[?(@.b)]",
        "$.a['b']",
        "$.a[0:2]",
        "$.a[-1]",
        "$.a[0,1]",
        "$[0]",
        "$.a[]",
        "$.a]",
        "$" + ".a" * (MAX_STEPS + 1),
        "$.a" + "[0]" * MAX_STEPS,
    ],
)
def test_what_is_not_supported_is_no_path(text: str):
    assert parse_path(text) is None


@pytest.mark.parametrize(
    ("text", "declared_as"),
    [("$", "$"), ("a.b", "$.a.b"), ("$.a[3].b[*]", "$.a[*].b[*]"), ("$.grid[*][0]", "$.grid[*][*]")],
)
def test_a_schema_knows_a_field_by_its_path_with_wildcards(text: str, declared_as: str):
    path = parse_path(text)
    assert path is not None
    assert path.declared_as == declared_as


def test_an_array_is_found_from_its_path_and_from_that_of_its_elements():
    assert array_at(Path(("tags",)), LINES) == array_at(Path(("tags", EACH)), LINES) == Path(("tags",))
    assert (
        array_at(Path(("grid", EACH)), NESTED) == array_at(Path(("grid", EACH, EACH)), NESTED) == Path(("grid", EACH))
    )


def test_a_path_means_the_same_with_and_without_dollar():
    for path in ("city", "$.city"):
        condition = simple(path, "EQUALS", "Oslo")
        assert matches(condition, {"city": "Oslo"}, {"$.city": a_field("STRING")})


ABSENT: list[JsonValue] = [{}, {"a": None}, {"a": 5}, {"a": "x"}, {"a": [{"b": 1}]}, {"a": {}}, {"a": {"b": None}}]


@pytest.mark.parametrize("document", ABSENT)
def test_a_missing_member_and_a_step_through_a_scalar_or_array_lead_nowhere(document: JsonValue):
    declared = {"$.a.b": a_field("INTEGER")}
    assert matches(simple("$.a.b", "IS_NULL"), document, declared)
    assert not matches(simple("$.a.b", "NOT_NULL"), document, declared)
    assert not matches(simple("$.a.b", "NOT_EQUAL", 7), document, declared)


@pytest.mark.parametrize(
    ("document", "equals", "is_null", "not_null"),
    [
        ({}, False, True, False),
        ({"lines": None}, False, True, False),
        ({"lines": {"sku": "A"}}, False, True, False),
        ({"lines": "A"}, False, True, False),
        ({"lines": []}, False, False, False),
        ({"lines": [{"qty": 1}]}, False, False, False),
        ({"lines": ["A", 1, None, ["A"]]}, False, False, False),
        ({"lines": [{"sku": None}]}, False, True, False),
        ({"lines": [{"sku": "A"}]}, True, False, True),
        ({"lines": [{"sku": "B"}]}, False, False, True),
        ({"lines": [{"sku": "B"}, {"sku": None}, {}]}, False, True, True),
        ({"lines": [{"sku": "B"}, {"sku": "A"}]}, True, False, True),
    ],
)
def test_a_wildcard_means_any_element_that_has_the_member(
    document: JsonValue, equals: bool, is_null: bool, not_null: bool
):
    assert matches(simple("$.lines[*].sku", "EQUALS", "A"), document, LINES) is equals
    assert matches(simple("$.lines[*].sku", "IS_NULL"), document, LINES) is is_null
    assert matches(simple("$.lines[*].sku", "NOT_NULL"), document, LINES) is not_null


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        ("NOT_EQUAL", "A", True),
        ("NOT_EQUAL", "C", True),
        ("NOT_CONTAINS", "A", True),
        ("IEQUALS", "b", True),
        ("GREATER_THAN", "B", False),
        ("BETWEEN_INCLUSIVE", ["B", "C"], True),
        ("LIKE", "_", True),
        ("MATCHES_PATTERN", "[C-Z]", False),
    ],
)
def test_every_operator_asks_for_any_element_also_a_negated_one(operator: str, operand: JsonValue, expected: bool):
    document: JsonValue = {"lines": [{"sku": "A"}, {"sku": "B"}]}
    assert matches(simple("$.lines[*].sku", operator, operand), document, LINES) is expected


@pytest.mark.parametrize(
    ("tags", "equals", "is_null", "not_null"),
    [
        (None, False, True, False),
        ("red", False, True, False),
        ([], False, False, False),
        ([None], False, True, False),
        (["red"], True, False, True),
        (["blue", None, "red"], True, True, True),
        (["blue"], False, False, True),
    ],
)
def test_a_trailing_wildcard_means_any_scalar_of_the_array(
    tags: JsonValue, equals: bool, is_null: bool, not_null: bool
):
    document: JsonValue = {"tags": tags}
    assert matches(simple("$.tags[*]", "EQUALS", "red"), document, LINES) is equals
    assert matches(simple("$.tags[*]", "IS_NULL"), document, LINES) is is_null
    assert matches(simple("$.tags[*]", "NOT_NULL"), document, LINES) is not_null


@pytest.mark.parametrize(("tags", "not_null"), [(None, False), ([], True), (["red"], True), ([None], True)])
def test_without_a_wildcard_the_array_itself_is_addressed(tags: JsonValue, not_null: bool):
    assert matches(simple("$.tags", "NOT_NULL"), {"tags": tags}, LINES) is not_null
    assert matches(simple("$.tags", "IS_NULL"), {"tags": tags}, LINES) is not not_null
    assert not matches(simple("$.tags", "EQUALS", "red"), {"tags": tags}, LINES)


@pytest.mark.parametrize(
    ("document", "equals", "is_null", "not_null"),
    [
        ({}, False, True, False),
        ({"lots": 1}, False, True, False),
        ({"lots": [{}]}, False, False, False),
        ({"lots": [{"lines": None}, {"lines": []}]}, False, False, False),
        ({"lots": [{"lines": [{"sku": "B"}]}, {"lines": [{"sku": "A"}]}]}, True, False, True),
        ({"lots": [{"lines": [{"sku": None}]}]}, False, True, False),
    ],
)
def test_nested_wildcards_are_one_flat_row_of_values(document: JsonValue, equals: bool, is_null: bool, not_null: bool):
    assert matches(simple("$.lots[*].lines[*].sku", "EQUALS", "A"), document, NESTED) is equals
    assert matches(simple("$.lots[*].lines[*].sku", "IS_NULL"), document, NESTED) is is_null
    assert matches(simple("$.lots[*].lines[*].sku", "NOT_NULL"), document, NESTED) is not_null


def test_arrays_of_arrays_are_flattened_by_two_wildcards():
    grid: JsonValue = {"grid": [[1, 2], 3, [[4]], [5]]}
    assert [n for n in range(1, 6) if matches(simple("$.grid[*][*]", "EQUALS", n), grid, NESTED)] == [1, 2, 5]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("$.lines[0].sku", "A"), ("$.lines[1].sku", "B"), ("lines[1].sku", "B"), ("$.lines[2].sku", None)],
)
def test_an_index_addresses_one_element(path: str, expected: str | None):
    document: JsonValue = {"lines": [{"sku": "A"}, {"sku": "B"}]}
    assert [s for s in "AB" if matches(simple(path, "EQUALS", s), document, LINES)] == ([expected] if expected else [])
    assert matches(simple(path, "IS_NULL"), document, LINES) is (expected is None)


def test_indices_and_wildcards_combine():
    document: JsonValue = {
        "lots": [{"lines": [{"sku": "A"}]}, {"lines": [{"sku": "B"}, {"sku": "C"}]}],
        "grid": [[1, 2], [3]],
    }
    assert matches(simple("$.lots[1].lines[*].sku", "EQUALS", "C"), document, NESTED)
    assert not matches(simple("$.lots[1].lines[*].sku", "EQUALS", "A"), document, NESTED)
    assert matches(simple("$.lots[*].lines[1].sku", "EQUALS", "C"), document, NESTED)
    assert not matches(simple("$.lots[*].lines[1].sku", "EQUALS", "B"), document, NESTED)
    assert matches(simple("$.grid[0][1]", "EQUALS", 2), document, NESTED)


def test_an_index_is_no_member_name():
    assert matches(simple("$.a[0]", "IS_NULL"), {"a": {"0": 1}}, {"$.a[*]": a_field("INTEGER")})


@pytest.mark.parametrize("path", ["", "$..x", "$.a[?(1)]"])
def test_a_path_that_names_nothing_is_absent_everywhere(path: str):
    assert matches(simple(path, "IS_NULL"), {"x": 1})
    assert not matches(simple(path, "NOT_NULL"), {"x": 1})
    assert not matches(simple(path, "NOT_CONTAINS", "q"), {"x": "z"})


def test_the_root_is_an_object_that_is_always_there():
    assert matches(simple("$", "NOT_NULL"), {})
    assert not matches(simple("$", "IS_NULL"), {})
