"""A model that grows is locked while schema and entity are written, and not while anything is inferred
(docs/adr/0003).
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import asyncpg
import httpx

from statewright.loop.background import MAX_INLINE_BYTES, run_by_size
from tests.database import connected
from tests.integration.event_loop.watchdog import COMPUTING_THREADS, MAX_HOLD_S, measure_threads
from tests.service import PATIENCE_S, Api, RunningService, done

SERVICE_THREADS = ("service", *COMPUTING_THREADS)

LOCK_NOWAIT = "SELECT FROM model WHERE tenant = $1 FOR UPDATE NOWAIT"


def a_growing_model(api: Api) -> str:
    model = api.a_model(sample={"v": [1]})
    done(api.post(f"/model/{model}/changeLevel/STRUCTURAL"))
    return model


def a_large_document(count: int = 500_000) -> bytes:
    return b'{"new":[' + b",".join([b"7.5"] * count) + b"]}"


async def measure_work_under_lock(url: str, tenant: str, creating: "Future[httpx.Response]") -> float:
    """Seconds that the service computed while somebody else could not lock the tenant's models."""
    worked_s, locked_at = 0.0, None
    async with connected(url) as other:
        while not creating.done():
            try:
                await other.execute(LOCK_NOWAIT, tenant)
                locked_at = None
            except asyncpg.LockNotAvailableError:
                now = measure_threads(SERVICE_THREADS)
                worked_s += 0.0 if locked_at is None else now - locked_at
                locked_at = now
    return worked_s


def test_a_service_that_writes_a_large_document_computes_little_under_the_lock_of_its_model(
    api: Api, tenant: str, service: RunningService
) -> None:
    model = a_growing_model(api)
    with ThreadPoolExecutor(1) as client:
        creating = client.submit(api.post, f"/entity/JSON/{model}", a_large_document())
        worked_s = asyncio.run(measure_work_under_lock(service.database, tenant, creating))
        done(creating.result())
    assert worked_s < MAX_HOLD_S
    assert done(api.get(f"/model/export/SIMPLE_VIEW/{model}"))["model"]["$"][".new[*]"] == "DOUBLE"


@contextmanager
def large_input_waits(service: RunningService) -> Iterator[None]:
    """Whatever the service leaves to its threads for large input waits until the block ends."""
    free = threading.Event()
    waiting = [threading.Event(), threading.Event()]

    def wait(begun: threading.Event) -> None:
        begun.set()
        free.wait(PATIENCE_S)

    blocks = [
        asyncio.run_coroutine_threadsafe(run_by_size(MAX_INLINE_BYTES + 1, partial(wait, begun)), service.loop)
        for begun in waiting
    ]
    try:
        assert all(begun.wait(PATIENCE_S) for begun in waiting)
        yield
    finally:
        free.set()
        for block in blocks:
            block.result(PATIENCE_S)


async def lock_models(url: str, tenant: str) -> None:
    async with connected(url) as other:
        await other.execute(LOCK_NOWAIT, tenant)


def test_others_lock_and_extend_a_model_while_a_large_document_for_it_is_being_read(
    api: Api, tenant: str, service: RunningService
) -> None:
    model = a_growing_model(api)
    with ThreadPoolExecutor(1) as client:
        with large_input_waits(service):
            creating = client.submit(api.post, f"/entity/JSON/{model}", a_large_document(20_000))
            asyncio.run(lock_models(service.database, tenant))
            api.create({"v": [1], "other": True}, model=model)
            assert not creating.done()
        done(creating.result())
    fields = done(api.get(f"/model/export/SIMPLE_VIEW/{model}"))["model"]["$"]
    assert fields == {".new[*]": "DOUBLE", ".other": "BOOLEAN", ".v[*]": "INTEGER"}
