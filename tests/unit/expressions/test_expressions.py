"""The expression language (docs/reference/steps.md#expressions). The table of cases is ``expression_cases.txt``."""

import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.expressions import ExpressionError, NotBoolean, compile_expression, evaluate, evaluate_bool
from statewright.expressions.functions import FUNCTIONS
from statewright.expressions.values import Value
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue, quote

AT = 1_717_232_400_250_000
"""2024-06-01T09:00:00.25Z."""

VARIABLES: JsonObject = {
    "score": 720,
    "name": "Ann",
    "flag": True,
    "nothing": None,
    "big": 2**53 + 1,
    "tags": ["a", "b"],
    "order": {
        "total": Decimal("12.5"),
        "my-key": "odd",
        "customer": {"id": 7},
        "lines": [{"sku": "x", "qty": 2}, {"sku": "y", "qty": 1}],
    },
    "user": {"roles": ["ADMIN", "REVIEWER"]},
    "items": [{"sku": "x", "qty": 2}, {"sku": "y", "qty": 1}, {"sku": "x", "qty": 4}],
}


def cases() -> list[tuple[str, str, str]]:
    lines = (Path(__file__).parent / "expression_cases.txt").read_text().splitlines()
    found = []
    for line in lines:
        if line and not line.startswith(("# --", "# What", "# Checked")):
            separator = " !! " if " !! " in line else " => "
            expression, _, expected = line.rpartition(separator)
            found.append((expression, separator.strip(), expected))
    return found


@pytest.mark.parametrize(("expression", "outcome", "expected"), cases(), ids=lambda text: text)
def test_an_expression_comes_to_what_the_table_says(expression: str, outcome: str, expected: str):
    if outcome == "=>":
        assert evaluate(expression, VARIABLES, AT) == decode(expected)
        return
    with pytest.raises(ExpressionError) as error:
        evaluate(expression, VARIABLES, AT)
    assert str(error.value) == f"expression {quote(expression)}: {expected}"


def test_results_keep_their_json_type():
    for expression, expected in {"6 / 2": "3", "score": "720", "score + 0.5": "720.5", "1e22": "1E+22"}.items():
        assert str(evaluate(expression, VARIABLES, AT)) == expected


def test_a_variable_passed_through_keeps_every_digit():
    exact = Decimal("0.1234567890123456789012345")
    assert evaluate("x", {"x": exact}, AT) == exact
    assert evaluate("{y: [x]}", {"x": exact}, AT) == {"y": [exact]}
    assert evaluate("x", {"x": Decimal("1e400")}, AT) == Decimal("1e400")


def test_names_that_are_keys_are_defined_whatever_they_are_called():
    variables: JsonObject = {"len": 3, "contains": 4, "count": 5, "größe": 6, "_x$1": 7}
    assert evaluate("len + count + größe + _x$1", variables, AT) == 21


def test_syntax_errors_come_before_undefined_variables():
    with pytest.raises(ExpressionError, match="unexpected"):
        evaluate("unknown +", {}, AT)


def test_undefined_variables_come_before_evaluation():
    with pytest.raises(ExpressionError, match="undefined variable"):
        evaluate("nothing.x + unknown", VARIABLES, AT)


def test_the_first_undefined_name_from_the_left_is_told():
    with pytest.raises(ExpressionError, match='undefined variable "b"'):
        evaluate("any([score], # > b) && a", VARIABLES, AT)


def test_a_test_must_give_a_boolean():
    assert evaluate_bool("score > 1", VARIABLES, AT) is True
    with pytest.raises(NotBoolean, match="result is float64, not bool"):
        evaluate_bool("score", VARIABLES, AT)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 300 + "1" + ")" * 300,
        "[" * 5000,
        "!" * 5000 + "flag",
        "-" * 300 + "1",
        "score" + ".x" * 300,
        "tags" + " | first()" * 300,
        "flag ? 1 : " * 300 + "2",
        "{a: " * 300 + "1" + "}" * 300,
        "2 ** " * 300 + "2",
    ],
)
def test_nesting_is_bounded(expression: str):
    with pytest.raises(ExpressionError, match=r"nested too deeply|unexpected"):
        evaluate(expression, VARIABLES, AT)


def test_a_long_expression_that_does_not_nest_is_fine():
    assert evaluate(" + ".join(["1"] * 4000), {}, AT) == 4000
    assert evaluate(" || ".join([*["false"] * 4000, "true"]), {}, AT) is True
    assert evaluate(" == true && ".join(["flag"] * 2000) + " == true", VARIABLES, AT) is True


