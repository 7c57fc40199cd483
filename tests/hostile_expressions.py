"""Expressions that would take long if their work were not counted, for each entry of their tables."""

import random
from collections.abc import Iterator, Mapping

from statewright.expressions.functions.times import METHODS
from statewright.expressions.signatures import SIGNATURES
from statewright.jsonval.values import JsonObject
from tests.hostile_documents import DOCUMENT

VARIABLES: JsonObject = DOCUMENT | {"x": None, "y": None, "z": None}
SMALL: JsonObject = {
    name: value for name, value in VARIABLES.items() if isinstance(value, int | str) and len(str(value)) < 2_000
} | {"text": "a" * 1_900, "whole": DOCUMENT["whole"], "fraction": DOCUMENT["fraction"], "few": [*range(50)]}

WORST: Mapping[str, tuple[str, ...]] = {
    "len": ("len(object)", "len(wide)"),
    "type": ("type(object)",),
    "string": ("string(nested)", "string(object)", "string(whole)", "string(wide)"),
    "upper": ("upper(plain)", "upper(cased)"),
    "lower": ("lower(wide)",),
    "trim": ("trim(plain, part + late)", "trim(wide, plain + 'ā')", "trim(blanks)"),
    "trimPrefix": ("trimPrefix(plain, plain)", "trimPrefix(plain, part)"),
    "trimSuffix": ("trimSuffix(wide, wide)",),
    "split": ("split(plain, part)", "split(wide, '')", "split(blanks, ' ')", "split(plain, late)"),
    "splitAfter": ("splitAfter(blanks, ' ')", "splitAfter(wide, '')"),
    "replace": ("replace(blanks, ' ', '')", "replace(plain, '', 'x')", "replace(plain, part, wide)"),
    "repeat": ("repeat('a', 1000001)", "repeat(plain, 2)", "repeat('', 1000000000)"),
    "indexOf": ("indexOf(plain, part)", "indexOf(plain, late)"),
    "lastIndexOf": ("lastIndexOf(plain, part)", "lastIndexOf(plain, late)"),
    "hasPrefix": ("hasPrefix(plain, plain)",),
    "hasSuffix": ("hasSuffix(plain, plain)",),
    "join": ("join(texts, plain)", "join(texts)"),
    "abs": ("abs(whole)",),
    "ceil": ("ceil(1e308)",),
    "floor": ("floor(large)",),
    "round": ("round(1e308)",),
    "max": ("max(numbers)", "max(nested)", "max(fractions)", "max(numbers, numbers)"),
    "min": ("min(numbers)", "min(wholes)"),
    "mean": ("mean(numbers)", "mean(fractions)"),
    "median": ("median(shuffled)",),
    "int": ("int(digits)", "int(large)"),
    "float": ("float(digits)", "float(fraction)"),
    "toJSON": ("toJSON(nested)", "toJSON([whole, whole, whole])", "toJSON(object)", "toJSON(wide)"),
    "fromJSON": ("fromJSON(json)", "fromJSON(broken)", "fromJSON(digits)"),
    "toBase64": ("toBase64(wide)",),
    "fromBase64": ("fromBase64(plain)", "fromBase64(blanks)"),
    "first": ("first(wide)", "first(numbers)"),
    "last": ("last(wide)",),
    "take": ("take(numbers, 2)",),
    "concat": ("concat(numbers, numbers)",),
    "flatten": ("flatten(nested)", "flatten([nested, nested])"),
    "uniq": ("uniq(numbers)", "uniq(nested)", "uniq([plain, wide, plain])"),
    "reverse": ("reverse(numbers)",),
    "sort": ("sort(shuffled)", "sort(texts)", "sort([plain + 'a', plain + 'b', plain])"),
    "all": ("all(numbers, # >= 0)",),
    "any": ("any(numbers, # < 0)",),
    "one": ("one(numbers, # < 0)",),
    "none": ("none(numbers, # < 0)",),
    "filter": ("filter(numbers, plain < wide)",),
    "find": ("find(texts, # == plain)",),
    "findIndex": ("findIndex(numbers, fraction < 0)",),
    "findLast": ("findLast(numbers, # < 0)",),
    "findLastIndex": ("findLastIndex(numbers, # < 0)",),
    "count": ("count(numbers, {" + "+".join(["1"] * 4_000) + " > 0})", "count(numbers, whole > 0)"),
    "map": ("map(numbers, whole)", "map(numbers, fraction + 1)", "map(numbers, [plain])"),
    "sum": ("sum(texts)", "sum(numbers)", "sum([plain, wide], [# + wide])"),
    "groupBy": ("groupBy(numbers, 1)", "groupBy(numbers, # * 2305843009213693951)"),
    "sortBy": ("sortBy(shuffled, #)", "sortBy(texts, #)"),
    "reduce": ("reduce(numbers, # + 1)",),
    "keys": ("keys(object)",),
    "values": ("values(object)",),
    "toPairs": ("toPairs(object)",),
    "fromPairs": ("fromPairs(pairs)", "fromPairs([numbers, numbers])"),
    "get": ("get(wide, 0)", "get(object, plain)"),
    "now": ("now(timezone('Europe/Berlin'))",),
    "duration": ("duration(units)", "duration(digits)", "duration(digits + 'x')"),
    "date": ("date(days, layout)", "date(digits)", "date(plain, plain)", "date(days + 'x', layout)"),
    "timezone": ("timezone(plain)", "timezone('Asia/Tokyo')"),
    **{name: (f"{name}(9223372036854775807, 9223372036854775807)",) for name in SIGNATURES if name.startswith("bit")},
    "bitnot": ("bitnot(9223372036854775807)",),
    "+": ("plain + wide",),
    "-": ("whole - 1", "now() - now()"),
    "*": ("whole * large",),
    "/": ("whole / fraction",),
    "%": ("9223372036854775807 % 7",),
    "**": ("9e99 ** whole",),
    "<": ("plain < plain + 'a'", "whole < fraction"),
    "<=": ("plain <= plain + 'a'",),
    ">": ("wide > wide + 'a'",),
    ">=": ("wide >= wide + 'a'",),
    "contains": ("plain contains part", "plain contains late", "wide contains 'b'"),
    "startsWith": ("plain startsWith plain",),
    "endsWith": ("plain endsWith plain",),
    "..": ("1..1000000", "1..9000000"),
    "[:]": ("plain[1:]", "wide[1:]", "numbers[1:]", "map(numbers, #)[1:]", "map(numbers, plain[1:])"),
    "==": ("nested == twin", "object == keys(object)", "numbers == [1]", "object == {}", "wide == plain"),
    "!=": ("nested != twin", "texts != texts"),
    "in": ("nested in [nested, twin, nested]", "plain in texts", "plain in object", "-1 in numbers"),
    "matches": ("ab matches pattern", "ab matches classes", "plain matches repeat('a?', 4000)", "plain matches late"),
    **{f"{kind.__name__}.{name}": (f"{'now()' if kind.__name__ == 'datetime' else '(now() - now())'}.{name}()",)
       for kind, name in METHODS},
    "datetime.Format": ("now().Format(digits)", "now().Format(repeat('Monday', 10000))"),
}  # fmt: skip
"""The worst admissible inputs of each entry."""

