"""Working on something that another process would take over if this one died."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from statewright import logs

LEASE = timedelta(seconds=15)
"""How long work waits for another process when its own is gone."""

log = logs.logger("services")


@asynccontextmanager
async def kept(renew: Callable[[], Awaitable[bool]], lease: timedelta = LEASE) -> AsyncIterator[None]:
    """Renews a lease while the block runs, and cancels the task that runs it when the lease is lost."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks
    keeper = asyncio.create_task(_keep(renew, lease, task), name="lease")
    try:
        yield
    finally:
        keeper.cancel()


async def _keep(renew: Callable[[], Awaitable[bool]], lease: timedelta, task: "asyncio.Task[object]") -> None:
    while True:
        await asyncio.sleep(lease.total_seconds() / 3)
        with surviving("lease_not_renewed"):
            if not await renew():
                task.cancel()
                return


@contextmanager
def surviving(event: str) -> Iterator[None]:
    """A background loop must outlive the failure of one round; it is logged as ``event``."""
    try:
        yield
    except Exception as error:
        log.warn(event, error=repr(error))
