"""How tight the operators bind (spec/step-engine.md §10.4)."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Precedence(NamedTuple):
    """How tight an operator binds."""

    level: int
    right_associative: bool = False


UNARY: Final[Mapping[str, int]] = {"not": 50, "!": 50, "-": 90, "+": 90}
BINARY: Final[Mapping[str, Precedence]] = {
    "|": Precedence(0),
    **dict.fromkeys(("||", "or"), Precedence(10)),
    **dict.fromkeys(("&&", "and"), Precedence(15)),
    **dict.fromkeys(("==", "!=", "<", ">", ">=", "<="), Precedence(20)),
    **dict.fromkeys(("in", "matches", "contains", "startsWith", "endsWith"), Precedence(20)),
    "..": Precedence(25),
    **dict.fromkeys(("+", "-"), Precedence(30)),
    **dict.fromkeys(("*", "/", "%"), Precedence(60)),
    **dict.fromkeys(("**", "^"), Precedence(100, right_associative=True)),
    "??": Precedence(500),
}
COMPARISONS: Final = frozenset({"<", ">", ">=", "<="})
NEGATABLE: Final = frozenset({"in", "matches", "contains", "startsWith", "endsWith"})
SYNONYMS: Final[Mapping[str, str]] = {"or": "||", "and": "&&", "^": "**", "not": "!"}
