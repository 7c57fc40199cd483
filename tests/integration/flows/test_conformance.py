"""The worked runs of the flow language (docs/reference/flows.md), hosted: stored, started, and their tasks done by a
worker that speaks ``/v1/jobs``, on PostgreSQL.
"""

import json
from collections import defaultdict

import pytest

from statewright.flows import Invocation, TaskError, compile_text
from statewright.flows.graph import FlowGraph
from statewright.jsonval.codec import decode, encode
from statewright.net import WorkId
from tests.builders import Json
from tests.integration.flows.conftest import Flows, done
from tests.unit.flows.cases import Actors, Case, read_cases
from tests.unit.flows.test_conformance import split_stretches

RUNS = [*read_cases("runs.txt"), *read_cases("more_runs.txt"), *read_cases("stops.txt")]


def invoke(graph: FlowGraph, job: Json) -> Invocation:
    """A job as the actors of the tables know it."""
    task = job["variables"]
    node = graph.nodes[task["node"]]
    assert (task["parameters"], task["instanceId"]) == (plain(node.parameters or {}), job["instanceId"])
    assert task["base"] == job["jobType"] == (node.base or f"resource:{node.kind}")
    return Invocation(
        task=WorkId(job["id"]),
        node=node,
        kind=job["jobType"],
        input=decode(encode(task["input"])),
        element=task.get("element"),
    )


def plain(value: object) -> Json:
    return json.loads(encode(value))  # type: ignore[arg-type]


class Worker:
    """Does the jobs of one graph, the oldest first."""

    def __init__(self, flows: Flows, graph: FlowGraph, actors: Actors) -> None:
        self._flows, self._graph, self._actors = flows, graph, actors
        names = {str(node.base) for node in graph.nodes if node.kind == "task"}
        self._types = names | {"resource:read", "resource:write"}
        self._claimed: list[Json] = []

    def find(self) -> list[Json]:
        """Jobs that are claimed but not done; others are claimed when there are none."""
        self._claimed = self._claimed or self._flows.poll(*self._types)
        return self._claimed

    def forget(self) -> None:
        """Jobs that were withdrawn."""
        self._claimed = []

    def do_one(self) -> None:
        job = self.find().pop(0)
        try:
            output = self._actors.do(invoke(self._graph, job))
        except TaskError as error:
            self._flows.fail(job, str(error))
        else:
            wire = plain(output)
            self._flows.complete(job, wire if isinstance(wire, dict | list) else {"$output": wire})

    def do_all(self) -> None:
        while self.find():
            self.do_one()


def by_node(asked: list[str]) -> dict[str, list[str]]:
    """What each node was asked, in whatever order: that of members and of elements is free."""
    found = defaultdict(list)
    for line in asked:
        node, _, given = line.partition(" ← ")
        found[node].append(json.dumps(json.loads(given), sort_keys=True))
    return {node: sorted(inputs) for node, inputs in found.items()}


def expect(instance: Json, lines: list[tuple[str, str]]) -> None:
    """An instance that came to what the table says."""
    expected = dict(lines)
    if "stop" in expected:
        assert instance["status"] == "TERMINATED"
    if "fails" in expected:
        assert instance["status"] == ("TERMINATED" if "stop" in expected else "FAILED")
        failed = [(str(place["node"]), place["reason"]) for place in instance["failedNodes"]]
        wanted = [value.partition(" ") for key, value in lines if key == "fails"]
        assert len(failed) == len(wanted)
        for node, _, reason in wanted:
            assert any(one == node and reason in why for one, why in failed), failed
    elif "stop" in expected:
        assert "failedNodes" not in instance
    elif "stalls" in expected:
        assert instance["status"] == "FAILED"
        assert instance["failureReason"] == f"STALLED: values wait for others at {expected['stalls']}"
        assert ", ".join(place["name"] for place in instance["waitingNodes"]) == expected["stalls"]
    else:
        assert (instance["status"], instance.get("failureReason")) == ("COMPLETED", None)
        assert instance["result"] == json.loads(expected["result"])
        assert instance.get("warning", "") == expected.get("warns", "")


def answer_and_stop(flows: Flows, instance: Json, worker: Worker, stop: str) -> None:
    """Do some jobs, then terminate, by ``at once`` without waiting for those that run."""
    count, _, at_once = stop.partition(" ")
    for _ in range(int(count)):
        worker.do_one()
    flows.do(instance, "terminate")
    if at_once:
        flows.do(instance, "terminate")
        worker.forget()


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.title)
def test_a_hosted_flow_runs_as_the_table_says(flows: Flows, case: Case):
    graph, actors = compile_text(case.text), Actors(case.get("tasks"))
    settings = {"maxVisits": int(case.get("visits", "1000")), "concurrency": int(case.get("limit", "100"))}
    instance = flows.run(case.text, json.loads(case.get("input", "{}")), **settings)
    worker = Worker(flows, graph, actors)
    for number, lines in enumerate(split_stretches(case)):
        actors.asked = []
        if number:
            actors.change(lines[0][1])
            flows.do(instance, "restart")
        elif stop := case.get("stop"):
            answer_and_stop(flows, instance, worker, stop)
        worker.do_all()
        assert by_node(actors.asked) == by_node([value for key, value in lines if key == "run"])
        expect(flows.read(instance), lines)


@pytest.mark.parametrize("case", read_cases("errors.txt"), ids=lambda case: case.title)
def test_a_defect_is_refused_with_its_place(flows: Flows, case: Case):
    for path in ("/v1/flows/validate", "/v1/flows/definitions"):
        response = flows.api.post(f"{path}?id=x", case.text, Content_Type="text/plain; charset=utf-8")
        assert response.status_code == 400, response.text
        body = response.json()
        assert (body["error"], body["code"]) == ("bad-request", case.get("code"))
        assert body["reason"].startswith(case.get("says"))
        assert body["reason"].startswith(f"{body['line']}:{body['column']} ")
    assert done(flows.api.get("/v1/flows/definitions"))["total"] == 0
