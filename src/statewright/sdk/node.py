"""A calculation node: named functions, and a connection that keeps itself up."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Literal, TypeVar

import uvloop

from statewright.sdk.connection import Connection
from statewright.sdk.context import Context
from statewright.sdk.endpoint import (
    DEFAULT_ENDPOINT,
    ENDPOINT_VARIABLES,
    TAGS_VARIABLES,
    TOKEN_VARIABLES,
    Endpoint,
    first_set,
    parse_endpoint,
)
from statewright.sdk.functions import Function, Handler, Kind
from statewright.sdk.http import HTTP_VARIABLES, HttpTransport
from statewright.sdk.jobs import Job, JobWorker
from statewright.sdk.jobs.rest import RestJobs
from statewright.sdk.jobs.rpc import GrpcJobs
from statewright.sdk.tokens import Token, TokenSource, token_source
from statewright.sdk.worker import Worker

HandlerT = TypeVar("HandlerT", bound=Handler)

DEFAULT_CONCURRENCY: Final = 64
DEFAULT_GRACE: Final = 30.0


class Node:
    """Processors, criteria and functions that answer callouts for some tags, and handlers that do jobs of the step
    engine.

    ``tags`` are one text, separated by commas, or several; None takes them from ``STATEWRIGHT_COMPUTE_TAGS``. At most
    ``concurrency`` functions run at once, plain ones in threads. When the node is told to stop it gives running
    functions ``grace`` seconds to finish. Jobs, up to ``concurrency`` beside the functions, come over REST, where
    numbers are exact, or over gRPC.
    """

    def __init__(
        self,
        tags: str | Iterable[str] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        grace: float = DEFAULT_GRACE,
        jobs_over: Literal["rest", "grpc"] = "rest",
    ) -> None:
        self._tags = tags
        self._concurrency = concurrency
        self._grace = grace
        self._jobs_over = jobs_over
        self._functions: dict[tuple[Kind, str], Function] = {}
        self._leave: asyncio.Event | None = None

    @property
    def functions(self) -> tuple[Function, ...]:
        """What is registered, in order."""
        return tuple(self._functions.values())

    def processor(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that returns the new document, or None to leave it as it is.

        An exception fails the transition with its message. The function may take the document (as plain values with
        exact numbers, or as the ``msgspec.Struct`` its parameter is annotated with) and a :class:`Context`.
        """
        return self._registrar("processor", name)

    def criterion(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that says whether a transition may be taken; ``No(reason)`` is a refusal that says
        why."""
        return self._registrar("criteria", name)

    def function(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """The same as :meth:`schedule`, by the name the protocol has for it."""
        return self._registrar("function", name)

    def schedule(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that tells when a scheduled transition fires: a ``Schedule``, a ``timedelta``, a
        ``datetime`` or the result's members as a dict (spec/workflows.md §13.3)."""
        return self._registrar("function", name)

    def job(self, type_: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler for jobs of this type, which SERVICE_TASK steps make (spec/step-engine.md §13).

        It may take the variables and a :class:`Job`, and returns the variables that it sets, or None. After an
        exception the job is tried again while its step has retries left; :class:`NonRetryable` fails the step at once.
        """
        return self._registrar("job", type_)

    def run(
        self,
        endpoint: str | None = None,
        *,
        token: Token = None,
        tags: str | Iterable[str] | None = None,
        api: str | None = None,
    ) -> None:
        """Serves until SIGTERM or SIGINT; a second signal does not wait for running functions. Parameters:
        :meth:`serve`."""
        if not logging.getLogger().handlers:
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
            logging.getLogger("httpx").setLevel(logging.WARNING)  # or it would tell of every callback
        with suppress(KeyboardInterrupt, asyncio.CancelledError):
            uvloop.run(self._run_until_told(endpoint, token=token, tags=tags, api=api))

    async def serve(
        self,
        endpoint: str | None = None,
        *,
        token: Token = None,
        tags: str | Iterable[str] | None = None,
        api: str | None = None,
    ) -> None:
        """Connects, serves callouts and connects again whenever the stream ends, until :meth:`stop`. A node that only
        does jobs polls for them instead.

        What is not given comes from the node itself or the environment: ``STATEWRIGHT_COMPUTE_ENDPOINT`` or
        ``CYODA_COMPUTE_GRPC_ENDPOINT`` (default ``localhost:9090``), ``STATEWRIGHT_COMPUTE_TOKEN`` or
        ``CYODA_COMPUTE_TOKEN`` (default: none, for a server without authentication). ``api`` is the address of the REST
        API, for ``context.client`` and for jobs, from ``STATEWRIGHT_COMPUTE_HTTP_BASE`` or
        ``CYODA_COMPUTE_HTTP_BASE`` (default: the usual port and path at the host of the endpoint). Raises
        ``UnusableEndpoint``, ``UnusableAddress``, ``UnfitSignature``.
        """
        where = parse_endpoint(endpoint or first_set(os.environ, ENDPOINT_VARIABLES) or DEFAULT_ENDPOINT)
        tokens = token_source(token if token is not None else first_set(os.environ, TOKEN_VARIABLES))
        for function in self.functions:
            _ = function.shape  # so that a signature that cannot work stops the start, not the first callout
        leave = self._leave = asyncio.Event()
        address = api or first_set(os.environ, HTTP_VARIABLES) or where.usual_api
        transport = HttpTransport(address, tokens)
        jobs = self._job_worker(where, address, tokens)
        worker = Worker(self._functions, concurrency=self._concurrency, transport=transport)
        declared = several(tags if tags is not None else self._own_tags())
        try:
            async with asyncio.TaskGroup() as parts:
                if jobs is not None:
                    parts.create_task(jobs.serve(leave, grace=self._grace))
                if jobs is None or any(function.kind != "job" for function in self.functions):
                    connection = Connection(where, tokens, worker, tags=declared)
                    parts.create_task(connection.keep_up(leave, grace=self._grace))
        finally:
            await worker.close()
            await transport.close()
            self._leave = None

    def stop(self) -> None:
        """Ends :meth:`serve` gracefully: no new callouts, running functions may finish, then the stream is closed."""
        if self._leave is not None:
            self._leave.set()

    def _registrar(self, kind: Kind, name: str) -> Callable[[HandlerT], HandlerT]:
        if (kind, name) in self._functions:
            raise ValueError(f"there is already a {kind} named {name}")

        def register(handler: HandlerT) -> HandlerT:
            context = Job if kind == "job" else Context
            self._functions[kind, name] = Function(kind, name, handler, context=context)
            return handler

        return register

    def _job_worker(self, where: Endpoint, address: str, tokens: TokenSource) -> JobWorker | None:
        """Who does the jobs; None when there are no handlers for any."""
        handlers = {function.name: function for function in self.functions if function.kind == "job"}
        if not handlers:
            return None
        source = RestJobs(address, tokens) if self._jobs_over == "rest" else GrpcJobs(where, tokens)
        return JobWorker(source, handlers, concurrency=self._concurrency)

    def _own_tags(self) -> str | Iterable[str]:
        return self._tags if self._tags is not None else first_set(os.environ, TAGS_VARIABLES) or ()

    async def _run_until_told(
        self, endpoint: str | None, *, token: Token, tags: str | Iterable[str] | None, api: str | None
    ) -> None:
        serving = asyncio.ensure_future(self.serve(endpoint, token=token, tags=tags, api=api))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._told, serving)
        await serving

    def _told(self, serving: "asyncio.Future[None]") -> None:
        if self._leave is None or self._leave.is_set():
            serving.cancel()
        else:
            self.stop()


def several(tags: str | Iterable[str]) -> tuple[str, ...]:
    """The tags that a text separated by commas or semicolons, or a collection, names."""
    listed = tags.replace(";", ",").split(",") if isinstance(tags, str) else tags
    return tuple(trimmed for tag in listed if (trimmed := tag.strip()))
