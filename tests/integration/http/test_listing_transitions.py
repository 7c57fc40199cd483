"""Names of the transitions of an entity's state (docs/reference/entities.md#list-transitions,
docs/reference/entities.md#list-transitions, decision W9).
"""

import pytest

from tests.builders import a_workflow, automated, judged_by, manual, when
from tests.service import Api, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
STEPS = a_workflow(
    New=[
        manual("APPROVE", to="End", criterion=when("$.year", "EQUALS", 1)),
        manual("NEVER", to="End", disabled=True),
        {"name": "LATER", "next": "End", "schedule": {"delayMs": 3_600_000}},
        automated("AUTO", to="End", criterion=when("$.year", "LESS_THAN", 0)),
    ],
    End=[],
)


@pytest.fixture
def entity(api: Api) -> str:
    """An entity in the state New of ``STEPS``."""
    api.a_model(STEPS)
    return api.create().id


def test_all_transitions_of_the_state_are_named_in_order_whatever_their_kind(api: Api, entity: str) -> None:
    response = api.get(f"/entity/{entity}/transitions")
    assert response.text == '["APPROVE","NEVER","LATER","AUTO"]\n'
    assert response.headers["content-type"] == "application/json"


def test_a_state_without_transitions_has_none(api: Api, entity: str) -> None:
    api.update(entity, {"year": 1}, fire="APPROVE")
    assert api.get(f"/entity/{entity}/transitions").text == "[]\n"


def test_the_older_form_says_the_same_whatever_class_it_names(api: Api, entity: str) -> None:
    for name in ("Prize.1", "com.acme.Prize.7", "a.b"):
        path = f"/platform-api/entity/fetch/transitions?entityClass={name}&entityId={entity}"
        assert api.get(path).text == '["APPROVE","NEVER","LATER","AUTO"]\n'


def test_the_past_is_listed_by_instant_and_by_transaction(api: Api, entity: str) -> None:
    created = api.read(entity)["meta"]
    api.update(entity, {"year": 1}, fire="APPROVE")
    for query in (f"pointInTime={created['creationDate']}", f"transactionId={created['transactionId']}"):
        assert done(api.get(f"/entity/{entity}/transitions?{query}")) == ["APPROVE", "NEVER", "LATER", "AUTO"]


def test_listing_leaves_no_trace_and_asks_no_member(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="New", criterion=judged_by("nobody", tags="absent"))]))
    saved = api.create()
    before = api.get(f"/audit/entity/{saved.id}?limit=1000").text
    assert done(api.get(f"/entity/{saved.id}/transitions")) == ["GO"]
    assert api.get(f"/audit/entity/{saved.id}?limit=1000").text == before


@pytest.mark.parametrize("text", [UNKNOWN, "x", "%20", "no-uuid-at-all"])
def test_whatever_is_no_known_entity_is_not_found(api: Api, text: str) -> None:
    problem = refused(api.get(f"/entity/{text}/transitions"), 404, "ENTITY_NOT_FOUND")
    assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND"}
    path = f"/platform-api/entity/fetch/transitions?entityClass=A.1&entityId={text}"
    assert refused(api.get(path), 404, "ENTITY_NOT_FOUND")["properties"] == {"errorCode": "ENTITY_NOT_FOUND"}


@pytest.mark.parametrize(
    "query",
    ["", "entityClass=A.1", f"entityId={UNKNOWN}", f"entityClass=&entityId={UNKNOWN}", "entityClass=A.1&entityId="],
)
def test_the_older_form_needs_both_parameters(api: Api, query: str) -> None:
    problem = refused(api.get(f"/platform-api/entity/fetch/transitions?{query}"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: entityClass and entityId are required"


@pytest.mark.parametrize("name", ["Offer", "Offer."])
def test_the_older_form_needs_a_version_in_the_class(api: Api, name: str) -> None:
    path = f"/platform-api/entity/fetch/transitions?entityClass={name}&entityId={UNKNOWN}"
    problem = refused(api.get(path), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: entityClass must be in format Name.Version (e.g., Offer.1)"


def test_both_scopes_at_once_are_refused(api: Api, entity: str) -> None:
    query = f"pointInTime=2024-01-01T00:00:00Z&transactionId={UNKNOWN}"
    refused(api.get(f"/entity/{entity}/transitions?{query}"), 400, "BAD_REQUEST")
    refused(api.get(f"/entity/{UNKNOWN}/transitions?{query}"), 400, "BAD_REQUEST")


def test_an_unknown_transaction_is_a_bad_request(api: Api, entity: str) -> None:
    refused(api.get(f"/entity/{entity}/transitions?transactionId={UNKNOWN}"), 400, "BAD_REQUEST")
    refused(api.get(f"/entity/{UNKNOWN}/transitions?transactionId={UNKNOWN}"), 404, "ENTITY_NOT_FOUND")


def test_a_bare_date_is_no_instant_here(api: Api, entity: str) -> None:
    """Decision S18; elsewhere it is midnight UTC."""
    older = f"/platform-api/entity/fetch/transitions?entityClass=A.1&entityId={entity}&"
    for path in (f"/entity/{entity}/transitions?", f"/entity/{UNKNOWN}/transitions?", older):
        problem = refused(api.get(f"{path}pointInTime=2020-01-01"), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "pointInTime"
    refused(api.get(f"/entity/{entity}?pointInTime=2020-01-01"), 404, "ENTITY_NOT_FOUND")
    assert done(api.get(f"/entity/{entity}/transitions?pointInTime=2999-01-01T00:00:00Z"))
