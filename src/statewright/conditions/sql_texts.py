"""Text operators in SQL (spec/search.md §5.9-§5.11). What they look at is NULL unless a string is stored."""

import re
from typing import Final

from statewright.conditions.operators import TextOperator
from statewright.conditions.patterns import glob_parts
from statewright.conditions.sql_terms import HEAD, Binder, Term, Text, all_of
from statewright.conditions.texts import folded, lowered

LOWERED_TO_ASCII: Final = {"İ": "i", "\u212a": "k"}
FOLDED_TO_ASCII: Final = {"ſ": "s", "\u212a": "k"}
"""The only letters outside ASCII that our case mappings take into it; a test looks at all of Unicode."""

_ASCII_RUN = re.compile(r"[\x01-\x7f]+")
_LITERAL_PREFIX = re.compile(r"[A-Za-z0-9 _,:;@/-]*")
LAST_CHARACTER: Final = "\U0010ffff"
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000
_OPTIONAL: Final = frozenset("*?{")


def text_term(operator: TextOperator, operand: str, stored: Text, binder: Binder) -> Term:
    """The operator on the stored string. Raises ``Unsendable``."""
    match operator:
        case TextOperator.LIKE:
            return _like(operand, stored, binder)
        case TextOperator.MATCHES_PATTERN:
            return _pattern(operand, stored, binder)
    name = operator.value
    negated = name.startswith(("NOT_", "INOT_"))
    caseless = name.startswith("I")
    plain = name.removeprefix("I").removeprefix("NOT_")
    if plain == "STARTS_WITH" and not caseless and not negated and operand and len(operand) < HEAD:
        return _beginning(operand, stored, binder)
    if not caseless:
        place = stored.beside(operand) if plain == "STARTS_WITH" else stored.whole
        return _signed(_simple(plain, place, binder.bind(operand, "text")), negated=negated)
    return _caseless(plain, operand, stored, binder, negated=negated)


def is_string(stored: Text) -> Term:
    """What every text operator demands at least."""
    return Term(f"{stored.whole} IS NOT NULL", is_exact=False)


def _simple(name: str, stored: str, operand: str) -> str:
    match name:
        case "CONTAINS":
            return f"strpos({stored}, {operand}) > 0"
        case "STARTS_WITH":
            return f"starts_with({stored}, {operand})"
        case "ENDS_WITH":
            return f"right({stored}, char_length({operand})) = {operand}"
        case _:  # EQUALS, EQUAL
            return f"{stored} = {operand}"


def _signed(text: str, *, negated: bool) -> Term:
    return Term(f"NOT ({text})" if negated else text)


def _caseless(name: str, operand: str, stored: Text, binder: Binder, *, negated: bool) -> Term:
    """Exact for operands within ASCII; PostgreSQL's tables for other letters are not ours."""
    normalise, exotic = (folded, FOLDED_TO_ASCII) if name.startswith("EQUAL") else (lowered, LOWERED_TO_ASCII)
    wanted = normalise(operand)
    runs = _ASCII_RUN.findall(wanted)
    if not wanted.isascii() and (negated or not runs):
        return is_string(stored)
    # With the collation "C" lower() leaves everything but A-Z alone.
    source, target = binder.bind("".join(exotic), "text"), binder.bind("".join(exotic.values()), "text")
    candidate = f"lower(translate({stored.whole}, {source}, {target}))"
    if wanted.isascii():
        return _signed(_simple(name, candidate, binder.bind(wanted, "text")), negated=negated)
    return Term(_simple("CONTAINS", candidate, binder.bind(max(runs, key=len), "text")), is_exact=False)


def _like(glob: str, stored: Text, binder: Binder) -> Term:
    parts = glob_parts(glob)
    literals = [part.text for part in parts if not part.is_wildcard]
    if len(literals) == len(parts):
        text = "".join(literals)
        return Term(f"{stored.beside(text)} = {binder.bind(text, 'text')}")
    escaped = "".join(part.text if part.is_wildcard else _escaped(part.text) for part in parts)
    terms = [] if parts[0].is_wildcard else [_beginning(parts[0].text, stored, binder)]
    terms.append(Term(f"{stored.whole} LIKE {binder.bind(escaped, 'text')}"))
    if any("\n" in literal for literal in literals):
        return all_of(terms).loosened()
    # SQL's wildcards cross line feeds, ours do not; without one in a literal there may be none at all.
    return all_of([*terms, Term(f"strpos({stored.whole}, {binder.bind(chr(10), 'text')}) = 0")])


def _beginning(prefix: str, stored: Text, binder: Binder) -> Term:
    """What an index can look up, also in a plan that is kept: the texts from the prefix to the first one beyond."""
    short = prefix[: HEAD - 1]
    beyond = successor(short)
    if not short or not beyond:
        return Term(f"starts_with({stored.head}, {binder.bind(short, 'text')})")
    first, end = binder.bind(short, "text"), binder.bind(beyond, "text")
    return Term(f"({stored.head} >= {first} AND {stored.head} < {end})")


def successor(prefix: str) -> str:
    """The least text above all that begin with the prefix, by code points; empty when there is none."""
    shortened = prefix.rstrip(LAST_CHARACTER)
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(AFTER_SURROGATES if following == FIRST_SURROGATE else following)


def _escaped(literal: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", literal)


def _pattern(pattern: str, stored: Text, binder: Binder) -> Term:
    """RE2 is not PostgreSQL's dialect, so only a literal beginning narrows."""
    prefix = _literal_prefix(pattern)
    if not prefix:
        return is_string(stored)
    return _beginning(prefix, stored, binder).loosened()


def _literal_prefix(pattern: str) -> str:
    """What every match begins with; empty when that cannot be told at a glance."""
    if "|" in pattern:
        return ""
    found = _LITERAL_PREFIX.match(pattern)
    prefix = found[0] if found else ""
    return prefix[:-1] if pattern[len(prefix) : len(prefix) + 1] in _OPTIONAL else prefix
