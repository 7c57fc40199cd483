"""Revisions of the workflows of a model (docs/reference/operations.md#revisions-of-workflows)."""

import random

import pytest

from statewright.cli.main import program
from statewright.sdk import Client
from statewright.storage import migrate
from tests.builders import Json, a_workflow, manual
from tests.commands import CommandRunner
from tests.database import connected, temporary_database
from tests.integration.ops.builders import ops_api, walk
from tests.service import Api, RunningService, a_token, done, refused

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
