"""Replacing documents and firing transitions (docs/reference/entities.md#update,
docs/reference/entities.md#transactions, docs/reference/entities.md#order-of-checks; docs/reference/workflows.md#runs).
"""

import re

import pytest

from tests.builders import SAMPLE, Json, a_workflow, automated, manual, when
from tests.service import Api, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"

STEPS = a_workflow(
    New=[
        manual("APPROVE", to="Approved", criterion=when("$.year", "GREATER_THAN", 1900)),
        manual("NEVER", to="Approved", disabled=True),
        {"name": "LATER", "next": "Approved", "schedule": {"delayMs": 3_600_000}},
        automated("OLD", to="Archived", criterion=when("$.year", "LESS_THAN", 1800)),
    ],
    Approved=[automated("PRAISE", to="Praised", criterion=when("$.category", "EQUALS", "peace"))],
    Praised=[],
    Archived=[],
)


@pytest.fixture
def entity(api: Api) -> str:
    """An entity in the state New of ``STEPS``."""
    api.a_model(STEPS)
    return api.create().id


def put(api: Api, entity: str, document: Json = SAMPLE, **headers: str) -> Json:
    return done(api.put(f"/entity/JSON/{entity}", document, **headers))


def test_an_update_answers_with_a_bare_transaction_result(api: Api, entity: str) -> None:
    response = api.put(f"/entity/JSON/{entity}", SAMPLE)
    assert re.fullmatch(rf'{{"entityIds":\["{entity}"\],"transactionId":"[0-9a-f-]{{36}}"}}\n', response.text)
    assert response.headers["content-type"] == "application/json"
    assert "etag" not in response.headers


def test_an_update_replaces_the_whole_document(api: Api, entity: str) -> None:
    put(api, entity, {"category": "peace"})
    assert api.read(entity)["data"] == {"category": "peace"}


def test_a_loopback_stays_in_its_state_and_lets_automated_transitions_look_at_the_new_document(
    api: Api, entity: str
) -> None:
    put(api, entity, {"year": 1900})
    assert api.state(entity) == "New"
    put(api, entity, {"year": 1700})
    meta = api.read(entity)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("Archived", "loopback")


def test_a_transition_is_guarded_by_the_new_document_and_followed_by_the_cascade(api: Api, entity: str) -> None:
    saved = api.update(entity, {"category": "peace", "year": 1964}, fire="APPROVE")
    meta = api.read(entity)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("Praised", "APPROVE")
    assert meta["transactionId"] == saved.transaction


def test_an_identical_document_is_a_new_version(api: Api, entity: str) -> None:
    before = api.read(entity)["meta"]
    put(api, entity)
    after = api.read(entity)["meta"]
    assert after["transactionId"] != before["transactionId"]
    assert after["lastUpdateTime"] > before["lastUpdateTime"]
    assert after["creationDate"] == before["creationDate"]


def test_an_automated_transition_can_be_fired_by_name(api: Api, entity: str) -> None:
    api.update(entity, {"year": 1750}, fire="OLD")
    assert api.state(entity) == "Archived"


