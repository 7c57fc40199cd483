"""Templates that would take long if their work were not counted, for each entry of the table of templates.

``WORST`` has the worst arguments that are known for each; what they name stands in ``WORKLOAD``, at the limits of what
an evaluation or a request may have.
"""

# ruff: noqa: E501 - a case is a line

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from statewright.evaluation.costs import Entry
from statewright.jsonval.values import JsonValue
from statewright.playbooks.jinja.expressions import NODES
from statewright.playbooks.jinja.filters import FILTERS
from statewright.playbooks.jinja.methods import FUNCTIONS, GET_ITEM, METHODS, TAKE_SLICE
from statewright.playbooks.jinja.operators import OPERATORS, TESTS
from statewright.playbooks.jinja.statements import STATEMENTS

TABLE: Final[dict[str, Entry]] = {
    **{f"filter {name}": entry for name, entry in FILTERS.items()},
    **{f"test {name}": entry for name, entry in TESTS.items()},
    **{f"function {name}": entry for name, entry in FUNCTIONS.items()},
    **{f"method {kind.__name__}.{name}": entry for kind, methods in METHODS.items() for name, entry in methods.items()},
    **{f"operator {name}": entry for name, entry in OPERATORS.items()},
    "operator item": GET_ITEM,
    "operator slice": TAKE_SLICE,
}
"""All that costs more than a step."""

SYNTAX: Final = frozenset((*(f"node {name}" for name in NODES), *(f"statement {name}" for name in STATEMENTS)))
"""What costs a step each time, beside the entries of the table that it leads to."""

_MODULUS: Final = 2**61 - 1

WORKLOAD: Final[dict[str, JsonValue]] = {
    "ascii": "a" * 1_000_000,
    "words": "a " * 500_000,
    "title": "aB" * 500_000,
    "lines": "\x0b" * 1_000_000,
    "blank": " " * 1_000_000,
    "two": "\u0101" * 400_000,
    "four": "\U00010400" * 250_000,
    "sharp": "ß" * 450_000,
    "half": "a" * 500 + "b" + "a" * 500,
    "stripped": "\u0201" * 300_000 + "\u0101",
    "quotes": "\u2028\\\"'" * 250_000,
    "dots": "." * 100_000,
    "commas": "," * 1_000_000,
    "spaced": "1 " * 2_100,
    "digits": "9" * 4_000,
    "json": f"[{'1e1,' * 250_000}1]",
    "broken": f"[{'[],' * 330_000}1",
    "base64": "YWFh" * 250_000,
    "wide": [*range(100_000)],
    "trap": [n * _MODULUS for n in range(40_000)],
    "fractions": [Decimal(f"{n}.5") for n in range(50_000)],
    "texts": [f"{n:06}" for n in range(60_000)],
    "whole": 10**3999 - 7,
    "divisor": 10**1999 + 7,
    "fraction": Decimal(f"1.{'7' * 3_998}"),
    "power": Decimal("1.0000000001"),
    "long": Decimal("1e6000"),
    "short": Decimal("1e-6000"),
    "wholes": [10**3999 - n for n in range(250)],
    "longs": [Decimal("1e6000") for _ in range(1_500)],
    "many": {f"name{n}": n for n in range(50_000)},
    "named": {"n" * 1_000_000: 1},
    "other": {"n" * 1_000_000: 2},
    "pairs": [["a", "\U00010400" * 1_000] for _ in range(500)],
    "objects": [{"a": {"b": n}} for n in range(30_000)],
    "lists": [[n] for n in range(40_000)],
}


