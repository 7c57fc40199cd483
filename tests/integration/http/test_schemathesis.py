"""Whatever a client that has read the OpenAPI document may send: no failure of ours, nothing that is not documented.

schemathesis makes requests from the document as it is served, valid and invalid ones: its examples, the borders of
every schema, and random ones from a fixed seed. So that they get further than 404, path parameters are narrowed to
models, entities, messages and jobs that exist, and to some that do not; what deletes gets models of its own.

``STATEWRIGHT_FUZZ_EXAMPLES`` is how many random requests each operation gets; a few by default, for the sake of time.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.builders import SAMPLE, Json, a_workflow, manual, when
from tests.service import Api, RunningService, done

FUZZ_EXAMPLES = os.environ.get("STATEWRIGHT_FUZZ_EXAMPLES", "2")
WITHIN_S = 300
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
NOBODY = "00000000-0000-1000-8000-000000000000"
AT_THE_ROOT = "^/(v1/|ops/v1)"
"""The step engine and the operations API are not below the context path."""
UNFINISHED = "/account/subscriptions"
"""Documented to answer 501 (docs/reference/service.md#openapi)."""
OF_HTTP = ("Content-Type", "Content-Length", "Authorization")
"""Headers that the client itself gives their true values."""

LIFECYCLE = a_workflow(New=[manual("GO", to="Gone")], Gone=[manual("BACK", to="New")])
SEARCHED = when("$.year", "GREATER_THAN", 1901)

DESTRUCTIVE = {
    ("delete", "/entity/{entityId}"): {"entityId": "doomed entity"},
    ("delete", "/entity/{entityName}/{modelVersion}"): {"entityName": "doomed"},
    ("delete", "/model/{entityName}/{modelVersion}"): {"entityName": "draft"},
    ("put", "/model/{entityName}/{modelVersion}/unlock"): {"entityName": "doomed"},
    ("put", "/model/{entityName}/{modelVersion}/lock"): {"entityName": "draft"},
    ("put", "/model/{entityName}/{modelVersion}/unique-keys"): {"entityName": "draft"},
    ("post", "/model/{entityName}/{modelVersion}/workflow/import"): {"entityName": "draft"},
    ("post", "/model/import/{dataFormat}/{converter}/{entityName}/{modelVersion}"): {"entityName": "draft"},
    ("delete", "/message/{messageId}"): {"messageId": "doomed message"},
}
"""What else these operations are given, so that the others still find what they are about."""


def test_random_clients_meet_only_what_is_documented(service: RunningService, api: Api, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(narrowed(api, done(Api(service.root).get("/openapi.json")))))
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("run", str(document), "--url", api.url, "--header", f"Authorization: Bearer {api.token}"),
        *("--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS), "--exclude-path", UNFINISHED),
        *("--exclude-path-regex", AT_THE_ROOT),
        *("--max-examples", FUZZ_EXAMPLES, "--generation-deterministic", "--continue-on-failure", "--no-shrink"),
        *("--suppress-health-check", "all", "--workers", "1", "--warnings", "off", "--no-color"),
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def narrowed(api: Api, document: Json) -> Json:
    """The document with path parameters that name what there is."""
    for name in ("prize", "doomed"):
        api.a_model(LIFECYCLE, model=f"{name}/1")
        done(api.post(f"/model/{name}/1/changeLevel/STRUCTURAL"))
    api.import_model("draft/1")
    entity, doomed = api.create().id, api.create().id
    transaction = api.update(entity, SAMPLE, fire="GO").transaction
    messages = [
        done(api.post("/message/new/greeting", {"payload": {"a": 1}}, content_type="application/json"))
        for _ in range(2)
    ]
    job = done(api.post("/search/async/prize/1", SEARCHED))
    known: dict[str, list[Json]] = {
        "entityName": ["prize", "nobody's"],
        "modelVersion": [1, 2],
        "entityId": [entity, NOBODY],
        "messageId": [messages[0][0]["entityIds"][0], NOBODY],
        "transactionId": [transaction, NOBODY],
        "jobId": [job, NOBODY],
        "transition": ["GO", "BACK", "NOWHERE"],
    }
    instead = {"doomed entity": doomed, "doomed message": messages[1][0]["entityIds"][0]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            others = DESTRUCTIVE.get((method, path), {})
            operation["responses"].pop("default", None)  # else every status would be documented
            operation["parameters"] = [one for one in operation["parameters"] if one["name"] not in OF_HTTP]
            for parameter in operation["parameters"]:
                if (name := parameter["name"]) in known and parameter["in"] == "path":
                    first = instead.get(others[name], others[name]) if name in others else known[name][0]
                    parameter["schema"] = {"enum": [first, known[name][-1]]}
                    parameter["example"] = first
    return document
