"""Templates: the value rule, undefined, conditions, errors, and what an evaluation may cost."""

from collections import deque
from collections.abc import Iterable
from decimal import Decimal

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.playbooks.templates import (
    EvaluationContext,
    InvalidTemplate,
    Problem,
    Turn,
    compile_condition,
    compile_template,
    find_defects,
    holds,
    name_event,
    render,
    render_object,
)

SCOPE: JsonObject = {
    "workload": {
        "items": [3, 1, 2],
        "name": "Ada",
        "price": Decimal("1.50"),
        "empty": [],
        "people": [{"n": 1}, {"n": 2}],
    },
    "ctx": {"open": True, "_id": "x"},
    "args": {"n": 2, "list": [3, 1, 2]},
    "event": {"name": name_event("step.done")},
}


def evaluate(source: JsonValue, *, statements: bool = False) -> "JsonValue | Problem":
    return render(compile_template(source, statements=statements), SCOPE)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ workload.items }}", [3, 1, 2]),
        ("{{ args.n }}", 2),
        ("{{ args.n }}\n", 2),
        (" {{ args.n }}", " 2"),
        ("{{ args.n }}{{ args.n }}", "22"),
        ("n={{ args.n }}", "n=2"),
        ("{{ ctx.open }}", True),
        ("open: {{ ctx.open }}, {{ none }}", "open: True, None"),
        ("{{ none }}", None),
        ("plain {% text %}", "plain {% text %}"),
        ("{{ '12' }}", "12"),
        ("{{ '{{ args.n }}' }}", "{{ args.n }}"),
        ({"a": ["{{ args.n }}", 1], "{{ b }}": None}, {"a": [2, 1], "{{ b }}": None}),
        ("{{ workload.price }}", Decimal("1.50")),
        ("{{ workload.price * 2 }}", 3),
        ("{{ 4 / 2 }}", 2),
        ("{{ 0.1 + 0.2 }}", Decimal("0.3")),
        ("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }}", "3 -4 2"),
        ("{{ ['a', {'b': 1.5}] }}!", "['a', {'b': 1.5}]!"),
        ("{{ {'a': (1, 2)} }}", {"a": [1, 2]}),
        ("{{ workload.items() | length }}", 5),
        ("{{ ctx._id }}", "x"),
        ("{{ 'yes' if ctx.open else 'no' }}", "yes"),
        ("{{ 1 < args.n <= 2 }}", True),
        ("{{ workload.items[-1] }}{{ workload.name[0] }}", "2A"),
        ("{{ workload.items[1:] }}", [1, 2]),
        ("{{ workload.people | map(attribute='n') | sum }}", 3),
        ("{{ workload.people | selectattr('n', 'gt', 1) | list }}", [{"n": 2}]),
        ("{{ event.name }}", "step.done"),
    ],
)  # fmt: skip
def test_a_single_expression_has_its_value_and_everything_else_is_text(source: JsonValue, value: JsonValue) -> None:
    rendered = evaluate(source)
    assert rendered == value
    assert type(rendered) is type(value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ ctx.a.b.c }}", None),
        ("<{{ ctx.a }}>", "<>"),
        ("{{ [ctx.a, {'b': nothing}] }}", [None, {"b": None}]),
        ("{{ ctx.a | default(5) }}", 5),
        ("{{ ctx.a == none }}", False),
        ("{{ ctx.a == ctx.b }}", True),
        ("{{ ctx.a != 1 }}", True),
        ("{{ ctx.a < 1 or ctx.a > 1 or ctx.a >= 1 }}", False),
        ("{{ 'set' if ctx.a else 'unset' }}", "unset"),
        ("{{ ctx.a is defined }}", False),
        ("{{ 1 in ctx.a }}", False),
        ("{{ workload.empty | first | default('none') }}", "none"),
        ("{{ ctx.open.x }}", None),
    ],
)
def test_what_does_not_exist_is_undefined(source: str, value: JsonValue) -> None:
    assert evaluate(source) == value


@pytest.mark.parametrize("source", ["{{ ctx.a + 1 }}", "{{ ctx.a() }}", "{{ ctx.open.upper() }}", "{{ 1 / 0 }}"])
def test_what_cannot_be_computed_is_a_problem(source: str) -> None:
    try:
        found = evaluate(source)
    except InvalidTemplate:
        return
    assert isinstance(found, Problem)
    assert found.kind == "template"


