"""Conditions that would take long if their work were not counted, for each operator."""

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal

from statewright.conditions.syntax import META_FIELDS, OPERATORS
from statewright.jsonval.values import JsonObject, JsonValue
from tests.hostile_documents import DOCUMENT

HALF = "a" * 500
DEEP = ".".join(["$", *["a"] * 5_000])
LISTS: JsonObject = {
    "many": [{"t": text, "n": number} for text, number in zip(["x" * 90] * 50_000, range(50_000), strict=True)],
    "square": [[number] * 300 for number in range(300)],
    "decimals": [Decimal(f"{number}.5") for number in range(50_000)],
    "times": [f"2024-01-02T03:04:05.{'1' * 500}" for _ in range(5_000)],
}
STORED: JsonObject = {**DOCUMENT, **LISTS}
PLACES = (
    "$.plain", "$.wide", "$.cased", "$.ab", "$.texts[*]", "$.many[*].t", "$.many[*].n", "$.numbers[*]", "$.wholes[*]",
    "$.fractions[*]", "$.decimals[*]", "$.square[*][*]", "$.square[*]", "$.times[*]", "$.digits", "$.whole",
    "$.fraction", "$.many[*].a.a.a.a.a.a.a.a",
)  # fmt: skip
OPERANDS: Mapping[str, tuple[JsonValue, ...]] = {
    **dict.fromkeys(OPERATORS, (f"{HALF}b{HALF}", "\u0101" * 2_000, DOCUMENT["whole"], DOCUMENT["fraction"], 1)),
    "MATCHES_PATTERN": (DOCUMENT["pattern"], DOCUMENT["classes"], "(a?){900}c", r"(?i)\pL{1,90}", "a{1000}",
                        "|".join(map(str, range(1_500)))),
    "LIKE": ("%a" * 900 + "b", "a%" * 900 + "_", "_" * 999, "%" + "\u0101" * 3_000),
    "BETWEEN": (["a" * 1_000, "z"], [DOCUMENT["fraction"], DOCUMENT["whole"]], ["2023-01-01", "2025-01-01T00:00:00Z"]),
    "BETWEEN_INCLUSIVE": ([0, DOCUMENT["whole"]], ["a" * 500 + "b", "\u0101"]),
    "IS_NULL": (None,),
    "NOT_NULL": (None,),
}  # fmt: skip
"""The worst operands of each operator, which is tried on all places."""


def simple(place: str, operator: str, operand: JsonValue) -> JsonObject:
    return {"type": "simple", "jsonPath": place, "operatorType": operator, "value": operand}


def group(operator: str, *conditions: JsonValue) -> JsonObject:
    return {"type": "group", "operator": operator, "conditions": [*conditions]}


def iterate_operator_shapes(operator: str) -> Iterator[JsonObject]:
    for operand in OPERANDS[operator]:
        for place in PLACES:
            yield simple(place, operator, operand)
    for name in META_FIELDS:
        yield {"type": "lifecycle", "field": name, "operatorType": operator, "value": OPERANDS[operator][0]}


PARTS: Mapping[str, JsonObject] = {
    "array": {"type": "array", "jsonPath": "$.square[*]", "values": [7] * 300},
    "arrays of texts": {"type": "array", "jsonPath": "$.pairs[*]", "values": ["x", 1]},
    "deep path": simple(DEEP, "EQUALS", 1),
    "deep path below elements": simple(f"$.many[*]{DEEP[1:]}", "EQUALS", 1),
    "many comparisons": group("OR", *(simple("$.many[*].t", "ICONTAINS", f"y{n}") for n in range(400))),
    "many patterns": group("OR", *(simple("$.many[*].t", "MATCHES_PATTERN", f"(x?){{50}}y{n}") for n in range(100))),
    "no operand": group("AND", *(simple("$.plain", "INOT_EQUAL", f"\u0101{n}") for n in range(100))),
}


def list_shapes() -> list[JsonObject]:
    return [*(shape for operator in OPERATORS for shape in iterate_operator_shapes(operator)), *PARTS.values()]


def generate_conditions(seed: int, count: int) -> Iterator[JsonObject]:
    """Groups within groups of the worst comparisons."""
    dice = random.Random(seed)
    shapes = list_shapes()
    for _ in range(count):
        inner = [group(dice.choice(("AND", "OR")), *dice.sample(shapes, dice.randint(2, 9))) for _ in range(3)]
        yield group(dice.choice(("AND", "OR")), *inner, dice.choice(shapes))
