"""Calculation members that decide when a transition fires (docs/reference/workflows.md#schedule-functions)."""

from datetime import UTC, datetime, timedelta

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, a_workflow, manual
from tests.integration.node import a_node
from tests.integration.schedules.conftest import HOUR_MS, all_events, meanwhile, now_ms, of_type, timed_by
from tests.service import PATIENCE_S, names, refused

IN_A_MINUTE = {"fireAfterMs": 60_000}


def a_flow(**config):
    return a_workflow(
        Booked=[timed_by("lapse", to="Lapsed", **config), manual("touch", to="Booked"), manual("ship", to="Shipped")],
        Lapsed=[],
        Shipped=[],
    )


def answering(serving, answer):
    """A node whose schedule function gives this answer, or what calling it gives."""
    node = Node(tags=["node"])
    node.function("when")(lambda document: answer() if callable(answer) else answer)
    serving(node)


@pytest.mark.parametrize(
    ("answer", "fire_after", "timeout"),
    [
        ({"fireAfterMs": 60_000}, 60_000, None),
        ({"fireAfterMs": 60_000, "fireAt": None, "expireAt": None}, 60_000, None),
        ({"fireAfterMs": -5}, -5, None),
        ({"fireAfterMs": 0}, 0, None),
        ({"fireAfterMs": 60_000, "expireAfterMs": 7}, 60_000, 7),
        (timedelta(minutes=1), 60_000, None),
    ],
)
def test_a_relative_answer_counts_from_the_arming(api, serving, timers, answer, fire_after, timeout):
    answering(serving, answer)
    created = api.create(model=api.a_model(a_flow()))
    [task] = timers.of(created.id)
    assert task["fire_at"] - task["armed_at"] == fire_after
    assert task["timeout_ms"] == timeout
    [armed] = of_type(api.events(created.id, created.transaction), "SCHEDULED_TRANSITION_ARM")
    assert armed["details"] == f'Scheduled transition "lapse" armed for {fire_after}ms from now'


@pytest.mark.parametrize(
    ("answer", "fire_at", "timeout"),
    [
        ({"fireAt": 4_000_000_000_000}, 4_000_000_000_000, None),
        ({"fireAt": 4_000_000_000_000, "expireAt": 4_000_000_000_500}, 4_000_000_000_000, 500),
        ({"fireAt": 1, "expireAfterMs": 3}, 1, 3),
        ({"fireAt": 10**30, "expireAfterMs": 10**40}, 2**63 - 1, 2**63 - 1),
        (datetime(2200, 1, 1, tzinfo=UTC), 7_258_118_400_000, None),
    ],
)
def test_an_absolute_answer_is_taken_as_it_is(api, serving, timers, answer, fire_at, timeout):
    answering(serving, answer)
    [task] = timers.of(api.create(model=api.a_model(a_flow())).id)
    assert (task["fire_at"], task["timeout_ms"]) == (fire_at, timeout)


def test_an_answer_in_the_past_fires_at_the_next_scan(api, serving, timers):
    answering(serving, {"fireAt": 1})
    entity = api.create(model=api.a_model(a_flow())).id
    timers.scan(at=now_ms())
    assert api.state(entity) == "Lapsed"


def test_the_member_is_asked_about_the_settled_entity_inside_the_transaction(api, service, tenant, timers):
    flow = a_flow(context="eu")
    api.a_model(flow)
    with a_node(service, tenant, "node") as node:
        created = meanwhile(api.create)
        request = node.answer_next(resultKind="Schedule", result=IN_A_MINUTE)
        transaction = created.result(PATIENCE_S).transaction
    assert request.kind == "Function"
    assert (request["functionId"], request["functionName"]) == ("when", "when")
    assert request["parameters"] == "eu"
    assert request["transition"]["name"] == "lapse"
    assert request["payload"]["meta"]["state"] == "Booked"
    assert request["transactionId"] == transaction
    assert request.attributes["cyodatxtoken"]
    assert request.attributes["authid"] == "alice"


def test_a_function_need_not_see_the_entity(api, service, tenant):
    api.a_model(a_flow(attachEntity=False))
    with a_node(service, tenant, "node") as node:
        created = meanwhile(api.create)
        request = node.answer_next(resultKind="Schedule", result=IN_A_MINUTE)
        created.result(PATIENCE_S)
    assert "payload" not in request.members


def test_what_is_born_expired_is_not_armed_and_the_write_succeeds(api, serving, timers):
    answering(serving, {"fireAt": 2000, "expireAt": 2000})
    created = api.create(model=api.a_model(a_flow()))
    assert timers.of(created.id) == []
    events = api.events(created.id, created.transaction)
    assert names(events)[-2:] == ["SCHEDULED_TRANSITION_EXPIRE", "STATE_MACHINE_FINISH"]
    assert events[-2]["details"].startswith('Scheduled transition "lapse" born expired (')
    assert events[-2]["state"] == "Booked"
    assert events[-2]["data"] == {"transition": "lapse", "sourceState": "Booked"}


def test_what_is_born_expired_takes_an_earlier_task_with_it_in_silence(api, serving, timers):
    answers = [{"fireAfterMs": HOUR_MS}, {"fireAfterMs": 5, "expireAfterMs": 0}]
    answering(serving, lambda: answers.pop(0))
    entity = api.create(model=api.a_model(a_flow())).id
    assert len(timers.of(entity)) == 1
    api.update(entity, fire="touch")
    assert timers.of(entity) == []
    assert of_type(all_events(api, entity), "SCHEDULED_TRANSITION_CANCEL") == []


