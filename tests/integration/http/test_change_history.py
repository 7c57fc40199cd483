"""The change history of an entity and whom it names (docs/reference/entities.md#change-history,
docs/reference/entities.md#attribution).
"""

import re

import pytest

from tests.builders import a_workflow, automated, manual
from tests.service import Api, RunningService, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"


def test_an_entry_is_exactly_as_specified(api: Api) -> None:
    api.a_model()
    saved = api.create()
    created = api.read(saved.id)["meta"]["creationDate"]
    assert api.get(f"/entity/{saved.id}/changes").text == (
        '[{"attributedKind":"user","changeType":"CREATE","executedBy":{"id":"alice","kind":"user"},'
        f'"timeOfChange":"{created}","transactionId":"{saved.transaction}","user":"alice"}}]\n'
    )


def test_there_is_one_entry_per_committed_version_newest_first(api: Api) -> None:
    api.a_model(a_workflow(New=[automated("TAKE", to="Taken")], Taken=[manual("GO", to="Taken")]))
    created = api.create()
    writes = [created, api.update(created.id), api.update(created.id, fire="GO"), api.update(created.id)]
    refused(api.put(f"/entity/JSON/{created.id}/NOPE", {}), 404, "TRANSITION_NOT_FOUND")
    history = done(api.get(f"/entity/{created.id}/changes"))
    assert [change["transactionId"] for change in history] == [write.transaction for write in reversed(writes)]
    assert [change["changeType"] for change in history] == ["UPDATE", "UPDATE", "UPDATE", "CREATE"]


def test_times_of_successive_changes_strictly_rise(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    for _ in range(30):
        api.update(entity)
    times = [change["timeOfChange"] for change in done(api.get(f"/entity/{entity}/changes"))]
    padded = [re.sub(r"(?:\.(\d+))?Z", lambda m: f".{(m[1] or ''):0<6}Z", time) for time in times]
    assert padded == sorted(set(padded), reverse=True)
    assert len(padded) == 31


def test_the_history_up_to_an_instant_includes_it(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    api.update(entity)
    second, first = done(api.get(f"/entity/{entity}/changes"))

    def until(instant: str) -> list[str]:
        return [change["changeType"] for change in done(api.get(f"/entity/{entity}/changes?pointInTime={instant}"))]

    assert until(second["timeOfChange"]) == ["UPDATE", "CREATE"]
    assert until(first["timeOfChange"]) == ["CREATE"]
    assert until("2000-01-01") == []


@pytest.mark.parametrize("query", ["", "?pointInTime=2000-01-01", "?pointInTime=2999-01-01"])
def test_an_entity_that_never_was_has_no_history(api: Api, query: str) -> None:
    problem = refused(api.get(f"/entity/{UNKNOWN}/changes{query}"), 404, "ENTITY_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND", "entityId": UNKNOWN}


def test_at_most_a_thousand_entries_are_returned(service: RunningService, api: Api) -> None:
    api.a_model()
    entity = api.create().id
    for _ in range(1003):
        api.update(entity, {})
    history = done(api.get(f"/entity/{entity}/changes"))
    assert len(history) == 1000
    assert {change["changeType"] for change in history} == {"UPDATE"}


@pytest.mark.parametrize(
    ("claims", "who"),
    [
        ({}, {"id": "alice", "kind": "user"}),
        ({"user_roles": []}, {"id": "alice", "kind": "user"}),
        ({"user_roles": None, "scopes": ["ROLE_M2M"]}, {"id": "alice", "kind": "service"}),
        ({"user_roles": None}, {"id": "alice", "kind": "user"}),
        ({"caas_user_id": None, "sub": "subject"}, {"id": "subject", "kind": "user"}),
    ],
)
def test_the_claims_of_a_token_say_who_it_was(
    service: RunningService, tenant: str, claims: dict[str, object], who: dict[str, str]
) -> None:
    caller = service.api(tenant, **claims)
    caller.a_model()
    entity = caller.create().id
    [change] = done(caller.get(f"/entity/{entity}/changes"))
    assert change["executedBy"] == who
    assert (change["user"], change["attributedKind"]) == (who["id"], who["kind"])


def test_each_version_names_its_own_writer(service: RunningService, api: Api, tenant: str) -> None:
    api.a_model()
    entity = api.create().id
    service.api(tenant, "bob").update(entity)
    robot = service.api(tenant, "robot", user_roles=None, scopes=["ROLE_M2M"])
    robot.update(entity)
    history = done(api.get(f"/entity/{entity}/changes"))
    assert [(change["user"], change["attributedKind"]) for change in history] == [
        ("robot", "service"),
        ("bob", "user"),
        ("alice", "user"),
    ]
