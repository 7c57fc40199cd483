"""Random documents, metadata, schemas and conditions, thousands per second and repeatable from a seed.

Hypothesis draws and shrinks what it draws, at a millisecond each; here a failing pair of condition and document is
small by itself, and what counts is how many there are.
"""

# ruff: noqa: SIM905 - lists of words read better as words

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

from statewright.conditions.syntax import COMPARISONS, OPERATORS, PRESENCE, RANGES
from statewright.jsonval.numbers import NUMERIC_TYPES
from statewright.jsonval.temporals import TEMPORAL_TYPES
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema import flatten_fields, infer, merge
from statewright.schema.node import DeclaredField

NUMBERS: Sequence[int | Decimal] = (
    *range(-3, 20),
    2**31,
    -(2**31),
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**64,
    2**130,
    -(10**40),
    *map(Decimal, "0.1 -0.1 1.5 1.50 7.000 42.0 1E+2 1e-7 0.1234567890123456 12345678901234567890.5".split()),
    *map(Decimal, "1E+300 -1E+300 1E-300 9.99999999999999E+292 1E+6000 1E-6000 0.30000000000000000000004".split()),
)
OPERAND_NUMBERS: Sequence[int | Decimal] = (*NUMBERS, Decimal("1E+999999"), Decimal("1E-999999"), Decimal("-1E+7000"))

TEMPORALS: Sequence[str] = (
    "2031 2032 0000 9999 1970 2031-01 2031-05 0000-01 2031-13 2031-05-06 2031-05-07 2031-01-01 2030-02-29 2032-02-29"
    " 2100-02-29 2000-02-29 0000-02-29 0000-01-01 9999-12-31 2031-04-31 2031-5-6 2031-05-06T06:00 2031-05-06T6:00"
    " 2031-05-06T06:00:00Z 2031-05-06T06:00:00.123Z 2031-05-06T06:00:00,1239Z 2031-05-06T08:00:00.123+02:00"
    " 2031-05-06T00:00:00 2031-05-06T23:30:00-05:00 2031-05-07T04:30:00Z 0000-01-01T00:00Z 0000-01-01T00:00+24:60"
    " 9999-12-31T23:59:59.999-24:60 9999-12-31T23:59:59.999 1970-01-01T10:30 1970-01-01T10:30:00Z 2031-05-06T24:00Z"
    " 2031-05-06T06:00:60Z 10:30 9:30 09:30:00 23:59:59.9999 24:00 2031-05-06t06:00Z 2031-05-06T06:00z"
    " 2031-05-07T07:00:00+24:60 2031-05-05T05:00:00-24:60 2031-05-06T06:00:00+2:00 20310506 +2031"
    " 1969-12-31T23:59:59.9999Z"
).split()
WORDS: Sequence[str] = (
    *("", "a", "A", "ab", "AB", "aB", "abc", "b", "ba", "17", "17.0", "1e2", "-3", "true", "false", "TRUE", "null"),
    *("Zebra", "apple", "Straße", "STRASSE", "straße", "ẞ", "İstanbul", "istanbul", "K", "k", "ſ", "S", "s", "ς", "Σ"),
    *("σ", "é", "É", "e\u0301", "😀", "😀a", "a😀", "\uffff", "\ue000", "Ǆ", "ǆ", "Ά", "5%", "50", "5_", "a.c", "a\\c"),
    *("line\nfeed", "\n", "a\n", " a", "a ", "'", '"', "$1", "$$", "\\", "\\\\", "%", "_", "tab\t", "a'b", '{"a":1}'),
    *(
        "x" * 255,
        "x" * 256,
        "x" * 257,
        "x" * 255 + "é",
        "x" * 256 + "é",
        "x" * 300,
        "é" * 256,
        "é" * 257,
        "x" * 256 + "%",
    ),
    *("5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44", "5E0C7F6E-0A1B-11F0-9A7E-3B1F0C9D2E44"),
    *("5e0c7f6e-0a1b-41f0-9a7e-3b1f0c9d2e44", "00000000-0000-0000-0000-000000000000"),
)
OPERAND_WORDS: Sequence[str] = (*WORDS, "nul\0", "1E+999999999999999999999", "0x10", ".5", "5.", "a,b", "STRASSE ")
PATTERNS: Sequence[str] = (
    *(
        "",
        ".*",
        "a+",
        "(?i)ab",
        "[0-9-]+",
        "ab?",
        "a|b",
        "abc*",
        "ab{2}",
        "a.c",
        r"\d+",
        r"(?s).*\n.*",
        "^a$",
        "2031.*",
    ),
    *(r"\Qa.c\E", "Σ", "[[:upper:]]+", "5e0c7f6e.*", "Str.*", "true|false"),
)
GLOBS: Sequence[str] = (
    *("%", "_", "a%", "%a", "%b%", "a_", "__", r"5\%", r"5\%%", r"5\_", r"a\c", r"%\\%", "%\n%", "a%c", "😀_", r"%\%"),
    r"\%%",
)
LONG_GLOBS: Sequence[str] = (
    *("x" * 255 + "%", "x" * 256 + "_", "x" * 256 + "%", "x" * 300 + "%", "_" * 256, "é" * 256 + "%", "x" * 254 + "_"),
)
NAMES: Sequence[str] = ("v", "w", "o", "l", "m", "g", "0", "-1", "a b", "é", "it's", 'q"', "$1", "x:y")
PATHS: Sequence[str] = (
    *("$.v", "v", "$.w", "$.o.v", "$.o.o.v", "$.o.0", "$.l[*]", "$.l", "$.l[0]", "$.l[1]", "$.l.0", "$.m[*].v", "$.m"),
    *("$.m[1].v", "$.m[*].l[*]", "$.m[*].o.v", "$.g[*][*]", "$.g[0][*]", "$.g[*][1]", "$.g", "$", "$.x", "$.0", "$.-1"),
    *("$.a b", "$.é", "$.it's", '$.q"', "$.$1", "$.x:y", "", "$.nul\0", "$.o.l[*].v", "$.m[*]", "$.v[0]", "$.v[*]"),
    *("$.l[0].v", "$.v[0][0]"),
)
FIELDS: Sequence[str] = ("id", "state", "creationDate", "lastUpdateTime", "transitionForLatestSave", "transactionId")


