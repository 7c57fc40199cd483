"""Checks of workflows at a running service (docs/reference/operations.md#checking-workflows)."""

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from statewright.cli.main import program
from statewright.jsonval.codec import encode
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.commands import CommandRunner
from tests.database import connected
from tests.integration.node import a_node
from tests.integration.ops.builders import list_rows, ops_api
from tests.service import Api, RunningService, a_token, done, eventually, refused
from tests.unit.workflow.import_documents import DOCUMENTS

CHECK = "/models/prize/1/workflow/check"
DOCUMENTS_CHECKED = int(os.environ.get("STATEWRIGHT_TEST_CHECKS", "30"))
LATE = {"name": "LATE", "next": "B", "manual": False, "schedule": {"delayMs": 3_600_000}}


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def check(ops: Api, *workflows: Json, **members: Json) -> Json:
    return done(ops.post(CHECK, {"workflows": workflows, **members}))


def codes(found: Json) -> list[str]:
    return [each["code"] for each in found["findings"]]


def test_a_check_says_whom_an_import_would_affect_and_changes_nothing(api: Api, ops: Api) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="OLD"), LATE], B=[], OLD=[]))
    entities = [api.create().id for _ in range(3)]
    api.update(entities[0], fire="GO")
    before = api.get("/model/prize/1/workflow/export").content
    found = check(ops, a_workflow(A=[manual("GO", to="B")], B=[]), importMode="REPLACE")
    assert found["importable"] is True
    assert codes(found) == ["REMOVED_STATE_IN_USE", "REMOVED_TRANSITION_WITH_TIMER"]
    assert found["affected"] == {
        "total": 3,
        "byState": [
            {"workflow": "lifecycle", "state": "A", "count": 2, "issue": None},
            {"workflow": "lifecycle", "state": "OLD", "count": 1, "issue": "STATE_REMOVED"},
        ],
        "armedTimers": 2,
    }
    assert found["diff"]["states"] == {"added": [], "removed": ["OLD"]}
    assert [each["change"] for each in found["diff"]["workflows"]] == ["CHANGED"]
    assert [(each["state"], each["change"]) for each in found["diff"]["timers"]] == [("A", "REMOVED")]
    assert api.get("/model/prize/1/workflow/export").content == before


