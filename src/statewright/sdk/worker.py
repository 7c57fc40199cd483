"""Running functions for callouts: so many at once, each to its answer."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.functions import Function, Kind
from statewright.sdk.threads import DaemonThreads
from statewright.sdk.wire import Request, answer, failure

log = logging.getLogger("statewright.sdk")

Functions: TypeAlias = Mapping[tuple[Kind, str], Function]
"""By kind and name."""


class Worker:
    """Serves callouts of any number of streams; what is under way outlives the stream it came from."""

    def __init__(self, functions: Functions, *, concurrency: int) -> None:
        self._functions = functions
        self._slots = asyncio.Semaphore(concurrency)
        self._threads = DaemonThreads(concurrency)
        self._under_way = set[asyncio.Task[None]]()

    def take(self, request: Request, reply: Callable[[CloudEvent], None]) -> None:
        """Begins to work on a request as soon as there is a free slot; ``reply`` gets the answer."""
        task = asyncio.create_task(self._work(request, reply))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def finish(self, *, within: float) -> None:
        """Waits for what is under way, for so many seconds at most."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=within)

    async def close(self) -> None:
        """Breaks off what is still under way. Plain functions cannot be broken off; their threads are left behind."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._threads.shutdown()

    async def _work(self, request: Request, reply: Callable[[CloudEvent], None]) -> None:
        async with self._slots:
            reply(await self._answer(request))

    async def _answer(self, request: Request) -> CloudEvent:
        name = request.context.name
        function = self._functions.get((request.kind, name))
        if function is None:
            log.error("function_unknown kind=%s name=%s", request.kind, name)
            return failure(request, code="UNKNOWN_FUNCTION", message=f"this node has no {request.kind} named {name}")
        try:
            return answer(request, await function.call(request.document, request.context, self._threads))
        except Exception as error:  # whatever goes wrong in a user's function is its answer
            log.exception("function_failed kind=%s name=%s entity=%s", request.kind, name, request.context.entity_id)
            return failure(request, code=type(error).__name__, message=str(error) or type(error).__name__)
