"""What a plan's leaf asks of one stored value, in SQL (docs/adr/0007-search-in-sql.md): one term per branch.

The text operators in SQL (docs/reference/conditions.md#text-operators,
docs/reference/conditions.md#matches_pattern).

They look at an expression that is NULL unless a string is stored.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final, assert_never

from msgspec import Struct

from statewright.conditions.plan import (
    Booleans,
    Branch,
    Branches,
    Characters,
    Matching,
    Numbers,
    Temporals,
    Texts,
    Uuids,
)
from statewright.conditions.sql_terms import FALSE, HEAD_CHARS, Binder, SqlValue, Term, Text, join_all, join_any
from statewright.conditions.syntax import Order, TextOperator
from statewright.conditions.texts import fold_text, lower_text, split_glob
from statewright.jsonval.numbers import Number
from statewright.jsonval.temporals import MS_PER_DAY
from statewright.jsonval.values import DataType

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


SQL_ORDER: Final[Mapping[Order, str]] = {
    Order.EQUALS: "=",
    Order.NOT_EQUAL: "<>",
    Order.GREATER_THAN: ">",
    Order.GREATER_OR_EQUAL: ">=",
    Order.LESS_THAN: "<",
    Order.LESS_OR_EQUAL: "<=",
}

MAX_EXPONENT: Final = 6144
"""Magnitude beyond which a number is not sent: decision S1 lets nothing larger in, and expanding it costs its length.
"""

UUID_SHAPE: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-%s[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$"

_MONTH: Final = "(0[1-9]|1[0-2])"
_LEAP_YEAR: Final = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DAY_OF_MONTH: Final = (
    "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
)


class Period(Struct, frozen=True):
    """A temporal subtype that spells each of its values in one way, in chronological order: ``form`` is a date cut to
    ``length`` characters, ``shape`` the regular expression of all valid texts.
    """

    length: int
    shape: str


PERIODS: Final[Mapping[DataType, Period]] = {
    DataType.YEAR: Period(4, "^[0-9]{4}$"),
    DataType.YEAR_MONTH: Period(7, f"^[0-9]{{4}}-{_MONTH}$"),
    DataType.LOCAL_DATE: Period(10, f"^([0-9]{{4}}-({_DAY_OF_MONTH})|{_LEAP_YEAR}-02-29)$"),
}

_MAX_OFFSET_MS: Final = 25 * 3_600_000
"""A zone reads ``±24:60`` at most, so a text begins with a date no further than this from its instant's in UTC."""

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

_FROM: Final = (Order.EQUALS, Order.GREATER_THAN, Order.GREATER_OR_EQUAL)
_UP_TO: Final = (Order.EQUALS, Order.LESS_THAN, Order.LESS_OR_EQUAL)


def compile_value_term(branches: Branches, place: SqlValue, binder: Binder) -> Term:
    """Whether the value at the place satisfies some branch. Raises ``Unsendable``."""
    return join_any(_compile_branch(branch, place, binder) for branch in branches)


def compile_instant_term(branches: Branches, column: str, binder: Binder) -> Term:
    """Whether a column of epoch microseconds, floored to milliseconds, satisfies some branch."""
    temporals = (branch for branch in branches if isinstance(branch, Temporals))
    return join_any(
        join_all(_compile_instant(order, ms, column, binder) for order, ms in branch.comparisons)
        for branch in temporals
    )


def compile_string_term(branches: Branches, stored: Text, binder: Binder) -> Term:
    """Whether a column of text satisfies some branch. Raises ``Unsendable``."""
    return join_any(_compile_string(branch, stored, binder) for branch in branches)


def is_moderate(operand: Number) -> bool:
    """Whether the number may be sent."""
    value = Decimal(operand)
    exponent = value.as_tuple().exponent
    return not value or (
        abs(value.adjusted()) <= MAX_EXPONENT and isinstance(exponent, int) and -exponent <= MAX_EXPONENT
    )


def _compile_branch(branch: Branch, place: SqlValue, binder: Binder) -> Term:
    match branch:
        case Numbers():
            return join_all(_compile_number(order, operand, place, binder) for order, operand in branch.comparisons)
        case Booleans(expected=expected):
            return Term(place.boolean if expected else f"NOT {place.boolean}")
        case _:
            return _compile_string(branch, place.string, binder)


