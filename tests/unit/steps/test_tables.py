"""Decision tables: all nine hit policies and their failures (docs/reference/steps.md#decision-tables)."""

from decimal import Decimal

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from tests.unit.steps.builders import a_process, a_rule, end, table
from tests.unit.steps.world import World


def decided(policy: str, *rules: JsonObject, **variables: JsonValue) -> World:
    return World(a_process(table("t", "end", *rules, hitPolicy=policy), end())).start(**variables)


def outputs(policy: str, *rules: JsonObject, **variables: JsonValue) -> JsonObject:
    """What the table adds to the variables."""
    world = decided(policy, *rules, **variables)
    assert world.reason is None
    return {name: value for name, value in world.variables.items() if name not in variables}


A = a_rule({"n": "n > 0"}, tier="GOLD", points=1)
B = a_rule({"n": "n > 5"}, tier="SILVER", points=2)
C = a_rule({"n": "n > 9"}, tier="BRONZE", points=4)


@pytest.mark.parametrize(
    ("policy", "n", "expected"),
    [
        ("", 1, {"tier": "GOLD", "points": 1}),
        ("U", 1, {"tier": "GOLD", "points": 1}),
        ("F", 10, {"tier": "GOLD", "points": 1}),
        ("A", 1, {"tier": "GOLD", "points": 1}),
        ("R", 10, {"tier": ["GOLD", "SILVER", "BRONZE"], "points": [1, 2, 4]}),
        ("C", 6, {"tier": ["GOLD", "SILVER"], "points": [1, 2]}),
        ("C#", 10, {"tier": 3, "points": 3}),
        ("C#", 1, {"tier": 1, "points": 1}),
    ],
)
def test_policies_collapse_the_outputs_of_the_matched_rules(policy: str, n: int, expected: JsonObject):
    assert outputs(policy, A, B, C, n=n) == expected


@pytest.mark.parametrize(("policy", "expected"), [("C+", 7), ("C>", 4), ("C<", 1)])
def test_aggregators_take_the_sum_the_largest_and_the_smallest(policy: str, expected: int):
    rules = [a_rule({}, points=points) for points in (1, 2, 4)]
    assert outputs(policy, *rules) == {"points": expected}


def test_a_sum_keeps_every_digit():
    long = Decimal("0.1234567890123456789012345678901234567")
    assert outputs("C+", a_rule({}, x=10**20), a_rule({}, x=long)) == {
        "x": Decimal("100000000000000000000.1234567890123456789012345678901234567")
    }


@pytest.mark.parametrize("terms", [(Decimal("1e6144"), 1), (Decimal("9e6144"), Decimal("9e6144"))])
def test_a_sum_that_could_not_be_read_back_fails_the_step(terms: tuple[JsonValue, JsonValue]):
    world = decided("C+", *(a_rule({}, x=term) for term in terms))
    assert world.reason == (
        'hit policy C+: column "x" comes to a number out of range (DecisionTableAggregatorTypeError)'
    )


def test_a_sum_that_comes_out_even_is_written_without_a_fraction():
    assert repr(outputs("C+", a_rule({}, x=Decimal("0.5")), a_rule({}, x=Decimal("1.5")))) == "{'x': 2}"


def test_the_default_policy_is_unique():
    step = table("t", "end", a_rule({}, x=1), a_rule({}, x=2))
    world = World(a_process(step, end())).start()
    assert world.reason == "hit policy U matched 2 rules [0 1] (DecisionTableUniqueViolation)"


@pytest.mark.parametrize(
    ("policy", "rules", "reason"),
    [
        *(
            (policy, [a_rule({"n": "n > 99"}, x=1)], "no decision table rule matched (DecisionTableNoRuleMatched)")
            for policy in ("U", "F", "A", "R", "C", "C+", "C#", "C>", "C<")
        ),
        (
            "U",
            [a_rule({}, x=1), a_rule({"n": "n > 99"}), a_rule({}, x=1)],
            "hit policy U matched 2 rules [0 2] (DecisionTableUniqueViolation)",
        ),
        (
            "A",
            [a_rule({}, tier="A", same=1), a_rule({}, tier="B", same=1)],
            'hit policy A: rules [0 1] disagree on column "tier" (DecisionTableAnyConflict)',
        ),
        (
            "A",
            [a_rule({}, x=1), a_rule({})],
            'hit policy A: rules [0 1] disagree on column "x" (DecisionTableAnyConflict)',
        ),
        (
            "C+",
            [a_rule({}, points=1), a_rule({}, points="2")],
            'hit policy C+: column "points" of rule 1 is string, not a number (DecisionTableAggregatorTypeError)',
        ),
        (
            "C>",
            [a_rule({}, points=1), a_rule({})],
            'hit policy C>: column "points" of rule 1 is null, not a number (DecisionTableAggregatorTypeError)',
        ),
        (
            "C<",
            [a_rule({}, points=True)],
            'hit policy C<: column "points" of rule 0 is bool, not a number (DecisionTableAggregatorTypeError)',
        ),
        (
            "F",
            [a_rule({"n": "n > 99"}), a_rule({"amount": "n + 1"})],
            'rule 1 column "amount": result is float64, not bool (DecisionTableCellError)',
        ),
        (
            "F",
            [a_rule({"amount": "gone > 1"})],
            'rule 0 column "amount": expression "gone > 1": undefined variable "gone" (DecisionTableCellError)',
        ),
        (
            "F",
            [a_rule({"n": "n > 99"}), a_rule({}, fee="${n / 0}")],
            'rule 1 output "fee": expression eval: expression "n / 0": result +Inf is not a finite number',
        ),
    ],
)
def test_a_table_that_comes_to_nothing_fails_the_instance(policy: str, rules: list[JsonObject], reason: str):
    world = decided(policy, *rules, n=3)
    assert (world.status, world.reason, world.variables) == ("FAILED", reason, {"n": 3})
    assert world.line("t").failure_reason == reason


