"""What members warn of, and why a tolerated processor failed: in the audit trail, the log and the answer
(docs/reference/workflows.md#warnings).
"""

import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual
from tests.integration.engine.conftest import Meanwhile
from tests.integration.node import Node
from tests.service import Api, done, refused

NO: Json = {"success": False, "error": {"code": "E", "message": "out of stock"}}


def guarded_by(*processors: Json, **states: Json) -> Json:
    return a_workflow(New=[manual("GO", to="Done", processors=list(processors))], Done=[], **states)


def results(api: Api, entity: str, transaction: str) -> list[Json]:
    """The data of the events about processors."""
    found = api.events(entity, transaction)
    return [event["data"] for event in found if event["eventType"] == "STATE_PROCESS_RESULT"]


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"])
def test_a_warning_of_a_processor_is_in_answer_audit_and_log(
    api: Api, node: Node, meanwhile: Meanwhile, capfd: pytest.CaptureFixture[str], mode: str
) -> None:
    api.a_model(guarded_by(a_processor("enrich", mode=mode)))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.answer_next(warnings=["low stock", 'käse "x"\r\nInjected: yes'])
    response = fired.result()
    transaction = done(response)["transactionId"]
    assert response.headers.get_list("warning") == [
        '299 - "processor enrich: low stock"',
        "299 - \"processor enrich: k\\xe4se 'x'\\r\\nInjected: yes\"",
    ]
    assert "injected" not in response.headers
    named = {"versionTransactionId": api.read(entity)["meta"]["transactionId"]}  # of a segment, not of the run
    assert results(api, entity, transaction) == [
        {"success": True, "mode": mode, "warnings": ["low stock", 'käse "x"\r\nInjected: yes']}
        | (named if mode == "COMMIT_BEFORE_DISPATCH" else {})
    ]
    [line, _] = [line for line in capfd.readouterr().out.splitlines() if "member_warned" in line]
    assert all(part in line for part in (entity, transaction, "prize", "processor", "enrich", "low stock"))


def test_a_run_that_fails_tells_the_warnings_in_the_header(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor("enrich")))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.answer_next(**NO, warnings=["low stock"])
    response = fired.result()
    assert "low stock" not in str(refused(response, 400, "WORKFLOW_FAILED"))
    assert response.headers["warning"] == '299 - "processor enrich: low stock"'


def test_a_criterion_that_does_not_hold_leaves_its_warnings_in_the_audit_trail(
    api: Api, node: Node, meanwhile: Meanwhile
) -> None:
    api.a_model(a_workflow(New=[automated("GO", to="Done", criterion=judged_by("check"))], Done=[]))
    created = meanwhile(api.post, "/entity/JSON/prize/1", SAMPLE)
    node.answer_next(matches=False, warnings=["almost"])
    [saved] = done(created.result())
    [event] = [
        event
        for event in api.events(saved["entityIds"][0], saved["transactionId"])
        if event["eventType"] == "TRANSITION_NOT_MATCH_CRITERION"
    ]
    assert event["data"]["warnings"] == ["almost"]


def test_warnings_are_bounded(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(guarded_by(a_processor("enrich")))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.answer_next(warnings=["x" * 3000] * 500)
    response = fired.result()
    [result] = results(api, entity, done(response)["transactionId"])
    assert len(result["warnings"]) == 20
    assert max(map(len, result["warnings"])) < 2100
    assert sum(map(len, response.headers.get_list("warning"))) <= 3000


def test_the_failure_of_a_tolerated_processor_has_a_reason_and_an_entity(
    api: Api, node: Node, meanwhile: Meanwhile, capfd: pytest.CaptureFixture[str]
) -> None:
    api.a_model(guarded_by(a_processor("notify", mode="ASYNC_NEW_TX")))
    entity = api.create().id
    fired = meanwhile(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.answer_next(**NO, warnings=["late"])
    transaction = done(fired.result())["transactionId"]
    assert results(api, entity, transaction) == [
        {
            "success": False,
            "mode": "ASYNC_NEW_TX",
            "reason": "processor notify failed: processor dispatch failed: out of stock",
            "warnings": ["late"],
        }
    ]
    [line] = [line for line in capfd.readouterr().out.splitlines() if "processor_rolled_back" in line]
    assert all(part in line for part in (entity, transaction, "prize", "notify", "GO", "out of stock"))