def _nest(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


WORKLOAD["deep"] = [_nest(90)] * 1_000
WORKLOAD["forty"] = [WORKLOAD["ascii"]] * 3

_NAME: Final = re.compile(rf"(?<![\w.'|])(?:{'|'.join(WORKLOAD)})(?![\w'(=])")
"""A value of ``WORKLOAD`` in a template: neither a filter nor a method, nor within a text."""

INLINE: Final[dict[str, str]] = {
    "ascii": "('a'*1000000)", "words": "('a '*500000)", "title": "('aB'*500000)", "lines": "('\\x0b'*1000000)", "blank": "(' '*1000000)",
    "two": "('ā'*400000)", "four": "('𐐀'*250000)", "sharp": "('ß'*450000)", "half": "('a'*500 ~ 'b' ~ 'a'*500)",
    "stripped": "('ȁ'*300000 ~ 'ā')", "quotes": "(' \\\\\"'*250000)", "dots": "('.'*100000)", "commas": "(','*1000000)",
    "spaced": "('1 '*2100)", "digits": "('9'*4000)", "json": "('[' ~ '1e1,'*200000 ~ '1]')", "broken": "('[' ~ '[],'*250000 ~ '1')",
    "base64": "('YWFh'*250000)", "wide": "range(50000)", "trap": "range(0, 40000*(2**61-1), 2**61-1)", "fractions": "([1.5, 2.5]*9999)",
    "texts": "(range(20000)|map('string')|list)", "whole": "(10**3999 - 7)", "divisor": "(10**1999 + 7)", "fraction": "(('1.' ~ '7'*3990)|float)",
    "power": "1.0000000001", "long": "('1e6000'|float)", "short": "('1e-6000'|float)", "wholes": "([10**3999 - 7]*250)",
    "longs": "(['1e6000'|float]*1500)", "many": "(('{\"n' ~ (range(5000)|map('string')|join('\":1,\"n')) ~ '\":1}')|fromjson)",
    "named": "(('{\"' ~ 'n'*200000 ~ '\":1}')|fromjson)", "other": "(('{\"' ~ 'n'*200000 ~ '\":2}')|fromjson)",
    "pairs": "([['a', '𐐀'*1000]]*500)", "objects": "([{'a': {'b': 1}}]*30000)", "lists": "([[1], [2]]*9999)",
    "deep": "([('['*90 ~ ']'*90)|fromjson]*1000)", "forty": "(['a'*1000000]*3)",
}  # fmt: skip
"""What stands for the values where a template has to make them itself."""

_ANY: Final = ("ascii", "four", "wide", "many", "whole", "long", "deep")
_ORDERED: Final = ("ascii {op} ascii", "ascii ~ 'b' {op} ascii ~ '\u0101'", "whole {op} fraction", "whole {op} long")
_EQUAL: Final = (*_ORDERED, "wide {op} wide", "named {op} other", "deep {op} deep", "many {op} many", "trap {op} wide")
_IN: Final = ("half in ascii", "half in two", "-1 in wide", "deep in lists", "ascii ~ 'n' in many", "whole in wholes")
_NUMBERS: Final = (
    "whole {op} divisor",
    "fraction {op} fraction",
    "long {op} whole",
    "short {op} whole",
    "long {op} short",
)
_TEXTS: Final = ("ascii", "words", "title", "four", "sharp", "two", "blank")
_COMPARED: Final[dict[str, str]] = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "lteq": "<=", "gteq": ">=", "in": "in", "notin": "not in",
}  # fmt: skip
_COMPUTED: Final[dict[str, str]] = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
}  # fmt: skip
_ITEMS: Final = ("wide", "texts", "many", "four[:100000]", "wholes", "trap")
_PATHS: Final = ("wide|{f}(attribute=dots)", "wide|{f}(attribute='.'*1000)", "objects|{f}(attribute='a.b')")
_SIZES: Final = tuple(f"{name}|{{f}}" for name in _ANY)
_WRITTEN: Final = (*(f"{name}|{{f}}" for name in _TEXTS), "wide|{f}", "deep|{f}", "quotes|{f}", "whole|{f}", "many|{f}")
_LISTED: Final = tuple(f"{name}|{{f}}" for name in _ITEMS)
_SORTED: Final = (
    *_LISTED,
    *_PATHS,
    "wide|{f}(attribute=commas)",
    "lists|{f}",
    "fractions|{f}",
    "forty|{f}",
    "(longs*30)|{f}",
)
_CHOSEN: Final = (
    "wide|{f}('in', wide)", "wide[:9999]|{f}('eq', ascii)", "range(9999)|map('string')|{f}('lt', ascii)",
    "forty*300|{f}('lt', ascii ~ '\u0101')", "forty*300|{f}('eq', ascii ~ 'b')", "wholes|{f}('divisibleby', divisor)",
    "forty*300|{f}('in', ascii)", "wide|{f}('defined')", "(longs*30)|{f}('lt', whole)",
)  # fmt: skip
_CHOSEN_BY: Final = ("wide|{f}(dots)", "wide|{f}('.'*1000)", "objects|{f}('a.b', 'in', wide)", "(longs*30)|{f}(long)")

