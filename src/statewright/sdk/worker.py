"""Running functions for callouts: so many at once, each to its answer."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeAlias

from msgspec.structs import replace

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.client import Transport
from statewright.sdk.functions import Function, Kind
from statewright.sdk.jobs.job import NonRetryable
from statewright.sdk.threads import DaemonThreads
from statewright.sdk.wire import Request, answer, failure

log = logging.getLogger("statewright.sdk")

Functions: TypeAlias = Mapping[tuple[Kind, str], Function]
"""By kind and name."""


class Worker:
    """Serves callouts of any number of streams; what is under way outlives the stream it came from.

    ``transport`` is how functions reach the server; None when they cannot.
    """

    def __init__(self, functions: Functions, *, concurrency: int, transport: Transport | None = None) -> None:
        self._functions = functions
        self._transport = transport
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
        reachable = replace(request, context=replace(request.context, transport=self._transport))
        try:
            return answer(reachable, await result(self._functions, reachable, self._threads))
        except UnknownFunction as error:
            log.error("function_unknown kind=%s name=%s", request.kind, request.context.name)  # noqa: TRY400 - no fault of the code
            return failure(request, code="UNKNOWN_FUNCTION", message=str(error))
        except Exception as error:  # whatever goes wrong in a user's function is its answer
            name, entity = request.context.name, request.context.entity_id
            log.exception("function_failed kind=%s name=%s entity=%s", request.kind, name, entity)
            return failed(request, error)


class UnknownFunction(LookupError):
    """The node has no such function."""


async def result(functions: Functions, request: Request, threads: Executor) -> object:
    """What the function that a request names returns. Raises :class:`UnknownFunction`, or what the function raises."""
    function = functions.get((request.kind, request.context.name))
    if function is None:
        raise UnknownFunction(f"this node has no {request.kind} named {request.context.name}")
    return await function.call(request.document, request.context, threads)


def failed(request: Request, error: Exception) -> CloudEvent:
    """The answer for a function that raised."""
    final = isinstance(error, NonRetryable)
    return failure(request, code=type(error).__name__, message=str(error) or type(error).__name__, final=final)