def test_events_come_in_the_order_armed_cancelled_expired(api, serving, timers):
    node = Node(tags=["node"])
    node.function("soon")(lambda document: IN_A_MINUTE)
    node.function("never")(lambda document: {"fireAt": 5, "expireAt": 4})
    serving(node)
    flow = a_workflow(
        Booked=[timed_by("lapse", to="Lapsed", function="soon"), manual("ship", to="Shipped")],
        Shipped=[
            timed_by("a", to="Lapsed", function="never"),
            timed_by("b", to="Lapsed", function="soon"),
        ],
        Lapsed=[],
    )
    entity = api.create(model=api.a_model(flow)).id
    shipped = api.update(entity, fire="ship")
    assert [
        (event["eventType"], event["data"]["transition"])
        for event in api.events(entity, shipped.transaction)
        if event["eventType"].startswith("SCHEDULED")
    ] == [
        ("SCHEDULED_TRANSITION_ARM", "b"),
        ("SCHEDULED_TRANSITION_CANCEL", "lapse"),
        ("SCHEDULED_TRANSITION_EXPIRE", "a"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"fireAt": None},
        {"fireAt": 1, "fireAfterMs": 1},
        {"fireAt": 1, "expireAt": 2, "expireAfterMs": 1},
        {"expireAfterMs": 1},
        {"fireAt": 1.5},
        {"fireAt": "1"},
        {"fireAt": True},
        {"fireAt": 1, "priority": 9},
    ],
    ids=str,
)
def test_a_malformed_answer_rejects_the_write_and_tells_the_client_no_details(api, serving, timers, answer):
    answering(serving, answer)
    api.a_model(a_flow())
    problem = refused(api.post("/entity/JSON/prize/1", SAMPLE), 500, "SCHEDULE_FUNCTION_INVALID_RESULT")
    assert problem["detail"] == f"SERVER_ERROR: internal error [ticket: {problem['ticket']}]"
    assert api.get("/entity/prize/1").json() == []
    assert timers.sql("SELECT FROM scheduled_task") == []


@pytest.mark.parametrize(
    ("kind", "result"),
    [("Delay", IN_A_MINUTE), (None, IN_A_MINUTE), ("Schedule", [1]), ("Schedule", "soon"), ("Schedule", None)],
)
def test_a_result_of_another_kind_is_malformed(api, service, tenant, kind, result):
    api.a_model(a_flow())
    with a_node(service, tenant, "node") as node:
        answer = meanwhile(lambda: api.post("/entity/JSON/prize/1", SAMPLE))
        node.answer_next(resultKind=kind, result=result)
        refused(answer.result(PATIENCE_S), 500, "SCHEDULE_FUNCTION_INVALID_RESULT")


def test_an_error_reply_fails_the_write_with_the_members_words(api, service, tenant, timers):
    api.a_model(a_flow())
    with a_node(service, tenant, "node") as node:
        answer = meanwhile(lambda: api.post("/entity/JSON/prize/1", SAMPLE))
        node.fail_next("boom")
        problem = refused(answer.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    assert problem["detail"] == ("WORKFLOW_FAILED: failed to reconcile scheduled tasks: function dispatch failed: boom")


def test_without_a_member_the_write_may_be_repeated(api, timers):
    api.a_model(a_flow(tags="clock"))
    problem = refused(api.post("/entity/JSON/prize/1", SAMPLE), 503, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert problem["properties"]["retryable"] is True
    assert problem["detail"] == (
        'NO_COMPUTE_MEMBER_FOR_TAG: failed to reconcile scheduled tasks: no matching calculation member: tags "clock"; '
        "no member is connected"
    )


def test_a_silent_member_fails_the_write_after_its_time(api, service, tenant, timers):
    api.a_model(a_flow(responseTimeoutMs=50))
    with a_node(service, tenant, "node"):
        problem = refused(api.post("/entity/JSON/prize/1", SAMPLE), 503, "DISPATCH_TIMEOUT")
    assert problem["detail"] == "DISPATCH_TIMEOUT: function dispatch timed out after 50ms"


def test_a_function_may_call_back_into_the_transaction(api, serving, callback, timers):
    api.a_model(model="note/1", sample={"text": ""})
    node, seen = Node(tags=["node"]), {}

    @node.function("when")
    def when(document, context):
        seen["note"] = callback(context).create({"text": "asked"}, model="note/1")
        return IN_A_MINUTE

    serving(node)
    created = api.create(model=api.a_model(a_flow()))
    assert api.read(seen["note"].id)["meta"]["transactionId"] == created.transaction


def test_a_fire_asks_for_the_next_time_itself(api, serving, timers):
    answers = [{"fireAfterMs": 1000}, {"fireAfterMs": 2000}]
    node = Node(tags=["node"])
    node.function("when")(lambda document: answers.pop(0))
    serving(node)
    flow = a_workflow(A=[timed_by("b", to="B")], B=[timed_by("c", to="C")], C=[])
    entity = api.create(model=api.a_model(flow)).id
    due = timers.due(entity)
    timers.scan(at=due)
    assert api.state(entity) == "B"
    assert timers.due(entity) == due + 2000
