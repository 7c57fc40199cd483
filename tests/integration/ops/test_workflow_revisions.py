"""Revisions of the workflows of a model (docs/reference/operations.md#revisions-of-workflows)."""

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from statewright.cli.main import program
from statewright.jsonval.patches import apply_json_patch
from statewright.sdk import Client
from statewright.sdk.errors import Refused
from statewright.storage import migrate
from tests.builders import Json, a_workflow, automated, manual
from tests.commands import CommandRunner
from tests.database import connected, temporary_database
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused

IMPORT = "/model/prize/1/workflow/import"
EXPORT = "/model/prize/1/workflow/export"
REVISIONS = "/models/prize/1/workflow/revisions"


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def named(name: str, state: str = "New") -> Json:
    return a_workflow(name, **{state: [manual("GO", to="Gone")], "Gone": []})


def test_every_import_is_a_revision_that_exports_to_what_it_left(api: Api, ops: Api) -> None:
    api.import_model()
    choose, left, modes = random.Random(7), [], []
    for number in range(50):
        modes.append(choose.choice(("MERGE", "REPLACE", "ACTIVATE")))
        flows = [named(f"w{choose.randrange(4)}", f"S{number}"), named(f"v{number}")]
        api.import_workflows(*flows, mode=modes[-1])
        left.append(done(api.get(EXPORT)))
    found = walk(ops, REVISIONS, limit=10)[::-1]
    assert [each["revision"] for each in found] == [*range(1, 51)]
    assert [each["mode"] for each in found] == modes
    assert [each["current"] for each in found] == [False] * 49 + [True]
    assert {each["origin"] for each in found} == {"IMPORT"}
    assert {each["importedBy"]["id"] for each in found} == {"alice"}
    assert [done(ops.get(f"{REVISIONS}/{number}"))["document"] for number in range(1, 51)] == left


