"""What tests of evaluators share: how long an evaluation takes beside what it was charged for, and hostile inputs."""

import gc
import time
from collections.abc import Callable
from decimal import Decimal

from statewright.jsonval.values import JsonObject

MAX_UNCHARGED_S = 0.05
"""Processor time that an evaluation may take beside what it is charged."""
MAX_S_PER_STEP = 4e-6
"""On a slow or busy machine."""
MAX_EVALUATION_S = 5.0
"""Processor time until an evaluation ends, by a result or a refusal."""

CHARS = 1_000_000
ITEMS = 100_000
DIGITS = 4_000

DOCUMENT: JsonObject = {
    "plain": "a" * CHARS,
    "wide": "\u0101" * CHARS,
    "cased": "\ufb03" * 300_000,
    "part": "a" * 500 + "b" + "a" * 500,
    "late": "a" + "b" + "a" * 50_000,
    "blanks": "a " * (CHARS // 2),
    "digits": "9" * CHARS,
    "json": "[" + "[]," * 300_000 + "1]",
    "broken": "[" + "1," * 400_000,
    "units": "1h" * 200_000 + "x",
    "layout": "2" * 500,
    "days": "1" * 700,
    "numbers": [*range(ITEMS)],
    "shuffled": [number * 7919 % 1_000_003 for number in range(ITEMS)],
    "texts": [f"{'x' * 90}{number * 7919 % 1_000_003}" for number in range(ITEMS // 2)],
    "object": {f"name{number * 7919 % 1_000_003}": number for number in range(ITEMS)},
    "pairs": [[str(number), number] for number in range(ITEMS // 2)],
    "nested": [[[number, [number]]] for number in range(ITEMS // 4)],
    "twin": [[[number, [number]]] for number in range(ITEMS // 4)],
    "whole": int("7" * DIGITS),
    "fraction": Decimal("1." + "3" * (DIGITS - 1)),
    "large": Decimal("9" * DIGITS + "e2000"),
    "fractions": [Decimal(f"{number}." + "3" * (DIGITS - 10)) for number in range(200)],
    "wholes": [number * 10**3_990 + 7 for number in range(1, 200)],
    "pattern": "(a|b)*a(a|b){500}c",
    "classes": r"\pL{1,100}",
    "ab": "ab" * 50_000,
    "n": 3,
}
"""The worst values that there are, of each kind; none is larger than a document may be."""


def measure(act: Callable[[], object]) -> float:
    """The processor time that an act takes, in seconds. Garbage is not collected meanwhile: the collector would look at
    all that other tests have left.
    """
    gc.disable()
    try:
        begun = time.process_time()
        act()
        return time.process_time() - begun
    finally:
        gc.enable()
