"""The stored document, the record and the life of an instance
(docs/reference/steps.md#starting-and-reading-instances, docs/reference/steps.md#as-entities,
docs/reference/steps.md#writes-through-the-entity-api).
"""

import pytest
from msgspec.structs import replace

from statewright.instants import parse_instant, to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.steps import TRANSITIONS, instance_from_document, instance_to_document, render_instance
from statewright.steps.instance import list_transitions
from tests.unit.steps.builders import a_process, end, fork, join, service, timer, user
from tests.unit.steps.world import World

PARALLEL = (
    fork("fork", "join", "a", "b"),
    service("a", "join", boundaryEvents=[timer("PT1H", "end")]),
    user("b", "join"),
    join("join", "end"),
    end(),
)


def test_the_record_of_an_instance_in_flight_leaves_out_what_is_not_set():
    world = World(a_process(user("sign", "end"), end())).start(employee="E-77")
    assert render_instance(world.instance) == {
        "id": "01HZ",
        "definitionId": "test::flow",
        "definitionVersion": 1,
        "status": "WAITING",
        "currentStepIds": ["sign"],
        "variables": {"employee": "E-77"},
        "startedAt": "2024-06-01T09:00:00.001Z",
    }


def test_the_record_of_a_failed_instance_says_when_and_why():
    world = World(a_process(service("work", "end"), end())).start("E-77").fail("work", "no")
    record = render_instance(world.instance)
    assert (record["status"], record["failureReason"], record["businessKey"]) == ("FAILED", "no", "E-77")
    assert record["completedAt"] == "2024-06-01T09:00:00.002Z"


def test_the_document_is_the_record_and_what_the_kernel_knows():
    world = World(a_process(*PARALLEL)).start(n=1)
    document = instance_to_document(world.instance)
    assert render_instance(world.instance).items() <= document.items()
    assert set(document) - set(render_instance(world.instance)) == {"tokens", "joins", "attempts"}
    assert document["attempts"] == {"a": 1, "b": 1, "fork": 1}


def test_a_document_survives_storage_in_every_state():
    world = World(a_process(*PARALLEL)).start("K", n=1)
    states = [world.instance]
    for change in (
        lambda: world.fail("a"),
        lambda: world.retry("a"),
        lambda: world.complete("a"),
        lambda: world.cancel("x"),
    ):
        change()
        states.append(world.instance)
    assert [state.status for state in states] == ["WAITING", "FAILED", "WAITING", "WAITING", "CANCELLED"]
    for state in states:
        document = decode(encode(instance_to_document(state)))
        assert isinstance(document, dict)
        assert instance_from_document(document) == state


@pytest.mark.parametrize(
    "damage",
    [
        {"status": "UNKNOWN"},
        {"status": None},
        {"variables": []},
        {"tokens": "x"},
        {"startedAt": "yesterday"},
        {"definitionVersion": "1"},
        {"joins": [{"id": 1}]},
    ],
)
def test_a_damaged_document_is_reported(damage: JsonObject):
    document = instance_to_document(World(a_process(*PARALLEL)).start().instance)
    with pytest.raises(ValueError):
        instance_from_document({**document, **damage})


def test_a_parent_is_kept_in_the_document_but_not_in_the_record():
    child = replace(World(a_process(end())).start().instance, parent_instance_id="01PARENT")
    assert "parentInstanceId" not in render_instance(child)
    assert instance_from_document(instance_to_document(child)).parent_instance_id == "01PARENT"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_777_813_713_100_000, "2026-05-03T13:08:33.1Z"),
        (1_777_813_713_000_001, "2026-05-03T13:08:33.000001Z"),
    ],
)
def test_instants_are_rfc_3339_without_trailing_zeros(at: int, text: str):
    assert to_rfc3339(at) == text
    assert parse_instant(text) == at


def test_every_move_of_a_life_is_in_the_table():
    world = World(a_process(service("a", "b"), user("b", "c"), service("c", "d"), service("d", "end"), end())).start()
    world.complete("a").finish_task("b").complete("c").fail("d").retry("d").complete("d")
    assert world.moves == ["park", "resume", "advance", "fail", "retry", "complete"]
    assert set(world.moves) < set(TRANSITIONS.values())


def test_nothing_happening_is_no_move():
    assert list_transitions("ACTIVE", "ACTIVE", ()) == ()


def test_final_states_have_no_way_out():
    assert {before for before, _ in TRANSITIONS} == {"ACTIVE", "WAITING", "FAILED"}
