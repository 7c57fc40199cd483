"""What a node writes to its log about a function that raises."""

import asyncio
import logging

import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk import Context, Node
from statewright.sdk.functions import Function
from statewright.sdk.jobs import Job, JobWorker
from statewright.sdk.testing.engine import index_functions
from statewright.sdk.wire import CalloutRequest
from statewright.sdk.worker import CalloutWorker

node = Node()


@node.processor("refuse")
def refuse() -> None:
    raise ValueError("there is no A-1\nin any warehouse")


@node.processor("slip")
def slip() -> None:
    raise KeyError("sku")


async def answer_of(name: str) -> CloudEvent:
    answers: asyncio.Queue[CloudEvent] = asyncio.Queue()
    worker = CalloutWorker(index_functions(node), concurrency=1)
    context = Context(name=name, request_id="r", entity_id="e-1")
    worker.submit(CalloutRequest("processor", b"{}", context), answers.put_nowait)
    answer = await answers.get()
    await worker.close()
    return answer


async def test_a_refusal_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    assert "there is no A-1" in (await answer_of("refuse")).text_data
    [record] = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert record.getMessage() == (
        "function_refused kind=processor name=refuse entity=e-1 reason='ValueError: there is no A-1\\nin any warehouse'"
    )


async def test_a_slip_of_the_code_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert "KeyError: 'sku'" in (await answer_of("slip")).text_data
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.getMessage() == "function_failed kind=processor name=slip entity=e-1"


async def test_so_it_is_with_jobs(caplog: pytest.LogCaptureFixture) -> None:
    handlers = {f.name: Function("job", f.name, f._handler, context=Job) for f in node.functions}
    worker = JobWorker(None, handlers)  # type: ignore[arg-type]  # nothing is polled for
    for name in handlers:
        await worker._run_handler(Job(id="j", type=name, instance_id="i"))
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [
        ("WARNING", False),
        ("ERROR", True),
    ]
