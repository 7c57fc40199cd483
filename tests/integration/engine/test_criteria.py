"""Criteria, in memory and judged by members (docs/reference/workflows.md#which-workflow-governs-an-entity,
docs/reference/workflows.md#kinds-of-runs, docs/reference/workflows.md#criteria; docs/reference/grpc.md#callouts).
"""

from datetime import timedelta

import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual, when
from tests.database import Template
from tests.integration.engine.conftest import Join, Meanwhile
from tests.integration.node import Node
from tests.service import Api, done, hosted, refused

NEVER = 60_000


def asking(criterion: Json) -> Json:
    """A workflow whose only way on is guarded."""
    return a_workflow(New=[manual("GO", to="Done", criterion=criterion)], Done=[])


# Judged by a member


def test_a_manual_transition_is_made_when_its_member_says_so(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(asking(judged_by("credit-check", context="eu")))
    entity = api.create().id
    fired = meanwhile(api.update, entity, {"year": 1}, fire="GO")
    request = node.answer_next(matches=True)
    saved = fired.result()
    assert request.kind == "Criteria"
    expected = {
        "criteriaId": "credit-check",
        "criteriaName": "credit-check",
        "target": "TRANSITION",
        "workflow": {"id": "lifecycle", "name": "lifecycle"},
        "transition": {"id": "GO", "name": "GO", "stateFrom": "New", "stateTo": "Done"},
        "transactionId": saved.transaction,
        "parameters": "eu",
        "entityId": entity,
        "success": True,
    }
    assert {name: request[name] for name in expected} == expected
    assert request.data == {"year": 1}
    assert api.state(entity) == "Done"


@pytest.mark.parametrize("answer", [{"matches": False}, {"matches": None}, {}], ids=str)
def test_whatever_is_no_yes_is_a_no(api: Api, node: Node, meanwhile: Meanwhile, answer: dict[str, Json]) -> None:
    api.a_model(asking(judged_by("check")))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.answer_next(**answer)
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == 'WORKFLOW_FAILED: transition "GO" criterion not matched'


def test_the_reason_of_a_no_reaches_the_client(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(asking(judged_by("check")))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.answer_next(matches=False, reason="limit exceeded by 3 €")
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == 'WORKFLOW_FAILED: transition "GO" criterion not matched: limit exceeded by 3 €'


def test_a_long_reason_is_cut_between_characters(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(asking(judged_by("check")))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.answer_next(matches=False, reason="x" + "é" * 2000)
    detail = refused(fired.result(), 400, "WORKFLOW_FAILED")["detail"]
    reason = detail.removeprefix('WORKFLOW_FAILED: transition "GO" criterion not matched: ')
    assert reason == "x" + "é" * 1023
    assert len(reason.encode()) == 2047


def test_the_cascade_passes_what_a_member_declines_and_the_audit_keeps_the_reason(
    api: Api, node: Node, meanwhile: Meanwhile
) -> None:
    api.a_model(
        a_workflow(
            New=[
                automated("FIRST", to="Bad", criterion=judged_by("one")),
                automated("SECOND", to="Bad", criterion=judged_by("two")),
                automated("THIRD", to="Good", criterion=judged_by("three")),
                automated("FOURTH", to="Bad"),
            ],
            Good=[],
            Bad=[],
        )
    )
    created = meanwhile(api.create)
    assert node.answer_next(matches=False, reason="not yet")["criteriaName"] == "one"
    assert node.answer_next()["criteriaName"] == "two"
    assert node.answer_next(matches=True)["criteriaName"] == "three"
    saved = created.result()
    assert api.state(saved.id) == "Good"
    declined = [
        e for e in api.events(saved.id, saved.transaction) if e["eventType"] == "TRANSITION_NOT_MATCH_CRITERION"
    ]
    assert [(event["details"], event["data"]) for event in declined] == [
        (
            f'Automated transition "{name}" criterion not matched',
            {"workflowName": "lifecycle", "transition": name, "criterion": function, "reason": reason},
        )
        for name, function, reason in (("FIRST", "one", "not yet"), ("SECOND", "two", "criterion did not match"))
    ]


def test_members_choose_among_workflows(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(
        a_workflow("first", criterion=judged_by("is-first"), First=[]),
        a_workflow("second", criterion=judged_by("is-second"), Second=[]),
    )
    created = meanwhile(api.create)
    request = node.answer_next(matches=False, reason="too young")
    assert (request["target"], request["workflow"]["name"]) == ("WORKFLOW", "first")
    assert set(request["transition"].values()) == {""}
    node.answer_next(matches=True)
    saved = created.result()
    assert api.state(saved.id) == "Second"
    skip = api.events(saved.id, saved.transaction)[1]
    assert (skip["eventType"], skip["data"]) == ("WORKFLOW_SKIP", {"workflowName": "first", "reason": "too young"})


def test_a_failed_judgement_is_no_no(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(asking(judged_by("check")))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.fail_next("boom")
    problem = refused(fired.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == (
        "WORKFLOW_FAILED: failed to evaluate transition criterion: criteria dispatch failed: boom"
    )


def test_a_failed_judgement_on_a_workflow_fails_the_create(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    api.a_model(a_workflow("w", criterion=judged_by("check"), New=[]))
    created = meanwhile(api.post, "/entity/JSON/prize/1", SAMPLE)
    node.answer_next(success=False)
    problem = refused(created.result(), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == (
        'WORKFLOW_FAILED: failed to evaluate workflow criterion for "w": '
        "criteria dispatch failed: criteria returned failure"
    )


def test_a_member_that_does_not_judge_in_time_is_told_as_what_it_is(api: Api, node: Node) -> None:
    api.a_model(asking(judged_by("check", responseTimeoutMs=50)))
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 503, "DISPATCH_TIMEOUT")
    assert problem["properties"] == {"errorCode": "DISPATCH_TIMEOUT", "retryable": True}
    assert problem["detail"] == "DISPATCH_TIMEOUT: criteria dispatch timed out after 50ms"
    assert api.state(entity) == "New"


def test_nobody_to_judge_is_worth_another_try(api: Api) -> None:
    api.a_model(asking(judged_by("check", tags="absent")))
    problem = refused(api.put(f"/entity/JSON/{api.create().id}/GO", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert problem["properties"]["retryable"] is True
    assert 'no matching calculation member: tags "absent"; ' in problem["detail"]


def test_a_judge_that_leaves_is_told(api: Api, join: Join, meanwhile: Meanwhile) -> None:
    node = join("node")
    api.a_model(asking(judged_by("check", responseTimeoutMs=NEVER)))
    fired = meanwhile(api.put, f"/entity/JSON/{api.create().id}/GO", SAMPLE)
    node.next()
    node.leave()
    problem = refused(fired.result(), 503, "COMPUTE_MEMBER_DISCONNECTED")
    assert problem["detail"] == "COMPUTE_MEMBER_DISCONNECTED: compute member disconnected during criteria dispatch"


def test_the_documented_inner_criterion_is_accepted_and_ignored(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    criterion = judged_by("check")
    criterion["function"]["criterion"] = when("$.year", "EQUALS", -1)
    api.a_model(asking(criterion))
    entity = api.create().id
    fired = meanwhile(api.update, entity, fire="GO")
    node.answer_next(matches=True)
    fired.result()
    assert api.state(entity) == "Done"


# In memory


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        (when("$.year", "EQUALS", 2024), True),
        (when("$.year", "EQUALS", "2024"), True),
        (when("year", "GREATER_OR_EQUAL", 2024), True),
        (when("$.year", "NOT_EQUAL", 2024.5), True),
        (when("$.category", "ICONTAINS", "PHYS"), True),
        (when("$.category", "MATCHES_PATTERN", "ph.*cs"), True),
        (when("$.absent.deep", "IS_NULL"), True),
        (when("$.absent.deep", "EQUALS", 1), False),
        ({"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "New"}, True),
        ({"type": "lifecycle", "field": "previousTransition", "operatorType": "EQUALS", "value": "GO"}, True),
        ({"type": "group", "operator": "AND", "conditions": []}, True),
        ({"type": "group", "operator": "OR", "conditions": []}, False),
        (
            {
                "type": "group",
                "operator": "OR",
                "conditions": [when("$.year", "EQUALS", 1), when("$.category", "EQUALS", "physics")],
            },
            True,
        ),
        ({"type": "array", "jsonPath": "$.tags", "values": ["a", None]}, True),
        ({"type": "array", "jsonPath": "$.tags", "values": ["b"]}, False),
    ],
    ids=str,
)
def test_conditions_guard_transitions(api: Api, criterion: Json, holds: bool) -> None:
    sample = {**SAMPLE, "tags": ["a", "b"]}
    api.import_model(sample=sample)
    # The seed contract takes criteria as they are; what cannot be checked at import is seen when they are evaluated.
    api.import_workflows({**asking(criterion), "version": "1"})
    api.lock()
    entity = api.create(sample).id
    response = api.put(f"/entity/JSON/{entity}/GO", sample)
    if holds:
        done(response)
    else:
        refused(response, 400, "WORKFLOW_FAILED")
    assert api.state(entity) == ("Done" if holds else "New")


@pytest.mark.parametrize(
    "criterion",
    [
        when("$.year", "IS_CHANGED"),
        when("$.year", "RESEMBLES", 1),
        {"type": "riddle"},
        {"type": "group", "operator": "NOT", "conditions": [when("$.year", "EQUALS", 1)]},
        {"type": "group", "operator": "AND", "conditions": [judged_by("nested")]},
        {"type": "lifecycle", "field": "mood", "operatorType": "EQUALS", "value": "good"},
    ],
    ids=str,
)
def test_a_condition_that_cannot_be_evaluated_fails_the_run(api: Api, criterion: Json) -> None:
    api.import_model()
    api.import_workflows({**asking(criterion), "version": "1"})
    api.lock()
    entity = api.create().id
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["detail"].startswith("WORKFLOW_FAILED: failed to evaluate transition criterion: ")
    assert api.state(entity) == "New"


def test_a_field_that_only_a_processor_knows_equals_nothing(api: Api, node: Node, meanwhile: Meanwhile) -> None:
    """Comparisons need the declared type of their field (docs/reference/workflows.md#criteria)."""
    api.import_model()
    api.import_workflows(
        {
            **a_workflow(
                New=[manual("GO", to="Mid", processors=[a_processor()])],
                Mid=[
                    automated("EQ", to="Bad", criterion=when("$.score", "EQUALS", 5)),
                    automated("SET", to="Good", criterion=when("$.score", "NOT_NULL")),
                ],
                Good=[],
                Bad=[],
            ),
            "version": "1",
        }
    )
    api.lock()
    entity = api.create().id
    fired = meanwhile(api.update, entity, fire="GO")
    node.return_next({"score": 5})
    fired.result()
    assert api.state(entity) == "Good"


def test_a_chain_of_a_hundred_transitions_is_too_long_and_one_less_is_not(api: Api) -> None:
    def chain(length: int) -> Json:
        steps = {f"S{n}": [automated(f"T{n}", to=f"S{n + 1}")] for n in range(length)}
        return a_workflow(**steps, **{f"S{length}": []})

    api.a_model(chain(99))
    assert api.state(api.create().id) == "S99"
    api.import_workflows(chain(100))
    problem = refused(api.post("/entity/JSON/prize/1", SAMPLE), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == ('WORKFLOW_FAILED: state machine aborted: cascade depth exceeded (100) at state "S100"')


# Longer than a turn of the event loop: judged by a process that can be killed

ITEMS = 60_000


def a_long_criterion(last: int, *, times: int = 4) -> Json:
    """It looks at all items so many times."""
    values = (*range(-times + 1, 0), last)
    return {
        "type": "group",
        "operator": "OR",
        "conditions": [when("$.items[*]", "EQUALS", value) for value in values],
    }


@pytest.mark.parametrize(("last", "state"), [(ITEMS - 1, "Found"), (ITEMS, "Other")])
def test_criteria_that_are_long_to_judge_have_the_same_effect(api: Api, last: int, state: str) -> None:
    long = a_long_criterion(last)
    ways = [
        automated("NEVER", to="Bad", criterion=a_long_criterion(ITEMS + 1)),
        automated("FOUND", to="Found", criterion=long),
        automated("ELSE", to="Other"),
    ]
    api.a_model(a_workflow(New=ways, Found=[], Other=[], Bad=[]), sample={"items": [1]})
    assert api.state(api.create({"items": [*range(ITEMS)]}).id) == state


def test_a_manual_transition_may_have_one_too(api: Api) -> None:
    api.a_model(asking(a_long_criterion(ITEMS - 1)), sample={"items": [1]})
    entity = api.create({"items": [*range(ITEMS)]}).id
    api.update(entity, {"items": [*range(ITEMS)]}, fire="GO")
    assert api.state(entity) == "Done"


def test_a_criterion_whose_process_is_killed_fails_its_run_and_no_other(database_template: Template) -> None:
    with hosted(database_template.clone(), computation_timeout=timedelta(milliseconds=1)) as service:
        api = service.api("killed")
        api.a_model(asking(a_long_criterion(ITEMS - 1, times=150)), sample={"items": [1]})
        items: Json = [*range(ITEMS)]
        entity = api.create({"items": items}).id
        problem = refused(api.put(f"/entity/JSON/{entity}/GO", {"items": items}), 400, "WORKFLOW_FAILED")
        assert "computing this takes longer than 0.001 s" in problem["detail"]
        assert api.state(entity) == "New"
        api.update(entity, {"items": [ITEMS - 1]}, fire="GO")
        assert api.state(entity) == "Done"
