"""The history knows the versions of a run of several segments by the id that its client was answered
(docs/transactions.md#versions).
"""

from typing import Any

import pytest

from statewright.sdk import Node
from statewright.sdk.client import Client
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.transactions.conftest import Serving
from tests.service import Api, RunningService, a_token, done, refused

SEGMENTING = {"mode": "COMMIT_BEFORE_DISPATCH"}
WITH_TX = SEGMENTING | {"startNewTxOnDispatch": True}
FRESH = SAMPLE | {"motivation": ""}


def a_flow(*configs: Json, manually: bool = True) -> Json:
    """NEW -GO-> DONE with a processor for each of these configurations."""
    begin = manual if manually else automated
    processors = [a_processor(**config) for config in configs]
    return a_workflow(NEW=[begin("GO", to="DONE", processors=processors)], DONE=[])


@pytest.fixture
def node(serving: Serving) -> Node:
    """A member that counts its calls in the document, and fails the call that the document names."""
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document: Json, context: Any) -> Json:
        calls = len(document.get("motivation", ""))
        if calls == document["year"]:
            raise ValueError("enough")
        return document | {"motivation": "x" * (calls + 1)}

    serving(node)
    return node


def versions_of(api: Api, entity: str, transaction: str) -> list[str]:
    """The ids of the versions of a run, oldest first."""
    changes = done(api.get(f"/entity/{entity}/changes?transactionId={transaction}"))
    return [change["transactionId"] for change in reversed(changes)]


def named_by_events(api: Api, entity: str, run: str) -> set[str]:
    """The versions that events of the run name beside the run itself."""
    trail = done(api.get(f"/audit/entity/{entity}?eventType=StateMachine&transactionId={run}&limit=100"))["items"]
    assert {item["transactionId"] for item in trail} == {run}
    return {item["data"]["versionTransactionId"] for item in trail if "versionTransactionId" in (item["data"] or {})}


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("config", [SEGMENTING, WITH_TX], ids=["without", "with-tx"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_answered_id_finds_all_versions_of_a_fired_run(api: Api, config: Json, count: int) -> None:
    created = api.create(FRESH, model=api.a_model(a_flow(*[config] * count)))
    fired = api.update(created.id, FRESH, fire="GO")
    versions = versions_of(api, created.id, fired.transaction)
    whole = [change["transactionId"] for change in reversed(done(api.get(f"/entity/{created.id}/changes")))]
    assert versions == whole[1:]
    assert len(versions) == count + 1
    assert named_by_events(api, created.id, fired.transaction) == set(versions)
    outcome = api.read(created.id, f"?transactionId={fired.transaction}")
    assert (outcome["meta"]["transactionId"], outcome["meta"]["state"]) == (versions[-1], "DONE")
    assert [versions_of(api, created.id, version) for version in versions] == [[version] for version in versions]
    assert versions_of(api, created.id, created.transaction) == [created.transaction]


@pytest.mark.usefixtures("node")
def test_a_run_that_creates_is_found_too(api: Api) -> None:
    flow = a_flow(SEGMENTING, SEGMENTING, manually=False)
    created = api.create(FRESH, model=api.a_model(flow))
    versions = versions_of(api, created.id, created.transaction)
    assert len(versions) == 3
    assert named_by_events(api, created.id, created.transaction) == set(versions)
    assert api.read(created.id, f"?transactionId={created.transaction}")["meta"]["transactionId"] == versions[-1]


@pytest.mark.usefixtures("node")
def test_an_update_whose_cascade_has_segments_is_found(api: Api) -> None:
    flow = a_workflow(
        NEW=[manual("WAKE", to="AWAKE")],
        AWAKE=[automated("GO", to="DONE", processors=[a_processor(**SEGMENTING), a_processor(**SEGMENTING)])],
        DONE=[],
    )
    entity = api.create(FRESH, model=api.a_model(flow)).id
    fired = api.update(entity, FRESH, fire="WAKE")
    versions = versions_of(api, entity, fired.transaction)
    assert len(versions) == 3
    assert named_by_events(api, entity, fired.transaction) == set(versions)


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_run_that_fails_on_its_way_has_versions_and_no_outcome(api: Api, failing: int) -> None:
    entity = api.create(FRESH, model=api.a_model(a_flow(SEGMENTING, SEGMENTING, SEGMENTING))).id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", FRESH | {"year": failing}), 400, "WORKFLOW_FAILED")
    run = problem["properties"]["transactionId"]
    versions = versions_of(api, entity, run)
    assert len(versions) == failing + 1
    assert versions[-1] == api.read(entity)["meta"]["transactionId"]
    assert named_by_events(api, entity, run) == set(versions)
    refused(api.get(f"/entity/{entity}?transactionId={run}"), 404, "ENTITY_NOT_FOUND")


@pytest.mark.usefixtures("node")
def test_the_same_over_grpc_and_by_the_client(api: Api, service: RunningService, tenant: str) -> None:
    entity = api.create(FRESH, model=api.a_model(a_flow(SEGMENTING, SEGMENTING))).id
    run = api.update(entity, FRESH, fire="GO").transaction
    versions = versions_of(api, entity, run)
    assert len(versions) == 3
    rpcs = Rpcs(service.grpc, a_token(tenant))
    changes = rpcs.ask("EntityChangesMetadataGetRequest", entityId=entity, transactionId=run)
    assert [change["changeMeta"]["transactionId"] for change in reversed(changes)] == versions
    read = rpcs.done("EntityGetRequest", entityId=entity, transactionId=run)
    assert read["payload"]["meta"]["transactionId"] == versions[-1]
    rpcs.refused("EntityGetRequest", "BAD_REQUEST", entityId=entity, transactionId="nonsense")
    with Client(service.root, token=a_token(tenant)) as client:
        history = client.history(entity, transaction=run)
    assert [change.transaction_id for change in reversed(history)] == versions


def test_a_run_of_one_segment_names_no_other_version(api: Api) -> None:
    entity = api.create(model=api.a_model(a_workflow(NEW=[manual("GO", to="DONE")], DONE=[])))
    fired = api.update(entity.id, SAMPLE, fire="GO")
    assert versions_of(api, entity.id, fired.transaction) == [fired.transaction]
    assert named_by_events(api, entity.id, fired.transaction) == set()
    refused(api.get(f"/entity/{entity.id}/changes?transactionId=nonsense"), 400, "BAD_REQUEST")
