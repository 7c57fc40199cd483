"""Explanations of entities, compared with what happens (docs/reference/operations.md#explain)."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import asyncpg
import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual, when
from tests.integration.node import a_node
from tests.integration.ops.builders import list_rows, ops_api
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
IDLE = a_workflow(HERE=[])
YEAR = SAMPLE["year"]


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def explain(ops: Api, entity: str, query: str = "") -> Json:
    return done(ops.get(f"/entities/{entity}/explain{query}"))


def outlooks(explained: Json) -> dict[str, tuple[Json, list[str]]]:
    return {each["name"]: (each["wouldFire"], each["blockedBy"]) for each in explained["transitions"]}


def settled_in(api: Api, *transitions: Json, count: int = 1) -> list[str]:
    """Entities that rest in ``HERE``, a state which has these transitions from now on."""
    api.a_model(IDLE)
    entities = [api.create().id for _ in range(count)]
    api.import_workflows(a_workflow(HERE=list(transitions), THERE=[]))
    return entities


# Verdicts.

BIG = when("$.year", "GREATER_THAN", 3000)
SMALL = when("$.year", "LESS_THAN", 3000)
LATER = {"delayMs": 3_600_000}


@pytest.mark.parametrize(
    ("verdict", "transitions"),
    [
        ("TERMINAL", []),
        ("TERMINAL", [manual("GO", to="THERE", disabled=True)]),
        ("READY", [automated("NO", to="THERE", criterion=BIG), automated("GO", to="THERE", criterion=SMALL)]),
        ("WAITS_FOR_WORKER", [automated("GO", to="THERE", processors=[a_processor(tags="nobody")])]),
        ("WAITS_FOR_WORKER", [automated("GO", to="THERE", criterion=judged_by("ask", tags="nobody"))]),
        ("WAITS_FOR_CRITERION", [automated("GO", to="THERE", criterion=BIG), manual("NO", to="THERE")]),
        ("WAITS_FOR_MANUAL", [manual("GO", to="THERE")]),
    ],
)
def test_the_verdict_tells_what_an_entity_waits_for(api: Api, ops: Api, verdict: str, transitions: list[Json]) -> None:
    [entity] = settled_in(api, *transitions)
    assert explain(ops, entity)["verdict"] == verdict


def test_a_state_that_no_workflow_has_is_unknown(api: Api, ops: Api) -> None:
    api.a_model(IDLE)
    entity = api.create().id
    api.import_workflows(a_workflow("other", ELSEWHERE=[]))
    explained = explain(ops, entity)
    assert (explained["verdict"], explained["transitions"]) == ("STATE_UNKNOWN", [])
    assert explained["workflow"] | {"name": None, "rule": "NONE"} == explained["workflow"]


def test_an_armed_timer_is_waited_for(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(HERE=[automated("EXPIRE", to="THERE", schedule=LATER)], THERE=[]))
    explained = explain(ops, api.create().id)
    [timer] = explained["timers"]
    assert explained["verdict"] == "WAITS_FOR_TIMER"
    assert outlooks(explained) == {"EXPIRE": (False, ["NOT_DUE"])}
    assert explained["transitions"][0]["timer"] | {"transition": "EXPIRE"} == timer
    assert timer["dueAt"] > explained["since"]


@pytest.mark.parametrize("delay", [10**15, 2**62, 2**63 - 1])
def test_a_timer_beyond_the_calendar_is_told_as_its_last_instant(api: Api, ops: Api, delay: int) -> None:
    flow = a_workflow(NEW=[automated("WAKE", to="UP", schedule={"delayMs": delay})], UP=[])
    saved = api.create(model=api.a_model(flow))
    last = "9999-12-31T23:59:59.999999Z"
    assert last in ops.get(f"/entities/{saved.id}/explain").text
    simulate = "/models/prize/1/workflow/simulate"
    for at, advance in (("2026-01-01T00:00:00Z", "PT1H"), (last, "P999999999999D")):
        body = {"start": {"document": SAMPLE}, "at": at, "events": [{"advance": advance}, {"loopback": {}}]}
        assert done(ops.post(simulate, body))["outcome"] == "SETTLED"


def test_the_default_workflow_names_those_that_were_passed_over(api: Api, ops: Api) -> None:
    api.a_model(a_workflow("big", criterion=BIG, HERE=[]))
    assert explain(ops, api.create().id)["workflow"]["passedOver"] == ["big"]


def test_a_leaf_shows_what_it_found(api: Api, ops: Api) -> None:
    [entity] = settled_in(api, automated("GO", to="THERE", criterion=BIG))
    assert explain(ops, entity)["transitions"][0]["criterion"] == {
        "type": "simple",
        "path": "$.year",
        "operator": "GREATER_THAN",
        "operand": 3000,
        "value": YEAR,
        "result": False,
    }


def test_an_automated_transition_hides_those_after_it(api: Api, ops: Api) -> None:
    [entity] = settled_in(api, automated("FIRST", to="THERE"), automated("SECOND", to="THERE"))
    assert outlooks(explain(ops, entity)) == {"FIRST": (True, []), "SECOND": (False, ["SHADOWED"])}


def test_a_criterion_that_a_member_judges_is_not_asked(
    api: Api, ops: Api, service: RunningService, tenant: str
) -> None:
    [entity] = settled_in(
        api, automated("ASKED", to="THERE", criterion=judged_by("ask")), automated("NEXT", to="THERE")
    )
    assert explain(ops, entity)["verdict"] == "WAITS_FOR_WORKER"
    with a_node(service, tenant, "node") as node:
        explained = explain(ops, entity)
        assert outlooks(explained) == {"ASKED": (None, ["UNKNOWN"]), "NEXT": (None, ["UNKNOWN"])}
        assert explained["transitions"][0]["criterion"]["members"] == 1
        assert node.is_idle
    eventually(lambda: explain(ops, entity)["verdict"] == "WAITS_FOR_WORKER")


def test_an_operator_can_have_members_judge(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    """They are asked outside of any transaction, and nothing moves."""
    [entity] = settled_in(
        api,
        automated("FIRST", to="THERE", criterion=judged_by("first")),
        automated("SECOND", to="THERE", criterion=judged_by("second")),
    )
    operator = ops_api(service, tenant, "ROLE_OPERATOR")
    path = f"/entities/{entity}/explain?evaluateFunctions=true"
    before = api.read(entity)
    with a_node(service, tenant, "node") as node, ThreadPoolExecutor() as clients:
        asking = clients.submit(operator.get, path)
        for _ in range(2):
            request = node.next()
            assert request["transactionId"] == ""
            if request["criteriaName"] == "first":
                node.answer(request, matches=False, reason="too late")
            else:
                node.answer(request, matches=True)
        explained = done(asking.result(PATIENCE_S))
        assert outlooks(explained) == {"FIRST": (False, ["CRITERION"]), "SECOND": (True, [])}
        assert (explained["verdict"], explained["transitions"][0]["criterion"]["reason"]) == ("READY", "too late")
        asking = clients.submit(operator.get, path)
        for _ in range(2):
            node.fail_next("no idea")
        explained = done(asking.result(PATIENCE_S))
        assert outlooks(explained) == {"FIRST": (None, ["UNKNOWN"]), "SECOND": (None, ["UNKNOWN"])}
        assert "no idea" in explained["transitions"][0]["criterion"]["error"]
        assert node.is_idle
    assert api.read(entity) == before
    refused(ops.get(path), 403, "FORBIDDEN")
    past = refused(operator.get(f"{path}&pointInTime=2020-01-01T00:00:00Z"), 400, "BAD_REQUEST")
    assert past["properties"]["parameter"] == "evaluateFunctions"


def test_whoever_asks_is_told_whether_it_may_fire_a_transition(
    api: Api, ops: Api, service: RunningService, tenant: str
) -> None:
    [entity] = settled_in(api, manual("GO", to="THERE"))
    [open_] = explain(ops, entity)["transitions"]
    assert open_["permission"] == {"allowed": True, "whyNot": []}
    reader = ops_api(service, tenant, "ROLE_ADMIN", "ROLE_READ_ONLY")
    [closed] = explain(reader, entity)["transitions"]
    assert closed["permission"]["allowed"] is False
    assert [each["code"] for each in closed["permission"]["whyNot"]] == ["READ_ONLY"]
    assert closed | {"permission": open_["permission"]} == open_
    fire = f"/entity/JSON/{entity}/GO"
    refused(replace(reader, url=api.url).put(fire, SAMPLE), 403, "READ_ONLY")
    assert api.put(fire, SAMPLE).status_code == 200


def test_since_is_when_the_state_was_entered(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(HERE=[manual("GO", to="THERE")], THERE=[manual("STAY", to="THERE")]))
    entity = api.create().id
    created = explain(ops, entity)["since"]
    api.update(entity, fire="GO")
    moved = explain(ops, entity)["since"]
    api.update(entity, fire="STAY")
    assert created == api.read(entity)["meta"]["creationDate"]
    assert created < moved == explain(ops, entity)["since"]


def test_the_past_is_explained_without_members_and_timers(api: Api, ops: Api) -> None:
    go = manual("GO", to="THERE", processors=[a_processor(mode="ASYNC_NEW_TX")])
    api.a_model(a_workflow(HERE=[go], THERE=[]))
    entity = api.create().id
    before = api.read(entity)["meta"]["lastUpdateTime"]
    api.update(entity, fire="GO")
    past = explain(ops, entity, f"?pointInTime={before}")
    assert (past["state"], past["verdict"]) == ("HERE", "WAITS_FOR_MANUAL")
    assert "timers" not in past
    assert "members" not in past["transitions"][0]["processors"][0]


def test_unknown_deleted_and_foreign_entities_are_answered_alike(
    api: Api, ops: Api, service: RunningService, tenant: str
) -> None:
    [entity] = settled_in(api)
    details = {
        refused(ops_api(service, f"{tenant}-x").get(f"/entities/{entity}/explain"), 404, "ENTITY_NOT_FOUND")["detail"]
    }
    done(api.delete(f"/entity/{entity}"))
    details.add(refused(ops.get(f"/entities/{entity}/explain"), 404, "ENTITY_NOT_FOUND")["detail"])
    assert len(details) == 1
    refused(ops.get(f"/entities/{UNKNOWN}/explain"), 404, "ENTITY_NOT_FOUND")
    refused(ops.get("/entities/x/explain"), 400, "BAD_REQUEST")


async def test_explaining_changes_nothing(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    [entity] = settled_in(api, automated("GO", to="THERE"))
    connection = await asyncpg.connect(service.database)
    try:
        before = await list_rows(connection, tenant)
        explain(ops, entity)
        assert await list_rows(connection, tenant) == before
    finally:
        await connection.close()


# The law: what is said of each transition is what firing it does.

LEAVES: Final = [
    when("$.year", "GREATER_THAN", 2000),
    when("$.year", "LESS_THAN", 2000),
    when("$.category", "EQUALS", "physics"),
    when("$.category", "RESEMBLES", "physics"),
    {"type": "lifecycle", "field": "previousTransition", "operatorType": "EQUALS", "value": "T1"},
    {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "HERE"},
]
SEEDS = range(int(os.environ.get("STATEWRIGHT_TEST_EXPLANATIONS", "12")))
"""Of random workflows; a thousand take some minutes."""


def a_criterion(choose: random.Random, depth: int = 2) -> Json:
    if depth and choose.random() < 0.4:
        children = [a_criterion(choose, depth - 1) for _ in range(choose.randint(1, 3))]
        return {"type": "group", "operator": choose.choice(["AND", "OR"]), "conditions": children}
    return choose.choice([LEAVES[3], *(LEAVES * 3)])


def a_transition(choose: random.Random, number: int) -> Json:
    members: Json = {"disabled": True} if choose.random() < 0.15 else {}
    if choose.random() < 0.75:
        members["criterion"] = a_criterion(choose)
    if choose.random() < 0.2:
        mode = choose.choice(["SYNC", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"])
        members["processors"] = [a_processor(tags="nobody", mode=mode)]
    return choose.choice([manual, automated])(f"T{number}", to=f"S{number}", **members)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_said_of_each_transition_is_what_firing_it_does(api: Api, ops: Api, seed: int) -> None:
    choose = random.Random(seed)
    transitions = [a_transition(choose, number) for number in range(4)]
    manuals = [each["name"] for each in transitions if each["manual"]]
    api.import_model()
    # The older contract takes criteria that cannot be evaluated; they stop a run.
    here = a_workflow(version="1.0", HERE=transitions, **{f"S{number}": [] for number in range(4)})
    api.import_workflows(IDLE)
    api.lock()
    saved, *fired = [api.create().id for _ in range(1 + len(manuals))]
    api.import_workflows(here)
    explained = explain(ops, saved)
    by_name = {each["name"]: each for each in explained["transitions"]}

    state = move(api, saved, "")
    automatic = {each["next"]: each["wouldFire"] for each in explained["transitions"] if each["kind"] == "AUTOMATED"}
    assert automatic == {target: target == state for target in automatic}, (transitions, state)
    assert (explained["verdict"] == "READY") is any(automatic.values())
    for entity, name in zip(fired, manuals, strict=True):
        assert by_name[name]["wouldFire"] is (move(api, entity, name) == by_name[name]["next"]), (name, transitions)


def move(api: Api, entity: str, transition: str) -> str:
    """The state of an entity after an attempt to move it."""
    path = f"/entity/JSON/{entity}" + (f"/{transition}" if transition else "")
    response = api.put(path, SAMPLE)
    assert response.status_code in {200, 400, 404, 503}, response.text
    return api.state(entity)
