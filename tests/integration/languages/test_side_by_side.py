"""The three process languages in one service: a flow whose task starts a playbook, a playbook whose step fires a
transition of an entity, a transition whose processor starts an instance of the step engine; and searches over all.
"""

import json

from statewright.sdk import Node, TaskCall
from tests.builders import Json, a_processor, a_workflow, manual
from tests.integration.flows.conftest import done
from tests.integration.transactions.conftest import Serving
from tests.integration.transactions.conftest import serving as serving
from tests.service import Api, RunningService, eventually

STEPS = {
    "id": "chain",
    "name": "Chain",
    "steps": [
        {"id": "greet", "name": "Greet", "type": "SERVICE_TASK", "jobType": "greet", "nextStep": "end"},
        {"id": "end", "name": "End", "type": "END"},
    ],
}
PLAYBOOK = """
metadata: {name: approving}
workflow:
- step: fire
  tool: {kind: transition, entity: "{{ workload.entity }}", to: APPROVE}
"""


def test_each_language_begins_what_is_of_another(service: RunningService, api: Api, serving: Serving):
    root = Api(service.root, api.token)
    started: dict[str, str] = {}
    node = Node(tags=["node"])

    @node.processor("enrich")
    def begin_steps(document: Json) -> Json:
        begun = done(root.post("/v1/instances", {"definitionId": "chain", "variables": {"who": "Ada"}}), 201)
        started["steps"] = begun["id"]
        return {**document, "motivation": begun["id"]}

    @node.task_kind("transition")
    def fire(task: Json, call: TaskCall) -> Json:
        return done(api.put(f"/entity/JSON/{task['entity']}/{task['to']}", {**api.read(task["entity"])["data"]}))

    @node.task("run_playbook")
    def run_playbook(given: Json) -> Json:
        begun = done(root.post("/v1/executions", {"path": "approving", "workload": given}), 201)
        started["playbook"] = begun["id"]
        return {"execution": begun["id"]}

    @node.job("greet")
    def greet(variables: Json) -> Json:
        return {"greeting": f"Hello {variables['who']}"}

    done(root.post("/v1/definitions", STEPS), 201)
    done(root.post("/v1/playbooks", PLAYBOOK.encode()), 201)
    done(root.post("/v1/flows/definitions", {"id": "beginning", "source": "run_playbook"}), 201)
    approve = manual("APPROVE", to="APPROVED", processors=[a_processor()])
    entity = api.create(model=api.a_model(a_workflow(NEW=[approve], APPROVED=[]))).id
    serving(node)
    flow = done(root.post("/v1/flows/instances", {"definitionId": "beginning", "input": {"entity": entity}}), 201)

    eventually(lambda: done(root.get(f"/v1/flows/instances/{flow['id']}"))["status"] == "COMPLETED")
    eventually(lambda: done(root.get(f"/v1/executions/{started['playbook']}"))["status"] != "running")
    execution = done(root.get(f"/v1/executions/{started['playbook']}"))
    assert execution["status"] == "success", execution
    assert api.state(entity) == "APPROVED"
    steps = api.read(entity)["data"]["motivation"]
    assert steps == started["steps"]
    eventually(lambda: done(root.get(f"/v1/instances/{steps}"))["status"] == "COMPLETED")
    assert done(root.get(f"/v1/instances/{steps}"))["variables"]["greeting"] == "Hello Ada"

    ended = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "COMPLETED"}
    found = {
        model: [json.loads(line) for line in api.post(f"/search/direct/{model}/1", ended).text.splitlines()]
        for model in ("FlowInstance", "PlaybookExecution", "StepWorkflowInstance")
    }
    ids = {model: [entity["data"]["id"] for entity in entities] for model, entities in found.items()}
    assert ids == {
        "FlowInstance": [flow["id"]],
        "PlaybookExecution": [started["playbook"]],
        "StepWorkflowInstance": [started["steps"]],
    }