_FILTERS: Final[dict[str, tuple[str, ...]]] = {
    "tojson": (*_WRITTEN, "deep|{f}(16)", "wide|{f}(indent=16)", "many|{f}(indent=1)", "(deep*9)|{f}(16)", "wide|{f}(whole)"),
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "string", "b64encode", "urlencode"), _WRITTEN),
    **dict.fromkeys(("count", "length", "first", "last", "default", "d", "bool"), _SIZES),
    **dict.fromkeys(("list", "items", "batch"), _LISTED),
    **dict.fromkeys(("sort", "unique"), _SORTED),
    **dict.fromkeys(("max", "min"), ("texts|{f}", "wholes|{f}", "lists|{f}", "wide|{f}(attribute='.'*1000)")),
    **dict.fromkeys(("select", "reject"), _CHOSEN),
    **dict.fromkeys(("selectattr", "rejectattr"), _CHOSEN_BY),
    **dict.fromkeys(("int", "float", "round", "abs"), ("digits|{f}", "spaced|{f}", *_SIZES, "fraction|{f}", "short|{f}")),
    **dict.fromkeys(("e", "escape", "forceescape", "safe", "wordcount"), (*_WRITTEN, "('&\\''*500000)|{f}")),
    "center": (*_SIZES, "ascii|{f}(1000000)", "wide|{f}(10**9)", "'a'|{f}(whole)", "'a'|{f}(-whole)"),
    "filesizeformat": (*_SIZES, "digits|{f}", "long|{f}(true)", "short|{f}", "fraction|{f}"),
    "format": (
        "ascii|{f}(1)", "('%s'*500000)|{f}(1)", "('%%'*500000)|{f}", "'%1000000000d'|{f}(1)", "'%.1000000000f'|{f}(1)",
        "('%(a)s'*200000)|{f}(a=1)", "'%d %f %e %g'|{f}(whole, long, fraction, short)", "('%f'*9999)|{f}(long)", "'%x'|{f}(long)",
        "('%s'*999)|{f}(deep)", "('%1000d'*9999)|{f}(1)", "'%c%o%X'|{f}(whole, whole, whole)",
    ),
    "groupby": ("objects|{f}('a.b')", "wide|{f}('.'*1000)", "lists|{f}(0)", "forty*300|{f}(0)", "(longs*30)|{f}(0, whole)", "pairs|{f}(1)"),
    "indent": ("lines|{f}", "words|{f}(ascii)", "lines|{f}(100, true, true)", "deep|{f}", "wide|{f}(whole)", "(lines[:9999])|{f}(ascii)"),
    "slice": ("wide|{f}(7)", "wide|{f}(100000, 1)", "[1]|{f}(10**9)", "[1]|{f}(whole, 0)", "four[:100000]|{f}(7, ascii)"),
    "truncate": ("ascii|{f}", "words|{f}(999999)", "ascii|{f}(900000, false, 'b', 0)", "blank|{f}(900000)", "deep|{f}(9)", "ascii|{f}(whole)"),
    "b64decode": ("base64|{f}", "ascii|{f}"),
    "batch": ("wide|{f}(1)", "wide|{f}(100000, 1)", "[1]|{f}(10**9, 0)", "four[:100000]|{f}(7, ascii)"),
    "dictsort": ("many|{f}", "many|{f}(by='value')", "many|{f}(true)"),
    "fromjson": ("json|{f}", "broken|{f}", "wide|{f}", "('['*1000000)|{f}", "('\"'~quotes)|{f}"),
    "join": ("ascii[:100000]|{f}(half)", "wide|{f}(wide)", "texts|{f}", "wholes|{f}(whole)", "deep|{f}", *_PATHS),
    "map": (
        *_PATHS, "wide|{f}('string')", "forty*300|{f}('trim', stripped)", "forty*300|{f}('upper')", "wholes|{f}('string')",
        "forty*300|{f}('replace', half, 'b')", "(longs*30)|{f}('int')", "wide|{f}(attribute=whole)", "wide|{f}(attribute=short)",
        "wide|{f}('map', 'map')", "range(999)|{f}('string')|{f}('join', ascii)", "forty*300|{f}('unique')",
        "forty*300|{f}('bool')", "forty*300|{f}('length')", "forty*300|{f}('default', 1)", "(longs*30)|{f}('abs')",
        "(longs*30)|{f}('round')", "wide|{f}('batch', 1)", "wholes*300|{f}('round', 100)", "wide|{f}(attribute=ascii)",
    ),
    "replace": (
        "ascii|{f}('a', 'bb')", "ascii|{f}('', 'b')", "ascii|{f}(half, 'b')", "two|{f}(half, 'b')", "words|{f}(' ', '')",
        "wide|{f}(1, ascii)", "ascii|{f}('a'*500000 ~ 'b', '')", "deep|{f}('[', ']')", "ascii|{f}(wide, deep)",
    ),
    "reverse": (*_LISTED, *_WRITTEN),
    "sum": ("wide|{f}", "wholes|{f}", "fractions|{f}", "lists|{f}(start=[])", "texts|{f}(start='')", "(longs*30)|{f}", *_PATHS),
    "trim": (
        "('a'*1000000)|{f}('b'*1000000 ~ 'a')", "two|{f}(stripped)", "four|{f}(quotes ~ four)", "wide|{f}(wide)", "blank|{f}",
        "[two]|{f}([stripped])",
    ),
}  # fmt: skip

_TESTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("eq", "equalto", "ne", "==", "!="), tuple(case.replace("{op}", "is {f}") for case in _EQUAL)),
    **dict.fromkeys(
        ("ge", "greaterthan", "gt", "le", "lessthan", "lt"), tuple(case.replace("{op}", "is {f}") for case in _ORDERED)
    ),
    **dict.fromkeys(("even", "odd"), ("whole is {f}", "long is {f}", "fraction is {f}")),
    **dict.fromkeys(("lower", "upper"), tuple(f"{name} is {{f}}" for name in _TEXTS)),
    "divisibleby": ("whole is {f}(divisor)", "fraction is {f}(short)", "long is {f}(whole)"),
    "in": tuple(case.replace(" in ", " is {f} ") for case in _IN),
    "sameas": tuple(case.replace("{op}", "is {f}") for case in _EQUAL),
    **{mark: tuple(f"wide|select('{mark}', ascii)|list" for _ in "1") for mark in ("<", "<=", ">", ">=", "==", "!=")},
}

_TEXT_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "count": ("ascii.count(half)", "two.count('\u0101'*50 ~ 'b')", "ascii.count('')", "ascii.count('aa')"),
    "endswith": ("ascii.endswith(texts)", "ascii.endswith(forty*300)", "ascii.endswith([ascii]*20000)"),
    "find": ("ascii.find(half)", "ascii.find('a'*600000 ~ 'b')", "ascii.find(half, whole)", "two.find(half, 1, 9)"),
    "format": (
        "ascii.format(1)", "('{}'*400000).format(1)", "('{0}'*300000).format(1)", "'{:1000000000}'.format(1)", "('{{'*500000).format()",
        "'{:.999f} {:e} {:>999}'.format(long, whole, ascii)", "('{0:999d}'*9999).format(1)", "('{a.b.c[0]}'*99999).format(a=deep)",
        "('{0}'*99).format(deep)", "'{:,}{:_}{:n}'.format(whole, whole, fraction)",
    ),
    "join": ("half.join(ascii[:100000])", "ascii.join(wide)", "ascii.join(forty)", "''.join(wholes)", "half.join(many)"),
    "lstrip": ("two.lstrip(stripped)", "ascii.lstrip('b'*1000000 ~ 'a')", "blank.lstrip()"),
    "rstrip": ("two.rstrip(stripped)", "ascii.rstrip('b'*1000000 ~ 'a')", "blank.rstrip()"),
    "strip": ("two.strip(stripped)", "four.strip(quotes ~ four)", "blank.strip()"),
    "removeprefix": ("ascii.removeprefix(ascii[:999999])", "four.removeprefix(four)"),
    "removesuffix": ("ascii.removesuffix(ascii[:999999])", "four.removesuffix(four)"),
    "replace": ("ascii.replace('a', 'bb')", "ascii.replace(half, '', 9)", "ascii.replace('', 'b')"),
    "rsplit": (
        "ascii.rsplit(half)", "ascii.rsplit('a'*500000 ~ 'b')", "ascii.rsplit('a'*250000 ~ 'b' ~ 'a'*250000, 1)",
        "words.rsplit()", "ascii.rsplit('a')",
    ),
    "split": ("ascii.split(half)", "words.split()", "ascii.split('a')", "lines.split()", "ascii.split('a'*500000 ~ 'b')"),
    "splitlines": ("lines.splitlines()", "ascii.splitlines()"),
    "startswith": ("ascii.startswith(texts)", "ascii.startswith([ascii]*20000)", "ascii.startswith(forty*300)"),
}  # fmt: skip


