"""A calculation node: named functions, and a connection to the server that is kept up.

How a node logs where its program has not set up logging: lines of text, or of JSON (docs/sdk.md#logs).

The SDK logs through Python's ``logging``, an event and its keys in one message: ``node_joined member=%s``. As JSON they
become members, so that the lines of nodes can be searched like those of the service.
"""

import asyncio
import importlib
import json
import logging
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

from msgspec import Struct

from statewright.sdk.endpoint import (
    CONTEXT_PATH_VARIABLE,
    DEFAULT_CONTEXT_PATH,
    DEFAULT_ENDPOINT,
    DEFAULT_PORT,
    ENDPOINT_VARIABLES,
    TAGS_VARIABLES,
    URL_VARIABLES,
    Address,
    Endpoint,
    Tls,
    get_first_set,
    parse_address,
    parse_endpoint,
    read_tls,
)
from statewright.sdk.functions import WORK_KINDS, Context, Function, Handler, Kind
from statewright.sdk.grpc_jobs import GrpcJobs
from statewright.sdk.http import HttpTransport
from statewright.sdk.jobs import DEFAULT_LEASE, Job, JobWorker, PayloadRunner, Task, TaskCall
from statewright.sdk.rest_jobs import RestJobs
from statewright.sdk.session import NodeConnection
from statewright.sdk.tokens import LoopTokens, Token, TokenSource, make_token_source, read_token
from statewright.sdk.worker import CalloutWorker

VARIABLE: Final = "STATEWRIGHT_LOG_FORMAT"

_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"
_EVENT: Final = re.compile(r"(?P<event>[a-z][a-z0-9_]*)(?P<keys>(?: [a-z_]+=%[sdr])*)")
_KEY: Final = re.compile(r"([a-z_]+)=%")
_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "ERROR"}
"""As the service calls them."""


