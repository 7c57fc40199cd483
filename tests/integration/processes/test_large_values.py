"""Large values of instances, in each language (docs/adr/0029-large-values-stay-out-of-documents.md)."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import asyncpg
import pytest

from statewright.jsonval.codec import encode
from statewright.net import ulid_to_uuid
from statewright.storage.processes import instances as stored
from tests.builders import Json
from tests.database import Template
from tests.integration.flows.conftest import done
from tests.integration.steps.conftest import definition, end, service_task
from tests.service import Api, RunningService, hosted

ROWS: Json = [{"n": n, "text": "x" * 80} for n in range(3_000)]
WORK = ("a", "b", "c", "d", "e")
PLAYBOOK = "metadata: {name: large}\nworkflow:\n" + "\n".join(
    f"- {{step: {name}, tool: {{kind: {name}}}, next: {{arcs: [{{step: {then}}}]}}}}"
    for name, then in zip(WORK, (*WORK[1:], "last"), strict=True)
)


@dataclass(frozen=True)
class Kind:
    """How a chain of five tasks for workers is told in a language, with a large value from its start to its end."""

    definitions: str
    definition: Json
    instances: str
    start: Json
    job_prefix: str
    read_rows: Callable[[Json], Json]
    result: Json
    parts: int = 1
    """Values that are stored apart: the log of an execution has its workload as a whole, too."""

    def list_apart(self, api: Api) -> Json:
        """The first item of the list of instances."""
        found = done(api.get(self.instances))
        return (found if isinstance(found, list) else found["items"])[0]


STEPS = Kind(
    definitions="/v1/definitions",
    definition=definition(
        "large", *[service_task(name, then) for name, then in zip(WORK, (*WORK[1:], "z"), strict=True)], end("z")
    ),
    instances="/v1/instances",
    start={"definitionId": "large", "variables": {"rows": ROWS, "n": 1}},
    job_prefix="",
    read_rows=lambda instance: instance["variables"]["rows"],
    result={"done": True},
)
FLOWS = Kind(
    definitions="/v1/flows/definitions",
    definition={"id": "large", "source": " → ".join(WORK)},
    instances="/v1/flows/instances",
    start={"definitionId": "large", "input": {"rows": ROWS, "n": 1}},
    job_prefix="",
    read_rows=lambda instance: instance["input"]["rows"],
    result={"rows": ROWS},
)
PLAYBOOKS = Kind(
    definitions="/v1/playbooks",
    definition=f"{PLAYBOOK}\n- {{step: last}}\n".encode(),
    instances="/v1/executions",
    start={"path": "large", "workload": {"rows": ROWS, "n": 1}},
    job_prefix="playbook:",
    read_rows=lambda instance: instance["workload"]["rows"],
    result={"status": "ok", "result": {"done": True}},
    parts=2,
)


def do_next(api: Api, kind: Kind, name: str) -> Json:
    """The job of a task, done."""
    [job] = done(api.post("/v1/jobs/poll", {"workerId": "w", "jobTypes": [f"{kind.job_prefix}{name}"]}))["jobs"]
    body = {"workerId": "w", "variables": kind.result}
    assert api.post(f"/v1/jobs/{job['id']}/complete", body).status_code == 204
    return job


async def fetch_sizes(url: str, entity: str) -> tuple[list[int], list[str]]:
    """Of the versions of an entity, and the names of its parts that values of documents are."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT length(document::text) AS chars FROM entity_history WHERE id = $1"
            " UNION ALL SELECT length(document::text) FROM entity WHERE id = $1 ORDER BY chars DESC",
            entity,
        )
        parts = await connection.fetch("SELECT name FROM process_part WHERE instance = $1", entity)
        return [row["chars"] for row in rows], [row["name"] for row in parts]
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", [STEPS, FLOWS, PLAYBOOKS], ids=["steps", "flows", "playbooks"])
async def test_a_large_value_that_lasts_is_stored_once_and_read_everywhere(
    database_template: Template, kind: Kind
) -> None:
    async with database_template.clone() as url:
        with hosted(nullcontext(url)) as service:
            api = Api(service.root, service.api("large").token)
            done(api.post(kind.definitions, kind.definition), 201)
            instance = done(api.post(kind.instances, kind.start), 201)
            for name in WORK[:3]:
                do_next(api, kind, name)
            shown = done(api.get(f"{kind.instances}/{instance['id']}"))
            assert kind.read_rows(shown) == ROWS
            assert kind.read_rows(kind.list_apart(api)) == ROWS
        entity = str(ulid_to_uuid(instance["id"]))
        sizes, names = await fetch_sizes(url, entity)
        assert (len(sizes), sum(size > 65_536 for size in sizes), len(names)) == (4, 1, kind.parts)
        with hosted(nullcontext(url)) as service:  # which remembers nothing of it
            api = Api(service.root, service.api("large").token)
            for name in WORK[3:]:
                do_next(api, kind, name)
            shown = done(api.get(f"{kind.instances}/{instance['id']}"))
            assert kind.read_rows(shown) == ROWS
            assert "COMPLETED" in (shown["status"], shown.get("state"))
            sizes, names = await fetch_sizes(url, entity)
            assert (len(sizes), sum(size > 65_536 for size in sizes), len(names)) == (6, 1, kind.parts)
            assert list_left_out(service, entity) <= {*names}


@pytest.mark.parametrize("kind", [FLOWS, PLAYBOOKS], ids=["flows", "playbooks"])
def test_lists_abridge_instances_whose_values_are_too_much_together(
    service: RunningService, tenant: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(service.root, service.api(tenant).token)
    done(api.post(kind.definitions, kind.definition), 201)
    for _ in range(2):
        done(api.post(kind.instances, kind.start), 201)
        do_next(api, kind, "a")
        do_next(api, kind, "b")
    monkeypatch.setattr(stored, "MAX_LIST_BYTES", len(encode(ROWS)) * 3 // 2)
    newest, oldest = done(api.get(kind.instances))["items"]
    assert kind.read_rows(newest) == ROWS
    assert not {"input", "workload"} & oldest.keys()


def list_left_out(service: RunningService, entity: str) -> set[str]:
    """The one value that each version but the first leaves out."""
    api = service.api("large")
    found = set[str]()
    for version in api.read(entity, "/changes"):
        data = api.read(entity, f"?transactionId={version['transactionId']}")["data"]
        found |= {name for part in data.get("parts", ()) for name in part["names"]}
    assert len(found) == 1
    return found
