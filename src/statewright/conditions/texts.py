"""Tests of stored strings: a table of three, their negations and their caseless twins
(docs/reference/conditions.md#text-operators).
"""

from collections.abc import Callable
from typing import Final

from statewright.conditions.patterns import TextTest, compile_like_test, compile_pattern_test
from statewright.conditions.vocabulary import TextOperator

Build = Callable[[str], TextTest]
"""From an operand to the test of a stored string."""


def compile_text_test(operator: TextOperator, operand: str) -> TextTest:
    """The test that the operator makes of its operand, prepared once for many strings."""
    return _TESTS[operator](operand)


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


def _negate(build: Build) -> Build:
    def build_negated(operand: str) -> TextTest:
        test = build(operand)
        return lambda stored: not test(stored)

    return build_negated


def _ignore_case(build: Build, normalise: Callable[[str], str] = lower_text) -> Build:
    def build_caseless(operand: str) -> TextTest:
        test = build(normalise(operand))
        return lambda stored: test(normalise(stored))

    return build_caseless


_TESTS: Final[dict[TextOperator, Build]] = {
    TextOperator.CONTAINS: _contains,
    TextOperator.STARTS_WITH: _starts_with,
    TextOperator.ENDS_WITH: _ends_with,
    TextOperator.NOT_CONTAINS: _negate(_contains),
    TextOperator.NOT_STARTS_WITH: _negate(_starts_with),
    TextOperator.NOT_ENDS_WITH: _negate(_ends_with),
    TextOperator.IEQUALS: _ignore_case(_equals, fold_text),
    TextOperator.ICONTAINS: _ignore_case(_contains),
    TextOperator.ISTARTS_WITH: _ignore_case(_starts_with),
    TextOperator.IENDS_WITH: _ignore_case(_ends_with),
    TextOperator.INOT_EQUAL: _negate(_ignore_case(_equals, fold_text)),
    TextOperator.INOT_CONTAINS: _negate(_ignore_case(_contains)),
    TextOperator.INOT_STARTS_WITH: _negate(_ignore_case(_starts_with)),
    TextOperator.INOT_ENDS_WITH: _negate(_ignore_case(_ends_with)),
    TextOperator.LIKE: compile_like_test,
    TextOperator.MATCHES_PATTERN: compile_pattern_test,
}
