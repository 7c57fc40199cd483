"""Filters, tests and blocks of templates give the texts that Jinja2 gives (docs/reference/playbooks.md#templates)."""

from typing import Any

import jinja2
import pytest

from statewright.playbooks.templates import InvalidTemplate, Problem, compile_template, render

# ruff: noqa: E501 - a case is a line

SCOPE: dict[str, Any] = {
    "name": "Ada & <Bob>",
    "line": "the quick brown fox jumps over the lazy dog",
    "lines": "one\ntwo\n\nthree",
    "orders": [
        {"city": "Paris", "n": 1},
        {"city": "bern", "n": 2},
        {"city": "Bern", "n": 3},
        {"city": "Rome", "n": 4},
    ],
    "numbers": [1, 2, 3, 4, 5, 6, 7],
    "nested": {"a": [1, {"b": None}], "c": "x"},
    "n": 42,
    "flag": True,
}

TEXTS = (
    "{{ '%r %s %r' % (name, lines, n) }}",
    "{{ '{!r:>9}|{!s:>5}'.format('a', n) }}",
    "{{ '{:+}|{:+.1e}|{:E}'.format(1, 5, 12) }}",
    "{{ 'x' | center(9) }}",
    "{{ 'long text' | center(3) }}",
    '{{ 7 | center(4) }}',
    '{{ name | e }}',
    '{{ name | escape }}',
    '{{ name | forceescape }}',
    '{{ "it\'s" | e }}',
    '{{ n | e }}',
    '{{ name | safe }}',
    '{{ 0 | filesizeformat }}',
    '{{ 1 | filesizeformat }}',
    '{{ 999 | filesizeformat }}',
    '{{ 1000 | filesizeformat }}',
    '{{ 13000 | filesizeformat }}',
    '{{ 4100000 | filesizeformat }}',
    '{{ (5 * 10**12) | filesizeformat }}',
    '{{ 1024 | filesizeformat(true) }}',
    '{{ 300000 | filesizeformat(binary=true) }}',
    "{{ '1500' | filesizeformat }}",
    "{{ '%s is %d' | format(name, n) }}",
    "{{ '%(a)s-%(b)05d' | format(a='x', b=7) }}",
    "{{ '%s %s' % (name, n) }}",
    "{{ '%5.1f|%-6d|%+d|% d|%x|%X|%o|%e|%%' % (n, n, n, n, n, n, n, n) }}",
    "{{ '%6s|%-6s|%.2s' % ('abc', 'abc', 'abc') }}",
    "{{ '%(n)03d' % {'n': 5} }}",
    "{{ '%d' % 3 }}",
    "{{ '%i' % 4 }}",
    "{{ '{} {}'.format(name, n) }}",
    "{{ '{0} {1} {0}'.format('a', 'b') }}",
    "{{ '{x:>5}|{y:<5}|'.format(x='r', y='l') }}",
    "{{ '{:05d}|{:,}|{:.2f}|{:^7}|{:x}|{:%}|{{}}'.format(n, 1234567, 2, 'mid', 255, 1) }}",
    "{{ '{0[a]} {0[c]}'.format({'a': 1, 'c': 2}) }}",
    "{{ '{0[1]}'.format([7, 8]) }}",
    "{{ '{:>6}'.format(n) }}",
    "{{ '{:6}|'.format(n) }}",
    "{% for city, found in orders | groupby('city') %}{{ city }}:{{ found | map(attribute='n') | join(',') }};{% endfor %}",
    "{% for k, found in orders | groupby('city', case_sensitive=true) %}{{ k }}{{ found | length }};{% endfor %}",
    "{% for k, found in [{'a': 1}, {}] | groupby('a', default=0) %}{{ k }}{{ found | length }};{% endfor %}",
    '{{ lines | indent }}',
    '{{ lines | indent(2, true) }}',
    '{{ lines | indent(2, first=true, blank=true) }}',
    "{{ lines | indent('> ') }}",
    "{{ 'one' | indent(4) }}",
    "{{ '' | indent }}",
    '{{ numbers | slice(3) | list }}',
    '{{ numbers | slice(3, 0) | list }}',
    '{{ [] | slice(2) | list }}',
    '{{ line | truncate(20) }}',
    '{{ line | truncate(20, true) }}',
    "{{ line | truncate(20, false, '', 0) }}",
    "{{ 'short' | truncate(3) }}",
    '{{ line | truncate(40) }}',
    '{{ line | truncate(9, leeway=0) }}',
    '{{ line | wordcount }}',
    "{{ '' | wordcount }}",
    "{{ 'a-b c_d' | wordcount }}",
    '{{ nested | tojson(indent=2) }}',
    '{{ [] | tojson(indent=2) }}',
    '{{ numbers | tojson(1) }}',
    '{{ n is callable }}',
    '{{ n is escaped }}',
    '{{ none is sameas(none) }}',
    '{{ flag is sameas true }}',
    '{{ 1 is sameas true }}',
    "{{ {'a' ~ 'b': 1, name: 2}['ab'] }}",
    '{{ {name: 2}[name] }}',
    '{% set x %}<{{ n }}>{% endset %}{{ x }}{{ x }}',
    '{% set x | upper | trim %}  abc {{ name }} {% endset %}[{{ x }}]',
    "{% filter upper %}abc {{ name }}{% endfilter %}|{% filter replace('a', 'b') | title %}banana split{% endfilter %}",
    "{% for x in numbers %}{{ loop.cycle('odd', 'even', n) }} {% endfor %}",
)  # fmt: skip