PARTS = (
    "numbers[1:]", "plain[1:]", "wide[1:]", "map(numbers, #)[1:]", "wide[0]", "map(numbers, plain[1:])",
    "map(numbers, wide[0])", "count(numbers, [numbers, 1] == nil)", "map(numbers, [{'a': plain + 'b'}])",
    "map(numbers, let x = plain + 'b'; x)", "fractions[0] > 1 ? plain : wide", "object['name1'] ?? (plain + wide)",
    "[" + ",".join(["whole"] * 4_000) + "]", "not not (plain contains part)",
    "-".join(["whole"] * 4_000), "'" + "a" * 90_000 + "' contains 'b'", "(" * 90 + "plain + wide" + ")" * 90,
    "map(numbers, map(numbers, map(numbers, #)))",
)  # fmt: skip
"""Forms of the language that are no entries of a table."""


KNOWN = (
    "trim(plain, part + late)", "lastIndexOf(plain, part)", "fromJSON(json)", "map(numbers, plain[1:])",
    "map(numbers, keys(object))", "map(numbers, plain contains part)", "map(numbers, ab matches pattern)",
)  # fmt: skip
"""Those that once counted as one step."""


def iterate_shapes() -> Iterator[str]:
    for calls in (*WORST.values(), PARTS):
        yield from calls


REPEATABLE = [
    call.replace("plain", "text").replace("wide", "text").replace("digits", "text").replace("numbers", "few")
    for calls in (*WORST.values(), PARTS)
    for call in calls
    if not any(name in call for name in ("object", "nested", "twin", "texts", "json", "late", "json", "units"))
    and not any(
        name in call for name in ("broken", "blanks", "cased", "shuffled", "fractions", "wholes", "pairs", "ab ")
    )
]


def generate_shapes(seed: int, count: int) -> Iterator[str]:
    """Nested combinations of worst inputs: calls whose arguments are such calls, within predicates and literals."""
    rng = random.Random(seed)
    calls = [*iterate_shapes()]
    wraps = (
        "len(string({}))", "[{}, {}]", "{} ?? {}", "[{}] == [{}]", "toJSON([{}])", "count(1..1000, {{[{}] != nil}})",
        "map(1..1000, [{}])", "uniq([{}, {}])", "{{'a': {}, 'b': [{}]}}", "string([{}]) + string([{}])",
        "sort([string({}), string({})])", "let x = [{}]; x == x", "string({}) matches pattern", "flatten([[{}], {}])",
        "fromJSON(toJSON([{}]))", "string({})[1:] contains part", "groupBy(1..1000, string({}))", "({})",
        "any(1..1000, [{}] in [[{}]])", "trim(string({}), string({}))", "lastIndexOf(string({}), part)",
        "split(string({}), string({}))", "reduce(1..1000, [{}])", "sortBy(1..1000, string({}))",
    )  # fmt: skip
    for _ in range(count):
        shape = rng.choice(calls)
        for _ in range(rng.randint(1, 3)):
            wrap = rng.choice(wraps)
            others = [shape, *rng.sample(calls, wrap.count("{}") - 1)]
            rng.shuffle(others)
            shape = wrap.format(*(f"({other})" for other in others))
        yield shape
