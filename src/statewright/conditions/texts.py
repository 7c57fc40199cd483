"""Tests of stored strings: a table of three, their negations and their caseless twins
(docs/reference/conditions.md#text-operators).

Patterns: regular expressions of the RE2 dialect, and LIKE globs (docs/reference/conditions.md#like,
docs/reference/conditions.md#matches_pattern, decision S4).

RE2 runs in time linear in the text whatever the pattern, so that no author of a condition can stop the service.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from statewright.conditions.syntax import TextOperator
from statewright.evaluation.costs import search_text
from statewright.evaluation.regexes import MalformedRegex, compile_regex, escape

TextTest = Callable[[str], bool]

MAX_LIKE_WILDCARDS: Final = 1_000
"""Of one glob: RE2 compiles some ten thousand, PostgreSQL calls itself for each."""

_GLOB_PART: Final = re.compile(r"\\[%_\\]|[%_]", re.DOTALL)
_WILDCARDS: Final = {"%": "[^\n]*", "_": "[^\n]"}


class PricedTest(Struct, frozen=True):
    """A test of stored strings, and what it costs."""

    holds: TextTest
    count_visits: Callable[[int], int]
    """How many visits a text of so many characters counts as."""


_TESTS_PER_VISIT: Final = 16
"""Instructions of a pattern that a character is compared with in the time of a visit."""


def find_pattern_defect(pattern: str) -> str | None:
    """Why RE2 refuses the pattern; ``None`` when it does not."""
    try:
        compile_regex(pattern)
    except MalformedRegex as error:
        return str(error)
    return None


def compile_pattern_test(pattern: str) -> PricedTest:
    """Whether a whole text matches the pattern, which :func:`find_pattern_defect` has found none in."""
    regex = compile_regex(pattern)
    fullmatch, instructions = regex.compiled.fullmatch, regex.instructions

    def matches(stored: str) -> bool:
        return fullmatch(stored.encode()) is not None

    return PricedTest(matches, lambda chars: chars * instructions // _TESTS_PER_VISIT)


def find_like_defect(glob: str) -> str | None:
    """Why the glob cannot be matched; ``None`` when it can."""
    parts = split_glob(glob)
    wildcards = sum(part.is_wildcard for part in parts)
    if wildcards > MAX_LIKE_WILDCARDS:
        return f"more than {MAX_LIKE_WILDCARDS} wildcards"
    return find_pattern_defect(write_pattern(parts)) if wildcards else None


class GlobPart(Struct, frozen=True):
    """A wildcard of a glob, or the literal text between two, with its escapes resolved."""

    text: str
    is_wildcard: bool = False


def split_glob(glob: str) -> list[GlobPart]:
    """The parts of a LIKE operand, none of them empty.

    A backslash takes the meaning from a following ``%``, ``_`` or backslash; any other backslash stands for itself.
    """
    parts: list[GlobPart] = []
    literal = ""
    end = 0
    for found in _GLOB_PART.finditer(glob):
        literal += glob[end : found.start()]
        end = found.end()
        if found[0] in _WILDCARDS:
            parts += [GlobPart(literal)] if literal else []
            parts.append(GlobPart(found[0], is_wildcard=True))
            literal = ""
        else:
            literal += found[0][1]
    literal += glob[end:]
    return [*parts, GlobPart(literal)] if literal else parts


def compile_like_test(glob: str) -> PricedTest:
    """Whether a whole text matches the glob, which :func:`find_like_defect` has found none in: ``%`` any run, ``_`` one
    character, neither crossing a line feed.
    """
    parts = split_glob(glob)
    if not any(part.is_wildcard for part in parts):
        return PricedTest("".join(part.text for part in parts).__eq__, lambda _: 0)
    return compile_pattern_test(write_pattern(parts))


def write_pattern(parts: Iterable[GlobPart]) -> str:
    """The glob as a regular expression."""
    return "".join(_WILDCARDS[part.text] if part.is_wildcard else escape(part.text) for part in parts)


Build = Callable[[str], TextTest]
"""From an operand to the test of a stored string."""

Count = Callable[[int], int]
"""How many visits a string of so many characters counts as."""

BuildPriced = Callable[[str], PricedTest]

_CHARS_PER_VISIT: Final = 6
"""Characters that are looked through in a visit, a tenth of a step."""
_VISITS_PER_STEP: Final = 10
_FREE_STEPS: Final = 2
"""Steps of a search that its own visit stands for."""
_VISITS_PER_FOLDED: Final = 4
"""What a character that may be beyond ASCII takes where each is folded on its own."""


def compile_text_test(operator: TextOperator, operand: str) -> PricedTest:
    """The test that the operator makes of its operand, prepared once for many strings."""
    return TEXT_TESTS[operator](operand)


def lower_text(text: str) -> str:
    """The text in lower case, code point by code point: nothing gets longer, and no letter looks at its neighbours."""
    if not text.isascii():
        text = text.replace("İ", "i").replace("Σ", "σ")  # the only two that str.lower() treats otherwise
    return text.lower()


def fold_text(text: str) -> str:
    """The text under simple case folding: texts that differ in case only, and are equally long, become equal."""
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


def _fold_character(character: str) -> str:
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def _equals(operand: str) -> TextTest:
    return operand.__eq__


def _contains(operand: str) -> TextTest:
    return lambda stored: operand in stored


def _starts_with(operand: str) -> TextTest:
    return lambda stored: stored.startswith(operand)


def _ends_with(operand: str) -> TextTest:
    return lambda stored: stored.endswith(operand)


def _count_search(operand: str) -> Count:
    part = len(operand)
    return lambda chars: max(search_text(chars, part) - _FREE_STEPS, 0) * _VISITS_PER_STEP


def _count_comparison(operand: str) -> Count:
    part = len(operand)
    return lambda chars: min(chars, part) // _CHARS_PER_VISIT


def _count_case(operand: str) -> Count:
    search = _count_search(operand)
    return lambda chars: chars // _CHARS_PER_VISIT + search(chars)


def _count_folding(_: str) -> Count:
    return lambda chars: chars * _VISITS_PER_FOLDED


def _price(build: Build, count: Callable[[str], Count]) -> BuildPriced:
    return lambda operand: PricedTest(build(operand), count(operand))


def _negate(build: BuildPriced) -> BuildPriced:
    def build_negated(operand: str) -> PricedTest:
        test = build(operand)
        holds = test.holds
        return PricedTest(lambda stored: not holds(stored), test.count_visits)

    return build_negated


def _ignore_case(build: Build, normalise: Callable[[str], str] = lower_text) -> Build:
    def build_caseless(operand: str) -> TextTest:
        test = build(normalise(operand))
        return lambda stored: test(normalise(stored))

    return build_caseless


_PLAIN: Final[dict[str, BuildPriced]] = {
    "CONTAINS": _price(_contains, _count_search),
    "STARTS_WITH": _price(_starts_with, _count_comparison),
    "ENDS_WITH": _price(_ends_with, _count_comparison),
    "IEQUALS": _price(_ignore_case(_equals, fold_text), _count_folding),
    "ICONTAINS": _price(_ignore_case(_contains), _count_case),
    "ISTARTS_WITH": _price(_ignore_case(_starts_with), _count_case),
    "IENDS_WITH": _price(_ignore_case(_ends_with), _count_case),
}

TEXT_TESTS: Final[dict[TextOperator, BuildPriced]] = {
    TextOperator.CONTAINS: _PLAIN["CONTAINS"],
    TextOperator.STARTS_WITH: _PLAIN["STARTS_WITH"],
    TextOperator.ENDS_WITH: _PLAIN["ENDS_WITH"],
    TextOperator.NOT_CONTAINS: _negate(_PLAIN["CONTAINS"]),
    TextOperator.NOT_STARTS_WITH: _negate(_PLAIN["STARTS_WITH"]),
    TextOperator.NOT_ENDS_WITH: _negate(_PLAIN["ENDS_WITH"]),
    TextOperator.IEQUALS: _PLAIN["IEQUALS"],
    TextOperator.ICONTAINS: _PLAIN["ICONTAINS"],
    TextOperator.ISTARTS_WITH: _PLAIN["ISTARTS_WITH"],
    TextOperator.IENDS_WITH: _PLAIN["IENDS_WITH"],
    TextOperator.INOT_EQUAL: _negate(_PLAIN["IEQUALS"]),
    TextOperator.INOT_CONTAINS: _negate(_PLAIN["ICONTAINS"]),
    TextOperator.INOT_STARTS_WITH: _negate(_PLAIN["ISTARTS_WITH"]),
    TextOperator.INOT_ENDS_WITH: _negate(_PLAIN["IENDS_WITH"]),
    TextOperator.LIKE: compile_like_test,
    TextOperator.MATCHES_PATTERN: compile_pattern_test,
}
"""What each operator makes of its operand, with what a test costs."""