def build_reference() -> jinja2.Environment:
    """Jinja2 itself; ``tojson`` of text that is no page."""
    reference = jinja2.Environment(autoescape=False, keep_trailing_newline=True)
    reference.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return reference


@pytest.mark.parametrize("source", TEXTS)
def test_a_text_is_that_of_jinja2(source: str) -> None:
    expected = build_reference().from_string(f"<{source}").render(SCOPE)
    assert render(compile_template(f"<{source}", statements=True), SCOPE) == expected


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ '%s %s' % 'a' }}", "fewer values"),
        ("{{ '%s' % ['a', 'b'] }}", "more values"),
        ("{{ '%(b)s' % {'a': 1} }}", "b, which is not given"),
        ("{{ '%d' % 'a' }}", "formats text as a number"),
        ("{{ '%y' % 1 }}", "no format"),
        ("{{ '%2000d' % 1 }}", "more than 1000"),
        ("{{ '{}'.format() }}", "0, which is not given"),
        ("{{ '{:.2000f}'.format(1) }}", "more than 1000"),
        ("{{ '{:q}'.format(1) }}", "no format"),
        ("{{ '{:d}'.format(1.5) }}", "as a whole number"),
        ("{{ '{'.format(1) }}", "cannot be evaluated"),
        ("{{ 'a' | format(1, a=2) }}", "by place and by name"),
        ("{{ [] | filesizeformat }}", "as a size"),
        ("{{ 'a' | indent(101) }}", "from 0 to 100"),
        ("{{ 'a' | center('b') }}", "centers in text"),
        ("{{ 'abc' | truncate(2) }}", "fewer characters than its mark"),
        ("{{ [1] | slice(0) }}", "less than one"),
        ("{{ [1] | tojson(99) }}", "from 0 to 16"),
        ("{{ [{}, {'a': 1}] | groupby('a.b') | length > 5 or {1: 2} }}", ""),
        ("{{ {n: 1} }}", "a name that is a number"),
        ("{{ loop.cycle(1) }}", "outside a loop"),
        ("{{ 'a' is divisibleby 2 }}", "cannot apply %"),
    ],
)
def test_what_cannot_be_made_is_told(source: str, told: str) -> None:
    try:
        found = render(compile_template(source, statements=True), SCOPE)
    except InvalidTemplate:
        assert told == ""
        return
    assert isinstance(found, Problem)
    assert told in found.message


@pytest.mark.parametrize("name", ["attr", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"])
def test_filters_that_are_left_out_are_unknown(name: str) -> None:
    with pytest.raises(InvalidTemplate, match=f"unknown filter {name}"):
        compile_template(f"{{{{ 'a' | {name} }}}}")


def test_numbers_keep_their_digits_when_they_are_formatted() -> None:
    source = "{{ '{:.30f}'.format(big) }} {{ '%d' % big }} {{ '%.1f' % big }}"
    found = render(compile_template(source), {"big": 10**30 + 1})
    assert found == f"{10**30 + 1}.{'0' * 30} {10**30 + 1} {10**30 + 1}.0"
