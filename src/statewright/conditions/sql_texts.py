"""The text operators in SQL (docs/reference/conditions.md#text-operators,
docs/reference/conditions.md#matches_pattern).

They look at an expression that is NULL unless a string is stored.
"""

import re
from typing import Final

from statewright.conditions.patterns import split_glob
from statewright.conditions.sql_terms import HEAD_CHARS, Binder, Term, Text, join_all
from statewright.conditions.texts import fold_text, lower_text
from statewright.conditions.vocabulary import TextOperator

LOWERED_TO_ASCII: Final = {"İ": "i", "\u212a": "k"}
FOLDED_TO_ASCII: Final = {"ſ": "s", "\u212a": "k"}
"""The only letters outside ASCII that our case mappings take into it; a test looks at all of Unicode."""

_ASCII_RUN: Final = re.compile(r"[\x01-\x7f]+")
_LITERAL_PREFIX: Final = re.compile(r"[A-Za-z0-9 _,:;@/-]*")
LAST_CHARACTER: Final = "\U0010ffff"
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000
_OPTIONAL: Final = frozenset("*?{")


def compile_text_term(operator: TextOperator, operand: str, stored: Text, binder: Binder) -> Term:
    """The operator on the stored string. Raises ``Unsendable``."""
    match operator:
        case TextOperator.LIKE:
            return _compile_like(operand, stored, binder)
        case TextOperator.MATCHES_PATTERN:
            return _compile_pattern(operand, stored, binder)
    name = operator.value
    negated = name.startswith(("NOT_", "INOT_"))
    caseless = name.startswith("I")
    plain = name.removeprefix("I").removeprefix("NOT_")
    if plain == "STARTS_WITH" and not caseless and not negated and operand and len(operand) < HEAD_CHARS:
        return _compile_prefix(operand, stored, binder)
    if not caseless:
        place = stored.choose_expression(operand) if plain == "STARTS_WITH" else stored.whole
        return _apply_negation(_compile_simple(plain, place, binder.bind(operand, "text")), negated=negated)
    return _compile_caseless(plain, operand, stored, binder, negated=negated)


def require_string(stored: Text) -> Term:
    """What every text operator demands at least."""
    return Term(f"{stored.whole} IS NOT NULL", is_exact=False)


def _compile_simple(name: str, stored: str, operand: str) -> str:
    match name:
        case "CONTAINS":
            return f"strpos({stored}, {operand}) > 0"
        case "STARTS_WITH":
            return f"starts_with({stored}, {operand})"
        case "ENDS_WITH":
            return f"right({stored}, char_length({operand})) = {operand}"
        case _:  # EQUALS, EQUAL
            return f"{stored} = {operand}"


def _apply_negation(text: str, *, negated: bool) -> Term:
    return Term(f"NOT ({text})" if negated else text)


def _compile_caseless(name: str, operand: str, stored: Text, binder: Binder, *, negated: bool) -> Term:
    """Exact for operands within ASCII; PostgreSQL's tables for other letters are not ours."""
    normalise, exotic = (fold_text, FOLDED_TO_ASCII) if name.startswith("EQUAL") else (lower_text, LOWERED_TO_ASCII)
    wanted = normalise(operand)
    runs = _ASCII_RUN.findall(wanted)
    if not wanted.isascii() and (negated or not runs):
        return require_string(stored)
    # With the collation "C" lower() leaves everything but A-Z alone.
    source, target = binder.bind("".join(exotic), "text"), binder.bind("".join(exotic.values()), "text")
    candidate = f"lower(translate({stored.whole}, {source}, {target}))"
    if wanted.isascii():
        return _apply_negation(_compile_simple(name, candidate, binder.bind(wanted, "text")), negated=negated)
    return Term(_compile_simple("CONTAINS", candidate, binder.bind(max(runs, key=len), "text")), is_exact=False)


def _compile_like(glob: str, stored: Text, binder: Binder) -> Term:
    parts = split_glob(glob)
    literals = [part.text for part in parts if not part.is_wildcard]
    if len(literals) == len(parts):
        text = "".join(literals)
        return Term(f"{stored.choose_expression(text)} = {binder.bind(text, 'text')}")
    escaped = "".join(part.text if part.is_wildcard else _escape_like(part.text) for part in parts)
    terms = [] if parts[0].is_wildcard else [_compile_prefix(parts[0].text, stored, binder)]
    terms.append(Term(f"{stored.whole} LIKE {binder.bind(escaped, 'text')}"))
    if any("\n" in literal for literal in literals):
        return join_all(terms).mark_inexact()
    # SQL's wildcards cross line feeds, ours do not; without one in a literal there may be none at all.
    return join_all([*terms, Term(f"strpos({stored.whole}, {binder.bind(chr(10), 'text')}) = 0")])


def _compile_prefix(prefix: str, stored: Text, binder: Binder) -> Term:
    """What an index can look up, also in a plan that is kept: the texts from the prefix to the first one beyond."""
    short = prefix[: HEAD_CHARS - 1]
    beyond = find_successor(short)
    if not short or not beyond:
        return Term(f"starts_with({stored.head}, {binder.bind(short, 'text')})")
    first, end = binder.bind(short, "text"), binder.bind(beyond, "text")
    return Term(f"({stored.head} >= {first} AND {stored.head} < {end})")


def find_successor(prefix: str) -> str:
    """The least text above all that begin with the prefix, by code points; empty when there is none."""
    shortened = prefix.rstrip(LAST_CHARACTER)
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(AFTER_SURROGATES if following == FIRST_SURROGATE else following)


def _escape_like(literal: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", literal)


def _compile_pattern(pattern: str, stored: Text, binder: Binder) -> Term:
    """RE2 is not PostgreSQL's dialect, so only a literal beginning narrows."""
    prefix = _read_literal_prefix(pattern)
    if not prefix:
        return require_string(stored)
    return _compile_prefix(prefix, stored, binder).mark_inexact()


def _read_literal_prefix(pattern: str) -> str:
    """What every match begins with; empty when that cannot be told at a glance."""
    if "|" in pattern:
        return ""
    found = _LITERAL_PREFIX.match(pattern)
    prefix = found[0] if found else ""
    return prefix[:-1] if pattern[len(prefix) : len(prefix) + 1] in _OPTIONAL else prefix