async def test_whom_an_import_would_affect_is_counted_as_the_database_does(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    ways = [manual(f"GO{number}", to=f"S{number}") for number in range(3)]
    states = {f"S{number}": [] for number in range(3)}
    small = a_workflow("small", criterion=when("$.year", "LESS_THAN", 100), A=[*ways, LATE], B=[], **states)
    api.a_model(small, a_workflow("large", A=ways, **states))
    choose = random.Random(7)
    for _ in range(15):
        made = api.create({**SAMPLE, "year": choose.choice([1, 2024])})
        if (number := choose.randrange(5)) < 3:
            api.update(made.id, api.read(made.id)["data"], fire=f"GO{number}")
    affected = check(ops, small)["affected"]
    async with connected(service.database) as database:
        counts = await database.fetch(
            "SELECT workflow, state, count(*) FROM entity WHERE tenant = $1 GROUP BY 1, 2 ORDER BY 1, 2", tenant
        )
        timers = await database.fetchval("SELECT count(*) FROM scheduled_task WHERE tenant = $1", tenant)
    assert sorted((each["workflow"], each["state"], each["count"]) for each in affected["byState"]) == [
        *map(tuple, counts)
    ]
    assert (affected["total"], affected["armedTimers"]) == (15, timers)


async def test_checks_and_dry_runs_leave_every_row_of_the_tenant_as_it_is(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    api.a_model(a_workflow(A=[manual("GO", to="B"), LATE], B=[]))
    entity = api.create().id
    async with connected(service.database) as database:
        before = await list_rows(database, tenant)
        check(ops, a_workflow(X=[]), importMode="REPLACE")
        done(api.post("/model/prize/1/workflow/import?dryRun=true", {"workflows": [a_workflow(B=[], X=[])]}))
        assert await list_rows(database, tenant) == before
    assert api.update(entity, fire="GO")  # by the workflow that is remembered in memory, too
    assert api.state(entity) == "B"


def test_what_is_called_importable_is_what_is_imported(api: Api, ops: Api) -> None:
    """Random documents, one after the other, each on top of what those before have left."""
    api.a_model()
    verdicts = {True: 0, False: 0}

    @settings(max_examples=DOCUMENTS_CHECKED, deadline=None, database=None, phases=[Phase.generate])
    @given(DOCUMENTS)
    def compare(document: Json) -> None:
        body = encode(document)
        found = done(ops.post(CHECK, body))
        dry = api.post("/model/prize/1/workflow/import?dryRun=true", body)
        answer = api.post("/model/prize/1/workflow/import?warnings=true", body)
        if answer.status_code == 200:
            told = {each["message"] for each in found["findings"]}
            assert {each["message"] for each in answer.json()["warnings"]} <= told, document
        assert done(dry) == found
        assert answer.status_code in {200, 400}, answer.text
        errors = [each["message"] for each in found["findings"] if each["severity"] == "ERROR"]
        assert found["importable"] is (answer.status_code == 200) is (not errors), (document, answer.text)
        assert not errors or any(message in answer.json()["detail"] for message in errors), (errors, answer.text)
        verdicts[found["importable"]] += 1

    compare()
    assert min(verdicts.values()) > DOCUMENTS_CHECKED // 20, verdicts


def test_errors_are_findings_and_the_import_says_the_same(api: Api, ops: Api) -> None:
    api.a_model()
    wrong = a_workflow(A=[automated("GO", to="NOWHERE")], B=[manual("GO", to="A")], C=[])
    found = check(ops, wrong)
    assert (found["importable"], codes(found), found["diff"]) == (
        False,
        ["UNKNOWN_NEXT", "UNREACHABLE_STATE", "UNREACHABLE_STATE"],
        None,
    )
    problem = refused(api.post("/model/prize/1/workflow/import", {"workflows": [wrong]}), 400, "VALIDATION_FAILED")
    assert found["findings"][0]["message"] in problem["detail"]


def test_a_witness_of_an_overlap_makes_both_transitions_fire(api: Api, ops: Api) -> None:
    api.a_model()
    first = automated("X", to="B", criterion=when("$.year", "GREATER_THAN", 10))
    second = automated("Y", to="C", criterion=when("$.year", "LESS_THAN", 20))
    found = check(ops, a_workflow(A=[first, second], B=[], C=[]))
    [overlap] = [each for each in found["findings"] if each["code"] == "OVERLAPPING_CRITERIA"]
    for transition, state in ((first, "B"), (second, "C")):
        api.import_workflows(a_workflow(A=[transition], B=[], C=[]))
        assert api.state(api.create({**SAMPLE, **overlap["witness"]}).id) == state


def test_tags_are_held_against_the_connected_members(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    api.a_model()
    workflow = a_workflow(A=[manual("GO", to="B", processors=[a_processor(tags="mail")])], B=[])
    [finding] = check(ops, workflow)["findings"]
    assert (finding["code"], finding["message"]) == ("TAG_NEVER_SEEN", "no member ever had the tag mail")
    other = a_workflow(A=[manual("GO", to="B", processors=[a_processor(tags="mail,pigeon")])], B=[])
    with a_node(service, tenant, "Mail"):
        assert codes(check(ops, workflow)) == []
        told = "no member ever had the tag pigeon"
        eventually(lambda: [each["message"] for each in check(ops, other)["findings"]] == [told])
    eventually(lambda: codes(check(ops, workflow)) == ["TAG_WITHOUT_MEMBER"])


def test_a_suspended_transition_is_told(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    api.a_model()
    target = {"scope": "TRANSITION", "model": {"name": "prize", "version": 1}, "transition": "GO", "reason": "bank"}
    assert ops_api(service, tenant, "ROLE_OPERATOR").post("/suspensions", target).status_code == 201
    [finding] = check(ops, a_workflow(A=[manual("GO", to="B")], B=[]))["findings"]
    assert (finding["code"], finding["path"]) == ("SUSPENDED_TARGET", "/workflows/0/states/A/transitions/0")


def test_what_cannot_be_checked_is_refused(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    api.a_model()
    refused(ops.post(CHECK, "{"), 400, "BAD_REQUEST")
    refused(ops.post(f"{CHECK}?dryRun=true", {"workflows": []}), 400, "BAD_REQUEST")
    unknown = refused(ops.post("/models/nobody/1/workflow/check", {"workflows": []}), 404, "MODEL_NOT_FOUND")
    foreign = refused(ops_api(service, f"{tenant}-x").post(CHECK, {"workflows": []}), 404, "MODEL_NOT_FOUND")
    assert unknown["detail"].replace("nobody", "prize") == foreign["detail"]


def test_the_command_checks_at_the_service_and_without_one(
    service: RunningService, api: Api, tenant: str, tmp_path: Path
) -> None:
    api.a_model()
    file, sample = tmp_path / "workflows.json", tmp_path / "sample.json"
    file.write_text(json.dumps({"workflows": [a_workflow(A=[manual("GO", to="NOWHERE")])]}))
    sample.write_text(json.dumps(dict(SAMPLE)))
    there = ["--url", service.url, "--token", a_token(tenant)]
    for where in (there, ["--sample", str(sample)]):
        assert_refused("ops", "workflow", "check", str(file), "--model", "prize/1", *where)
    assert_refused("workflows", "import", "prize/1", str(file), "--dry-run", *there)
    file.write_text(json.dumps({"workflows": [a_workflow(A=[], B=[])], "entityName": "prize", "modelVersion": 1}))
    assert CommandRunner().invoke(program, ["ops", "workflow", "check", str(file), *there]).exit_code == 0
    assert CommandRunner().invoke(program, ["ops", "workflow", "check", str(file), "--strict", *there]).exit_code == 1
    told = CommandRunner().invoke(program, ["workflows", "import", "prize/1", str(file), "--dry-run", *there])
    assert (told.exit_code, "\nimportable\nadded: " in told.output) == (0, True)
    refused(api.get("/model/prize/1/workflow/export"), 404, "WORKFLOW_NOT_FOUND")


def assert_refused(*words: str) -> None:
    refusal = CommandRunner().invoke(program, words)
    assert (refusal.exit_code, "UNKNOWN_NEXT" in refusal.output, "not importable" in refusal.output) == (1, True, True)