def test_an_expression_of_too_many_words_is_refused():
    with pytest.raises(ExpressionError, match="maximum allowed nodes"):
        evaluate(" + ".join(["1"] * 6000), {}, AT)


@pytest.mark.parametrize(
    "expression",
    [
        "1..10000000",
        "-9223372036854775807..9223372036854775807",
        "map(1..1000, map(1..1000, map(1..1000, 1)))",
        "all(xs, all(xs, all(xs, true)))",
        "all(xs, all(xs, xs[0] in xs))",
        "repeat(repeat('x', 1000000), 1000000)",
        "replace(repeat('x', 10000), 'x', repeat('y', 10000))",
        "join(map(xs, repeat('x', 10000)), '')",
    ],
)
def test_the_work_of_an_evaluation_is_bounded(expression: str):
    with pytest.raises(ExpressionError, match="memory budget exceeded"):
        evaluate(expression, {"xs": [0 for _ in range(1500)]}, AT)


def test_values_nested_as_deep_as_a_document_may_be_are_compared():
    deep: JsonValue = 1
    for _ in range(200):
        deep = [deep]
    assert evaluate("a == b", {"a": deep, "b": deep}, AT) is True


@pytest.mark.parametrize("text", ["__import__('os')", "name.__class__", "name.upper()", "eval('1')", "(1).__class__"])
def test_nothing_of_the_implementation_can_be_reached(text: str):
    with pytest.raises(ExpressionError):
        evaluate(text, VARIABLES, AT)


WORDS = [
    "score",
    "#",
    "contains(",
    "len(",
    "any(tags,",
    "let",
    "if",
    "else",
    "nil",
    "$env",
    "ä",
    "now()",
    ".qty",
    "not",
    "in",
]
MARKS = [
    "'",
    '"',
    "`",
    "${",
    "}",
    "(",
    ")",
    "[",
    "]",
    "{",
    ",",
    ".",
    "?.",
    "?",
    ":",
    "=",
    ";",
    "\\",
    "/*",
    "//",
    "::",
    "\0",
]
OPERATORS = ["||", "|", "..", "+", "-", "**", "1", "0x", "1e", "!", " ", "\n"]


@given(st.lists(st.sampled_from([*WORDS, *MARKS, *OPERATORS]), max_size=12).map("".join))
def test_malformed_text_is_an_error_and_never_a_crash(text: str):
    try:
        encode(evaluate(text, VARIABLES, AT))
    except ExpressionError as error:
        message = str(error)
    else:
        return
    assert message.startswith("expression ")


NUMBERS = st.integers(-(2**31), 2**31) | st.floats(-1e9, 1e9, allow_subnormal=False)
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@given(NUMBERS, COMPARISONS, NUMBERS)
def test_comparisons_of_numbers_are_those_of_mathematics(left: float, operator: str, right: float):
    variables: JsonObject = {"a": _json(left), "b": _json(right)}
    expected = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }
    assert evaluate(f"a {operator} b", variables, AT) is expected[operator]


@given(st.text(alphabet="abcXYZ 0123456789äöü", max_size=8))
def test_both_kinds_of_quotes_and_all_ways_to_name_a_variable_mean_the_same(text: str):
    for name in ("x", "#x", "${x}", "${ x }"):
        assert evaluate_bool(f"{name} == '{text}'", {"x": text}, AT)
        assert evaluate_bool(f'{name} == "{text}"', {"x": text}, AT)


SYNTAX = "#${}()[],.:;?!=<>|&+-*/%^ 'x1_contains(notin"


@given(st.text(alphabet=[*SYNTAX, '"', "`", "\\", "ä", "\n", "\t"], max_size=24))
def test_what_stands_in_quotes_is_data_whatever_it_looks_like(text: str):
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    single, double = escaped.replace("'", "\\'"), escaped.replace('"', '\\"')
    for literal in (f"'{single}'", f'"{double}"', *([f"`{text}`"] if "`" not in text else [])):
        assert evaluate(literal, {}, AT) == text
        assert evaluate_bool(f"#x == {literal} && ${{{literal} == x}}", {"x": text}, AT)
        assert evaluate_bool(f"contains([{literal}], x)", {"x": text}, AT)


