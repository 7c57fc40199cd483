"""Whether documents that processors return must fit their model (decision W13)."""

from collections.abc import Iterator

import pytest

from statewright.sdk import Node, wire
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.database import Template
from tests.integration.transactions.conftest import connected
from tests.service import Api, RunningService, done, hosted, refused

TENANT = "strict"


@pytest.fixture(scope="module")
def strict_service(database_template: Template) -> Iterator[RunningService]:
    with hosted(database_template.clone(), processor_output="strict") as running:
        yield running


def returning(changes: Json) -> Node:
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | changes)
    return node


def a_flow(mode: str) -> Json:
    return a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor(mode=mode)])], DONE=[])


@pytest.fixture
def strict_api(strict_service: RunningService, tenant: str) -> Api:
    return strict_service.api(tenant)


def test_by_default_it_is_stored_as_returned_and_teaches_nothing(api: Api, serving) -> None:
    serving(returning({"extra": 1}))
    api.a_model(a_flow("SYNC"))
    done(api.post("/model/prize/1/changeLevel/STRUCTURAL"))
    before = api.get("/model/export/SIMPLE_VIEW/prize/1").text
    entity = api.create().id
    api.update(entity, fire="GO")
    assert api.read(entity)["data"] == SAMPLE | {"extra": 1}
    assert api.get("/model/export/SIMPLE_VIEW/prize/1").text == before


@pytest.mark.parametrize(("changes", "cause"), [({"extra": 1}, "BAD_REQUEST"), ({"year": "soon"}, "INCOMPATIBLE_TYPE")])
@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_SAME_TX", "COMMIT_BEFORE_DISPATCH"])
def test_strictly_a_document_that_does_not_fit_fails_the_run(
    strict_service: RunningService, strict_api: Api, tenant: str, mode: str, changes: Json, cause: str
) -> None:
    api = strict_api
    api.a_model(a_flow(mode))
    entity = api.create().id
    with connected(strict_service, tenant, returning(changes)):
        problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["properties"]["cause"] == cause
    assert "processor enrich failed: the returned document does not fit the model: " in problem["detail"]
    assert (api.state(entity), api.read(entity)["data"]) == ("NEW", SAMPLE)


def test_strictly_a_document_that_fits_is_stored(strict_service: RunningService, strict_api: Api, tenant: str) -> None:
    strict_api.a_model(a_flow("SYNC"))
    entity = strict_api.create().id
    with connected(strict_service, tenant, returning({"year": 1999})):
        strict_api.update(entity, fire="GO")
    assert strict_api.read(entity)["data"]["year"] == 1999


@pytest.mark.parametrize("mode", ["SYNC", "COMMIT_BEFORE_DISPATCH"])
def test_strictly_a_change_level_lets_processors_teach_the_model_within_the_transaction(
    strict_service: RunningService, strict_api: Api, tenant: str, mode: str
) -> None:
    api = strict_api
    failing = a_processor("fail", tags="nobody")
    flow = a_workflow(
        NEW=[
            manual("GO", to="DONE", processors=[a_processor(mode=mode)]),
            manual("TRIP", to="DONE", processors=[a_processor(), failing]),
        ],
        DONE=[],
    )
    api.a_model(flow)
    done(api.post("/model/prize/1/changeLevel/STRUCTURAL"))
    entity = api.create().id
    with connected(strict_service, tenant, returning({"extra": 1})):
        before = api.get("/model/export/SIMPLE_VIEW/prize/1").text
        refused(api.put(f"/entity/JSON/{entity}/TRIP", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
        assert api.get("/model/export/SIMPLE_VIEW/prize/1").text == before
        api.update(entity, fire="GO")
    assert done(api.get("/model/export/SIMPLE_VIEW/prize/1"))["model"]["$"][".extra"] == "INTEGER"


def test_strictly_what_a_separate_transaction_discards_is_not_looked_at(
    strict_service: RunningService, strict_api: Api, tenant: str
) -> None:
    api = strict_api
    flow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(mode="ASYNC_NEW_TX")])], DONE=[])
    api.a_model(flow)
    with connected(strict_service, tenant, returning({"extra": 1})):
        assert api.state(api.create().id) == "DONE"


@pytest.mark.parametrize("document", ["true", "5", "[1,2]", '"text"', '{"a":NaN}', '{"a":"\\u0000"}'])
@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"])
def test_what_is_no_document_fails_the_callout(
    api: Api, serving, monkeypatch: pytest.MonkeyPatch, mode: str, document: str
) -> None:
    """Whatever SDK the member has, so one that refuses nothing (decision W13)."""
    monkeypatch.setattr(wire, "encode_document", lambda _outcome: document.encode())
    serving(returning({"extra": 1}))
    api.a_model(a_flow(mode))
    entity = api.create().id
    if mode == "ASYNC_NEW_TX":
        fired = api.update(entity, fire="GO")
        results = [e for e in api.events(entity, fired.transaction) if e["eventType"] == "STATE_PROCESS_RESULT"]
        assert [result["data"]["success"] for result in results] == [False]
    else:
        refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert api.read(entity)["data"] == SAMPLE


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (True, "a processor returns an object or nothing, not bool"),
        (5, "a processor returns an object or nothing, not int"),
        ([1, 2], "a processor returns an object or nothing, not list"),
        ("text", "a processor returns an object or nothing, not str"),
        ({"a": float("nan")}, "the result is not JSON: nan is no number of JSON"),
        ({"a": "\0"}, "the result is not a document: "),
    ],
)
def test_the_sdk_says_why_it_is_no_document(api: Api, serving, outcome: object, reason: str) -> None:
    """Decision W13."""
    node = Node(tags=["node"])
    node.processor("enrich")(lambda _document: outcome)
    serving(node)
    api.a_model(a_flow("SYNC"))
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert reason in problem["detail"]
    assert api.read(entity)["data"] == SAMPLE
