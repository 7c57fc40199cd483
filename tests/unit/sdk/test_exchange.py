"""When a request is sent again, and when it is not: the attempts of a client as a dialogue, without time passing."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from statewright.sdk.errors import Conflicting, Invalid, Refused, TokenUnavailable, Unavailable, Unreachable
from statewright.sdk.exchange import ONCE, TX_TOKEN, HttpResponse, RetryPolicy, exchange
from statewright.sdk.operations import calls, entities, search, steps
from statewright.sdk.operations.calls import Call, Operation, Pause

USUAL = RetryPolicy()
GOOD = HttpResponse(200, b'{"transactionId": "t", "entityIds": ["e"]}')
LOST = Unreachable("the connection broke")
NOT_SENT = Unreachable("connection refused", was_sent=False)
WRITE = entities.transition("e", "GO")
READ = calls.request("GET", "/health")


def problem(status: int, code: str, *, retryable: bool = False) -> HttpResponse:
    properties = {"errorCode": code} | ({"retryable": True} if retryable else {})
    return HttpResponse(status, msgspec.json.encode({"status": status, "detail": code, "properties": properties}))


class Conversation:
    """A client whose every answer the test gives; pauses pass at once, and count."""

    def __init__(self, policy: RetryPolicy = USUAL, **settings: Any) -> None:
        self._policy = policy
        self._settings = settings
        self.now = 0.0
        self.calls: list[Call] = []
        self.pauses: list[float] = []

    def hold(self, operation: Operation[Any], answers: Sequence[HttpResponse | Unreachable]) -> object:
        """The result, or the failure that is raised."""
        left = list(answers)
        steps = exchange(operation, self._policy, lambda: self.now, chance=lambda: 0.0, **self._settings)
        reply: HttpResponse | Unreachable | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                self.now += step.seconds
                reply = None
            else:
                self.calls.append(step)
                reply = left.pop(0)


def test_what_is_answered_is_sent_once() -> None:
    talk = Conversation()
    talk.hold(WRITE, [GOOD])
    assert (len(talk.calls), talk.pauses) == (1, [])


def test_what_the_service_marks_as_retryable_is_sent_again_after_growing_pauses() -> None:
    talk = Conversation()
    conflict = problem(409, "CONFLICT", retryable=True)
    talk.hold(WRITE, [conflict, conflict, conflict, GOOD])
    assert talk.pauses == [0.1, 0.2, 0.4]


def test_pauses_have_a_longest() -> None:
    talk = Conversation(RetryPolicy(first_pause_s=1, max_pause_s=3))
    talk.hold(READ, [NOT_SENT] * 4 + [GOOD])
    assert talk.pauses == [1, 2, 3, 3]


def test_other_refusals_are_final() -> None:
    for answer, kind in (
        (problem(409, "UNIQUE_VIOLATION"), Conflicting),
        (problem(400, "BAD_REQUEST"), Invalid),
        (problem(503, "STORAGE_UNAVAILABLE"), Unavailable),
    ):
        talk = Conversation()
        with pytest.raises(kind):
            talk.hold(READ, [answer])
        assert len(talk.calls) == 1


def test_the_deadline_ends_the_attempts_with_the_last_failure() -> None:
    talk = Conversation(RetryPolicy(deadline_s=1.0))
    with pytest.raises(Unavailable, match="NO_COMPUTE_MEMBER_FOR_TAG"):
        talk.hold(WRITE, [problem(503, "NO_COMPUTE_MEMBER_FOR_TAG", retryable=True)] * 9)
    assert talk.pauses == [0.1, 0.2, 0.4]


def test_once_is_once() -> None:
    talk = Conversation(ONCE)
    with pytest.raises(Unreachable):
        talk.hold(READ, [NOT_SENT])
    assert len(talk.calls) == 1


def test_a_write_that_may_have_been_carried_out_is_not_repeated() -> None:
    with pytest.raises(Unreachable):
        Conversation().hold(WRITE, [LOST])
    with pytest.raises(Refused):
        Conversation().hold(WRITE, [HttpResponse(502, b"<html>bad gateway</html>")])


def test_a_write_that_was_not_sent_is_repeated() -> None:
    talk = Conversation()
    talk.hold(WRITE, [NOT_SENT, GOOD])
    assert len(talk.calls) == 2


@pytest.mark.parametrize(
    "operation",
    [READ, search.search("m", 1, {"type": "group", "operator": "AND", "conditions": []}), steps.instance("i")],
    ids=["get", "search", "steps"],
)
def test_what_only_asks_is_repeated_when_the_connection_broke_or_a_proxy_answered(operation: Operation[Any]) -> None:
    talk = Conversation()
    with pytest.raises(Unreachable, match="on purpose"):
        talk.hold(
            operation,
            [
                LOST,
                HttpResponse(502, b"bad gateway"),
                HttpResponse(503, b""),
                TokenUnavailable("on purpose", was_refused=True),
            ],
        )
    assert len(talk.calls) == 4


def test_writes_are_repeated_for_those_to_whom_twice_is_as_good_as_once() -> None:
    talk = Conversation(RetryPolicy(repeats_writes=True))
    talk.hold(WRITE, [LOST, HttpResponse(504, b""), GOOD])
    assert len(talk.calls) == 3


def test_retry_after_says_when() -> None:
    talk = Conversation()
    busy = HttpResponse(503, b'{"error": "unavailable", "reason": "storage"}', {"retry-after": "2"})
    talk.hold(steps.start("d"), [busy, HttpResponse(201, INSTANCE)])
    assert talk.pauses == [2.0]


def test_a_deadline_is_not_waited_for_in_vain() -> None:
    talk = Conversation(RetryPolicy(deadline_s=10))
    with pytest.raises(Unavailable) as refused:
        talk.hold(READ, [HttpResponse(429, b"", {"retry-after": "60"})])
    assert refused.value.retryable
    assert talk.pauses == []


def test_credentials_that_are_refused_are_not_tried_again() -> None:
    with pytest.raises(TokenUnavailable):
        Conversation().hold(READ, [TokenUnavailable("401", was_refused=True)])


def test_requests_join_the_transaction_of_the_token_except_those_to_the_step_engine() -> None:
    talk = Conversation(ONCE, tx_token="t-1")
    talk.hold(WRITE, [GOOD])
    talk.hold(steps.start("d"), [HttpResponse(201, INSTANCE)])
    assert [call.headers.get(TX_TOKEN) for call in talk.calls] == ["t-1", None]


def test_an_answer_that_is_not_from_the_service_is_none() -> None:
    with pytest.raises(Unreachable, match="/entity/e was not answered by Statewright"):
        Conversation().hold(entities.get("e"), [HttpResponse(200, b"<html>welcome</html>")])


INSTANCE = (
    b'{"id": "i", "definitionId": "d", "definitionVersion": 1, "status": "ACTIVE", "currentStepIds": [],'
    b' "variables": {}, "startedAt": "2031-01-01T00:00:00Z"}'
)


def test_a_refusal_has_the_warnings_of_the_run_that_failed() -> None:
    refusal = problem(400, "WORKFLOW_FAILED")
    warned = HttpResponse(refusal.status, refusal.body, {"warning": '299 - "processor price: no tariff today"'})
    with pytest.raises(Refused) as refused:
        Conversation().hold(WRITE, [warned])
    assert refused.value.warnings == ("processor price: no tariff today",)


KEYED = entities.create("order", 1, {}, idempotency_key="k")
CREATED = HttpResponse(200, b'[{"transactionId": "t", "entityIds": ["e"]}]')


@pytest.mark.parametrize("fault", [LOST, HttpResponse(502, b""), problem(503, "STORAGE_UNAVAILABLE")])
def test_a_write_with_a_key_is_sent_again_whatever_became_of_it(fault: HttpResponse | Unreachable) -> None:
    talk = Conversation()
    talk.hold(KEYED, [fault, CREATED])
    assert [call.headers["Idempotency-Key"] for call in talk.calls] == ["k", "k"]


def test_creates_are_given_keys_where_the_policy_says_so() -> None:
    talk = Conversation(RetryPolicy(adds_keys=True))
    talk.hold(entities.create("order", 1, {}), [LOST, CREATED])
    keys = {call.headers["Idempotency-Key"] for call in talk.calls}
    assert (len(talk.calls), len(keys)) == (2, 1)
    talk.hold(KEYED, [CREATED])
    assert talk.calls[-1].headers["Idempotency-Key"] == "k"


def test_every_write_takes_a_key() -> None:
    operations = [
        entities.create_many("order", 1, [{}], idempotency_key="k"),
        entities.update("e", {}, idempotency_key="k"),
        entities.patch("e", {}, idempotency_key="k"),
        entities.transition("e", "GO", idempotency_key="k"),
        entities.delete("e", idempotency_key="k"),
        steps.start("d", idempotency_key="k"),
    ]
    assert all(operation.call.is_repeatable for operation in operations)
