"""How tasks that are still there at the end come to theirs."""

import asyncio
from collections.abc import Sequence
from typing import Any

from statewright import logs
from statewright.grace import Grace

log = logs.logger("app")


async def cancelled(tasks: "Sequence[asyncio.Task[Any]]") -> None:  # Any: nobody looks at the results
    """Cancel the tasks, of which there is at least one, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def finished(tasks: "set[asyncio.Task[object]]", grace: Grace) -> None:
    """Let runs whose client has gone come to their end, for a while; the rest is cancelled, and undone."""
    if tasks:
        _, late = await asyncio.wait(set(tasks), timeout=grace.left)
        if late:
            log.warning("runs_cut_off", count=len(late))
            await cancelled([*late])
