"""The job worker against an engine of the test's own (docs/reference/steps.md#workers)."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.sdk.functions import Function
from statewright.sdk.jobs import Job, JobsRefused, JobsUnavailable, JobWorker, NonRetryable, Poll, RetryLater, Task
from statewright.sdk.node import Node

PATIENCE_S = 30.0


class Source:
    """An engine with jobs for whoever polls. Failures are raised once each, in order, by the call they are for."""

    def __init__(self, *jobs: Job) -> None:
        self.waiting = list(jobs)
        self.polls: list[Poll] = []
        self.completed: dict[str, bytes] = {}
        self.failed: dict[str, tuple[str, bool]] = {}
        self.rests: list[timedelta | None] = []
        self.renewed = 0
        self.renews = True
        self.troubles: dict[str, list[Exception]] = {}
        self.is_closed = False
        self.changed = asyncio.Event()

    async def poll(self, poll: Poll) -> Sequence[Job]:
        self.polls.append(poll)
        self._tell()
        self._trouble("poll")
        if not self.waiting:
            await asyncio.Event().wait()  # a long poll without an end
        taken, self.waiting = self.waiting[: poll.max_jobs], self.waiting[poll.max_jobs :]
        return taken

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        self._trouble("complete")
        self.completed[job.id] = variables
        self._tell()

    async def fail(
        self, job: Job, worker: str, message: str, *, retryable: bool, rest: timedelta | None = None
    ) -> None:
        self._trouble("fail")
        self.rests.append(rest)
        self.failed[job.id] = message, retryable
        self._tell()

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        self.renewed += 1
        self._tell()
        self._trouble("renew")
        return self.renews

    async def report_progress(self, job: Job, worker: str, report: bytes) -> "JsonObject | None":
        raise AssertionError("only pipelines report progress")

    async def close(self) -> None:
        self.is_closed = True

    async def until(self, fact: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not fact():
                self.changed.clear()
                await self.changed.wait()

    def _tell(self) -> None:
        self.changed.set()

    def _trouble(self, call: str) -> None:
        if self.troubles.get(call):
            raise self.troubles[call].pop(0)


def a_job(number: int = 1, type_: str = "greet", **variables: Any) -> Job:
    return Job(id=f"J{number}", type=type_, instance_id="I", step_id="hello", variables=variables)


@asynccontextmanager
async def working(source: Source, *, grace: float = PATIENCE_S, **handlers: Callable[..., object]):
    """A worker that leaves at the end of the block."""
    functions = {name: Function("job", name, handler, context=Job) for name, handler in handlers.items()}
    leave = asyncio.Event()
    worker = JobWorker(source, functions, concurrency=2, lease=timedelta(seconds=0.3), name="w")
    serving = asyncio.create_task(worker.serve(leave, grace=grace))
    try:
        yield worker
    finally:
        leave.set()
        async with asyncio.timeout(PATIENCE_S):
            await serving
    assert source.is_closed


async def outcome_of(handler: Callable[..., object], **variables: Any) -> Source:
    """What becomes of one job with these variables."""
    source = Source(a_job(**variables))
    async with working(source, greet=handler):
        await source.until(lambda: source.completed or source.failed)
    return source


async def test_a_handler_gets_the_variables_and_returns_those_it_sets():
    source = await outcome_of(lambda variables: {"said": f"hello {variables['name']}"}, name="Ada")
    assert source.completed == {"J1": b'{"said":"hello Ada"}'}
    [poll, *_] = source.polls
    assert (poll.worker, poll.types, poll.max_jobs) == ("w", ("greet",), 2)


async def test_a_handler_may_ask_for_the_job_alone_or_beside_the_variables():
    def alone(job: Job):
        return {"step": job.step_id}

    def beside(variables, job):
        return {"step": job.step_id, "n": variables["n"]}

    assert (await outcome_of(alone)).completed == {"J1": b'{"step":"hello"}'}
    assert (await outcome_of(beside, n=1)).completed == {"J1": b'{"step":"hello","n":1}'}


async def test_plain_handlers_run_in_threads_and_async_ones_on_the_loop():
    async def on_loop(_variables):
        return {"main": threading.current_thread() is threading.main_thread()}

    def in_thread(_variables):
        return {"main": threading.current_thread() is threading.main_thread()}

    assert (await outcome_of(on_loop)).completed == {"J1": b'{"main":true}'}
    assert (await outcome_of(in_thread)).completed == {"J1": b'{"main":false}'}


async def test_a_handler_that_returns_nothing_sets_nothing():
    assert (await outcome_of(lambda: None)).completed == {"J1": b"{}"}


async def test_numbers_keep_their_digits():
    source = await outcome_of(lambda variables: {"sum": variables["a"] + 1}, a=Decimal("0.10000000000000000001"))
    assert source.completed == {"J1": b'{"sum":1.10000000000000000001}'}


class Loan(Struct):
    amount: Decimal


async def test_a_struct_is_a_view_of_the_variables_and_only_what_is_returned_is_set():
    def double(loan: Loan):
        return Loan(amount=loan.amount * 2)

    source = await outcome_of(double, amount=21, other="stays as the engine has it")
    assert source.completed == {"J1": b'{"amount":42}'}


async def test_an_exception_is_a_failure_that_may_be_tried_again():
    def fail(_variables):
        raise ValueError("no voice")

    assert (await outcome_of(fail)).failed == {"J1": ("no voice", True)}


async def test_an_exception_without_words_is_known_by_its_name():
    def fail(_variables):
        raise KeyError

    assert (await outcome_of(fail)).failed == {"J1": ("KeyError", True)}


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (lambda: 7, "a handler returns an object or nothing, not int"),
        (lambda: {"x": object()}, "the result is not JSON"),
    ],
)
async def test_a_result_that_is_no_object_is_not_tried_again(handler: Callable[[], object], reason: str):
    [(message, retryable)] = (await outcome_of(handler)).failed.values()
    assert reason in message
    assert not retryable


async def test_a_handler_can_say_that_trying_again_is_in_vain():
    def fail(_variables):
        raise NonRetryable("unknown customer")

    assert (await outcome_of(fail)).failed == {"J1": ("unknown customer", False)}


async def test_a_handler_can_say_how_long_its_job_is_to_rest():
    def fail(_variables):
        raise RetryLater("the bank is closed", after=timedelta(minutes=5))

    source = await outcome_of(fail)
    assert source.failed == {"J1": ("the bank is closed", True)}
    assert source.rests == [timedelta(minutes=5)]


@pytest.mark.parametrize("after", [timedelta(seconds=-1), timedelta(hours=2)])
def test_a_rest_has_its_limits(after: timedelta):
    with pytest.raises(ValueError, match="at most"):
        RetryLater("the bank is closed", after=after)


async def test_a_job_nobody_asked_for_fails_for_good():
    source = Source(a_job(type_="sing"))
    async with working(source, greet=lambda: None):
        await source.until(lambda: source.failed)
    assert source.failed == {"J1": ("no handler registered for sing", False)}


async def test_no_more_jobs_are_claimed_than_there_is_room_for():
    source, gate, most = Source(*map(a_job, range(5))), asyncio.Event(), 0
    running = 0

    async def handler(_variables):
        nonlocal running, most
        running += 1
        most = max(most, running)
        source.changed.set()
        await gate.wait()
        running -= 1

    async with working(source, greet=handler):
        await source.until(lambda: running == 2)
        gate.set()
        await source.until(lambda: len(source.completed) == 5)
    assert most == 2
    assert all(poll.max_jobs in (1, 2) for poll in source.polls)


async def test_a_poll_that_fails_is_tried_again():
    source = Source(a_job())
    source.troubles["poll"] = [JobsUnavailable("away"), JobsRefused("400 no")]
    async with working(source, greet=lambda: None):
        await source.until(lambda: source.completed)
    assert len(source.polls) >= 3


async def test_a_report_that_does_not_get_through_is_sent_again():
    source = Source(a_job())
    source.troubles["complete"] = [JobsUnavailable("away")]
    async with working(source, greet=lambda: {"x": 1}):
        await source.until(lambda: source.completed)
    assert source.completed == {"J1": b'{"x":1}'}


async def test_a_result_that_is_refused_fails_the_job_for_good():
    source = Source(a_job())
    source.troubles["complete"] = [JobsRefused("400 no")]
    async with working(source, greet=lambda: None):
        await source.until(lambda: source.failed)
    assert source.failed == {"J1": ("the result was refused: 400 no", False)}


async def test_a_result_for_a_job_that_is_gone_is_dropped():
    source = Source(a_job(1), a_job(2))
    source.troubles["complete"] = [JobsRefused("404 gone", is_gone=True)]
    async with working(source, greet=lambda: None):
        await source.until(lambda: source.completed)
    assert source.failed == {}


async def test_the_lease_is_renewed_while_a_handler_runs():
    source, gate = Source(a_job()), asyncio.Event()

    async def slow(_variables):
        await gate.wait()

    async with working(source, greet=slow):
        await source.until(lambda: source.renewed >= 2)
        gate.set()
        await source.until(lambda: source.completed)


@pytest.mark.parametrize("answer", ["does not know how", JobsRefused("409 lost")])
async def test_a_lease_that_cannot_be_renewed_does_not_stop_the_handler(answer: object):
    source, gate = Source(a_job()), asyncio.Event()
    source.renews = False
    if isinstance(answer, Exception):
        source.troubles["renew"] = [answer]

    async def slow(_variables):
        await gate.wait()

    async with working(source, greet=slow):
        await source.until(lambda: source.renewed)
        gate.set()
        await source.until(lambda: source.completed)
    assert source.renewed == 1


async def test_leaving_finishes_what_was_begun_and_claims_nothing_more():
    source, begun, gate = Source(a_job(1)), asyncio.Event(), asyncio.Event()

    async def slow(_variables):
        begun.set()
        await gate.wait()

    async def leave_early(work: Callable[[], Awaitable[object]]) -> None:
        async with working(source, greet=slow):
            await begun.wait()
            asyncio.get_running_loop().call_later(0.01, gate.set)
            await work()

    async with asyncio.timeout(PATIENCE_S):
        await leave_early(lambda: source.until(lambda: len(source.polls) == 2))
    assert source.completed == {"J1": b"{}"}


async def test_leaving_does_not_wait_longer_than_its_grace():
    source = Source(a_job())

    async def forever(_variables):
        await asyncio.Event().wait()

    async with working(source, grace=0.05, greet=forever):
        await source.until(lambda: len(source.polls) == 2)
    assert source.completed == source.failed == {}


async def test_handlers_must_be_callable_with_what_there_is():
    with pytest.raises(TypeError, match="3 arguments"):
        _ = Function("job", "greet", lambda a, b, c: None, context=Job).signature


# Tasks of flows (docs/reference/flows.md#tasks-are-jobs)


def a_task_job(value: Any, **members: Any) -> Job:
    payload = {"instanceId": "I", "node": 3, "name": "X", "base": "greet", "parameters": {"times": 2}, "input": value}
    return Job(id="J1", type="greet", instance_id="I", variables={**payload, **members})


async def outcome_of_task(handler: Callable[..., object], job: Job) -> Source:
    source = Source(job)
    function = Function("task", "greet", handler, context=Task)
    worker = JobWorker(source, {"greet": function}, concurrency=1, lease=timedelta(seconds=0.3), name="w")
    leave = asyncio.Event()
    serving = asyncio.create_task(worker.serve(leave, grace=PATIENCE_S))
    await source.until(lambda: source.completed or source.failed)
    leave.set()
    await asyncio.wait_for(serving, PATIENCE_S)
    return source


async def test_a_task_gets_its_input_and_what_the_flow_says_of_it():
    def greet(value: dict[str, str], task: Task) -> dict[str, object]:
        return {"said": value["name"], "times": task.parameters, "of": [task.name, task.type, task.node, task.element]}

    source = await outcome_of_task(greet, a_task_job({"name": "Ada"}, element=4))
    assert source.completed == {"J1": b'{"said":"Ada","times":{"times":2},"of":["X","greet",3,4]}'}


@pytest.mark.parametrize(
    ("returned", "reported"),
    [
        (None, b"{}"),
        ({}, b"{}"),
        ([1, {"a": 2}], b'{"$output":[1,{"a":2}]}'),
        (5, b'{"$output":5}'),
        ("text", b'{"$output":"text"}'),
    ],
)
async def test_a_task_may_return_any_value(returned: object, reported: bytes):
    assert (await outcome_of_task(lambda _value: returned, a_task_job([]))).completed == {"J1": reported}


async def test_a_task_takes_its_input_as_the_type_of_its_annotation():
    class Order(Struct):
        amount: Decimal

    source = await outcome_of_task(lambda order: {"double": order.amount * 2}, a_task_job({"amount": Decimal("1.50")}))
    assert source.failed  # a lambda has no annotation: it gets a dict

    def double(order: Order) -> dict[str, Decimal]:
        return {"double": order.amount * 2}

    source = await outcome_of_task(double, a_task_job({"amount": Decimal("1.50")}))
    assert source.completed == {"J1": b'{"double":3.00}'}


async def test_a_job_that_no_flow_has_made_is_no_task():
    source = await outcome_of_task(lambda value: value, Job(id="J1", type="greet", instance_id="I", variables={"a": 1}))
    assert source.failed == {"J1": ("job J1 of type greet is not of a flow", True)}


def test_a_name_is_that_of_a_job_or_of_a_task():
    node = Node()
    node.task("greet")(lambda value: value)
    with pytest.raises(ValueError, match="already a handler for jobs of type greet"):
        node.job("greet")


def test_names_of_one_function_are_told_apart_too():
    node = Node()
    with pytest.raises(ValueError, match="already a handler for jobs of type greet"):

        @node.job("greet")
        @node.task("greet")
        def greet(value: object) -> object:
            return value
