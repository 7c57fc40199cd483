"""What is explained is the same on every node (docs/reference/operations.md#explain)."""

from dataclasses import replace

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual, when
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.service import RunningService, done, eventually

SEEN_WITHIN_S = 15.0
"""Three seconds are promised; a machine that does much else takes longer."""


def explain(nodes: tuple[RunningService, ...], tenant: str, entity: str) -> list[Json]:
    """What each node says."""
    return [done(ops_api(node, tenant).get(f"/entities/{entity}/explain")) for node in nodes]


def verdicts(nodes: tuple[RunningService, ...], tenant: str, entity: str) -> set[str]:
    return {explained["verdict"] for explained in explain(nodes, tenant, entity)}


def test_every_node_sees_a_worker_go_and_come_back(here: RunningService, there: RunningService, tenant: str) -> None:
    api, nodes = here.api(tenant), (here, there)
    api.a_model(a_workflow(NEW=[]))
    entity = api.create().id
    api.import_workflows(a_workflow(NEW=[automated("GO", to="END", processors=[a_processor(tags="mail")])], END=[]))
    eventually(lambda: verdicts(nodes, tenant, entity) == {"WAITS_FOR_WORKER"})
    for _ in range(2):
        with a_node(there, tenant, "mail"):
            eventually(lambda: verdicts(nodes, tenant, entity) == {"READY"}, within_s=SEEN_WITHIN_S)
        eventually(lambda: verdicts(nodes, tenant, entity) == {"WAITS_FOR_WORKER"}, within_s=SEEN_WITHIN_S)
    assert api.state(entity) == "NEW"


def test_two_nodes_give_equal_answers(here: RunningService, there: RunningService, tenant: str) -> None:
    api, nodes = here.api(tenant), (here, there)
    late = {"name": "LATE", "next": "END", "manual": False, "schedule": {"delayMs": 3_600_000}}
    ways = [
        automated("BIG", to="END", criterion=when("$.year", "GREATER_THAN", 3000)),
        automated("ASK", to="END", criterion=judged_by("worthy", tags="mail")),
        manual("PRINT", to="END", processors=[a_processor(tags="print")]),
        late,
    ]
    api.a_model(a_workflow(NEW=[manual("BEGIN", to="HERE")], HERE=[late], END=[]))
    entity = api.create().id
    api.update(entity, SAMPLE, fire="BEGIN")
    api.import_workflows(a_workflow(NEW=[], HERE=ways, END=[]))
    with a_node(here, tenant, "mail"), a_node(there, tenant, "mail"):

        def agree() -> bool:
            one, other = explain(nodes, tenant, entity)
            asked = {each["name"]: each for each in one["transitions"]}["ASK"]
            return bool(one == other and asked["criterion"]["members"] == 2)

        eventually(agree)
    [shown, _] = explain(nodes, tenant, entity)
    assert [each["name"] for each in shown["transitions"]] == ["BIG", "ASK", "PRINT", "LATE"]
    assert shown["transitions"][3]["timer"] is not None


def test_two_nodes_say_the_same_of_an_instance(here: RunningService, there: RunningService, tenant: str) -> None:
    steps = [
        {"id": "mail", "name": "mail", "type": "SERVICE_TASK", "jobType": f"mail-{tenant}", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ]
    v1 = replace(here.api(tenant), url=f"{here.root}/v1")
    assert v1.post("/definitions", {"id": "d", "name": "d", "steps": steps}).is_success
    instance = v1.post("/instances", {"definitionId": "d"}).json()["id"]
    answers = [done(ops_api(node, tenant).get(f"/instances/{instance}/explain")) for node in (here, there)]
    assert answers[0]["verdict"] == "WAITS_FOR_WORKER"
    assert answers[0] == answers[1]