def _build_worst() -> dict[str, tuple[str, ...]]:
    """By the names of ``TABLE`` and ``SYNTAX``."""
    found: dict[str, tuple[str, ...]] = {}
    for name, cases in _FILTERS.items():
        found[f"filter {name}"] = tuple(case.replace("{f}", name) for case in cases)
    for name in TESTS:
        by_type = tuple(f"{value} is {{f}}" for value in _ANY)
        found[f"test {name}"] = tuple(case.replace("{f}", name) for case in _TESTS.get(name, by_type))
    for name in METHODS[str]:
        plain = tuple(f"{value}.{name}()" for value in _TEXTS)
        found[f"method str.{name}"] = _TEXT_METHODS.get(name, plain)
    for name, operator in _COMPARED.items():
        cases = _ORDERED if name in {"lt", "gt", "lteq", "gteq"} else _EQUAL
        found[f"operator {name}"] = tuple(case.replace("{op}", operator) for case in cases)
    for name in ("in", "notin"):
        found[f"operator {name}"] = tuple(case.replace(" in ", f" {_COMPARED[name]} ") for case in _IN)
    for name, operator in _COMPUTED.items():
        found[f"operator {name}"] = tuple(case.replace("{op}", operator) for case in _NUMBERS)
    return found


WORST: Final[dict[str, tuple[str, ...]]] = _build_worst()
WORST["operator Add"] += ("ascii + ''", "wide + []", "four + 'a'")
WORST["operator Mul"] += ("'a' * 1000000", "[1] * 100000", "1000000 * '\U00010400'", "'a' * whole", "wide * -1")
WORST["operator Mod"] += ("('%s'*400000) % wide", "'%999d' % long", "ascii % []", "('%(a)d'*99999) % {'a': whole}")
WORST["operator Pow"] += ("10 ** 3999", "9 ** 4100", "power ** whole", "fraction ** 1.7", "1.5 ** -9999", "whole ** -7")
WORST.update({
    "function dict": (f"dict({', '.join(f'n{n}=1' for n in range(2_000))})",),
    "function namespace": (f"namespace({', '.join(f'n{n}=1' for n in range(2_000))}).n1",),
    "function now": ("now()",),
    "function range": ("range(100000)", "range(whole - 99999, whole)", "range(0, whole, 10**3995)", "range(10**9)"),
    "method dict.get": ("many.get(ascii ~ 'b')", "named.get('n'*1000000)", "many.get(whole, ascii)"),
    "method dict.items": ("many.items()",),
    "method dict.keys": ("many.keys()",),
    "method dict.values": ("many.values()",),
    "method list.count": ("wide.count(-1)", "lists.count(deep)", "(forty*300).count(ascii ~ '')", "(longs*30).count(whole)"),
    "method list.index": ("wide.index(99999)", "(forty*300).index(ascii ~ 'b')", "wholes.index(whole)"),
    "operator Neg": ("-whole", "-fraction", "-long"),
    "operator Pos": ("+whole", "+fraction"),
    "operator Concat": ("ascii ~ 'b'", "wide ~ wide", "deep ~ 1", "whole ~ whole", "quotes ~ [quotes]", "named ~ named"),
    "operator item": ("many[ascii ~ 'b']", "wide[long]", "wide[whole]", "named['n'*1000000]", "ascii[short]", "wide[fraction]"),
    "operator slice": ("ascii[::-1]", "wide[::2]", "four[1:]", "ascii[whole:]", "wide[-whole:whole:whole]"),
})  # fmt: skip