async def test_workflows_that_come_back_are_stored_once(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    api.import_model()
    for name in ("one", "two", "one"):
        api.import_workflows(named(name))
    third, second, first = done(ops.get(REVISIONS))["items"]
    assert first["hash"] == third["hash"] != second["hash"]
    async with connected(service.database) as database:
        kept = await database.fetchval("SELECT count(*) FROM workflow_document WHERE tenant = $1", tenant)
    assert kept == 2


def test_an_import_that_changes_nothing_makes_no_revision(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    api.import_model()
    for _ in range(2):
        api.import_workflows(named("one"))
    done(api.post(f"{IMPORT}?dryRun=true", {"workflows": [named("two")]}))
    refused(api.post(IMPORT, {"workflows": [{"name": "wrong"}]}), 400, "VALIDATION_FAILED")
    assert [each["revision"] for each in done(ops.get(REVISIONS))["items"]] == [1]
    acts = done(ops_api(service, tenant, "ROLE_OPERATOR").get("/audit?action=workflow.import"))["items"]
    assert [act["details"]["revision"] for act in acts] == [1, 1]


async def test_what_an_older_node_has_imported_becomes_a_revision(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    api.import_model()
    api.import_workflows(named("one"))
    async with connected(service.database) as database:
        await database.execute(
            "UPDATE workflow_set SET revision = nextval('definition_revision'),"
            " workflows = replace(workflows, 'one', 'older') WHERE tenant = $1",
            tenant,
        )
    dry = api.post(f"{IMPORT}?dryRun=true", {"workflows": [named("two")]})
    assert (dry.status_code, dry.headers["X-Workflow-Revision"]) == (200, "2")
    assert len(done(ops.get(REVISIONS))["items"]) == 1
    api.import_workflows(named("two"))
    newest, older, _ = done(ops.get(REVISIONS))["items"]
    assert (newest["origin"], older["origin"]) == ("IMPORT", "UPGRADE")
    assert older["importedBy"] == {"id": "system", "kind": "system"}
    assert older["mode"] is None
    [kept] = done(ops.get(f"{REVISIONS}/2"))["document"]["workflows"]
    assert kept["name"] == "older"


def test_what_there_is_not_is_refused(api: Api, ops: Api) -> None:
    refused(ops.get("/models/none/1/workflow/revisions"), 404, "MODEL_NOT_FOUND")
    refused(ops.get("/models/none/1/workflow/revisions/1"), 404, "MODEL_NOT_FOUND")
    api.import_model()
    assert done(ops.get(REVISIONS)) == {"items": []}
    for number in ("0", "1", "-1", "2147483647"):
        refused(ops.get(f"{REVISIONS}/{number}"), 404, "REVISION_NOT_FOUND")
    for number in ("one", "2147483648"):
        assert refused(ops.get(f"{REVISIONS}/{number}"), 400, "BAD_REQUEST")["properties"]["parameter"] == "revision"


def test_revisions_outlive_their_model(api: Api, ops: Api) -> None:
    api.import_model()
    api.import_workflows(named("one"))
    done(api.delete("/model/prize/1"))
    refused(ops.get(REVISIONS), 404, "MODEL_NOT_FOUND")
    api.import_model()
    api.import_workflows(named("two"))
    assert [each["revision"] for each in done(ops.get(REVISIONS))["items"]] == [2, 1]


def test_the_client_and_the_command_line_read_them(service: RunningService, tenant: str, api: Api) -> None:
    api.import_model()
    api.import_workflows(named("one"))
    first = done(api.get(EXPORT))
    api.import_workflows(named("two"))
    with Client(service.root, token=a_token(tenant)) as client:
        assert [each.revision for each in client.ops.workflow_revisions("prize", 1)] == [2, 1]
        assert client.ops.workflow_revision("prize", 1, 1).document == first
    shown = CommandRunner().invoke(
        program,
        ["ops", "revisions", "list", "prize/1"],
        env={"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant)},
    )
    assert shown.exit_code == 0, shown.output
    assert "alice" in shown.output


async def test_an_upgrade_makes_the_first_revision_of_what_is_there(database_server: str) -> None:
    before = [migration for migration in migrate.MIGRATIONS if migration.name < "0044"]
    async with temporary_database(database_server) as url, connected(url) as connection:
        await migrate.apply_pending(connection, before)
        for tenant in ("a", "b"):
            await connection.execute("INSERT INTO workflow_set VALUES ($1, gen_random_uuid(), '[\"ü\"]', 7, 3)", tenant)
        await migrate.apply_pending(connection)
        rows = await connection.fetch(
            "SELECT tenant, revision, definition_revision, origin, imported_at, imported_by_id, document"
            " FROM workflow_revision JOIN workflow_document USING (tenant, hash) ORDER BY tenant"
        )
    assert [tuple(row) for row in rows] == [(tenant, 1, 3, "UPGRADE", 7, "system", '["ü"]') for tenant in ("a", "b")]


@pytest.fixture
def operator(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


def activate(operator: Api, number: int, if_match: str | None = None, **members: Json) -> httpx.Response:
    headers = {} if if_match is None else {"If_Match": if_match}
    return operator.post(f"{REVISIONS}/{number}/activate", {"reason": "v2 loses orders", **members}, **headers)


def test_a_revision_that_is_brought_back_is_a_new_one(api: Api, ops: Api, operator: Api) -> None:
    api.import_model()
    api.import_workflows(named("one"), named("two"))
    exported = done(api.get(EXPORT))
    api.import_workflows(named("three"), mode="ACTIVATE")
    made = done(activate(operator, 1))
    assert (made["revision"], made["origin"], made["note"]) == (3, "ROLLBACK", "v2 loses orders")
    assert (made["importedBy"]["id"], made["mode"], made["current"]) == ("olga", None, True)
    assert done(api.get(EXPORT)) == exported
    first = done(ops.get(f"{REVISIONS}/1"))
    assert (made["hash"], first["document"], first["current"]) == (first["hash"], exported, False)
    [act] = done(operator.get("/audit?action=workflow.activate"))["items"]
    assert (act["actor"]["id"], act["reason"]) == ("olga", "v2 loses orders")
    assert act["details"] == {"activated": 1, "revision": 3, "hash": f"sha256:{first['hash']}"}
    assert done(activate(operator, 1))["revision"] == 3


def test_what_is_brought_back_moves_entities_at_once(api: Api, operator: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="Gone")], Gone=[]))
    made = api.create()
    api.import_workflows(a_workflow(New=[]))
    refused(api.put(f"/entity/JSON/{made.id}/GO", "{}"), 404, "TRANSITION_NOT_FOUND")
    done(activate(operator, 1))
    api.update(made.id, fire="GO")
    assert api.read(made.id)["meta"]["state"] == "Gone"


def test_a_cycle_that_an_import_allowed_can_be_brought_back(api: Api, operator: Api) -> None:
    api.import_model()
    endless = a_workflow(A=[automated("ON", to="B")], B=[automated("BACK", to="A")])
    done(api.post(IMPORT, {"allowCycles": True, "workflows": [endless]}))
    api.import_workflows(named("one"))
    assert done(activate(operator, 1))["revision"] == 3


def test_bringing_back_is_for_operators_and_says_what_is_wrong(api: Api, ops: Api, operator: Api) -> None:
    api.import_model()
    for name in ("one", "two"):
        api.import_workflows(named(name))
    refused(activate(ops, 1), 403, "FORBIDDEN")
    refused(activate(operator, 3), 404, "REVISION_NOT_FOUND")
    for members, pointer in (({"reason": ""}, "/reason"), ({"ifMatch": -1}, "/ifMatch"), ({"to": 1}, "/to")):
        assert refused(activate(operator, 1, **members), 400, "BAD_REQUEST")["properties"]["parameter"] == pointer
    stale = refused(activate(operator, 1, ifMatch=1), 412, "REVISION_MISMATCH")
    assert stale["properties"]["currentRevision"] == 2
    assert done(activate(operator, 1, ifMatch=2))["revision"] == 3


def test_what_is_brought_back_may_be_tied_to_a_revision_by_a_header(api: Api, operator: Api) -> None:
    api.import_model()
    for name in ("one", "two"):
        api.import_workflows(named(name))
    refused(activate(operator, 1, '"1"'), 412, "REVISION_MISMATCH")
    for if_match, members in (("two", {}), ('"2"', {"ifMatch": 1})):
        problem = refused(activate(operator, 1, if_match, **members), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "If-Match"
    assert done(activate(operator, 1, '"2"', ifMatch=2))["revision"] == 3
    assert done(activate(operator, 2, "*"))["revision"] == 4


def test_of_two_imports_for_one_revision_the_second_is_refused(api: Api) -> None:
    api.import_model()
    api.import_workflows(named("zero"))
    bodies = [{"importMode": "REPLACE", "workflows": [named(name)]} for name in ("one", "two")]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda body: api.post(IMPORT, body, If_Match='"1"'), bodies))
    carried_out, late = sorted(answers, key=lambda answer: answer.status_code)
    assert done(carried_out) == {"success": True}
    assert carried_out.headers["X-Workflow-Revision"] == "2"
    assert refused(late, 412, "REVISION_MISMATCH")["properties"]["currentRevision"] == 2


def test_an_import_tells_its_revision_and_keeps_a_note(api: Api, ops: Api) -> None:
    api.import_model()
    body = {"workflows": [named("one")]}
    dry = api.post(f"{IMPORT}?dryRun=true", body, If_Match="0")
    assert (dry.status_code, dry.headers["X-Workflow-Revision"]) == (200, "0")
    headers = {b"Authorization": f"Bearer {api.token}".encode(), b"X-Import-Note": "für den Herbst".encode()}
    noted = httpx.post(f"{api.url}{IMPORT}", json=body, headers={**headers, b"If-Match": b'"0"'})
    assert (noted.content, noted.headers["X-Workflow-Revision"]) == (b'{"success":true}\n', "1")
    assert api.post(IMPORT, body).headers["X-Workflow-Revision"] == "1"
    assert done(ops.get(f"{REVISIONS}/1"))["note"] == "für den Herbst"
    for name, value in (("If_Match", "*"), ("If_Match", "99999999999"), ("If_Match", ""), ("X_Import_Note", "x" * 201)):
        wrong = refused(api.post(IMPORT, body, **{name: value}), 400, "BAD_REQUEST")
        assert wrong["properties"]["parameter"] == name.replace("_", "-")


def test_a_difference_leads_from_one_export_to_another(api: Api, ops: Api) -> None:
    api.import_model()
    exports: list[Json] = [{"entityName": "prize", "modelVersion": 1, "workflows": []}]
    for name, state in (("one", "New"), ("two", "New"), ("two", "Fresh")):
        api.import_workflows(named(name, state), mode="MERGE")
        exports.append(done(api.get(EXPORT)))
    for query, older, newer in (("/1/diff", 0, 1), ("/3/diff", 2, 3), ("/1/diff?to=3", 1, 3), ("/3/diff?to=2", 3, 2)):
        found = done(ops.get(f"{REVISIONS}{query}"))
        assert (found["from"], found["to"]) == (older or None, newer)
        assert apply_json_patch(exports[older], found["patch"]) == exports[newer]
    for query in ("/4/diff", "/1/diff?to=4", "/0/diff", "/0/diff?to=1"):
        refused(ops.get(f"{REVISIONS}{query}"), 404, "REVISION_NOT_FOUND")
    assert refused(ops.get(f"{REVISIONS}/1/diff?to=x"), 400, "BAD_REQUEST")["properties"]["parameter"] == "to"


def test_the_command_line_compares_and_brings_back(service: RunningService, tenant: str, api: Api) -> None:
    api.import_model()
    for name in ("one", "two"):
        api.import_workflows(named(name))
    token = a_token(tenant, user_roles=["ROLE_OPERATOR"])
    run = partial(CommandRunner().invoke, program, env={"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": token})
    compared = run(["ops", "revisions", "diff", "prize/1", "2"])
    assert compared.output.splitlines() == ["1 -> 2", 'replace /workflows/0/name "two"']
    assert run(["ops", "revisions", "activate", "prize/1", "1", "--reason", "no", "--if-match", "1"]).exit_code == 1
    activated = run(["ops", "revisions", "activate", "prize/1", "1", "--reason", "two was worse"])
    assert activated.exit_code == 0, activated.output
    with Client(service.root, token=token) as client:
        assert client.ops.workflow_revision("prize", 1, 3).note == "two was worse"
        assert client.ops.workflow_diff("prize", 1, 2).older == 1
        assert client.ops.activate_workflows("prize", 1, 2, reason="it was not", if_match=3).revision == 4


async def test_the_population_adds_up_to_the_count_of_the_model(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="Old")], Old=[]))
    made = [api.create().id for _ in range(5)]
    api.import_workflows(a_workflow(New=[manual("GO", to="Old"), manual("STAY", to="New")], Old=[]))
    for id_ in made[:2]:
        api.update(id_, fire="GO")
    api.create()
    api.import_workflows(a_workflow(New=[]))
    async with connected(service.database) as database:
        await database.execute(
            "UPDATE entity SET workflow_revision = 0 WHERE tenant = $1 AND id = $2::uuid", tenant, made[4]
        )
        count = await database.fetchval("SELECT count(*) FROM entity WHERE tenant = $1", tenant)
    found = done(ops.get("/models/prize/1/workflow/population"))
    assert found["total"] == count == 6
    rows = [(each["state"], each["revision"], each["count"], each["issue"]) for each in found["items"]]
    assert rows == [
        *(("New", 1, 2, None), ("New", 2, 1, None), ("New", None, 1, None)),
        ("Old", 2, 2, "STATE_REMOVED"),
    ]
    assert {each["workflow"] for each in found["items"]} == {"lifecycle"}
    by_revision = [done(ops.get(f"{REVISIONS}/{number}/entities"))["total"] for number in (1, 2, 3)]
    assert by_revision == [2, 3, 0]
    refused(ops.get(f"{REVISIONS}/4/entities"), 404, "REVISION_NOT_FOUND")
    refused(ops.get("/models/none/1/workflow/population"), 404, "MODEL_NOT_FOUND")


