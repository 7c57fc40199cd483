"""What an event finds the tasks by that it wakes (docs/reference/flows.md#events)."""

from decimal import Decimal

import pytest

from statewright.flows import LocalInstance, compile_graph, compile_text
from statewright.flows.advancing import MAX_HASHED, FlowEvent, hash_fields
from statewright.flows.definition import FlowSource, compile_source
from statewright.flows.instance import instance_from_document, instance_to_document
from statewright.flows.operations import (
    MAX_KEPT_EVENTS,
    MAX_KEPT_VALUES,
    cancel_instance,
    complete_job,
    start_instance,
    take_event,
)
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonValue
from statewright.net.effects import EnqueueTask
from statewright.net.local import LocalClock
from statewright.processes.language import Applied, NewInstance, Rejection


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


def test_what_an_instance_keeps_and_holds_is_in_its_document():
    source = FlowSource(id="f", text="wait:acquire (- name: c -) → A → wait:event (- event: e -)")
    process, clock = compile_source(source, 1), LocalClock()
    started = start_instance(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={}), clock.next_moment())
    event = FlowEvent(kind="e", fields={"a": Decimal("1.50")}, output=[1])
    kept = take_event(process, started.instance, event, clock.next_moment())
    assert isinstance(kept, Applied)
    assert (kept.instance.events, kept.instance.held, kept.transitions) == ((event,), {"c": 1}, ("advance",))
    document = decode(encode(instance_to_document(kept.instance)))
    assert isinstance(document, dict)
    assert instance_from_document(document) == kept.instance
    [job] = [effect.task for effect in started.effects if isinstance(effect, EnqueueTask) and effect.kind == "A"]
    ended = complete_job(process, kept.instance, job, None, clock.next_moment())
    assert (ended.instance.status, ended.instance.events, ended.instance.marking.result) == ("COMPLETED", (), [1])


def test_a_cancelled_instance_keeps_nothing():
    process, clock = compile_source(FlowSource(id="f", text="A"), 1), LocalClock()
    started = start_instance(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={}), clock.next_moment())
    kept = take_event(process, started.instance, FlowEvent(kind="e"), clock.next_moment())
    assert isinstance(kept, Applied)
    cancelled = cancel_instance(process, kept.instance, "", clock.next_moment())
    assert isinstance(cancelled, Applied)
    assert cancelled.instance.events == ()
    assert isinstance(take_event(process, cancelled.instance, FlowEvent(kind="e"), clock.next_moment()), Rejection)


@pytest.mark.parametrize(
    ("output", "most"),
    [
        (None, MAX_KEPT_EVENTS),
        (["x" * 64 * 1_000], MAX_KEPT_VALUES // 1_005),
        ([0] * 1_000, MAX_KEPT_VALUES // 1_004),
        ([*range(MAX_KEPT_VALUES)], 0),
    ],
    ids=["small", "texts", "values", "one"],
)
def test_an_instance_keeps_no_more_than_it_can_carry(output: JsonValue, most: int):
    """Each advance writes them all: a sender must not make a document of gigabytes."""
    process, clock = compile_source(FlowSource(id="f", text="A → wait:event (- event: e -)"), 1), LocalClock()
    new = NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={})
    instance = start_instance(process, new, clock.next_moment()).instance
    while isinstance(
        kept := take_event(process, instance, FlowEvent(kind="e", output=output), clock.next_moment()), Applied
    ):
        instance = kept.instance
    assert (len(instance.events), kept.kind) == (most, "conflict")