def test_any_compares_values_as_json_does():
    rules = [a_rule({}, x=[1, {"a": Decimal("2.0")}], y=None), a_rule({}, x=[Decimal("1.0"), {"a": 2}])]
    assert outputs("A", *rules) == {"x": [1, {"a": 2}], "y": None}


def test_any_does_not_take_true_for_one():
    assert "disagree" in str(decided("A", a_rule({}, x=True), a_rule({}, x=1)).reason)


@pytest.mark.parametrize("policy", ["R", "C"])
def test_a_rule_that_lacks_a_column_contributes_null_to_a_list(policy: str):
    assert outputs(policy, a_rule({}, x=1), a_rule({}, y=2)) == {"x": [1, None], "y": [None, 2]}


@pytest.mark.parametrize("policy", ["U", "F"])
def test_columns_that_the_single_rule_lacks_are_not_set(policy: str):
    assert outputs(policy, a_rule({"n": "n == 1"}, x=1), a_rule({"n": "n == 2"}, y=2), n=2) == {"y": 2}


def test_first_does_not_look_at_the_rules_after_the_match():
    assert outputs("F", a_rule({}, x=1), a_rule({"broken": "(("}, x=2)) == {"x": 1}


def test_all_other_policies_look_at_every_rule():
    assert "DecisionTableCellError" in str(decided("U", a_rule({}, x=1), a_rule({"broken": "(("}, x=2)).reason)


def test_all_cells_of_a_rule_must_hold_and_none_is_looked_at_after_the_first_that_does_not():
    rule = a_rule({"a": "n > 1", "b": "n > 2", "c": "gone"}, x=1)
    assert outputs("F", rule, a_rule({}, x=2), n=2) == {"x": 2}


@pytest.mark.parametrize("cell", ["", "  ", "\n"])
def test_an_empty_cell_matches_anything(cell: str):
    assert outputs("F", a_rule({"a": cell}, x=1)) == {"x": 1}


def test_a_rule_without_when_matches_anything():
    assert outputs("F", {"outputs": {"x": 1}}) == {"x": 1}
    assert outputs("F", {"when": None, "outputs": {"x": 1}}) == {"x": 1}
    assert outputs("F", {"when": {"a": None}, "outputs": {"x": 1}}) == {"x": 1}


def test_a_table_without_outputs_changes_nothing():
    assert outputs("F", {}) == {}


def test_outputs_see_the_variables_before_the_step_and_not_each_other():
    rules = [a_rule({}, n="${n + 1}", m="${n + 1}"), a_rule({"n": "n == 1"}, k="${n}")]
    assert decided("C", *rules, n=1).variables == {"n": [2, None], "m": [2, None], "k": [None, 1]}


def test_outputs_are_merged_shallow():
    assert decided("F", a_rule({}, o={"b": 2}), o={"a": 1}).variables == {"o": {"b": 2}}


def test_now_gives_the_time_to_the_second():
    assert outputs("F", a_rule({}, at="${now()}")) == {"at": "2024-06-01T09:00:00Z"}


def test_the_output_snapshot_of_a_table_is_all_variables():
    assert decided("F", a_rule({}, x=1), n=1).line("t").output_snapshot == {"n": 1, "x": 1}


def test_the_seeds_table_classifies():
    rules = (
        a_rule(
            {"creditScore": "creditScore >= 750", "amount": "amount >= 50000000"},
            tier="GOLD",
            feePercent=Decimal("0.5"),
        ),
        a_rule({"creditScore": "creditScore >= 700"}, tier="SILVER", feePercent=Decimal("0.7")),
        a_rule({}, tier="BRONZE", feePercent=Decimal("1.0")),
    )
    for score, amount, tier in ((800, 60_000_000, "GOLD"), (800, 1, "SILVER"), (700, 1, "SILVER"), (1, 1, "BRONZE")):
        assert outputs("F", *rules, creditScore=score, amount=amount)["tier"] == tier


def test_rules_that_agree_on_long_numbers_are_compared_within_the_budget():
    wholes: list[JsonValue] = [int("7" * 4_000)] * 500
    variables: JsonObject = {"wholes": wholes, "decimals": [Decimal(number) for number in wholes]}  # type: ignore[arg-type]
    rules = [a_rule({}, out="${wholes}"), *(a_rule({}, out="${decimals}") for _ in range(40))]
    process = a_process(table("t", "end", *rules, hitPolicy="A"), end())
    instance = World(process).start(**variables).instance
    assert "memory budget exceeded" in str(instance.failure_reason)
