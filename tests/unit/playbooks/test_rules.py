"""The table of the routing rules names tests that exist (tests/conformance/playbooks/rules.md)."""

import re

from tests.unit.playbooks.traces import TRACES, read_traces

RULES = TRACES.with_name("rules.md")
UNIT = RULES.parents[2] / "unit"


def list_rows() -> list[list[str]]:
    lines = [line for line in RULES.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_rule_is_held_by_a_test():
    known = {case.number for case in read_traces()}
    for row in list_rows():
        section, _, rule, held_by = row
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", held_by)
        traces = [int(number) for number in re.findall(r"trace (\d+)", held_by)]
        assert tests or traces, rule
        assert set(traces) <= known, section
        for file, function in tests:
            assert f"def {function}(" in (UNIT / file).read_text(), f"{file}::{function}"


def test_all_demands_of_the_rules_are_in_the_table():
    """As many of each kind as the rules have."""
    kinds = [row[1] for row in list_rows()]
    assert (kinds.count("MUST"), kinds.count("MUST NOT")) == (16, 2)
    assert (kinds.count("MAY"), kinds.count("SHOULD")) == (3, 1)
