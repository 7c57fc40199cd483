"""Versions of entities, and what changed between them (docs/reference/operations.md#versions)."""

import pytest

from statewright.jsonval.patches import apply_json_patch
from tests.builders import a_workflow, manual
from tests.integration.ops.builders import ops_api, walk
from tests.service import Api, RunningService, Saved, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
DOCUMENTS = [{"year": year, "lines": list(range(year % 4)), "note": f"of {year}"} for year in range(2000, 2006)]


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
        {"op": "add", "path": "/lines/0", "value": 0},
        {"op": "replace", "path": "/note", "value": "of 2005"},
        {"op": "replace", "path": "/year", "value": 2005},
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
