"""The tables of docs/reference/conditions.md as the evaluator has them, below the prose of the page.

``python -m tests.unit.conditions.reference`` writes them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from statewright.conditions import parse
from statewright.conditions.checks import check
from statewright.conditions.syntax import OPERATORS, RANGES
from statewright.failures import ConditionTypeMismatch
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import fields, json, matches, matching, simple, value_matches
from tests.unit.conditions.worked_examples import EXAMPLES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "conditions.md"

MARK = "<!-- What follows is written by `python -m tests.unit.conditions.reference`. -->\n"
"""Parts the prose of the page from its tables."""

LEGEND = """On a field declared as integer, text, date and boolean at once. **✓**: always; **–**: never; *by value*:
depending on operand and value."""

REFUSED = """**400**: no declared type can read the operand, so a search refuses it (`CONDITION_TYPE_MISMATCH`), and a
criterion is not met."""

EVERYTHING = "INTEGER STRING LOCAL_DATE BOOLEAN"
KINDS: dict[str, list[JsonValue]] = {
    "null": [None],
    "number": [0, 17, json("17.5"), -3],
    "string": ["", "17", "abc", "2031-05-06", "true"],
    "boolean": [True, False],
    "array": [[], [17], ["abc"]],
    "object": [{}, {"v": "abc"}],
}
OPERANDS: list[JsonValue] = [17, "17", "abc", "", "true", False, "2031-05-06", None, json("-2.5")]

DECLARED = (
    "INTEGER",
    "STRING",
    "BOOLEAN",
    "LOCAL_DATE",
    "INTEGER STRING",
    "BOOLEAN STRING",
    "LOCAL_DATE STRING",
    "NULL",
)
TYPICAL: Sequence[JsonValue] = (17, "abc", True, "2031-05-06")


def page() -> str:
    """The whole page, its prose as it is."""
    return "\n".join(
        [
            PAGE.read_text("utf-8").partition(MARK)[0] + MARK,
            "## Which stored values an operator can match",
            "",
            LEGEND,
            "",
            *_table(["operator", "absent", *KINDS], ([f"`{operator}`", *_row(operator)] for operator in OPERATORS)),
            "",
            "## What an operand can equal",
            "",
            REFUSED,
            "",
            *_table(["declared", *(f"`{_text(operand)}`" for operand in TYPICAL)], map(_equal, DECLARED)),
            "",
            "## Examples",
            "",
            *_table(["operator", "operand", "declared", "stored", ""], map(_example, EXAMPLES)),
            "",
        ]
    )


def _row(operator: str) -> Iterable[str]:
    operands: list[JsonValue] = [[a, b] for a in OPERANDS for b in OPERANDS] if operator in RANGES else OPERANDS
    absent = [matches(simple("$.v", operator, operand), {}, fields(v=EVERYTHING)) for operand in operands]
    yield _verdict(absent)
    for values in KINDS.values():
        yield _verdict(
            [value_matches(value, EVERYTHING, operator, operand) for value in values for operand in operands]
        )


def _verdict(results: Sequence[bool]) -> str:
    return "✓" if all(results) else "*by value*" if any(results) else "–"


def _equal(declared: str) -> list[str]:
    return [declared.replace(" ", ", "), *(_kinds(declared, operand) for operand in TYPICAL)]


def _kinds(declared: str, operand: JsonValue) -> str:
    try:
        check(parse(simple("$.v", "EQUALS", operand)), fields(v=declared))
    except ConditionTypeMismatch:
        return "400"
    stored: list[JsonValue] = [17, True, "17", "abc", "true", "2031-05-06", None, [17], {"v": 17}]
    kind_of = {int: "number", bool: "boolean", str: "string"}
    found = dict.fromkeys(kind_of[type(value)] for value in matching(stored, declared, "EQUALS", operand))
    return ", ".join(found) or "–"


def _example(example: tuple[str, str, str, str, bool]) -> list[str]:
    operator, operand, declared, stored, _ = example
    is_match = value_matches(json(stored), declared, operator, json(operand))
    return [f"`{operator}`", f"`{operand}`", declared.replace(" ", ", "), f"`{stored}`", "✓" if is_match else "–"]


def _text(operand: JsonValue) -> str:
    return str(operand).lower() if isinstance(operand, bool) else str(operand)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
