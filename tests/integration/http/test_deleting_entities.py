"""Deleting entities, and what stays readable (docs/reference/entities.md#delete-one,
docs/reference/entities.md#change-history).
"""

import re

from tests.builders import a_workflow, manual
from tests.service import Api, RunningService, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"


def test_a_deletion_answers_with_id_model_and_a_transaction_of_its_own(api: Api) -> None:
    api.a_model(model="stock-item/2")
    saved = api.create(model="stock-item/2")
    response = api.delete(f"/entity/{saved.id}")
    assert re.fullmatch(
        rf'{{"id":"{saved.id}","modelKey":{{"name":"stock-item","version":2}},"transactionId":"[0-9a-f-]{{36}}"}}\n',
        response.text,
    )
    assert response.json()["transactionId"] != saved.transaction


def test_a_deleted_entity_is_gone_from_reads_and_lists(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    done(api.delete(f"/entity/{entity}"))
    problem = refused(api.get(f"/entity/{entity}"), 404, "ENTITY_NOT_FOUND")
    assert problem["properties"]["entityId"] == entity
    assert done(api.get("/entity/prize/1")) == []
    refused(api.put(f"/entity/JSON/{entity}", "{}"), 404, "ENTITY_NOT_FOUND")
    refused(api.get(f"/entity/{entity}/transitions"), 404, "ENTITY_NOT_FOUND")


def test_nothing_is_deleted_twice(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    done(api.delete(f"/entity/{entity}"))
    for missing in (entity, UNKNOWN):
        problem = refused(api.delete(f"/entity/{missing}"), 404, "ENTITY_NOT_FOUND")
        assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND", "entityId": missing}


def test_if_match_does_not_concern_deletions(api: Api) -> None:
    api.a_model()
    done(api.delete(f"/entity/{api.create().id}", If_Match=UNKNOWN))


def test_no_workflow_runs_on_deletion(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="New")]))
    saved = api.create()
    deletion = done(api.delete(f"/entity/{saved.id}"))["transactionId"]
    assert api.events(saved.id, deletion) == []


def test_the_history_of_a_deleted_entity_stays_with_the_deletion_on_top(api: Api) -> None:
    api.a_model()
    created = api.create()
    updated = api.update(created.id)
    deleted = done(api.delete(f"/entity/{created.id}"))["transactionId"]
    history = done(api.get(f"/entity/{created.id}/changes"))
    assert [change["changeType"] for change in history] == ["DELETE", "UPDATE", "CREATE"]
    assert [change.get("transactionId") for change in history[1:]] == [updated.transaction, created.transaction]
    assert history[0].get("transactionId") in {None, deleted}
    assert api.read(created.id, f"?transactionId={updated.transaction}")["meta"]["id"] == created.id


def test_who_deleted_is_recorded_not_who_wrote_last(api: Api, tenant: str, service: RunningService) -> None:
    api.a_model()
    entity = api.create().id
    done(service.api(tenant, "bob").delete(f"/entity/{entity}"))
    deletion, creation = done(api.get(f"/entity/{entity}/changes"))
    assert (deletion["user"], deletion["executedBy"]) == ("bob", {"id": "bob", "kind": "user"})
    assert creation["user"] == "alice"
