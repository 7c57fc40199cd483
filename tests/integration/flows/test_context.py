"""Changing what a stopped node works on (docs/reference/flows.md#change-of-context)."""

import pytest

from tests.builders import Json
from tests.integration.flows.conftest import Flows, an_error, done
from tests.integration.flows.test_instances import entity_of
from tests.service import Api


def test_a_failed_node_begins_again_with_the_input_it_was_given(flows: Flows, api: Api):
    instance = flows.run("A → B", {"order": "O-1"})
    flows.fail(flows.job("A"), "no such order")
    changed = flows.do(instance, "change", node=1, input={"order": "O-2"}, reason="mistyped")
    assert (changed["status"], changed["input"], changed["failedNodes"][0]["node"]) == ("FAILED", {"order": "O-1"}, 1)
    flows.do(instance, "restart")
    job = flows.job("A")
    assert job["variables"]["input"] == {"order": "O-2"}
    flows.complete(job, {"a": 1})
    assert [line["input"] for line in flows.history(instance) if line["name"] == "A.1"] == [
        {"order": "O-1"},
        {"order": "O-2"},
    ]
    trail = done(api.get(f"/audit/entity/{entity_of(instance)}?eventType=StateMachine&limit=99"))["items"]
    happened = [event["data"] for event in trail if event["data"]]
    [entry] = [data for data in happened if data.get("kind") == "flow-context-changed"]
    assert (entry["nodeId"], entry["nodeName"], entry["reason"]) == ("1", "A.1", "mistyped")
    assert len([event for event in trail if "change" in str(event.get("details", ""))]) >= 2  # and the transition


def test_an_element_of_an_iteration_begins_again_with_another_value(flows: Flows):
    instance = flows.run("<[1, 2, 3]> → * A → B", concurrency=2)
    first, second = flows.poll("A")
    flows.fail(first)
    flows.fail(second)
    refused = flows.api.post(f"/v1/flows/instances/{instance['id']}/change", {"node": 2, "input": 9})
    assert "name the element" in an_error(refused, 400, "bad-request")["reason"]
    flows.do(instance, "change", node=2, element=1, input="two")
    flows.do(instance, "restart")
    jobs = flows.poll("A")
    assert sorted((job["variables"]["element"], job["variables"]["input"]) for job in jobs) == [(0, 1), (1, "two")]
    for job in jobs:
        flows.complete(job, {"n": job["variables"]["input"]})
    job = flows.job("A")
    flows.complete(job, {"n": job["variables"]["input"]})
    assert flows.job("B")["variables"]["input"] == [{"n": 1}, {"n": "two"}, {"n": 3}]


def test_a_node_within_an_iterated_subflow_is_named_by_the_pass(flows: Flows):
    instance = flows.run("* { A → B }", [{"i": 0}, {"i": 1}])
    for job in flows.poll("A"):
        flows.fail(job)
    assert [(place["node"], place["element"]) for place in flows.read(instance)["failedNodes"]] == [(2, 0), (2, 1)]
    flows.do(instance, "change", node=2, element=1, input={"i": "one"})
    flows.do(instance, "restart")
    assert sorted(str(job["variables"]["input"]["i"]) for job in flows.poll("A")) == ["0", "one"]


def test_a_merge_that_was_not_possible_is_mended(flows: Flows):
    instance = flows.run("A|B → > C")
    for job in flows.poll("A", "B"):
        flows.complete(job, [1])
    assert "MERGE_TYPE" in flows.read(instance)["failureReason"]
    flows.do(instance, "change", node=5, input=[{"a": 1}, {"b": 2}])
    flows.do(instance, "restart")
    assert flows.job("C")["variables"]["input"] == {"a": 1, "b": 2}


def test_an_interrupted_node_is_changed_by_the_transition_of_its_entity(flows: Flows, api: Api):
    instance = flows.run("A", {"v": 1})
    flows.job("A")
    assert api.put(f"/entity/JSON/{entity_of(instance)}/change", {"node": 1, "input": {}}).status_code == 404
    flows.do(instance, "terminate")
    flows.do(instance, "terminate")
    for wrong in ({"input": {}}, {"node": "1", "input": {}}, {"node": 1}, {"node": 1, "input": {}, "element": "x"}):
        assert api.put(f"/entity/JSON/{entity_of(instance)}/change", wrong).status_code == 400
    api.update(entity_of(instance), {"node": 1, "input": {"v": 2}}, fire="change")
    flows.do(instance, "restart")
    assert flows.job("A")["variables"]["input"] == {"v": 2}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"input": {}}, 400),
        ({"node": 1}, 400),
        ({"node": 2, "input": {}}, 400),
        ({"node": 99, "input": {}}, 400),
        ({"node": 1, "input": 5}, 400),
        ({"node": 1, "input": {}, "element": 3}, 400),
        ({"node": 1, "input": {"x": "\0"}}, 400),
        ({"node": 1, "input": {}, "reason": "x" * 4097}, 400),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(flows: Flows, body: Json, status: int):
    instance = flows.run("A → B")
    path = f"/v1/flows/instances/{instance['id']}/change"
    an_error(flows.api.post(path, {"node": 1, "input": {}}), 409, "conflict")
    flows.fail(flows.job("A"))
    an_error(flows.api.post(path, body), status, "bad-request")
    assert flows.read(instance)["status"] == "FAILED"
