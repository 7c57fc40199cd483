"""What an event finds the tasks by that it wakes (docs/reference/flows.md#events)."""

from decimal import Decimal

import pytest

from statewright.flows import LocalInstance, compile_graph, compile_text
from statewright.flows.advancing import MAX_HASHED, hash_fields
from statewright.jsonval.values import JsonValue


@pytest.mark.parametrize(
    ("one", "other"),
    [(7, Decimal("7.0")), (-1, Decimal("-1.00")), (10**30, Decimal("1e30")), ("é", "é"), (None, None), (True, True)],
)
def test_equal_values_are_found_by_each_other(one: JsonValue, other: JsonValue):
    assert hash_fields({"a": one}) == hash_fields({"a": other})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), ("1", 1), ("None", None), ("a", "b"), ([], {}), ("[]", []), (1, 2)]
)
def test_other_values_are_not(one: JsonValue, other: JsonValue):
    assert hash_fields({"a": one}) != hash_fields({"a": other})


def test_hashes_are_the_same_in_every_process_and_version():
    assert hash_fields({"order": 7, "at": "x"}) == (8057344441254024521, 9167027793340885397)


def test_fields_are_among_those_of_an_input_that_has_them():
    given: dict[str, JsonValue] = {f"m{number}": number for number in range(MAX_HASHED)}
    assert set(hash_fields({"m3": Decimal("3.0"), "m9": 9})) <= set(hash_fields(given))
    assert len(hash_fields({**given, "more": 1})) == MAX_HASHED


def test_a_guard_is_parsed_once_for_all_instances():
    flow = compile_graph(compile_text("\n".join(f"? `$[?(@.n>{number})]` A ;" for number in range(5_000))))
    assert LocalInstance(flow, {"n": 0}).status == "COMPLETED"
    parsed = {text: id(guard) for text, guard in flow.guards.items()}
    assert LocalInstance(flow, {"n": 0}).status == "COMPLETED"
    assert len(parsed) == 5_000
    assert {text: id(guard) for text, guard in flow.guards.items()} == parsed