def _compile_string(branch: Branch, stored: Text, binder: Binder) -> Term:
    """Of an expression that is NULL for other kinds of values."""
    match branch:
        case Texts(comparisons=comparisons):
            return _compile_comparisons(comparisons, stored, binder)
        case Characters(comparisons=comparisons):
            return join_all(
                (_compile_comparisons(comparisons, stored, binder), Term(f"char_length({stored.head}) = 1"))
            )
        case Matching(operator=operator, operand=operand):
            return compile_text_term(operator, operand, stored, binder)
        case Temporals():
            return _compile_temporal(branch, stored, binder)
        case Uuids():
            return _compile_uuid(branch, stored, binder)
        case Numbers() | Booleans():
            return FALSE
        case _:
            assert_never(branch)


def _compile_number(order: Order, operand: Number, place: SqlValue, binder: Binder) -> Term:
    if not is_moderate(operand):
        return Term(f"{place.number} IS NOT NULL", is_exact=False)
    return Term(f"{place.number} {SQL_ORDER[order]} {bind_number(operand, binder)}")


def bind_number(operand: Number, binder: Binder) -> str:
    """A number travels as a text: a driver takes long to put one into the binary form of ``numeric``."""
    return f"{binder.bind(str(Decimal(operand)), 'text')}::numeric"


def _compile_comparisons(comparisons: Sequence[tuple[Order, str]], stored: Text, binder: Binder) -> Term:
    return join_all(
        Term(f"{stored.choose_expression(text)} {SQL_ORDER[order]} {binder.bind(text, 'text')}")
        for order, text in comparisons
    )


def _compile_uuid(branch: Uuids, stored: Text, binder: Binder) -> Term:
    lowered = f"lower({stored.whole})"
    expected = binder.bind(branch.expected, "text")
    if branch.equal:  # what is expected has the form and the version that are asked for
        return Term(f"{lowered} = {expected}")
    shape = binder.bind(UUID_SHAPE % (branch.version or "[0-9a-f]"), "text")
    return Term(f"({lowered} <> {expected} AND {lowered} ~ {shape})")


def _compile_instant(order: Order, ms: int, column: str, binder: Binder) -> Term:
    def start() -> str:
        return binder.bind(ms * 1000, "bigint")

    def end() -> str:
        return binder.bind((ms + 1) * 1000, "bigint")

    match order:
        case Order.EQUALS:
            return Term(f"({column} >= {start()} AND {column} < {end()})")
        case Order.NOT_EQUAL:
            return Term(f"({column} < {start()} OR {column} >= {end()})")
        case Order.GREATER_THAN:
            return Term(f"{column} >= {end()}")
        case Order.GREATER_OR_EQUAL:
            return Term(f"{column} >= {start()}")
        case Order.LESS_THAN:
            return Term(f"{column} < {start()}")
        case Order.LESS_OR_EQUAL:
            return Term(f"{column} < {end()}")
        case _:
            assert_never(order)


def _compile_temporal(branch: Temporals, stored: Text, binder: Binder) -> Term:
    period = PERIODS.get(branch.subtype)
    if period is not None:
        return _compile_period(branch, period, stored, binder)
    if branch.subtype in (DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME):
        return _compile_window(branch, stored, binder)
    return require_string(stored)


def _compile_period(branch: Temporals, period: Period, stored: Text, binder: Binder) -> Term:
    texts = [(order, format_period(ms, period)) for order, ms in branch.comparisons]
    if not all(text for _, text in texts):
        return require_string(stored)
    compared = _compile_comparisons(texts, stored, binder)
    if texts[0][0] is Order.EQUALS:
        return compared
    return join_all((compared, Term(f"{stored.head} ~ {binder.bind(period.shape, 'text')}")))


def _compile_window(branch: Temporals, stored: Text, binder: Binder) -> Term:
    """Date-times have several spellings; in byte order only their dates count. The letter tells them from dates."""
    slack = _MAX_OFFSET_MS if branch.subtype is DataType.ZONED_DATE_TIME else 0
    terms = [Term(f"substr({stored.head}, 11, 1) = 'T'", is_exact=False)]
    for order, ms in branch.comparisons:
        first, day_after = _format_date(ms - slack), _format_date(ms + slack + MS_PER_DAY)
        if order in _FROM and first:
            terms.append(Term(f"{stored.head} >= {binder.bind(first, 'text')}"))
        if order in _UP_TO and day_after:
            terms.append(Term(f"{stored.head} < {binder.bind(day_after, 'text')}"))
    return join_all(terms)


def format_period(epoch_ms: int, period: Period) -> str:
    """The one text of the day, month or year of an instant; empty outside the years 1 to 9999."""
    return _format_date(epoch_ms)[: period.length]


def _format_date(epoch_ms: int) -> str:
    """The date of an instant; empty outside the years 1 to 9999, which ``date`` does not know."""
    ordinal = _EPOCH_ORDINAL + epoch_ms // MS_PER_DAY
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else ""
