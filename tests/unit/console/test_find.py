"""What is found, and where it leads (docs/console.md#pages)."""

from statewright.console.pages.find import PLACES, view_ids, view_names
from tests.unit.console.recorded import a_problem, a_reply

ID = "5e1f6a02-0000-1000-8000-00000000c3a9"
ENTITY, TRANSACTION = PLACES[0], next(place for place in PLACES if place.kind == "transaction")
MODELS = a_reply(
    [
        {"modelName": name, "modelVersion": 1, "currentState": "LOCKED", "modelUpdateDate": ""}
        for name in ("order", "order/archive", "note")
    ]
)


def test_an_id_leads_to_what_has_it():
    entity = a_reply({"meta": {"modelKey": {"name": "order", "version": 1}, "state": "NEW"}})
    view = view_ids(ID, ((ENTITY, entity), (TRANSACTION, a_reply({"items": []}))))
    assert [(hit.kind, hit.detail, hit.href) for hit in view.hits] == [
        ("entity", "order/1 in NEW", f"/console/entities/{ID}")
    ]
    assert view.looked == ("entity", "transaction")


def test_what_cannot_be_asked_is_said_and_hides_nothing():
    view = view_ids(ID, ((ENTITY, a_problem(503, "X")), (TRANSACTION, a_reply({"items": [{}]}))))
    assert [name for name, _ in view.problems] == ["entity"]
    assert [hit.kind for hit in view.hits] == ["transaction"]


def test_what_does_not_exist_is_no_failure():
    assert view_ids(ID, ((ENTITY, a_problem(404, "ENTITY_NOT_FOUND")),)).problems == ()


def test_a_name_finds_models_exact_ones_first():
    view = view_names("order", MODELS, None)
    assert [(hit.text, hit.is_exact) for hit in view.hits] == [("order/1", True), ("order/archive/1", False)]
    assert view.hits[1].href == "/console/models/order%2Farchive/1"


def test_a_business_key_finds_instances_of_all_languages():
    steps, flows = (
        a_reply({"items": [{"id": "A", "status": "WAITING"}]}),
        a_reply({"items": [{"id": "B", "status": "FAILED"}]}),
    )
    view = view_names("BK-7", MODELS, None, (steps, flows, a_problem(404, "NOT_FOUND")))
    assert [(hit.kind, hit.text, hit.detail, hit.href) for hit in view.hits] == [
        ("instance", "A", "BK-7, waiting", "/console/instances/A"),
        ("instance", "B", "BK-7, failed", "/console/instances/B"),
    ]
    assert view.looked == ("model", "business key")


def test_a_unique_key_finds_entities():
    found = {"entityId": ID, "key": "number", "model": {"name": "order", "version": 1}, "state": "NEW"}
    view = view_names("ORD-7", MODELS, None, unique=a_reply({"items": [found]}))
    assert [(hit.kind, hit.text, hit.detail, hit.href, hit.is_exact) for hit in view.hits] == [
        ("entity", ID, "order/1 in NEW, number is ORD-7", f"/console/entities/{ID}", True)
    ]
    assert view.looked == ("model", "unique key")
    silent = view_names("ORD-7", MODELS, None, unique=a_problem(503, "X"))
    assert (silent.hits, [name for name, _ in silent.problems]) == ((), ["unique key"])
