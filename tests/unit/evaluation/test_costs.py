"""The formulas of costs hold: what they charge for is no longer under way than they say."""

import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Context, Decimal

import pytest
import re2  # type: ignore[import-not-found, unused-ignore]

from statewright.evaluation import costs
from statewright.jsonval.codec import MalformedJson, decode

LONG = 1_000_000
HALF = "a" * 500
OPTIONAL = re2.compile("(?:a?){300}c")
DIGITS = "9" * 4_000
WHOLE = int(DIGITS)
FRACTION = Decimal(f"1.{'7' * 3_999}")


def decode_anything(text: str) -> None:
    with suppress(MalformedJson):
        decode(text)


CASES: list[tuple[str, int, Callable[[], object]]] = [
    ("lower", costs.scan_text(LONG), ("\u0130" * LONG).lower),
    ("title", costs.scan_text(LONG), ("aB" * (LONG // 2)).title),
    ("compare", costs.scan_text(LONG), lambda text="a" * LONG, other="a" * LONG + "\u0101": text < other),
    ("hash", costs.scan_text(LONG), lambda: hash("\U00010400" * LONG)),
    ("find", costs.search_text(LONG, 1_001), lambda: ("a" * LONG).find(f"{HALF}b{HALF}")),
    ("find in few", costs.search_text(2_499, 1_301), lambda: ("a" * 2_499).find(f"{'a' * 1_200}b{'a' * 100}")),
    ("find in some", costs.search_text(29_999, 99), lambda: ("a" * 29_999).find(f"{'a' * 49}b{'a' * 49}")),
    ("count", costs.search_text(LONG, 2), lambda: ("ab" * (LONG // 2)).count("ab")),
    ("rfind", costs.search_text_backwards(20_000, 10_001), lambda: ("a" * 20_000).rfind("a" * 500 + "b" + "a" * 9_500)),
    ("strip", costs.strip_text(10_000, 10_001), lambda: ("\u0101" * 10_000).strip("\u0201" * 10_000 + "\u0101")),
    ("split", costs.split_text(LONG, 1), lambda: ("ab" * (LONG // 2)).split("b")),
    ("split at blanks", costs.split_text(LONG, 0), lambda: ("a " * (LONG // 2)).split()),
    ("visit", costs.visit_items(100_000), lambda text="\u0101" * 100_000: list(text)),
    ("sort", costs.sort_items(100_000), lambda: sorted(map(str, range(100_000)))),
    ("digits", costs.read_digits(4_000), lambda: int(DIGITS)),
    ("write", costs.read_digits(4_000), lambda: str(WHOLE)),
    ("exponents", costs.decode_json(LONG), lambda text=f"[{'1e1,' * (LONG // 4)}1]": decode(text)),
    ("malformed", costs.decode_json(LONG), lambda text=f"[{'[],' * (LONG // 3)}1": decode_anything(text)),
    ("pattern", costs.match_pattern(100_000, OPTIONAL.programsize), lambda: OPTIONAL.search("a" * 100_000)),
    ("multiply", 2 * costs.compute_number(WHOLE), lambda: WHOLE * (WHOLE - 1)),
    ("multiply fractions", 2 * costs.compute_number(FRACTION), lambda: Context(prec=34).multiply(FRACTION, FRACTION)),
    ("whole", costs.expand_number(Decimal("1e6000")), lambda: int(Decimal("1e6000"))),
    ("key", costs.expand_number(WHOLE), lambda: costs.key_number(WHOLE)),
    ("key of a fraction", costs.expand_number(FRACTION), lambda: costs.key_number(FRACTION)),
]
"""What is done, the steps that are charged, and the worst that is known."""

MAX_S_PER_STEP = 4e-6
"""On a slow or busy machine."""
UNCOUNTED_S = 0.005
"""Of each call."""


@pytest.mark.parametrize(("steps", "act"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_work_takes_no_more_than_it_is_charged(steps: int, act: Callable[[], object]) -> None:
    begun = time.process_time()
    act()
    assert time.process_time() - begun < UNCOUNTED_S + steps * MAX_S_PER_STEP


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, Decimal("1.0")), (2**70, Decimal(2**70)), (Decimal("1e30"), 10**30), (Decimal("0.10"), Decimal("0.1")),
     (10**3_999, Decimal("1e3999")), (True, 1), (Decimal("-0.0"), 0)],
)  # fmt: skip
def test_equal_numbers_have_equal_keys(one: int | Decimal, other: int | Decimal) -> None:
    assert one == other
    assert costs.key_number(one) == costs.key_number(other)
    assert costs.key_number(one) != costs.key_number(int(one) + 1)


def test_numbers_of_one_bucket_have_different_buckets_as_keys() -> None:
    multiples = [n * (2**61 - 1) for n in range(1, 1_000)]
    assert len(set(map(hash, multiples))) == 1
    assert len({hash(costs.key_number(number)) for number in multiples}) > 990
    fractions = [Decimal(n) * (2**61 - 1) / 2 for n in range(1, 1_000, 2)]
    assert len({hash(costs.key_number(number)) for number in fractions}) == len(fractions)


def test_a_cost_grows_by_the_product() -> None:
    assert costs.strip_text(200_000, 200_000) > 1.9 * costs.strip_text(200_000, 100_000)
    assert costs.search_text_backwards(LONG, 1_000) > 900 * costs.scan_text(LONG // 64)