LOOPS: Final[dict[str, tuple[str, ...]]] = {
    "statement Assign": ("{% for i in wide %}{% set x = ascii %}{% endfor %}",),
    "statement AssignBlock": (
        "{% for i in wide %}{% set x %}{{ ascii }}{% endset %}{% endfor %}",
        "{% for i in wide %}{% set x | upper | trim(stripped) %}{{ two }}{% endset %}{% endfor %}",
    ),
    "statement FilterBlock": (
        "{% for i in wide %}{% filter upper %}{{ ascii }}{% endfilter %}{% endfor %}",
        "{% filter replace('a', 'bb') | upper %}{{ ascii }}{% endfilter %}",
    ),
    "statement For": (
        "{% for i in wide %}{% for j in wide %}{% endfor %}{% endfor %}",
        "{% for i in wide if ascii == ascii %}{% endfor %}",
        "".join(f"{{% set v{n} = 1 %}}" for n in range(2_000)) + "{% for i in wide %}{% endfor %}",
    ),
    "statement If": ("{% for i in wide %}{% if ascii ~ i == ascii %}a{% endif %}{% endfor %}",),
    "statement Output": ("{% for i in wide %}{{ ascii }}{% endfor %}", "{% for i in wide %}{{ deep }}{% endfor %}"),
    "statement With": (
        "{% for i in wide %}{% with a = ascii ~ i %}{% endwith %}{% endfor %}",
        "".join(f"{{% set v{n} = 1 %}}" for n in range(2_000))
        + "{% for i in wide %}{% with a = 1 %}{% endwith %}{% endfor %}",
    ),
    "node And": ("{% for i in wide %}{{ ascii and ascii == '' }}{% endfor %}",),
    "node Or": ("{% for i in wide %}{{ '' or wide == '' }}{% endfor %}",),
    "node Not": ("{% for i in wide %}{{ not ascii }}{% endfor %}",),
    "node CondExpr": ("{% for i in wide %}{{ ascii if ascii == ascii else wide }}{% endfor %}",),
    "node Const": ("{% for i in wide %}{{ 1 }}{% endfor %}",),
    "node Name": ("{% for i in wide %}{{ i }}{{ x.y.z }}{% endfor %}",),
    "node Getattr": ("{% for i in wide %}{{ many.name1 }}{{ ascii.x.y }}{% endfor %}",),
    "node Getitem": ("{% for i in wide %}{{ ascii[i:] }}{% endfor %}", "{% for i in wide %}{{ many[ascii ~ i] }}{% endfor %}"),
    "node List": (f"{{% for i in wide %}}{{% set x = [{'i,' * 5_000}] %}}{{% endfor %}}",),
    "node Tuple": (f"{{% for i in wide %}}{{% set x = ({'i,' * 5_000}) %}}{{% endfor %}}",),
    "node Dict": ("{% for i in wide %}{% set x = {" + ",".join(f"'{n}': i" for n in range(2_000)) + "} %}{% endfor %}",),
    "node Call": ("{% for i in wide %}{{ now() }}{% endfor %}", "{% for i in wide %}{{ range(9999) }}{% endfor %}", "{% for i in wide %}{{ ascii.upper() }}{% endfor %}"),
    "node Compare": ("{% for i in wide %}{{ ascii < ascii < ascii }}{% endfor %}",),
    "node Concat": ("{% for i in wide %}{% set x = ascii ~ i %}{% endfor %}",),
    "node Filter": ("{% for i in wide %}{{ two|trim(stripped) }}{% endfor %}",),
    "node Test": ("{% for i in wide %}{{ half is in ascii }}{% endfor %}",),
    "node Neg": ("{% for i in wide %}{{ -whole }}{% endfor %}",),
    "node Pos": ("{% for i in wide %}{{ +whole }}{% endfor %}",),
    **{
        f"node {name}": (f"{{% for i in wide %}}{{% set x = whole {operator} divisor %}}{{% endfor %}}",)
        for name, operator in _COMPUTED.items()
    },
}  # fmt: skip
"""Each node of the syntax, in a loop."""

