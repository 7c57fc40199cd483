"""Simulations of workflows, compared with what happens (docs/reference/operations.md#simulating-workflows)."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from statewright.cli.main import program
from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual, when
from tests.commands import CommandRunner
from tests.database import Template
from tests.integration.ops.builders import ops_api
from tests.integration.transactions.conftest import connected
from tests.service import Api, RunningService, a_token, done, hosted, refused

SIMULATE = "/models/prize/1/workflow/simulate"
START = {"document": SAMPLE}
HOUR_MS = 3_600_000


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def simulate(ops: Api, *events: Json, start: Json = START, **members: Json) -> Json:
    return done(ops.post(SIMULATE, {"start": start, "events": events, **members}))


def taken(simulated: Json) -> list[tuple[str, str, str]]:
    return [(step["from"], step["transition"], step["to"]) for step in simulated["path"]]


MODES = ("SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fails", [False, True])
def test_a_simulated_path_is_that_of_a_member_which_behaves_like_the_stubs(
    service: RunningService, api: Api, ops: Api, tenant: str, mode: str, fails: bool
) -> None:
    approve = manual("APPROVE", to="B", criterion=judged_by("worthy"), processors=[a_processor("enrich", mode=mode)])
    small = automated("SMALL", to="C", criterion=when("$.year", "LESS_THAN", 100))
    api.a_model(a_workflow(A=[approve], B=[small, automated("BIG", to="D")], C=[], D=[]), sample=SAMPLE)
    stubs = {
        "criteria": {"worthy": True},
        "processors": {"enrich": {"error": "down"} if fails else {"mergePatch": {"year": 7}}},
    }
    simulated = simulate(ops, {"fire": "APPROVE"}, stubs=stubs)
    node = Node(tags=["node"])
    node.criterion("worthy")(lambda _prize: True)

    @node.processor("enrich")
    def enrich(prize: Json) -> Json:
        if fails:
            raise LookupError("down")
        return prize | {"year": 7}

    with connected(service, tenant, node):
        entity = api.create().id
        answer = api.put(f"/entity/JSON/{entity}/APPROVE", SAMPLE)
    real = api.read(entity)
    assert (simulated["state"], simulated["document"]) == (real["meta"]["state"], real["data"])
    assert (simulated["outcome"] == "SETTLED") is (answer.status_code == 200)
    if answer.status_code == 200:
        events = api.events(entity, done(answer)["transactionId"])
        told = [f'Transition "{name}": {source} → {target}' for source, name, target in taken(simulated)]
        assert told == [event["details"] for event in events if event["eventType"] == "TRANSITION_MAKE"]
    else:
        assert "down" in simulated["failure"]
        assert simulated["path"][-1]["failure"] == simulated["failure"]


def test_a_timer_fires_at_its_virtual_instant(api: Api, ops: Api) -> None:
    late = {"name": "LATE", "next": "B", "manual": False, "schedule": {"delayMs": HOUR_MS}}
    later = {
        "name": "LATER",
        "next": "C",
        "manual": False,
        "schedule": {"function": {"name": "when", "resultKind": "Schedule", "calculationNodesTags": "node"}},
    }
    api.a_model(a_workflow(A=[late], B=[later], C=[]))
    played = simulate(
        ops,
        {"advance": "PT59M"},
        {"advance": "PT2M"},
        at="2026-01-01T00:00:00Z",
        stubs={"functions": {"when": {"fireAfterMs": 2 * HOUR_MS}}},
    )
    assert [(step["event"], step["at"], step["transition"]) for step in played["path"]] == [
        (1, "2026-01-01T01:00:00Z", "LATE")
    ]
    assert played["timers"] == [{"state": "B", "transition": "LATER", "dueAt": "2026-01-01T03:00:00Z"}]
    ended = simulate(ops, {"advance": "P1D"}, stubs={"functions": {"when": {"fireAfterMs": 1}}})
    assert (ended["state"], ended["timers"]) == ("C", [])


def test_pauses_between_attempts_pass_at_once(api: Api, ops: Api) -> None:
    retry = {"statewright": {"retry": {"attempts": 5, "delay": "PT10S", "on": ["ERROR"]}}}
    processor = {**a_processor("flaky"), "annotations": retry}
    api.a_model(a_workflow(A=[manual("GO", to="B", processors=[processor])], B=[]))
    answers = [{"error": "busy"}, {"error": "busy"}, {"mergePatch": {"year": 1}}]
    played = simulate(ops, {"fire": "GO"}, stubs={"processors": {"flaky": answers}})
    assert (played["state"], played["document"]["year"]) == ("B", 1)
    assert [each["error"] for each in played["path"][0]["processors"]] == ["busy", "busy", None]


def test_a_missing_stub_is_told_and_counts_as_success_without_change(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="B", processors=[a_processor("mail")])], B=[]))
    played = simulate(ops, {"fire": "GO"})
    assert (played["state"], played["document"]) == ("B", dict(SAMPLE))
    assert [(each["code"], each["path"]) for each in played["findings"]] == [("MISSING_STUB", "/stubs/processors/mail")]


def test_a_criterion_without_a_stub_does_not_hold_and_the_finding_says_so(api: Api, ops: Api) -> None:
    asked = {"type": "function", "function": {"name": "fits", "config": {"calculationNodesTags": "t"}}}
    api.a_model(a_workflow(A=[manual("GO", to="B", criterion=asked)], B=[]))
    played = simulate(ops, {"fire": "GO"})
    assert (played["outcome"], played["state"]) == ("FAILED", "A")
    assert [each["message"] for each in played["findings"]] == ["there is no stub: it does not hold"]


def test_an_endless_cycle_ends_with_the_limit(api: Api, ops: Api) -> None:
    api.a_model()
    tick = {"name": "TICK", "next": "A", "manual": False, "schedule": {"delayMs": 1}}
    problem = refused(
        ops.post(SIMULATE, {"start": START, "workflows": [a_workflow(A=[tick])], "events": [{"advance": "P365D"}]}),
        400,
        "BAD_REQUEST",
    )
    assert "10000 moves" in problem["detail"] or "processor time" in problem["detail"]


def test_simulations_explanations_and_checks_are_computed_by_processes_that_are_killed(
    database_template: Template,
) -> None:
    tick = {"name": "TICK", "next": "A", "manual": False, "schedule": {"delayMs": 1}}
    scenario = {"start": START, "workflows": [a_workflow(A=[tick])], "events": [{"advance": "P365D"}]}
    with hosted(database_template.clone(), computation_timeout=timedelta(milliseconds=50)) as service:
        api, ops = service.api("killed"), ops_api(service, "killed")
        api.a_model()
        problem = refused(ops.post(SIMULATE, scenario), 400, "COMPUTATION_TOO_LONG")
        assert problem["properties"]["limitMs"] == 50
        chain = {
            f"S{n}": [automated("GO", to=f"S{n + 1}", criterion=when("$.year", "LESS_THAN", n))] for n in range(500)
        }
        checked = ops.post("/models/prize/1/workflow/check", {"workflows": [a_workflow(**chain, S500=[])]})
        assert refused(checked, 400, "COMPUTATION_TOO_LONG")["properties"]["limitMs"] == 50
    with hosted(database_template.clone()) as service:
        api, ops = service.api("alive"), ops_api(service, "alive")
        api.a_model()
        entity = api.create().id
        done(ops.get(f"/entities/{entity}/explain"))
        done(ops.post("/models/prize/1/workflow/check", {"workflows": [a_workflow(A=[])]}))
        computed = service.parts.runtime.core.computations.metrics.outcomes
        assert computed == {"done": 2}


def test_an_entity_goes_on_from_where_it_is_and_stays_as_it_was(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="B"), manual("END", to="C")], B=[manual("BACK", to="A")], C=[]))
    made = api.create()
    moved = api.update(made.id, {**SAMPLE, "year": 1}, fire="GO")
    before = api.read(made.id)
    now = simulate(
        ops, {"fire": "BACK"}, {"fire": "END", "document": {**SAMPLE, "year": 2}}, start={"entityId": made.id}
    )
    assert (taken(now), now["document"]["year"]) == ([("B", "BACK", "A"), ("A", "END", "C")], 2)
    then = simulate(
        ops, {"loopback": {}}, {"fire": "END"}, start={"entityId": made.id, "transactionId": made.transaction}
    )
    assert (then["state"], then["document"]) == ("C", dict(SAMPLE))
    assert api.read(made.id) == before
    assert before["meta"]["transactionId"] == moved.transaction


def test_what_an_event_is_refused_for_ends_the_simulation(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="B")], B=[]))
    played = simulate(ops, {"fire": "STOP"}, {"fire": "GO"})
    assert (played["outcome"], played["state"], played["path"]) == ("FAILED", "A", [])
    assert 'transition "STOP" not found' in played["failure"]


def test_the_command_shows_the_path(service: RunningService, api: Api, tenant: str) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="B")], B=[]))
    there = ["--model", "prize/1", "--url", service.url, "--token", a_token(tenant)]
    scenario = json.dumps({"start": {"document": dict(SAMPLE)}, "events": [{"fire": "GO"}]})
    shown = CommandRunner().invoke(program, ["ops", "workflow", "simulate", scenario, *there])
    assert (shown.exit_code, "settled in B" in shown.output) == (0, True)
    failed = CommandRunner().invoke(program, ["ops", "workflow", "simulate", scenario.replace("GO", "STOP"), *there])
    assert (failed.exit_code, "failed in A" in failed.output) == (1, True)


def test_the_command_plays_without_a_service_as_with_one(
    service: RunningService, api: Api, ops: Api, tenant: str, tmp_path: Path
) -> None:
    api.a_model()
    way = manual("GO", to="B", processors=[a_processor("enrich")], criterion=when("$.year", "LESS_THAN", 3000))
    scenario = {
        "workflows": [a_workflow(A=[way], B=[])],
        "start": {"document": dict(SAMPLE)},
        "events": [{"fire": "GO"}],
        "stubs": {"processors": {"enrich": {"mergePatch": {"year": 7}}}},
        "at": "2026-01-01T00:00:00Z",
    }
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps(dict(SAMPLE)))
    command = ["ops", "workflow", "simulate", "--model", "prize/1", "--sample", str(sample), "--json"]
    here = CommandRunner().invoke(program, [*command, json.dumps(scenario)])
    assert here.exit_code == 0, here.output
    assert json.loads(here.stdout) == done(ops.post(SIMULATE, scenario))
    stuck = CommandRunner().invoke(program, [*command, json.dumps(scenario | {"events": [{"fire": "STOP"}]})])
    assert (stuck.exit_code, json.loads(stuck.stdout)["outcome"]) == (1, "FAILED")
    for wrong in (
        {**scenario, "workflows": None},
        {**scenario, "odd": 1},
        {**scenario, "workflows": [a_workflow(A=[{}])]},
    ):
        assert CommandRunner().invoke(program, [*command, json.dumps(wrong)]).exit_code not in {0, None}


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({}, "/start"),
        ({"start": {}}, "/start"),
        ({"start": START, "odd": 1}, "/odd"),
        ({"start": START, "events": [{"fire": "GO", "advance": "PT1S"}]}, "/events/0"),
        ({"start": START, "events": [{"advance": "P1M"}]}, "/events/0/advance"),
        ({"start": START, "events": [{"loopback": {}}, {"fire": "GO", "document": 1}]}, "/events/1/document"),
        ({"start": START, "stubs": {"processors": {"p": [{"mergePatch": 1}]}}}, "/stubs/processors/p/0/mergePatch"),
        ({"start": START, "at": "soon"}, "/at"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused_by_its_member(
    api: Api, ops: Api, wrong: Json, parameter: str
) -> None:
    api.a_model()
    assert refused(ops.post(SIMULATE, wrong), 400, "BAD_REQUEST")["properties"]["parameter"] == parameter


def test_workflows_that_could_not_be_imported_and_foreign_entities_are_refused(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    api.a_model()
    wrong: Sequence[Json] = [a_workflow(A=[manual("GO", to="NOWHERE")])]
    refused(ops.post(SIMULATE, {"start": START, "workflows": wrong}), 400, "VALIDATION_FAILED")
    foreign = service.api(f"{tenant}-x")
    foreign.a_model()
    entity = foreign.create().id
    refused(ops.post(SIMULATE, {"start": {"entityId": entity}}), 404, "ENTITY_NOT_FOUND")


# The law: what is simulated is what happens.

SEEDS = range(int(os.environ.get("STATEWRIGHT_TEST_SIMULATIONS", "10")))
"""Of random workflows."""

STUBS = {
    "criteria": {"yes": True, "no": False},
    "processors": {
        "small": {"mergePatch": {"year": 7}},
        "large": {"mergePatch": {"year": 2024}},
        "down": {"error": "down"},
    },
}
GUARDS = [when("$.year", "GREATER_THAN", 100), when("$.year", "LESS_THAN", 100), judged_by("yes"), judged_by("no")]


def a_random_workflow(choose: random.Random) -> Json:
    """T0 and T1 lead out of three states by name, T2 and T3 out of two of them by themselves, if a criterion holds."""

    def a_way(number: int, *, by_itself: bool) -> Json:
        names = choose.choices(["small", "large", "down"], [6, 6, 1], k=choose.randint(0, 2))
        members: Json = {"processors": [a_processor(name, mode=choose.choice(MODES)) for name in names]}
        if by_itself or choose.random() < 0.15:
            members["criterion"] = choose.choice(GUARDS)
        return (automated if by_itself else manual)(f"T{number}", to=choose.choice("ABC"), **members)

    return a_workflow(
        A=[a_way(number, by_itself=False) for number in range(2)],
        **{state: [a_way(number, by_itself=number > 1) for number in range(4)] for state in "BC"},
    )


def test_whatever_is_simulated_is_what_happens(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    node = Node(tags=["node"])
    node.criterion("yes")(lambda _prize: True)
    node.criterion("no")(lambda _prize: False)
    node.processor("small")(lambda prize: prize | {"year": 7})
    node.processor("large")(lambda prize: prize | {"year": 2024})

    @node.processor("down")
    def fail(_prize: Json) -> Json:
        raise LookupError("down")

    api.a_model()
    outcomes: Counter[str] = Counter()
    with connected(service, tenant, node):
        for seed in SEEDS:
            choose = random.Random(seed)
            workflow = a_random_workflow(choose)
            fired = [f"T{choose.randrange(2)}" for _ in range(4)]
            api.import_workflows(workflow)
            simulated = simulate(ops, *({"fire": name} for name in fired), stubs=STUBS)
            entity = api.create().id
            statuses = list(fire_until_refused(api, entity, fired))
            real = api.read(entity)
            assert (simulated["state"], simulated["document"]) == (real["meta"]["state"], real["data"]), (
                seed,
                workflow,
            )
            assert (simulated["outcome"] == "SETTLED") is (statuses[-1] == 200), (seed, statuses, simulated)
            if statuses[-1] == 200:  # what failed is rolled back with its audit, but for its segments
                told = [f'Transition "{name}": {source} → {target}' for source, name, target in taken(simulated)]
                assert told == list_moves(api, entity), (seed, workflow)
            outcomes[simulated["outcome"]] += 1
    assert len(outcomes) == 2 or len(SEEDS) < 10, outcomes


def list_moves(api: Api, entity: str) -> list[str]:
    """The transitions of an entity as its audit tells them, oldest first."""
    found = done(api.get(f"/audit/entity/{entity}?eventType=StateMachine&limit=1000"))["items"]
    return [each["details"] for each in reversed(found) if each["eventType"] == "TRANSITION_MAKE"]


def fire_until_refused(api: Api, entity: str, names: Sequence[str]) -> Iterator[int]:
    """The status of each answer; the last one is that of the first refusal."""
    for name in names:
        answer = api.put(f"/platform-api/entity/transition?entityId={entity}&transitionName={name}")
        yield answer.status_code
        if answer.status_code != 200:
            return