Option = TypeVar("Option")

USEFUL_TYPES: Sequence[DataType] = (*DataType, *([DataType.STRING] * 5), *([DataType.BIG_DECIMAL] * 3))
"""All of them, those most that accept many operands."""


class Dice:
    """One sequence of random choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[Option]) -> Option:
        return self._random.choice(options)

    def rarely(self, chance: float) -> bool:
        return self._random.random() < chance

    def count(self, most: int) -> int:
        return self._random.randint(0, most)

    def text(self, *, operand: bool = False) -> str:
        words = OPERAND_WORDS if operand else WORDS
        return self._random.choice(TEMPORALS if self.rarely(0.4) else words)

    def scalar(self) -> JsonValue:
        kinds: list[Callable[[], JsonValue]] = [
            lambda: None,
            lambda: self.rarely(0.5),
            lambda: self._random.choice(NUMBERS),
            self.text,
            self.text,
        ]
        return self._random.choice(kinds)()

    def value(self, depth: int = 2) -> JsonValue:
        if depth and self.rarely(0.2):
            return [self.value(depth - 1) for _ in range(self.count(3))]
        if depth and self.rarely(0.2):
            return self.object(depth - 1)
        return self.scalar()

    def object(self, depth: int) -> JsonObject:
        return {self._random.choice(NAMES): self.value(depth) for _ in range(self.count(3))}

    def document(self) -> JsonObject:
        """An object whose members are mostly of the shape that :data:`PATHS` look for."""
        shaped: JsonObject = {
            "v": self.value(),
            "o": {"v": self.value(), "0": self.scalar(), "o": {"v": self.scalar()}, "l": self._objects()},
            "l": [self.value(1) for _ in range(self.count(3))],
            "m": self._objects(),
            "g": [self._row() for _ in range(self.count(3))],
            "w": self.scalar(),
        }
        kept: JsonObject = {name: value for name, value in shaped.items() if self.rarely(0.85)}
        strays = {name: self.value() for name in kept if self.rarely(0.1)}
        return {**kept, **strays, **(self.object(2) if self.rarely(0.5) else {})}

    def _objects(self) -> list[JsonValue]:
        return [
            {"v": self.value(1), "l": [self.scalar() for _ in range(self.count(2))], "o": {"v": self.scalar()}}
            if self.rarely(0.8)
            else self.value(1)
            for _ in range(self.count(3))
        ]

    def _row(self) -> JsonValue:
        return [self.scalar() for _ in range(self.count(3))] if self.rarely(0.85) else self.value(1)

    def schema(self, documents: Sequence[JsonObject]) -> dict[str, DeclaredField]:
        """What a model would have learnt from some of the documents, or what no model would ever learn."""
        declared: dict[str, DeclaredField] = {}
        if self.rarely(0.5):
            declared = self._learnt(documents)
        for path in PATHS:
            if path.startswith("$.") and self.rarely(0.85):
                names = "$" + "".join(path[1:]).replace("[0]", "[*]").replace("[1]", "[*]")
                types = self._random.sample(USEFUL_TYPES, self.count(4))
                declared[names] = DeclaredField(types=frozenset(types))
                declared[f"{names}[*]"] = DeclaredField(types=frozenset(types))
        return declared

    def _learnt(self, documents: Sequence[JsonObject]) -> dict[str, DeclaredField]:
        node = infer({})
        for document in self._random.sample(list(documents), 5):
            try:
                node = merge(node, infer(document))
            except Exception:  # two documents that no model can hold together
                continue
        return dict(flatten_fields(node))

    def operand(self, types: frozenset[DataType] = frozenset()) -> JsonValue:
        """Mostly of a declared type, since others match nothing."""
        if types and self.rarely(0.7):
            if types & NUMERIC_TYPES and self.rarely(0.6):
                number = self._random.choice(OPERAND_NUMBERS)
                return str(number) if self.rarely(0.3) else number
            if types & TEMPORAL_TYPES and self.rarely(0.6):
                return self._random.choice(TEMPORALS)
            if DataType.BOOLEAN in types:
                return self.rarely(0.5)
        return self.text(operand=True) if self.rarely(0.6) else self.value(1)

    def condition(self, declared: dict[str, DeclaredField], depth: int = 3) -> JsonObject:
        if depth and self.rarely(0.05):
            return self._alternatives(declared)
        if depth and self.rarely(0.3):
            parts: list[JsonValue] = [self.condition(declared, depth - 1) for _ in range(self.count(4))]
            return {"type": "group", "operator": self._random.choice(["AND", "OR"]), "conditions": parts}
        if self.rarely(0.15):
            return {"type": "lifecycle", "field": self._random.choice(FIELDS), **self._comparison(self._meta_operand)}
        path = self._random.choice(PATHS)
        field = declared.get(path.replace("[0]", "[*]").replace("[1]", "[*]"))
        types = field.types if field else frozenset[DataType]()
        if self.rarely(0.1):
            return {"type": "array", "jsonPath": path, "values": [self.operand(types) for _ in range(self.count(3))]}
        return {"type": "simple", "jsonPath": path, **self._comparison(lambda: self.operand(types))}

    def _alternatives(self, declared: dict[str, DeclaredField]) -> JsonObject:
        """What clients write who miss an IN operator."""
        leaf = {"operatorType": "EQUALS"}
        if self.rarely(0.3):
            field = self._random.choice(FIELDS)
            leaves: list[JsonValue] = [
                {"type": "lifecycle", "field": field, **leaf, "value": self._meta_operand()}
                for _ in range(self.count(5))
            ]
        else:
            path = self._random.choice(PATHS)
            types = declared[path].types if path in declared else frozenset[DataType]()
            leaves = [
                {"type": "simple", "jsonPath": path, **leaf, "value": self.operand(types)} for _ in range(self.count(8))
            ]
        return {"type": "group", "operator": "OR", "conditions": [*leaves, self.condition(declared, 0)]}

    def _meta_operand(self) -> JsonValue:
        return self._random.choice([*STATES, *IDS, *INSTANTS, *WORDS[:12], *TEMPORALS[:20], 2031])

    def _comparison(self, operand: Callable[[], JsonValue]) -> JsonObject:
        operator = self._random.choice([*OPERATORS, *COMPARISONS, *COMPARISONS])
        if operator in PRESENCE:
            return {"operatorType": operator}
        if operator in RANGES:
            return {"operatorType": operator, "value": [operand(), operand()]}
        if operator == "MATCHES_PATTERN":
            return {"operatorType": operator, "value": self._random.choice(PATTERNS)}
        if operator == "LIKE" and self.rarely(0.8):
            return {"operatorType": operator, "value": self._random.choice(GLOBS)}
        return {"operatorType": operator, "value": operand()}

    def meta(self) -> tuple[str, str, str, str, int, int]:
        """State, transition, id, transaction, created and updated in epoch microseconds."""
        choose = self._random.choice
        created = choose(MOMENTS) + self._random.randrange(3000)
        identity = f"{self._random.getrandbits(128):032x}"
        return choose(STATES), choose(STATES), identity, choose(IDS), created, created + self._random.randrange(3000)


STATES: Sequence[str] = ("NEW", "PACKED", "packed", "", "Ünïcode", "a%")
IDS: Sequence[str] = ("5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44", "ffffffff-ffff-4fff-bfff-ffffffffffff")
INSTANTS: Sequence[str] = (
    "2031-05-06T06:00:00.123Z",
    "2031-05-06T06:00:00.1235Z",
    "2031-05-06T06:00:00.124",
    "2031-05-06",
)
MOMENTS: Sequence[int] = (1_935_813_600_121_000, 1_935_813_600_123_000, 1_935_792_000_000_000)
"""Microseconds: 2031-05-06T06:00:00.121Z, .123Z, and the midnight before."""