KNOWN: Final = (
    "{{ ('a'*1000000)|trim('b'*1000000 ~ 'a') }}",
    "{{ range(1000)|map(attribute='.'*100000)|list }}",
    "{{ ('a'*1000000).rsplit('a'*250000 ~ 'b' ~ 'a'*250000) }}",
    "{{ range(1000)|sort(attribute=','*1000000) }}",
    "{{ range(0, 40000*(2**61-1), 2**61-1)|unique|list }}",
    "{{ ('a'*1000000).startswith(['a'*1000000]*100000) }}",
    "{{ ('a'*1000000).lstrip('b'*1000000 ~ 'a') }}",
    "{{ ('a'*1000000).rstrip('b'*1000000 ~ 'a') }}",
    "{{ 1.7777777777777777777777777777777777 ** ('1.' ~ '7'*3990)|float }}",
    "{{ ('1.' ~ '7'*3990)|float ** ('1.' ~ '7'*3990)|float }}",
    "{{ (['1e6000'|float]*50000)|map('int')|list }}",
    "{{ (['a'*1000000]*100000)|tojson|length }}",
    "{{ ([10**3999]*100000)|tojson|length }}",
    "{{ (['a'*1000000]*50000)|select('lt', 'a'*1000000)|list|length }}",
    "{{ (['a'*1000000]*50000)|map('bool')|list|length }}",
    "{{ ('\\x0b'*1000000).splitlines()|length }}",
    "{{ range(10**3999 - 99999, 10**3999)|length }}",
    "{{ range(99999)|map(attribute=10**3999)|list }}",
    "{{ (range(500)|map('list')|list + [{}]*50000)|unique|list|length }}",
)
"""Those that held the process for seconds, or for ever, before their work was counted."""


def list_shapes() -> Iterator[tuple[str, str]]:
    """Every entry or node, and a template of its own for each of its worst inputs."""
    for name, cases in WORST.items():
        for case in cases:
            yield name, f"{{{{ {case} }}}}"
    for name, cases in LOOPS.items():
        for case in cases:
            yield name, case


def make_shapes(count: int, seed: int = 23) -> list[str]:
    """Templates that combine entries: worst inputs within filters, loops, joins and comparisons."""
    dice = random.Random(seed)
    cases = [case for cases in WORST.values() for case in cases]
    return [f"{{{{ {_combine(dice, cases)} }}}}" for _ in range(count)]


_FRAMES: Final = (
    "({0}, {1})|map('{f}')|list", "[{0}]*1000|map('{f}')|list", "({0})|{f}", "({0})|string|{f}",
    "([{0}]*1000)|join({1})", "[{0}, {1}]|sort", "([{0}]*300)|unique|list", "([{0}]*300)|select('in', [{1}])|list",
    "({0}) in [{1}, {0}]", "({0}) == ({1})", "(({0})|string).split(({1})|string)", "(({0})|string).rsplit(({1})|string, 9)",
    "(({0})|string)|trim(({1})|string)", "(({0})|string)|replace(({1})|string, ({0})|string)", "({0}) ~ ({1}) ~ ({0})",
    "{{'a': {0}, 'b': [{1}]}}|tojson|fromjson", "([{0}]*99999)|map(attribute={1})|list", "({0})|default({1})|{f}",
    "([[{0}, {1}]]*50000)|map('first')|list|tojson", "({1}) if ({0}) else ({0})", "([{0}]*9999)|sum(start={1})",
    "([{0}]*5000)|sort(attribute={1})", "([{0}]*9999)|max", "(({0})|string).startswith([{1}]*9999)",
)  # fmt: skip
_UNARY: Final = (
    "upper", "title", "tojson", "string", "list", "length", "sum", "sort", "unique", "reverse", "urlencode", "int", "float",
    "trim", "first", "items", "b64encode", "max", "round", "abs", "fromjson", "capitalize", "bool",
)  # fmt: skip


def _combine(dice: random.Random, cases: list[str]) -> str:
    first, second = dice.choice(cases), dice.choice(cases)
    made = dice.choice(_FRAMES).format(first, second, f=dice.choice(_UNARY))
    if dice.random() < 0.5:
        made = dice.choice(_FRAMES).format(made, dice.choice(cases), f=dice.choice(_UNARY))
    return made


def inline_workload(source: str) -> str:
    """The template with expressions in place of the values of the workload: so a request of a few hundred bytes does
    what another one would with megabytes, whose way into the database is no work of an evaluator.
    """
    return _NAME.sub(lambda found: INLINE[found[0]], source)
