"""What calculation members warn of reaches the caller, come what may
(docs/reference/workflows.md#results-of-processors, docs/reference/workflows.md#warnings).
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual
from tests.integration.grpc_rpcs.client import CREATE, Rpcs
from tests.integration.grpc_rpcs.client import NEW as NEW_PRIZE
from tests.integration.node import Node, a_node
from tests.integration.schedules.conftest import timed_by
from tests.service import PATIENCE_S, Api, RunningService, refused

NO: Json = {"success": False, "error": {"code": "E", "message": "no"}}


@pytest.fixture
def node(service: RunningService, tenant: str) -> Iterator[Node]:
    with a_node(service, tenant, "node") as node:
        yield node


@pytest.fixture
def meanwhile() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def told(answer: "Future[Json]", *, success: bool) -> list[str]:
    """The warnings of an answer."""
    payload = answer.result(PATIENCE_S)
    assert payload["success"] is success, payload
    warnings: list[str] = payload.get("warnings", [])
    return warnings


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_SAME_TX", "COMMIT_BEFORE_DISPATCH"])
def test_a_processor_that_fails_may_warn_too(
    api: Api, rpcs: Rpcs, node: Node, meanwhile: ThreadPoolExecutor, mode: str
) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(mode=mode)])], DONE=[]))
    answer = meanwhile.submit(rpcs.one, "EntityCreateRequest", **CREATE)
    node.answer_next(**NO, warnings=["low stock", "old prices"])
    assert told(answer, success=False) == ["processor enrich: low stock", "processor enrich: old prices"]


def test_one_whose_failure_is_not_fatal_warns_of_a_success(
    api: Api, rpcs: Rpcs, node: Node, meanwhile: ThreadPoolExecutor
) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(mode="ASYNC_NEW_TX")])], DONE=[]))
    answer = meanwhile.submit(rpcs.one, "EntityCreateRequest", **CREATE)
    node.answer_next(**NO, warnings=["low stock"])
    assert told(answer, success=True) == ["processor enrich: low stock"]


def test_what_the_ones_before_warned_of_comes_first(
    api: Api, rpcs: Rpcs, node: Node, meanwhile: ThreadPoolExecutor
) -> None:
    both = [a_processor("first"), a_processor("second")]
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=both)], DONE=[]))
    answer = meanwhile.submit(rpcs.one, "EntityCreateRequest", **CREATE)
    node.answer_next(warnings=["rounded"])
    node.answer_next(**NO, warnings=["low stock"])
    assert told(answer, success=False) == ["processor first: rounded", "processor second: low stock"]


@pytest.mark.parametrize(
    ("kind", "transition"),
    [
        ("criteria ripe", automated("GO", to="DONE", criterion=judged_by("ripe"))),
        ("function when", timed_by("LAPSE", to="DONE")),
    ],
)
def test_the_other_kinds_of_callouts_warn_alike(
    api: Api, rpcs: Rpcs, node: Node, meanwhile: ThreadPoolExecutor, kind: str, transition: Json
) -> None:
    api.a_model(a_workflow(NEW=[transition], DONE=[]))
    answer = meanwhile.submit(rpcs.one, "EntityCreateRequest", **CREATE)
    node.answer_next(**NO, warnings=["cloudy"])
    assert told(answer, success=False) == [f"{kind}: cloudy"]


def test_a_collection_that_fails_brings_the_warnings_of_all_its_items(
    api: Api, rpcs: Rpcs, node: Node, meanwhile: ThreadPoolExecutor
) -> None:
    api.a_model(a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    updates = [{"entityId": rpcs.create(), "data": SAMPLE, "transition": "GO"} for _ in range(2)]
    request = {"dataFormat": "JSON", "payloads": updates}
    answer = meanwhile.submit(rpcs.one, "EntityUpdateCollectionRequest", **request)
    node.answer_next(warnings=["one"])
    node.answer_next(**NO, warnings=["two"])
    assert told(answer, success=False) == ["processor enrich: one", "processor enrich: two"]
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]), model="note/1")
    items = [{**NEW_PRIZE, "model": {"name": "note", "version": 1}}] * 2
    answer = meanwhile.submit(rpcs.one, "EntityCreateCollectionRequest", dataFormat="JSON", payloads=items)
    node.answer_next(warnings=["one"])
    node.answer_next(**NO, warnings=["two"])
    assert told(answer, success=False) == ["processor enrich: one", "processor enrich: two"]


def test_the_bodies_of_problem_documents_have_no_place_for_warnings(
    api: Api, node: Node, meanwhile: ThreadPoolExecutor
) -> None:
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    answer = meanwhile.submit(api.post, "/entity/JSON/prize/1", SAMPLE)
    node.answer_next(**NO, warnings=["low stock"])
    problem = refused(answer.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert "low stock" not in str(problem)
