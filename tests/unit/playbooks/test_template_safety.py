"""What templates cannot do: reach Python, change what they are given, or take more than they are allowed."""

# ruff: noqa: E501 - a case is a line

import time

import pytest

from statewright.jsonval.values import JsonObject
from statewright.playbooks.templates import InvalidTemplate, Problem, compile_template, render

SCOPE: JsonObject = {
    "d": {"a": 1},
    "l": [3, 1, 2],
    "s": "text",
    "big": "x" * 100_000,
    "wide": list(range(50_000)),
    "many": {str(n): n for n in range(20_000)},
}

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ ''|attr('__class__') }}",
    "{{ l|map(attribute='__class__')|list }}",
    "{{ l|map('attr', '__class__')|list }}",
    "{{ d.__class__.__init__.__globals__ }}",
    "{{ d.get.__globals__ }}",
    "{{ d.items.__self__ }}",
    "{{ s.format.__globals__ }}",
    "{{ '{0.__class__}'.format(s) }}",
    "{{ '{0.__class__}'.format_map(d) }}",
    "{{ '%(a.__class__)s' % d }}",
    "{{ '{d.__init__.__globals__}'.format(d=d) }}",
    "{{ '{0[__class__]}{0.__class__.__mro__}'.format(s) }}",
    "{{ '{:{}}'.format(1, 9) }}",
    "{{ '{!x}'.format(1) }}",
    "{{ '%1000000d' % 1 }}",
    "{{ '%*d' % [9, 1] }}",
    "{{ s.join.__func__ }}",
    "{{ range.__class__ }}",
    "{{ dict.__base__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ joiner.__init__.__globals__.os }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ request.application.__globals__ }}",
    "{{ config.items() }}",
    "{{ url_for.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ ()|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ l.sort.__self__ }}",
    "{{ (1).bit_length() }}",
    "{{ (1).__class__ }}",
    "{{ none.__class__ }}",
    "{{ true.__class__.__base__ }}",
    "{{ l.__class__.__add__(l, l) }}",
    "{{ [].append.__call__(1) }}",
    "{{ l.__getattribute__('append') }}",
    "{{ s.encode() }}",
    "{{ s|xmlattr }}",
    "{{ s|pprint }}",
    "{{ l|random }}",
    "{{ lipsum(1) }}",
    "{{ caller() }}",
    "{{ super() }}",
    "{{ loop.cycle('a') }}",
    "{{ d['__class__'] }}",
    "{{ d|tojson|attr('x') }}",
    "{{ l|sort(attribute='__class__.__name__') }}",
    "{{ (l|groupby('__class__'))[0][0] }}",
    "{{ l|selectattr('__class__')|list }}",
    "{{ l|sum(attribute='__class__') }}",
    "{% set x = ''.__class__ %}{{ x.__mro__ }}",
    "{% for c in [].__class__.__base__.__subclasses__() %}{{ c.__name__ }}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__init__ }}",
    "{% with x = self %}{{ x.__dict__ }}{% endwith %}",
    "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{% import 'os' as os %}{{ os }}",
    "{% include '/etc/passwd' %}",
    "{% extends 'x' %}",
    "{% block a %}{% endblock %}",
    "{% call x() %}{% endcall %}",
    "{% filter attr('__class__') %}a{% endfilter %}",
    "{% do l.append(1) %}",
    "{% autoescape true %}{% endautoescape %}",
    "{% debug %}",
    "{% trans %}a{% endtrans %}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_published_escapes_reach_nothing(source: str) -> None:
    """They do not compile, have no value, or have one of JSON that says nothing of Python."""
    try:
        found = render(compile_template(source, statements=True), SCOPE)
    except InvalidTemplate:
        return
    assert isinstance(found, Problem) or str(found) in ("None", "", "[None, None, None]", "[]", "[3, 1, 2]", "0"), found


@pytest.mark.parametrize(
    "call",
    ["l.append(1)", "l.clear()", "l.sort()", "l.pop()", "l.extend(l)", "l.insert(0, 1)", "l.reverse()", "l.remove(1)",
     "d.update(a=2)", "d.pop('a')", "d.setdefault('b', 1)", "d.clear()", "d.popitem()"],
)  # fmt: skip
def test_methods_that_change_a_value_are_refused(call: str) -> None:
    with pytest.raises(InvalidTemplate, match="change a value"):
        compile_template(f"{{{{ {call} }}}}")


GREEDY = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [1] * 10**9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ (2 ** 10000) ** 10000 }}",
    "{{ (10 ** 3999) * (10 ** 3999) }}",
    "{{ range(10 ** 9) | list }}",
    "{{ range(100001) }}",
    "{{ 1e6000 * 1e6000 }}",
    "{{ 2.5 ** 1e6 }}",
    "{{ big * 20 }}",
    "{{ big.replace('x', big) }}",
    "{{ big | replace('', big) }}",
    "{{ big.join(range(1000) | map('string')) }}",
    "{{ range(1000) | map('string') | join(big) }}",
    "{{ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big ~ big }}",
    "{{ big.split('') }}",
    "{{ big | list | sort | list | sort }}",
    "{{ wide | select('in', wide) | list }}",
    "{{ wide | map('string') | map('upper') | map('lower') | list }}",
    "{{ [wide, wide, wide, wide, wide] == [wide, wide, wide, wide, wide] }}",
    "{{ [1] | batch(10 ** 9, 0) }}",
    "{{ 1.5 | round(10 ** 9) }}",
    "{{ s.center(10 ** 9) }}",
    "{{ s.ljust(10 ** 9) }}",
    "{{ s.zfill(10 ** 9) }}",
    "{{ '%999999999d' % 1 }}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{{ big }}{% endfor %}",
    "{% for i in range(9999) %}{% set x = ('9' * 4000) | int %}{% endfor %}",
    "{% for i in range(9999) %}{% set x = (10 ** 3999) | string %}{% endfor %}",
    "{% for i in range(9999) %}{% set x = many | first %}{% endfor %}",
    "{% for i in range(9999) %}{% set x = ('b' ~ 'a' * 98) in big %}{% endfor %}",
    "{% for i in range(9999) %}{% set x = big.split() %}{% endfor %}",
    "".join(f"{{% set v{n} = 1 %}}" for n in range(3000)) + "{% for i in range(99999) %}{% endfor %}",
    "{% set ns = namespace(a=[1]) %}{% for i in range(64) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(a=[1]) %}{% for i in range(64) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a[0] == ns.a[1] }}",
    "{% set ns = namespace(a=[1]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(a='x') %}{% for i in range(64) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(a=2) %}{% for i in range(64) %}{% set ns.a = ns.a * ns.a %}{% endfor %}{{ ns.a }}",
]  # fmt: skip


@pytest.mark.parametrize("source", GREEDY)
def test_what_would_take_too_much_is_ended_before_it_does(source: str) -> None:
    begun = time.process_time()
    try:
        found: object = render(compile_template(source, statements=True), SCOPE)
    except InvalidTemplate:
        return
    assert isinstance(found, Problem), str(found)[:100]
    assert time.process_time() - begun < 2.5, "250 ms and a factor for slow machines"


def test_the_end_of_an_evaluation_does_not_depend_on_the_machine() -> None:
    template = compile_template("{% for i in range(100000) %}{{ i }},{% endfor %}", statements=True)
    found = {str(render(template, {})) for _ in range(3)}
    assert len(found) == 1
    assert "250000 steps" in found.pop()
