"""Running functions for callouts, a limited number at once."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final, TypeAlias

from msgspec.structs import replace

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.exchange import Transport
from statewright.sdk.functions import NOUNS, SLIPS, Function, Kind, describe_error, quote_error
from statewright.sdk.http import begin_function_span
from statewright.sdk.jobs import DaemonThreadPool, NonRetryable
from statewright.sdk.wire import CalloutRequest, build_answer, build_failed_answer
from statewright.telemetry.tracing import NO_SPAN

log = logging.getLogger("statewright.sdk")

Functions: TypeAlias = Mapping[tuple[Kind, str], Function]
"""Functions by kind and name."""

MAX_TOLD: Final = 20
"""Names of functions that are listed when another one was asked for."""


class CalloutWorker:
    """Serves callouts of any number of streams; those under way go on when their stream ends.

    ``transport`` sends requests of functions to the server; None when they can send none.
    """

    def __init__(self, functions: Functions, *, concurrency: int, transport: Transport | None = None) -> None:
        self._functions = functions
        self._transport = transport
        self._semaphore = asyncio.Semaphore(concurrency)
        self._threads = DaemonThreadPool(concurrency)
        self._running = set[asyncio.Task[None]]()

    def submit(self, request: CalloutRequest, reply: Callable[[CloudEvent], None]) -> None:
        """Run a request as soon as fewer than ``concurrency`` run; ``reply`` is called with the answer."""
        task = asyncio.create_task(self._work(request, reply))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait_finished(self, *, within: float) -> None:
        """Wait for the callouts under way, ``within`` seconds at most."""
        if self._running:
            await asyncio.wait(self._running, timeout=within)

    async def close(self) -> None:
        """Cancel the callouts under way. Plain functions cannot be cancelled; their threads go on."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown()

    async def _work(self, request: CalloutRequest, reply: Callable[[CloudEvent], None]) -> None:
        async with self._semaphore:
            reply(await self._run_callout(request))

    async def _run_callout(self, request: CalloutRequest) -> CloudEvent:
        reachable = replace(request, context=replace(request.context, transport=self._transport))
        try:
            with begin_function_span(f"{request.kind} {request.context.name}", request.context.trace) or NO_SPAN:
                outcome = await run_function(self._functions, reachable, self._threads)
            return build_answer(reachable, outcome)
        except UnknownFunction as error:
            log.error("function_unknown kind=%s name=%s", request.kind, request.context.name)  # noqa: TRY400 - no fault of the code
            return build_failed_answer(request, code="UNKNOWN_FUNCTION", message=str(error))
        except Exception as error:  # whatever goes wrong in a user's function is its answer
            _log_failure(request, error)
            return build_error_answer(request, error)


def _log_failure(request: CalloutRequest, error: Exception) -> None:
    """A slip of the code with its traceback; what a function refuses on purpose is one line."""
    kind, name, entity = request.kind, request.context.name, request.context.entity_id
    if isinstance(error, SLIPS):
        log.error("function_failed kind=%s name=%s entity=%s", kind, name, entity, exc_info=error)
    else:
        reason = quote_error(error)
        log.warning("function_refused kind=%s name=%s entity=%s reason=%s", kind, name, entity, reason)


class UnknownFunction(LookupError):
    """The node has no such function."""


async def run_function(functions: Functions, request: CalloutRequest, threads: Executor) -> object:
    """What the function that a request names returns. Raises :class:`UnknownFunction`, or what the function raises."""
    function = functions.get((request.kind, request.context.name))
    if function is None:
        raise UnknownFunction(_describe_unknown(functions, request.kind, request.context.name))
    return await function.call(request.document, request.context, threads)


def _describe_unknown(functions: Functions, kind: Kind, name: str) -> str:
    """Which function is missing, and what else of its kind, or of its name, there is."""
    others = sorted(other for other_kind, other in functions if other_kind == kind)
    told = [f"it has {', '.join(others[:MAX_TOLD])}" + (", …" if len(others) > MAX_TOLD else "")] if others else []
    told += [f"a {NOUNS[other]} has that name" for other in NOUNS if other != kind and (other, name) in functions]
    return "; ".join([f"this node has no {NOUNS[kind]} named {name}", *told])


def build_error_answer(request: CalloutRequest, error: Exception) -> CloudEvent:
    """The answer for a function that raised."""
    final = isinstance(error, NonRetryable)
    return build_failed_answer(request, code=type(error).__name__, message=describe_error(error), final=final)