FIREABLE = '"APPROVE", "OLD"'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NOPE", 'transition "NOPE" not found in state "New": transition not found'),
        ("APROVE", 'transition "APROVE" not found in state "New": transition not found; did you mean "APPROVE"?'),
        ("NEVER", 'transition "NEVER" is disabled in state "New": transition not found'),
        (
            "LATER",
            (
                'transition "LATER" in state "New" is scheduled and fires automatically; '
                "it is not manually fireable: transition not found"
            ),
        ),
    ],
)
def test_a_transition_that_cannot_be_fired_is_not_found(api: Api, entity: str, name: str, text: str) -> None:
    problem = refused(api.put(f"/entity/JSON/{entity}/{name}", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    assert problem["detail"].startswith(f"TRANSITION_NOT_FOUND: {text}")
    assert problem["detail"].endswith(f"transitions that can be fired in this state: {FIREABLE}")
    assert problem["properties"]["errorCode"] == "TRANSITION_NOT_FOUND"
    assert ", ".join(f'"{each}"' for each in problem["properties"]["transitions"]) == FIREABLE
    assert api.state(entity) == "New"


def test_a_criterion_that_does_not_hold_refuses_the_transition_and_keeps_the_old_document(
    api: Api, entity: str
) -> None:
    response = api.put(f"/entity/JSON/{entity}/APPROVE", {"year": 1850})
    problem = refused(response, 400, "WORKFLOW_FAILED")
    assert problem["detail"] == 'WORKFLOW_FAILED: transition "APPROVE" criterion not matched'
    assert api.read(entity)["data"] == SAMPLE
    assert len(done(api.get(f"/entity/{entity}/changes"))) == 1


def test_a_state_that_no_workflow_contains_saves_documents_and_refuses_transitions(api: Api, entity: str) -> None:
    api.import_workflows(a_workflow("other", Elsewhere=[]))
    put(api, entity, {"year": 7})
    assert (api.state(entity), api.read(entity)["data"]) == ("New", {"year": 7})
    problem = refused(api.put(f"/entity/JSON/{entity}/APPROVE", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == 'WORKFLOW_FAILED: no workflow contains state "New" for model prize.1'


def test_an_entity_follows_the_workflow_that_was_chosen_when_it_was_created(api: Api) -> None:
    """Decision W12: both workflows have the state, and only one of them the transition."""
    api.a_model(
        a_workflow("first", criterion=when("$.category", "EQUALS", "physics"), New=[manual("A", to="End")], End=[]),
        a_workflow("second", New=[manual("B", to="End")], End=[]),
    )
    chosen_by_criterion, other = api.create(), api.create({"category": "peace"})
    refused(api.put(f"/entity/JSON/{chosen_by_criterion.id}/B", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    api.update(other.id, fire="B")
    api.update(chosen_by_criterion.id, {"category": "peace"}, fire="A")


def test_a_silenced_workflow_hands_its_entities_to_the_first_that_knows_their_state(api: Api, entity: str) -> None:
    api.import_workflows({**STEPS, "active": False}, a_workflow("heir", New=[manual("TAKE", to="Taken")], Taken=[]))
    api.update(entity, fire="TAKE")
    assert api.state(entity) == "Taken"


def test_the_default_workflow_serves_models_without_one(api: Api) -> None:
    api.a_model()
    entity = api.create().id
    assert api.state(entity) == "CREATED"
    api.update(entity, fire="UPDATE")
    api.update(entity, fire="DELETE")
    assert api.state(entity) == "DELETED"
    assert api.read(entity)["data"] == SAMPLE


def test_a_model_may_be_unlocked_only_without_entities_so_updates_never_meet_an_unlocked_one(
    api: Api, entity: str
) -> None:
    refused(api.put("/model/prize/1/unlock"), 409, "MODEL_HAS_ENTITIES")
    put(api, entity)


def test_names_of_transitions_may_need_escapes(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("zur Prüfung / 100 %", to="Geprüft")], Geprüft=[]))
    entity = api.create().id
    api.update(entity, fire="zur%20Pr%C3%BCfung%20%2F%20100%20%25")
    assert api.state(entity) == "Geprüft"


# The order of docs/reference/entities.md#order-of-checks


def test_the_format_is_checked_before_the_document_and_the_document_before_the_entity(api: Api) -> None:
    assert "YAML" in refused(api.put(f"/entity/YAML/{UNKNOWN}", "{"), 400, "BAD_REQUEST")["detail"]
    refused(api.put(f"/entity/JSON/{UNKNOWN}", "{"), 400, "BAD_REQUEST")
    refused(api.put(f"/entity/JSON/{UNKNOWN}", "{}"), 404, "ENTITY_NOT_FOUND")


def test_the_size_is_checked_first(api: Api) -> None:
    refused(api.put(f"/entity/YAML/{UNKNOWN}", b" " * (10 * 1024 * 1024 + 1)), 413, "BAD_REQUEST")


def test_an_unknown_entity_is_not_named_in_properties_here(api: Api) -> None:
    for path in (f"/entity/JSON/{UNKNOWN}", f"/entity/JSON/{UNKNOWN}/GO"):
        problem = refused(api.put(path, "{}"), 404, "ENTITY_NOT_FOUND")
        assert problem["properties"] == {"errorCode": "ENTITY_NOT_FOUND"}


def test_the_schema_is_checked_before_the_transition_and_the_transition_before_if_match(api: Api, entity: str) -> None:
    stale = {"If_Match": UNKNOWN}
    refused(api.put(f"/entity/JSON/{entity}/NOPE", {"year": "soon"}, **stale), 400, "INCOMPATIBLE_TYPE")
    refused(api.put(f"/entity/JSON/{entity}/NOPE", SAMPLE, **stale), 404, "TRANSITION_NOT_FOUND")
    refused(api.put(f"/entity/JSON/{entity}/APPROVE", {"year": 1850}, **stale), 400, "WORKFLOW_FAILED")
    refused(api.put(f"/entity/JSON/{entity}/APPROVE", SAMPLE, **stale), 412, "ENTITY_MODIFIED")


# If-Match


def test_the_version_that_was_read_may_be_replaced(api: Api, entity: str) -> None:
    version = api.read(entity)["meta"]["transactionId"]
    put(api, entity, {"year": 1}, If_Match=version)
    assert api.read(entity)["data"] == {"year": 1}


def test_the_transaction_of_a_create_can_be_matched_at_once(api: Api, entity: str) -> None:
    saved = api.create()
    moved = api.update(saved.id, fire="APPROVE", If_Match=saved.transaction)
    again = put(api, saved.id, If_Match=moved.transaction)
    assert api.read(saved.id)["meta"]["transactionId"] == again["transactionId"]


def test_a_version_that_is_gone_is_refused_and_nothing_is_kept(api: Api, entity: str) -> None:
    stale = api.read(entity)["meta"]["transactionId"]
    put(api, entity)
    response = api.put(f"/entity/JSON/{entity}/APPROVE", {"year": 1999}, If_Match=stale)
    problem = refused(response, 412, "ENTITY_MODIFIED")
    assert problem == {
        "type": "/api/help/errors.ENTITY_MODIFIED",
        "title": "Precondition Failed",
        "status": 412,
        "detail": "ENTITY_MODIFIED: entity has been modified since last read",
        "instance": f"/api/entity/JSON/{entity}/APPROVE",
        "properties": {"errorCode": "ENTITY_MODIFIED", "entityId": entity},
    }
    assert (api.state(entity), api.read(entity)["data"]) == ("New", SAMPLE)


@pytest.mark.parametrize("template", ['"{0}"', 'W/"{0}"', "*", "{0}, {0}", "nonsense"])
def test_if_match_is_compared_to_the_letter(api: Api, entity: str, template: str) -> None:
    version = api.read(entity)["meta"]["transactionId"]
    refused(api.put(f"/entity/JSON/{entity}", SAMPLE, If_Match=template.format(version)), 412, "ENTITY_MODIFIED")


def test_an_empty_if_match_demands_nothing(api: Api, entity: str) -> None:
    put(api, entity, {"year": 1}, If_Match="")
    assert api.read(entity)["data"] == {"year": 1}


def test_xml_replaces_documents_too(api: Api, entity: str) -> None:
    done(api.put(f"/entity/XML/{entity}", "<prize><year>1950</year></prize>"))
    assert api.read(entity)["data"] == {"year": 1950}
    done(api.put(f"/entity/XML/{entity}/APPROVE", "<prize><year>1951</year></prize>"))
    assert api.state(entity) == "Approved"


@pytest.mark.parametrize("query", ["waitForConsistencyAfter=yes", "transactionTimeoutMillis=soon"])
def test_parameters_without_effect_must_still_bind(api: Api, entity: str, query: str) -> None:
    for response in (
        api.put(f"/entity/JSON/{entity}?{query}", SAMPLE),
        api.put(f"/entity/JSON/{entity}/APPROVE?{query}", SAMPLE),
        api.post(f"/entity/JSON/prize/1?{query}", SAMPLE),
    ):
        problem = refused(response, 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("text", ["+-5", "9223372036854775808", "٣", "1.5", ""])
def test_a_timeout_is_a_decimal_int64(api: Api, entity: str, text: str) -> None:
    problem = refused(api.put(f"/entity/JSON/{entity}?transactionTimeoutMillis={text}", SAMPLE), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionTimeoutMillis"


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
def test_booleans_have_twelve_spellings(api: Api, entity: str, word: str) -> None:
    done(api.put(f"/entity/JSON/{entity}?waitForConsistencyAfter={word}&transactionTimeoutMillis=-1", SAMPLE))


def test_a_transition_without_a_document_is_told_how_it_can_be_fired(api: Api, entity: str) -> None:
    """Finding C12."""
    problem = refused(api.put(f"/entity/JSON/{entity}/APPROVE", ""), 400, "BAD_REQUEST")
    assert "PUT /platform-api/entity/transition?entityId=…&transitionName=…" in problem["detail"]
    assert "platform-api" not in refused(api.put(f"/entity/JSON/{entity}", ""), 400, "BAD_REQUEST")["detail"]
    done(api.put(f"/platform-api/entity/transition?entityId={entity}&transitionName=APPROVE"))
    assert api.state(entity) == "Approved"
