"""Imports of workflows are in the trail of operators: who, when, mode, hash (docs/reference/operations.md#audit)."""

import hashlib
import json

from statewright.cli.main import program
from tests.builders import a_workflow, manual
from tests.commands import CommandRunner
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, a_token, done, refused

PATH = "/model/prize/1/workflow/import"


def test_an_import_is_recorded_with_mode_and_hash(service: RunningService, tenant: str, api: Api) -> None:
    api.import_model()
    body = json.dumps({"importMode": "REPLACE", "workflows": [a_workflow(New=[manual("GO", to="Gone")], Gone=[])]})
    done(api.post(PATH, body))
    [act] = done(ops_api(service, tenant, "ROLE_OPERATOR").get("/audit?action=workflow.import"))["items"]
    assert act["actor"] == {"id": "alice", "kind": "user"}
    assert act["target"] == {"kind": "MODEL", "id": "prize/1"}
    assert act["details"] == {
        "mode": "REPLACE",
        "hash": f"sha256:{hashlib.sha256(body.encode()).hexdigest()}",
        "workflows": 1,
        "revision": 1,
    }
    told = CommandRunner().invoke(
        program,
        ["ops", "audit", "--action", "workflow.import"],
        env={"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant, user_roles=["ROLE_OPERATOR"])},
    )
    assert told.exit_code == 0, told.output
    assert act["details"]["hash"] in told.output


def test_what_is_not_imported_is_not_recorded(service: RunningService, tenant: str, api: Api) -> None:
    api.import_model()
    flow = a_workflow(New=[manual("GO", to="Gone")], Gone=[])
    done(api.post(f"{PATH}?dryRun=true", {"importMode": "MERGE", "workflows": [flow]}))
    refused(api.post(PATH, {"importMode": "NEVER", "workflows": [flow]}), 400, "BAD_REQUEST")
    assert done(ops_api(service, tenant, "ROLE_OPERATOR").get("/audit"))["items"] == []