def test_entities_without_workflows_are_in_no_removed_state(api: Api, ops: Api) -> None:
    api.a_model()
    api.create()
    [item] = done(ops.get("/models/prize/1/workflow/population"))["items"]
    assert (item["state"], item["revision"], item["count"], item["issue"]) == ("CREATED", None, 1, None)


def test_the_client_and_the_command_line_count_entities(service: RunningService, tenant: str, api: Api) -> None:
    api.a_model(named("one"))
    api.create()
    api.import_workflows(named("one", "Fresh"))
    told = CommandRunner().invoke(
        program,
        ["ops", "revisions", "population", "prize/1", "--revision", "1"],
        env={"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant)},
    )
    assert "STATE_REMOVED" in told.output, told.output
    with Client(service.root, token=a_token(tenant)) as client:
        assert client.ops.population("prize", 1).total == 1
        assert client.ops.population("prize", 1, revision=2).total == 0


def list_stranded(service: RunningService, ops: Api, status: str) -> list[Json]:
    """Incidents of stranded entities once all models were looked at that are due; another node may be at it."""
    survey = service.parts.runtime.operations.concerns.state_survey
    while asyncio.run_coroutine_threadsafe(survey.run_once(), service.loop).result(PATIENCE_S):
        pass
    return done(ops.get(f"/incidents?kind=STATE_UNKNOWN&status={status}"))["items"]


def test_entities_that_an_import_strands_are_an_incident_until_it_is_taken_back(
    service: RunningService, tenant: str, api: Api
) -> None:
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    found: list[Json] = []

    def has(status: str, *counts: int) -> bool:
        found[:] = list_stranded(service, ops, status)
        return [each["occurrences"] for each in found] == [*counts]

    api.a_model(named("one"))
    ids = [api.create().id for _ in range(3)]
    check = done(
        ops.post("/models/prize/1/workflow/check", {"importMode": "REPLACE", "workflows": [named("one", "S")]})
    )
    assert "REMOVED_STATE_IN_USE" in {each["code"] for each in check["findings"]}
    api.import_workflows(named("one", "Fresh"), mode="REPLACE")
    eventually(lambda: has("OPEN", 3))
    [incident] = found
    subject = incident["subject"]
    assert (subject["kind"], subject["id"], subject["state"]) == ("MODEL", "prize/1", "New")
    assert incident["message"] == '3 entities are in the state "New", which no active workflow has'
    refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_NOT_RETRYABLE")
    done(api.delete(f"/entity/{ids[0]}"))
    api.import_workflows(named("two", "Fresh"), mode="MERGE")
    eventually(lambda: has("OPEN", 2))
    assert found[0]["id"] == incident["id"]
    done(ops.post(f"{REVISIONS}/1/activate", {"reason": "it stranded two"}))
    eventually(lambda: has("OPEN"))
    assert has("RESOLVED", 2)
    assert (found[0]["id"], found[0]["resolution"]["how"]) == (incident["id"], "MOVED")


def test_of_a_model_that_is_gone_no_incident_stays(service: RunningService, tenant: str, api: Api) -> None:
    ops = ops_api(service, tenant, "ROLE_OPERATOR")
    api.a_model(named("one"))
    entity = api.create()
    api.import_workflows(named("one", "Fresh"), mode="REPLACE")
    eventually(lambda: list_stranded(service, ops, "OPEN"))
    done(api.delete(f"/entity/{entity.id}"))
    done(api.put("/model/prize/1/unlock"))
    done(api.delete("/model/prize/1"))
    eventually(lambda: not list_stranded(service, ops, "OPEN"))


def test_the_client_and_the_command_line_import_under_a_condition_and_with_a_note(
    service: RunningService, tenant: str, api: Api, tmp_path: Path
) -> None:
    api.import_model()
    token = a_token(tenant)
    with Client(service.root, token=token) as client:
        client.workflows.import_("prize", 1, named("one"), if_match=0, note="für alle")
        assert client.ops.workflow_revision("prize", 1, 1).note == "für alle"
        with pytest.raises(Refused, match="REVISION_MISMATCH"):
            client.workflows.import_("prize", 1, named("two"), if_match=0)
        file = tmp_path / "two.json"
        file.write_text(json.dumps(named("two")))
        there = {"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": token}
        words = ["workflows", "import", "prize/1", str(file), "--note", "second"]
        assert CommandRunner().invoke(program, [*words, "--if-match", "1"], env=there).exit_code == 0
        late = CommandRunner().invoke(program, [*words, "--if-match", "1"], env=there)
        assert (late.exit_code, "REVISION_MISMATCH" in late.output) == (1, True)
        assert [each.note for each in client.ops.workflow_revisions("prize", 1)] == ["second", "für alle"]
