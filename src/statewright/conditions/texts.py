"""Tests of stored strings: a table of three, their negations and their caseless twins (spec/search.md §5.9)."""

from collections.abc import Callable
from typing import Final

from statewright.conditions.operators import TextOperator
from statewright.conditions.patterns import TextTest, like_test, pattern_test

Build = Callable[[str], TextTest]
"""From an operand to the test of a stored string."""


def text_test(operator: TextOperator, operand: str) -> TextTest:
    """The test that the operator makes of its operand, prepared once for many strings."""
    return _TESTS[operator](operand)


def lowered(text: str) -> str:
    """The text in lower case, code point by code point: nothing gets longer, and no letter looks at its neighbours."""
    if not text.isascii():
        text = text.replace("İ", "i").replace("Σ", "σ")  # the only two that str.lower() treats otherwise
    return text.lower()


def folded(text: str) -> str:
    """The text under simple case folding: texts that differ in case only, and are equally long, become equal."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


def _fold(character: str) -> str:
    for candidate in (character.casefold(), character.lower()):
        if len(candidate) == 1:
            return candidate
    return character


def _equals(operand: str) -> TextTest:
    def test(stored: str) -> bool:
        return stored == operand

    return test


def _contains(operand: str) -> TextTest:
    def test(stored: str) -> bool:
        return operand in stored

    return test


def _starts_with(operand: str) -> TextTest:
    def test(stored: str) -> bool:
        return stored.startswith(operand)

    return test


def _ends_with(operand: str) -> TextTest:
    def test(stored: str) -> bool:
        return stored.endswith(operand)

    return test


def _negated(build: Build) -> Build:
    def build_negated(operand: str) -> TextTest:
        test = build(operand)
        return lambda stored: not test(stored)

    return build_negated


def _caseless(build: Build, normalise: Callable[[str], str] = lowered) -> Build:
    def build_caseless(operand: str) -> TextTest:
        test = build(normalise(operand))
        return lambda stored: test(normalise(stored))

    return build_caseless


_TESTS: Final[dict[TextOperator, Build]] = {
    TextOperator.CONTAINS: _contains,
    TextOperator.STARTS_WITH: _starts_with,
    TextOperator.ENDS_WITH: _ends_with,
    TextOperator.NOT_CONTAINS: _negated(_contains),
    TextOperator.NOT_STARTS_WITH: _negated(_starts_with),
    TextOperator.NOT_ENDS_WITH: _negated(_ends_with),
    TextOperator.IEQUALS: _caseless(_equals, folded),
    TextOperator.ICONTAINS: _caseless(_contains),
    TextOperator.ISTARTS_WITH: _caseless(_starts_with),
    TextOperator.IENDS_WITH: _caseless(_ends_with),
    TextOperator.INOT_EQUAL: _negated(_caseless(_equals, folded)),
    TextOperator.INOT_CONTAINS: _negated(_caseless(_contains)),
    TextOperator.INOT_STARTS_WITH: _negated(_caseless(_starts_with)),
    TextOperator.INOT_ENDS_WITH: _negated(_caseless(_ends_with)),
    TextOperator.LIKE: like_test,
    TextOperator.MATCHES_PATTERN: pattern_test,
}