def test_a_problem_names_the_place() -> None:
    found = evaluate({"body": {"a/b": ["fine", "{{ ctx.a + 1 }}"]}})
    assert isinstance(found, Problem)
    assert found.path == "/body/a~1b/1"
    assert found.source == "{{ ctx.a + 1 }}"
    assert "ctx.a" not in found.message or "undefined" in found.message


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        (True, True),
        (False, False),
        ("ctx.open", True),
        ("{{ ctx.open }}", True),
        (" {{ ctx.open }}\n", True),
        ("event.name == 'call.done'", True),
        ("'step.exit' == event.name", True),
        ("event.name in ['step.exit']", True),
        ("event.name == 'step.failed'", False),
        ("' No '", False),
        ("'0'", False),
        ("'NULL'", False),
        ("'anything'", True),
        ("workload.empty", False),
        ("0", False),
        ("{}", False),
        ("{'a': 1}", True),
        ("ctx.a", False),
        ("none", False),
    ],
)
def test_conditions(source: bool | str, truth: bool) -> None:
    assert holds(compile_condition(source), SCOPE) is truth


def test_a_condition_that_fails_is_a_problem() -> None:
    assert isinstance(holds(compile_condition("args.n > 'a'"), SCOPE), Problem)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ a", "expected"),
        ("{{ a | nothing }}", "unknown filter nothing"),
        ("{{ a is nothing }}", "unknown test nothing"),
        ("{{ random() }}", "unknown function random"),
        ("{{ now(1) }}", "arguments"),
        ("{{ now(tz='UTC') }}", "arguments"),
        ("{{ a.append(1) }}", "change a value"),
        ("{{ a | round(1, 2, 3, 4) }}", "arguments"),
        ("{{ a }}{% if b %}{% endif %}", "only tool fields"),
        ("{{ " + "(" * 200 + "1" + ")" * 200 + " + " + "-" * 200 + "1 }}", "nested"),
        ("{{ a }}" + " " * 70_000, "longer than"),
        ("{{ '\\ud800' }}", "surrogate"),
        ("{{ 1e999 }}", "out of range"),
    ],
)
def test_what_can_never_be_evaluated_is_refused_when_it_is_read(source: str, told: str) -> None:
    with pytest.raises(InvalidTemplate, match=told):
        compile_template(source)


@pytest.mark.parametrize("source", ["", "  ", "{{ a }} and {{ b }}", "a and {{ b }}", "{% if a %}{% endif %}"])
def test_a_condition_is_one_expression(source: str) -> None:
    with pytest.raises(InvalidTemplate):
        compile_condition(source)


def test_all_defects_of_a_value_are_found() -> None:
    found = find_defects({"a": "{{ x", "b": ["fine", "{{ y | nothing }}"]})
    assert [defect.path for defect in found] == ["/a", "/b/1"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for i in args.list if i > 1 %}{{ loop.index }}:{{ i }}{{ ',' if not loop.last }}{% endfor %}", "1:3,2:2"),
        ("{% for a in [] %}{% else %}none{% endfor %}", "none"),
        ("{% if args.n == 1 %}a{% elif args.n == 2 %}b{% else %}c{% endif %}", "b"),
        ("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{% endfor %}{{ x }}", "1"),
        ("{% set s = namespace(n=0) %}{% for i in [1, 2] %}{% set s.n = s.n + i %}{% endfor %}{{ s.n }}", "3"),
        ("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "3"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"),
        ("{# a comment #}{{ args.n }}.", "2."),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
    ],
)  # fmt: skip
def test_statement_blocks_write_text(source: str, text: str) -> None:
    assert evaluate(source, statements=True) == text


def test_the_source_and_the_scope_stay_as_they_were() -> None:
    source: JsonValue = {"a": ["{{ workload.items | sort }}"], "b": {"c": 1}}
    template = compile_template(source)
    render(template, SCOPE)
    assert template.source == {"a": ["{{ workload.items | sort }}"], "b": {"c": 1}}
    assert SCOPE["workload"]["items"] == [3, 1, 2]  # type: ignore[index,call-overload]


def test_an_object_is_asked_for() -> None:
    assert render_object(None, {}) == {}
    assert render_object(compile_template("{{ ctx.a }}"), SCOPE) == {}
    assert isinstance(render_object(compile_template("{{ args.n }}"), SCOPE), Problem)


def consume(values: Iterable[object]) -> None:
    deque(values, maxlen=0)


def test_evaluations_share_the_budget_of_a_turn() -> None:
    context, template = EvaluationContext(turn=Turn(1_000)), compile_template("{{ workload.items | sort }}")
    with pytest.raises(TurnExceeded):
        consume(render(template, SCOPE, context) for _ in range(1_000))
    assert render(template, SCOPE) == [1, 2, 3]
