"""Versions of entities, and what changed between them (docs/reference/operations.md#versions)."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from statewright.cli.main import program
from statewright.jsonval.patches import apply_json_patch
from statewright.net import ulid_to_uuid
from tests.builders import Json, a_processor, a_workflow, manual
from tests.commands import CommandRunner
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, Saved, a_token, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
COUNT = int(os.environ.get("STATEWRIGHT_TEST_VERSIONS", "6"))
"""Versions of the entity of each test: 1,000 replay a history of that length."""
DOCUMENTS = [{"year": year, "lines": list(range(year % 4)), "note": f"of {year}"} for year in range(2000, 2000 + COUNT)]


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


@pytest.fixture
def saved(api: Api) -> list[Saved]:
    """An entity in six versions, in the order in which they were written; the last one in another state."""
    life = a_workflow(HERE=[manual("STAY", to="HERE"), manual("GO", to="THERE")], THERE=[])
    api.a_model(life, sample={"year": 1, "lines": [1], "note": "n"})
    created = api.create(DOCUMENTS[0])
    updated = [api.update(created.id, document) for document in DOCUMENTS[1:-1]]
    return [created, *updated, api.update(created.id, DOCUMENTS[-1], fire="GO")]


def test_versions_are_listed_newest_first(ops: Api, saved: list[Saved]) -> None:
    items = walk(ops, f"/entities/{saved[0].id}/versions", limit=4)
    assert [item["transactionId"] for item in items] == [each.transaction for each in reversed(saved)]
    newest, second, *_, first = items
    assert (newest["current"], newest["until"], newest["state"], newest["transition"]) == (True, None, "THERE", "GO")
    assert (second["until"], second["current"]) == (newest["at"], False)
    assert (first["changeType"], newest["changeType"]) == ("CREATE", "UPDATE")
    assert first["attributedTo"] == {"id": "alice", "kind": "user"}


def test_filters_select_versions(ops: Api, saved: list[Saved]) -> None:
    path = f"/entities/{saved[0].id}/versions"
    assert len(done(ops.get(f"{path}?state=THERE"))["items"]) == 1
    third = done(ops.get(path))["items"][3]["at"]
    assert len(done(ops.get(f"{path}?atTo={third}"))["items"]) == 2
    assert done(ops.get(f"{path}?state=NOWHERE")) == {"items": []}


def test_a_version_has_its_document(ops: Api, saved: list[Saved]) -> None:
    version = done(ops.get(f"/entities/{saved[2].id}/versions/{saved[2].transaction}"))
    assert (version["document"], version["transactionId"]) == (DOCUMENTS[2], saved[2].transaction)


def test_the_patches_replay_the_history(ops: Api, saved: list[Saved]) -> None:
    document = {}
    for older, newer, expected in zip([None, *saved], saved, DOCUMENTS, strict=False):
        query = f"to={newer.transaction}" + (f"&from={older.transaction}" if older else "")
        found = done(ops.get(f"/entities/{newer.id}/diff?{query}"))
        document = apply_json_patch(document, found["patch"])
        assert document == expected
        assert (found["from"], found["to"]) == (older.transaction if older else None, newer.transaction)


def test_the_last_change_is_told_by_default(ops: Api, saved: list[Saved]) -> None:
    found = done(ops.get(f"/entities/{saved[0].id}/diff"))
    assert found["state"] == {"from": "HERE", "to": "THERE"}
    assert found["patch"] == [
        {"op": "add", "path": f"/lines/{len(DOCUMENTS[-2]['lines'])}", "value": len(DOCUMENTS[-2]["lines"])},
        {"op": "replace", "path": "/note", "value": DOCUMENTS[-1]["note"]},
        {"op": "replace", "path": "/year", "value": DOCUMENTS[-1]["year"]},
    ]


def test_instants_name_versions(ops: Api, saved: list[Saved]) -> None:
    items = done(ops.get(f"/entities/{saved[0].id}/versions"))["items"]
    query = f"from={items[-1]['at']}&to={items[-2]['at']}"
    assert done(ops.get(f"/entities/{saved[0].id}/diff?{query}"))["to"] == saved[1].transaction


def test_a_deletion_is_the_last_version(api: Api, ops: Api, saved: list[Saved]) -> None:
    entity = saved[0].id
    done(api.delete(f"/entity/{entity}"))
    newest = done(ops.get(f"/entities/{entity}/versions"))["items"][0]
    assert (newest["changeType"], newest["current"], newest["until"]) == ("DELETE", False, None)
    assert done(ops.get(f"/entities/{entity}/versions/{newest['transactionId']}"))["document"] is None
    removed = [operation["path"] for operation in done(ops.get(f"/entities/{entity}/diff"))["patch"]]
    assert removed == ["/lines", "/note", "/year"]


def test_unknown_and_foreign_ones_are_answered_alike(
    ops: Api, saved: list[Saved], service: RunningService, tenant: str
) -> None:
    other, entity = ops_api(service, f"{tenant}-x"), saved[0].id
    for path in (f"/entities/{entity}/versions", f"/entities/{entity}/diff"):
        assert refused(other.get(path), 404, "ENTITY_NOT_FOUND")["instance"] == f"/ops/v1{path}"
    refused(ops.get(f"/entities/{UNKNOWN}/versions"), 404, "ENTITY_NOT_FOUND")
    refused(ops.get(f"/entities/{entity}/versions/{UNKNOWN}"), 404, "VERSION_NOT_FOUND")
    refused(ops.get(f"/entities/{entity}/diff?from=1999-01-01T00:00:00Z"), 404, "VERSION_NOT_FOUND")
    problem = refused(ops.get(f"/entities/{entity}/diff?from=never"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "from"


# Restoring.


@pytest.fixture
def operator(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


def restore(operator: Api, entity: str, version: str, **members: Json) -> httpx.Response:
    return operator.post(f"/entities/{entity}/restore", {"version": version, "reason": "wrong import", **members})


def test_a_former_document_becomes_the_next_version(api: Api, operator: Api, saved: list[Saved]) -> None:
    """The workflow is run, and the state stays what it makes of it."""
    answer = done(restore(operator, saved[0].id, saved[0].transaction))
    assert answer["restored"] is True
    entity = api.read(saved[0].id)
    assert (entity["data"], entity["meta"]["state"]) == (DOCUMENTS[0], "THERE")
    assert entity["meta"]["transactionId"] == answer["transactionId"]
    assert apply_json_patch(DOCUMENTS[-1], answer["patch"]) == DOCUMENTS[0]
    assert len(api.get(f"/entity/{saved[0].id}/changes").json()) == len(saved) + 1
    events = [event["eventType"] for event in api.events(saved[0].id, answer["transactionId"])]
    assert "STATE_MACHINE_FINISH" in events
    [act] = done(operator.get("/audit?action=entity.restore"))["items"]
    assert (act["actor"]["id"], act["reason"], act["target"]["id"]) == ("olga", "wrong import", saved[0].id)
    assert act["details"]["version"] == saved[0].transaction


def test_only_what_is_at_the_paths_is_taken(api: Api, operator: Api, saved: list[Saved]) -> None:
    """What that version lacks is removed, if it is there at all."""
    entity = saved[0].id
    answer = done(restore(operator, entity, saved[3].transaction, paths=["/lines", "/unknown"]))
    assert api.read(entity)["data"] == {**DOCUMENTS[-1], "lines": DOCUMENTS[3]["lines"]}
    assert {each["path"].split("/")[1] for each in answer["patch"]} == {"lines"}
    problem = refused(restore(operator, entity, saved[0].transaction, paths=["year"]), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "/paths"


def test_an_equal_document_makes_no_version(api: Api, operator: Api, saved: list[Saved]) -> None:
    answer = done(restore(operator, saved[0].id, "current"))
    assert answer == {"transactionId": saved[-1].transaction, "restored": False, "patch": []}
    assert len(api.get(f"/entity/{saved[0].id}/changes").json()) == len(saved)
    assert done(operator.get("/audit?action=entity.restore"))["items"] == []


def test_what_an_update_is_refused_for_a_restoration_is_refused_for(
    api: Api, operator: Api, saved: list[Saved]
) -> None:
    entity, first, before = saved[0].id, saved[0].transaction, api.read(saved[0].id)
    refused(restore(operator, entity, first, ifMatch=first), 412, "ENTITY_MODIFIED")
    refused(restore(operator, entity, first, transition="NONE"), 404, "TRANSITION_NOT_FOUND")
    refused(restore(operator, entity, UNKNOWN), 404, "VERSION_NOT_FOUND")
    refused(restore(operator, UNKNOWN, first), 404, "ENTITY_NOT_FOUND")
    refused(restore(operator, entity, "soon"), 400, "BAD_REQUEST")
    assert api.read(entity) == before
    assert api.delete(f"/entity/{entity}").status_code == 200
    refused(restore(operator, entity, first), 404, "ENTITY_NOT_FOUND")


def test_a_document_that_does_not_fit_its_model_is_not_restored(
    service: RunningService, api: Api, operator: Api, tenant: str
) -> None:
    """A processor has made it, whose documents are stored as they are."""
    mark = manual("MARK", to="HERE", processors=[a_processor()])
    api.a_model(a_workflow(HERE=[mark]), sample={"year": 1})
    entity = api.create({"year": 1}).id
    with a_node(service, tenant, "node") as node, ThreadPoolExecutor() as clients:
        marking = clients.submit(api.update, entity, {"year": 2}, fire="MARK")
        node.return_next({"year": "unknown"})
        marked = marking.result(PATIENCE_S)
    assert api.read(entity)["data"] == {"year": "unknown"}
    api.update(entity, {"year": 3})
    before = api.read(entity)
    assert restore(operator, entity, marked.transaction).status_code == 400
    assert api.read(entity) == before


def test_a_document_whose_unique_key_has_been_taken_is_not_restored(api: Api, operator: Api) -> None:
    api.import_model(sample={"no": 1, "note": "n"})
    key = {"id": "by-no", "fields": ["$.no"]}
    assert api.put("/model/prize/1/unique-keys", {"uniqueKeys": [key]}).is_success
    api.lock()
    created = api.create({"no": 1, "note": "first"})
    api.update(created.id, {"no": 2, "note": "moved"})
    api.create({"no": 1, "note": "heir"})
    refused(restore(operator, created.id, created.transaction), 409, "UNIQUE_VIOLATION")
    done(restore(operator, created.id, created.transaction, paths=["/note"]))
    assert api.read(created.id)["data"] == {"no": 2, "note": "first"}


def test_a_repeated_restoration_is_done_once(api: Api, operator: Api, saved: list[Saved]) -> None:
    entity, body = saved[0].id, {"version": saved[0].transaction, "reason": "wrong import"}
    first, again = (operator.post(f"/entities/{entity}/restore", body, **{"Idempotency-Key": "once"}) for _ in range(2))
    assert done(again) == done(first)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(api.get(f"/entity/{entity}/changes").json()) == len(saved) + 1


def test_of_a_restoration_and_an_update_at_once_one_wins(api: Api, operator: Api, saved: list[Saved]) -> None:
    """Both begin with the version that the other one replaces."""
    entity, versions = saved[0].id, len(saved)
    with ThreadPoolExecutor() as clients:
        for former, document in ((saved[0], DOCUMENTS[1]), (saved[3], DOCUMENTS[2])):  # all of them differ
            current = api.read(entity)["meta"]["transactionId"]
            restoring = clients.submit(restore, operator, entity, former.transaction, ifMatch=current)
            updating = clients.submit(api.put, f"/entity/JSON/{entity}", document, If_Match=current)
            answers = [restoring.result(PATIENCE_S), updating.result(PATIENCE_S)]
            won = [answer for answer in answers if answer.status_code == 200]
            assert [answer.status_code in (409, 412) for answer in answers].count(True) == 2 - len(won)
            assert len(won) == 1
            versions += 1
            assert len(api.get(f"/entity/{entity}/changes").json()) == versions


def test_entities_of_built_in_models_are_read_and_not_restored(
    service: RunningService, tenant: str, operator: Api
) -> None:
    v1 = replace(operator, url=f"{service.root}/v1")
    steps = [{"id": "w", "name": "w", "type": "WAIT", "nextStep": "z"}, {"id": "z", "name": "z", "type": "END"}]
    assert v1.post("/definitions", {"id": "d", "name": "d", "steps": steps}).is_success
    instance = ulid_to_uuid(v1.post("/instances", {"definitionId": "d"}).json()["id"])
    [version] = done(operator.get(f"/entities/{instance}/versions"))["items"]
    refused(restore(operator, str(instance), version["transactionId"]), 403, "FORBIDDEN")


def test_the_command_restores_and_shows_what_changed(
    service: RunningService, tenant: str, api: Api, saved: list[Saved]
) -> None:
    there = ["--url", service.root, "--token", a_token(tenant, "olga", user_roles=["ROLE_OPERATOR"])]
    words = ["ops", "restore", saved[0].id, saved[0].transaction, "--reason", "wrong import", "--path", "/note", *there]
    shown = CommandRunner().invoke(program, words)
    assert (shown.exit_code, shown.output) == (0, 'replace /note "of 2000"\n')
    assert api.read(saved[0].id)["data"] == {**DOCUMENTS[-1], "note": "of 2000"}
    again = CommandRunner().invoke(program, words)
    assert (again.exit_code, "nothing was written" in again.output) == (0, True)
    stale = CommandRunner().invoke(program, [*words, "--if-match", saved[0].transaction])
    assert (stale.exit_code, "ENTITY_MODIFIED" in stale.output) == (1, True)
