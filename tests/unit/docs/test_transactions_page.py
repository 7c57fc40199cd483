"""Every cell of the tables in docs/transactions.md says something, and stands on a test that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "transactions.md").read_text()

MODES = ["SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "C", "C+tx"]
NAMED = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")


def rows() -> list[list[str]]:
    """The rows of the tables with a column for each mode, cell by cell."""
    tables = re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE)
    parsed = [[[cell.strip() for cell in line.strip("|").split("|")] for line in t.splitlines()] for t in tables]
    return [row for head, _rule, *body in parsed if head[1:] == [*MODES, "Test"] for row in body]


def list_tests(path: str) -> set[str]:
    """The tests of a file, as the page names them."""
    source = (ROOT / path).read_text()
    return {f"{path}::{test}" for test in re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE)}


def test_there_is_a_row_for_every_fault_that_is_played() -> None:
    played = list_tests("tests/e2e/test_member_faults.py") | list_tests("tests/e2e/test_service_faults.py")
    assert played - set(NAMED.findall(PAGE)) == set()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_no_cell_is_empty_and_a_test_is_named(row: list[str]) -> None:
    assert len(row) == len(MODES) + 2
    assert all(row)
    assert NAMED.search(row[-1])


def test_every_named_test_is_there() -> None:
    named = set(NAMED.findall(PAGE))
    assert named - set[str]().union(*(list_tests(name.partition("::")[0]) for name in named)) == set()