COLLECTIONS = st.sampled_from(
    ["tags", '["a", "b(c,d)"]', "split('a|b', '|')", "order", "${user.roles}", "map(items, #.sku)", "flag ? tags : []"]
)
ELEMENTS = st.sampled_from(
    ["'b'", '"b(c,d)"', "lower('B')", "tags[1]", "${'a'}", "nothing ?? 'x'", "(name; 'total')", "#user.roles[0]"]
)


@given(COLLECTIONS, ELEMENTS)
def test_contains_takes_any_two_expressions(collection: str, element: str):
    expected = evaluate(f"({element}) in ({collection})", VARIABLES, AT)
    assert evaluate(f"contains({collection}, {element})", VARIABLES, AT) == expected
    assert evaluate(f"!contains( {collection} ,{element} ) == {str(not expected).lower()}", VARIABLES, AT) is True


def test_elements_of_a_text_are_its_bytes():
    variables: JsonObject = {"word": "né", "i": 1}
    assert [evaluate(f"word[{n}]", variables, AT) for n in range(3)] == list("né".encode())
    assert evaluate("word[i]", variables, AT) == evaluate("last(word)", variables, AT) + 0x1A  # type: ignore[operator]
    assert evaluate("first(word)", variables, AT) == ord("n")
    assert evaluate("get(word, 5)", variables, AT) is None
    with pytest.raises(NotBoolean, match="result is uint8, not bool"):
        evaluate_bool("word[0]", variables, AT)


def test_reading_the_bytes_of_a_long_text_again_and_again_is_bounded():
    with pytest.raises(ExpressionError, match="memory budget exceeded"):
        evaluate("map(1..10000, text[#])", {"text": "ä" * 100_000}, AT)


@pytest.mark.parametrize(
    "expression",
    [
        *(f"x {operator} {other}" for operator in ("+", "-", "*", "/", "%", "**", "..", "==", "<") for other in "1x"),
        *(f"{name}(x)" for name in ("abs", "ceil", "floor", "round", "int", "float", "string", "toJSON", "mean")),
        *(
            "-x",
            "max(x, 1)",
            "sum([x, x])",
            "median([x, 1])",
            "sort([x, 1])",
            "uniq([x, 1])",
            "tags[x]",
            "take(tags, x)",
        ),
        *("x in [x]", "{a: x}", "repeat('a', x)", "bitand(x, 1)", "duration('1h') * x", "groupBy([x], #)", "tags[x:]"),
    ],
)
def test_numbers_beyond_doubles_give_a_value_or_an_error(expression: str):
    numbers: list[JsonValue] = [10**309, -(10**3999), Decimal("1e6144"), Decimal("-1e6144"), Decimal("1e-6144")]
    outcomes = [_describe_outcome(expression, {"x": number, "tags": ["a"]}) for number in numbers]
    # each is told as what it is, none was caught as a defect
    assert not any("cannot be evaluated" in outcome for outcome in outcomes)


def _describe_outcome(expression: str, variables: JsonObject) -> str:
    try:
        return encode(evaluate(expression, variables, AT)).decode()
    except ExpressionError as error:
        return str(error)


def test_a_defect_of_a_function_is_an_error_of_the_expression(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> Value:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setitem(FUNCTIONS, "abs", Entry(fail, charge_nothing))  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match=r'^expression "abs\(score \)": cannot be evaluated: OverflowError$'):
        evaluate("abs(score )", VARIABLES, AT)


@given(st.lists(NUMBERS, max_size=6))
def test_the_program_of_an_expression_serves_any_variables(numbers: list[float]):
    program = compile_expression("sum(xs)")
    total = program.evaluate({"xs": [_json(number) for number in numbers]}, AT)
    assert total == pytest.approx(sum(numbers))


def _json(number: float) -> JsonValue:
    return number if isinstance(number, int) else Decimal(repr(number))


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["a"] * 300_000),
        "${a}" + "${" * 1_000_000,
        "x" * 5_000_000,
        "contains(" * 1_000_000,
        "((" * 20_000,
        "${1} + " + "${" * 40_000,
    ],
)
def test_what_is_wrong_with_a_hostile_expression_is_found_quickly(text: str):
    taken = time.process_time()
    with pytest.raises(ExpressionError):
        compile_expression(text)
    assert time.process_time() - taken < 2


def test_an_expression_that_is_too_long_is_refused_by_its_length():
    with pytest.raises(ExpressionError, match="expression of 100001 characters: 100000 are the most"):
        compile_expression(f'"{"x" * 99_999}"')
    assert evaluate(f'"{"x" * 99_998}"', {}, AT) == "x" * 99_998