def configure_logging(environment: Mapping[str, str]) -> None:
    """Log to standard error unless the program has set up something else."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    is_json = environment.get(VARIABLE, "").strip() == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # or it would log every request


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: ``time``, ``level``, ``msg``, ``pkg``, then the keys of the event."""

    def format(self, record: logging.LogRecord) -> str:
        event, keys = _split_event(record)
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": _LEVELS.get(record.levelname, record.levelname),
            "msg": event,
            "pkg": record.name.removeprefix("statewright."),
            **keys,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _split_event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its keys; a message of another form is all there is."""
    found = _EVENT.fullmatch(str(record.msg))
    names = _KEY.findall(found["keys"]) if found else []
    if found is None or not isinstance(record.args, tuple) or len(names) != len(record.args):
        return record.getMessage(), {}
    return found["event"], dict(zip(names, record.args, strict=True))


HandlerT = TypeVar("HandlerT", bound=Handler)

HTTP_VARIABLES: Final = (*URL_VARIABLES, "STATEWRIGHT_COMPUTE_HTTP_BASE", "CYODA_COMPUTE_HTTP_BASE")
"""The first is the one to use; the others are older names of it, and that of the dialect."""

_CONTEXTS: Final[Mapping[Kind, type[Struct]]] = {"job": Job, "task": Task, "task_kind": TaskCall}
"""What handlers may take beside their document, where it is no ``Context``."""

_JOB_KINDS: Final[tuple[Kind, ...]] = ("job", "task")
"""Kinds whose names are types of jobs: a node has one handler for each."""

DEFAULT_CONCURRENCY: Final = 64
DEFAULT_GRACE_S: Final = 30.0


class Node:
    """Processors, criteria and functions that answer callouts for some tags, and handlers that do jobs of the step
    engine and tasks of flows.

    ``tags`` are one text, separated by commas, or several; None takes them from ``STATEWRIGHT_COMPUTE_TAGS``. At most
    ``concurrency`` functions run at once, plain ones in threads. When the node is told to stop it gives running
    functions ``grace`` seconds to finish. Jobs, up to ``concurrency`` beside the functions, come over REST, where
    numbers are exact, or over gRPC. ``lease`` is how long the jobs of a node that was lost wait for another one; while
    a handler runs, the lease of its job is renewed.
    """

    def __init__(
        self,
        tags: str | Iterable[str] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        grace: float = DEFAULT_GRACE_S,
        jobs_over: Literal["rest", "grpc"] = "rest",
        lease: timedelta = DEFAULT_LEASE,
    ) -> None:
        self._tags = tags
        self._concurrency = concurrency
        self._grace = grace
        self._jobs_over = jobs_over
        self._lease = lease
        self._functions: dict[tuple[Kind, str], Function] = {}
        self._leave: asyncio.Event | None = None

    @property
    def functions(self) -> tuple[Function, ...]:
        """The registered functions, in order."""
        return tuple(self._functions.values())

    def processor(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that returns the new document, or None to leave it as it is.

        An exception fails the transition with its message. The function may take the document (as plain values with
        exact numbers, or as the ``msgspec.Struct`` its parameter is annotated with) and a :class:`Context`.
        """
        return self._make_registrar("processor", name)

    def criterion(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that says whether a transition may be taken; ``Rejected(reason)`` is a refusal that says
        why."""
        return self._make_registrar("criteria", name)

    def function(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """An alias of :meth:`schedule`, by the name that the protocol has for such functions."""
        return self._make_registrar("function", name)

    def schedule(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a function that says when a scheduled transition fires: a ``Schedule``, a ``timedelta``, a
        ``datetime`` or the result's members as a dict (docs/reference/workflows.md#schedule-functions)."""
        return self._make_registrar("function", name)

    def job(self, type_: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler for jobs of this type, which SERVICE_TASK steps make (docs/reference/steps.md#workers).

        It may take the variables and a :class:`Job`, and returns the variables that it sets, or None. After an
        exception the job is tried again while its step has retries left; :class:`NonRetryable` fails the step at once.
        """
        return self._make_registrar("job", type_)

    def task(self, name: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler for the task of this name in flows (docs/reference/flows.md#tasks-are-jobs).

        It may take the input (as plain values with exact numbers, or as the ``msgspec.Struct`` its parameter is
        annotated with) and a :class:`Task` with the parameters, and returns the output: any JSON value. After an
        exception the task is tried again while it has retries left; :class:`NonRetryable` fails it at once.
        """
        return self._make_registrar("task", name)

    def task_kind(self, kind: str) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler for tasks of this kind in playbooks (docs/reference/playbooks.md#tasks).

        It may take the fields of the task, rendered (as plain values with exact numbers, or as the ``msgspec.Struct``
        its parameter is annotated with) and a :class:`TaskCall`, and returns the result: any JSON value. An exception
        is an outcome with an error of kind ``tool``, on which the policy of the task decides; after
        :class:`NonRetryable` it is told that another attempt would not help.
        """
        importlib.import_module("statewright.sdk.pipelines")  # now, and not when a loop waits for it
        return self._make_registrar("task_kind", kind)

    def run(
        self,
        endpoint: str | None = None,
        *,
        token: Token = None,
        tags: str | Iterable[str] | None = None,
        api: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Serves until SIGTERM or SIGINT; a second signal does not wait for running functions. Parameters:
        :meth:`serve`."""
        configure_logging(os.environ)
        with (
            suppress(KeyboardInterrupt, asyncio.CancelledError),
            asyncio.Runner(loop_factory=_find_loop_factory()) as runner,
        ):
            runner.run(self._run_until_signal(endpoint, token=token, tags=tags, api=api, tls=tls))

    async def serve(
        self,
        endpoint: str | None = None,
        *,
        token: Token = None,
        tags: str | Iterable[str] | None = None,
        api: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Connects, serves callouts and connects again whenever the stream ends, until :meth:`stop`. A node that only
        does jobs polls for them instead.

        ``endpoint`` is the gRPC address; ``api`` that of the REST API, for ``context.client`` and for jobs; ``tls``
        names a private authority or a client certificate. What is not given comes from the node itself or the
        environment (docs/sdk.md#settings): tokens of client credentials are renewed before they expire. Raises
        ``UnusableEndpoint``, ``UnusableAddress``, ``UnusableTls``, ``UnfitSignature``, ``ValueError``.
        """
        tls = tls if tls is not None else read_tls(os.environ)
        where = _find_endpoint(endpoint, tls)
        address = _find_address(api, where)
        tokens = LoopTokens(
            make_token_source(token if token is not None else read_token(os.environ), address=address, tls=tls)
        )
        for function in self.functions:
            _ = function.signature  # so that a signature that cannot work stops the start, not the first callout
        leave = self._leave = asyncio.Event()
        transport = HttpTransport(address, tokens, tls)
        jobs = self._build_job_worker(where, transport, tokens)
        worker = CalloutWorker(self._functions, concurrency=self._concurrency, transport=transport)
        declared = split_tags(tags if tags is not None else self._get_own_tags())
        try:
            async with asyncio.TaskGroup() as parts:
                if jobs is not None:
                    parts.create_task(jobs.serve(leave, grace=self._grace))
                if jobs is None or any(function.kind not in WORK_KINDS for function in self.functions):
                    connection = NodeConnection(where, tokens, worker, tags=declared)
                    parts.create_task(connection.run(leave, grace=self._grace))
        finally:
            await worker.close()
            await transport.close_async()
            self._leave = None

    def stop(self) -> None:
        """Ends :meth:`serve` gracefully: no new callouts, running functions may finish, then the stream is closed."""
        if self._leave is not None:
            self._leave.set()

    def _make_registrar(self, kind: Kind, name: str) -> Callable[[HandlerT], HandlerT]:
        self._refuse_taken(kind, name)

        def register(handler: HandlerT) -> HandlerT:
            self._refuse_taken(kind, name)  # again: several above one function are made before the first registers
            self._functions[kind, name] = Function(kind, name, handler, context=_CONTEXTS.get(kind, Context))
            return handler

        return register

    def _refuse_taken(self, kind: Kind, name: str) -> None:
        if (kind, name) in self._functions:
            raise ValueError(f"there is already a {kind} named {name}")
        if kind in _JOB_KINDS and any((other, name) in self._functions for other in _JOB_KINDS):
            raise ValueError(f"there is already a handler for jobs of type {name}")

    def _build_job_worker(self, where: Endpoint, transport: HttpTransport, tokens: TokenSource) -> JobWorker | None:
        """The worker for jobs; None when there are no handlers for any."""
        handlers = {function.name: function for function in self.functions if function.kind in _JOB_KINDS}
        kinds = {function.name: function for function in self.functions if function.kind == "task_kind"}
        if not handlers and not kinds:
            return None
        source = RestJobs(transport) if self._jobs_over == "rest" else GrpcJobs(where, tokens)
        pipelines = _make_pipeline_runner(kinds) if kinds else None
        return JobWorker(source, handlers, pipelines=pipelines, concurrency=self._concurrency, lease=self._lease)

    def _get_own_tags(self) -> str | Iterable[str]:
        return self._tags if self._tags is not None else get_first_set(os.environ, TAGS_VARIABLES) or ()

    async def _run_until_signal(
        self, endpoint: str | None, *, token: Token, tags: str | Iterable[str] | None, api: str | None, tls: Tls | None
    ) -> None:
        serving = asyncio.ensure_future(self.serve(endpoint, token=token, tags=tags, api=api, tls=tls))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, serving)
        await serving

    def _on_signal(self, serving: "asyncio.Future[None]") -> None:
        if self._leave is None or self._leave.is_set():
            serving.cancel()
        else:
            self.stop()


def _make_pipeline_runner(kinds: Mapping[str, Function]) -> PayloadRunner:
    """What runs pipelines. The interpreter of playbooks is half of what nodes could import, and few of them need it."""
    return cast("PayloadRunner", importlib.import_module("statewright.sdk.pipelines").PipelineRunner(kinds))


def _find_endpoint(given: str | None, tls: Tls) -> Endpoint:
    """Where the gRPC port is: given, named by the environment, or the usual port at the host of the service."""
    if text := given or get_first_set(os.environ, ENDPOINT_VARIABLES):
        return parse_endpoint(text, tls)
    if url := get_first_set(os.environ, URL_VARIABLES):
        return _guess_endpoint(parse_address(url), tls)
    return parse_endpoint(DEFAULT_ENDPOINT, tls)


def _guess_endpoint(address: Address, tls: Tls) -> Endpoint:
    parts = urlsplit(address.origin)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return parse_endpoint(f"{parts.scheme}://{host}:{DEFAULT_PORT}", tls)


def _find_address(given: str | None, endpoint: Endpoint) -> Address:
    """Where the REST API is: given, named by the environment, or the usual port at the host of the endpoint."""
    if text := given or get_first_set(os.environ, HTTP_VARIABLES):
        return parse_address(text, context_path=os.environ.get(CONTEXT_PATH_VARIABLE, DEFAULT_CONTEXT_PATH))
    return parse_address(endpoint.default_api)


def split_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """The tags that a text separated by commas or semicolons, or a collection, names."""
    listed = tags.replace(";", ",").split(",") if isinstance(tags, str) else tags
    return tuple(trimmed for tag in listed if (trimmed := tag.strip()))


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed: it is faster, and not there for every system."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)
