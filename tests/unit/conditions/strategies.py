"""Random documents, operands and conditions."""

from decimal import Decimal

from hypothesis import strategies as st

from statewright.conditions.syntax import OPERATORS, RANGES
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import a_field, array, group, lifecycle, simple

NUMBERS = st.one_of(
    st.integers(min_value=-20, max_value=20),
    st.integers(min_value=-(2**130), max_value=2**130),
    st.decimals(min_value=-20, max_value=20, places=1),
    st.decimals(allow_nan=False, allow_infinity=False),
)
INSTANTS = st.sampled_from(
    [
        "2031",
        "2032",
        "2031-01",
        "2031-05",
        "2031-05-06",
        "2031-01-01",
        "2031-05-06T06:00",
        "2031-05-06T06:00:00.1239Z",
        "2031-05-06T08:00:00.123+02:00",
        "1970-01-01T10:30",
        "10:30",
        "23:59:59.9999",
    ]
)
WORDS = st.one_of(
    st.sampled_from(["", "a", "A", "ab", "17", "17.0", "true", "false", "1e2"]), st.text("abAB1%_é", max_size=5)
)
TEXTS = st.one_of(WORDS, INSTANTS)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES: st.SearchStrategy[JsonValue] = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(WORDS, SCALARS, max_size=2)
)
TYPES = st.sets(st.sampled_from(list(DataType)), max_size=4).map(" ".join)

PATHS = st.sampled_from(
    ["$.v", "v", "$.o.v", "$.l[*]", "$.l", "$.l[0]", "$.m[*].v", "$.m[1].v", "$.g[*][*]", "$", "$.x"]
)
FIELDS = st.sampled_from(["id", "state", "creationDate", "lastUpdateTime", "previousTransition", "transactionId"])
DOCUMENTS: st.SearchStrategy[JsonValue] = st.fixed_dictionaries(
    {},
    optional={
        "v": VALUES,
        "o": st.one_of(VALUES, st.fixed_dictionaries({"v": VALUES})),
        "l": st.one_of(VALUES, st.lists(VALUES, max_size=3)),
        "m": st.one_of(VALUES, st.lists(st.one_of(VALUES, st.fixed_dictionaries({"v": VALUES})), max_size=3)),
        "g": st.lists(st.one_of(VALUES, st.lists(VALUES, max_size=3)), max_size=3),
    },
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, DeclaredField]:
    """Types for all the fields that :data:`PATHS` may lead to."""
    return {path: a_field(draw(TYPES)) for path in ("$.v", "$.o.v", "$.l[*]", "$.m[*].v", "$.g[*][*]")}


@st.composite
def _operators_and_operands(draw: st.DrawFn) -> tuple[str, JsonValue]:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in RANGES:
        return operator, draw(st.one_of(st.lists(SCALARS, min_size=2, max_size=2), VALUES))
    if operator == "MATCHES_PATTERN":
        return operator, draw(st.sampled_from(["", ".*", "a+", "(?i)ab", "[0-9-]+"]))
    return operator, draw(VALUES)


LEAVES: st.SearchStrategy[JsonValue] = st.one_of(
    st.builds(lambda path, leaf: simple(path, *leaf), PATHS, _operators_and_operands()),
    st.builds(lambda field, leaf: lifecycle(field, *leaf), FIELDS, _operators_and_operands()),
    st.builds(lambda path, values: array(path, *values), PATHS, st.lists(VALUES, max_size=3)),
)
"""Conditions that can be judged, whatever the document."""

CONDITIONS: st.SearchStrategy[JsonValue] = st.recursive(
    LEAVES,
    lambda children: st.builds(
        lambda operator, parts: group(operator, *parts), st.sampled_from(["AND", "OR"]), st.lists(children, max_size=3)
    ),
    max_leaves=8,
)


def is_number(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
