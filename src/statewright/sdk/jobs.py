"""Jobs of processes, done by handlers of this program: of the JSON step engine (docs/reference/steps.md#workers), and
tasks of flows (docs/reference/flows.md#tasks-are-jobs).

A worker polls for as many jobs as it can run at once, runs a handler for each, and reports what it returned. The engine
delivers at least once: a job whose worker was lost comes again, so handlers should be idempotent.

One task polls, never for more jobs than may run beside those under way; every job is a task of its own, and its lease
is renewed while its handler runs. Whatever a handler raises is reported and ends nothing but its job. When the worker
is to leave it stops polling, and finishes the jobs that it has claimed.

What a worker is given: a job of a process, and the task of a flow that a job is for.

A pool of threads for plain functions, which cannot keep a program from ending.
"""

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.endpoint import BackOff
from statewright.sdk.functions import SLIPS, Function, describe_error, quote_error
from statewright.sdk.outcomes import NotJson, encode_json

CallP = ParamSpec("CallP")
ResultT = TypeVar("ResultT")


class DaemonThreadPool(Executor):
    """A pool of up to ``limit`` threads, started as needed and used again.

    The executor of the standard library waits at the end of a program for every function it runs. Here one that never
    returns cannot keep a node from ending.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(  # pyright: ignore[reportIncompatibleMethodOverride]  # typeshed names the same parameters otherwise
        self, fn: Callable[CallP, ResultT], /, *args: CallP.args, **kwargs: CallP.kwargs
    ) -> Future[ResultT]:
        """Run a call in a thread, at once if one is idle or may be started."""
        future: Future[ResultT] = Future()
        self._calls.put(partial(_run_call, future, partial(fn, *args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._started < self._limit:
            self._started += 1
            threading.Thread(target=self._run_calls, name=f"statewright-node-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End every thread as it becomes idle; wait for none of them."""
        for _ in range(self._started):
            self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._take_call()) is not None:
            call()

    def _take_call(self) -> Callable[[], None] | None:
        try:
            return self._calls.get_nowait()
        except Empty:
            self._idle.release()  # only now: with more calls waiting this thread is not free
            return self._calls.get()


def _run_call(future: Future[ResultT], call: Callable[[], ResultT]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # the future passes it to the caller
        future.set_exception(error)


class Job(Struct, frozen=True, kw_only=True):
    """A claimed job. ``variables`` are those of the instance when the job was made."""

    id: str
    type: str
    instance_id: str
    step_id: str = ""
    step_execution_id: str = ""
    retries_remaining: int = 0
    lock_expires_at: datetime | None = None
    """When the lease ends and the engine may give the job to another worker; it is renewed where the engine allows."""
    variables: JsonObject = {}


class Task(Struct, frozen=True, kw_only=True):
    """What a flow asks a task to do. Parameters and input are apart; neither changes the other."""

    id: str
    """Of the job."""
    type: str
    """What the text calls the task behind its alias; workers poll for it."""
    name: str
    """What the text calls it where it is used."""
    instance_id: str
    node: int
    """The number of the node."""
    parameters: Any
    """An object or an array; what is in it is between the flow and its workers."""
    input: JsonValue
    element: int | None = None
    """The place of the element of an iteration that it is for."""
    uri: str | None = None
    """Of a resource that is read or written."""
    retries_remaining: int = 0


def read_task(job: Job) -> Task:
    """The task in a job. Raises ``ValueError`` for a job that no flow has made."""
    payload: JsonObject = job.variables
    name, node, element, uri = (payload.get(member) for member in ("name", "node", "element", "uri"))
    if not isinstance(name, str) or not isinstance(node, int) or "input" not in payload:
        raise ValueError(f"job {job.id} of type {job.type} is not of a flow")
    return Task(
        id=job.id,
        type=job.type,
        name=name,
        instance_id=job.instance_id,
        node=node,
        parameters=payload.get("parameters", {}),
        input=payload["input"],
        element=element if isinstance(element, int) else None,
        uri=uri if isinstance(uri, str) else None,
        retries_remaining=job.retries_remaining,
    )


class TaskCall(Struct, frozen=True, kw_only=True):
    """What the handler of a task kind may know beside the fields of the task."""

    kind: str
    label: str
    step: str
    execution_id: str
    step_run: str
    attempt: int
    """From 1."""
    spec: Any
    """The configuration of the task, merged with that of its step and playbook."""
    element: int | None = None
    """The place of the loop's element."""
    credentials: Any = {}
    """What the keychain has for the step, by name, for this call only. Not shown by ``repr``."""

    def __repr__(self) -> str:
        return f"TaskCall(kind={self.kind!r}, key={self.key!r}, attempt={self.attempt!r})"

    @property
    def key(self) -> str:
        """The same for every attempt of this task in this run, also by another worker: for tools that can be asked
        twice for one effect."""
        return f"{self.execution_id}:{self.step_run}:{self.label}"


class NonRetryable(Exception):
    """Raised by a handler whose job would fail again: the step fails at once, whatever retries are left."""


MAX_RETRY_AFTER: Final = timedelta(hours=1)
"""Longest rest that a worker may ask for."""


class RetryLater(Exception):
    """Raised by a handler whose job is to be tried again, but not before ``after`` has passed: 0 s to an hour, in whole
    seconds. It uses a retry like any other failure, and counts in place of the backoff of the definition. Raises
    ``ValueError`` for another time.
    """

    def __init__(self, reason: str, *, after: timedelta) -> None:
        super().__init__(reason)
        if not timedelta(0) <= after <= MAX_RETRY_AFTER:
            raise ValueError(f"a job rests for at most {MAX_RETRY_AFTER}, not {after}")
        self.after = after


class JobsUnavailable(Exception):
    """The engine cannot be reached or cannot serve now; the same call may succeed later."""


class JobsRefused(Exception):
    """The engine refuses a call, and would refuse it again. ``is_gone``: the job does not exist any more."""

    def __init__(self, reason: str, *, is_gone: bool = False) -> None:
        super().__init__(reason)
        self.is_gone = is_gone


class JobLost(Exception):
    """The job is over, or another worker has it: nobody waits for its result."""


class Poll(Struct, frozen=True, kw_only=True):
    """A worker's request for jobs. ``wait``: how long the engine may wait for one before it answers."""

    worker: str
    types: tuple[str, ...]
    max_jobs: int
    lease: timedelta
    wait: timedelta


class JobSource(Protocol):
    """The jobs of an engine over one protocol. All methods raise :class:`JobsUnavailable` or :class:`JobsRefused`."""

    async def poll(self, poll: Poll) -> Sequence[Job]:
        """Claim jobs; they are leased to the worker."""
        ...

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        """Report a result, a JSON object."""
        ...

    async def fail(
        self, job: Job, worker: str, message: str, *, retryable: bool, rest: timedelta | None = None
    ) -> None:
        """Report a failure. ``rest``: how long the job is not to be claimed; None: as its definition says."""
        ...

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        """Extend the lease; False where the protocol has no such call. Raises :class:`JobLost`."""
        ...

    async def report_progress(self, job: Job, worker: str, report: bytes) -> "JsonObject | None":
        """Report what a pipeline has done so far, a JSON object; what of it the engine has taken, None where it takes
        no such reports. Raises :class:`JobLost`.
        """
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class PayloadRunner(Protocol):
    """Does jobs whose payload says what is to be done: pipelines of playbooks."""

    @property
    def job_types(self) -> tuple[str, ...]:
        """The types of jobs that it can do."""
        ...

    async def run(
        self, payload: JsonObject, threads: Executor, report: Callable[[JsonObject], Awaitable["JsonObject | None"]]
    ) -> JsonObject:
        """The completion of a job; ``report`` is awaited with what can be told before, and answers what was taken of
        it. Raises :class:`NonRetryable`, and what ``report`` does."""
        ...


MAX_POLL_WAIT: Final = timedelta(seconds=25)
"""The longest time that a poll waits for a job."""
DEFAULT_LEASE: Final = timedelta(seconds=30)
MIN_POLL_INTERVAL_S: Final = 0.5
"""Seconds between two polls that find nothing, for engines that answer at once."""
MAX_MESSAGE_CHARS: Final = 10_000
"""Characters of a failure's message that are reported."""

log = logging.getLogger("statewright.sdk.jobs")


class JobWorker:
    """Does jobs of the types it has handlers for, ``concurrency`` at once."""

    def __init__(
        self,
        source: JobSource,
        handlers: Mapping[str, Function],
        *,
        pipelines: PayloadRunner | None = None,
        concurrency: int = 64,
        lease: timedelta = DEFAULT_LEASE,
        wait: timedelta = MAX_POLL_WAIT,
        name: str | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._source = source
        self._handlers = handlers
        self._pipelines = pipelines
        self._types = (*handlers, *(pipelines.job_types if pipelines is not None else ()))
        self._takes_progress = True
        self._concurrency = concurrency
        self._lease = lease
        self._wait = wait
        self._threads = DaemonThreadPool(concurrency)
        self._running = set[asyncio.Task[None]]()
        self._backoff = BackOff()

    async def serve(self, leave: asyncio.Event, *, grace: float) -> None:
        """Returns when ``leave`` is set and what was claimed is done; ``grace`` limits that, in seconds."""
        leaving = asyncio.create_task(leave.wait(), name="leave")
        log.info("job_worker_started worker=%s types=%s", self.name, ",".join(self._types))
        try:
            while not leaving.done():
                await self._poll_once(leaving)
            if self._running:
                await asyncio.wait(self._running, timeout=grace)
        finally:
            leaving.cancel()
            await self._cancel_running()
            await self._source.close()
            log.info("job_worker_stopped worker=%s", self.name)

    async def _poll_once(self, leaving: "asyncio.Task[bool]") -> None:
        """One poll, or when as many jobs run as may, the wait until one of them ends."""
        room = self._concurrency - len(self._running)
        if room == 0:
            await asyncio.wait({leaving, *self._running}, return_when=asyncio.FIRST_COMPLETED)
            return
        begun = time.monotonic()
        polling = asyncio.create_task(self._source.poll(self._build_poll(room)), name="poll")
        try:
            await asyncio.wait({leaving, polling}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            polling.cancel()  # unless it is done; the engine notices, and hands out no jobs
        await asyncio.wait({polling})
        if polling.cancelled():
            return
        try:
            jobs = polling.result()
        except (JobsUnavailable, JobsRefused) as error:
            log.warning("job_poll_failed worker=%s reason=%s", self.name, error)
            await _pause(leaving, self._backoff.next())
            return
        self._backoff.reset()
        for job in jobs:
            self._start_job(job)
        if not jobs:
            await _pause(leaving, MIN_POLL_INTERVAL_S - (time.monotonic() - begun))

    def _build_poll(self, room: int) -> Poll:
        return Poll(worker=self.name, types=self._types, max_jobs=room, lease=self._lease, wait=self._wait)

    def _start_job(self, job: Job) -> None:
        task = asyncio.create_task(self._run_job(job), name=f"job-{job.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_job(self, job: Job) -> None:
        renewing = asyncio.create_task(self._renew(job, asyncio.current_task()), name=f"lease-{job.id}")
        try:
            await self._report(job, await self._run_handler(job))
        except JobLost as lost:
            log.info("job_lost job=%s type=%s reason=%s", job.id, job.type, lost)
        except JobsUnavailable as error:  # the lease ends, and the job comes again
            log.warning("job_report_failed job=%s type=%s reason=%s", job.id, job.type, error)
        finally:
            renewing.cancel()

    async def _run_handler(self, job: Job) -> "bytes | Exception":
        """The variables that the handler returned, as JSON, or what it raised. Raises :class:`JobLost`."""
        handler = self._handlers.get(job.type)
        if handler is None and (self._pipelines is None or job.type not in self._pipelines.job_types):
            return NonRetryable(f"no handler registered for {job.type}")
        try:
            if handler is None:
                return await self._run_pipeline(job)
            return await run_handler(handler, job, self._threads)
        except JobLost:
            raise
        except Exception as error:  # whatever goes wrong in a user's handler is its outcome
            if isinstance(error, SLIPS):
                log.exception("job_failed job=%s type=%s instance=%s", job.id, job.type, job.instance_id)
            else:
                log.warning("job_refused job=%s type=%s reason=%s", job.id, job.type, quote_error(error))
            return error

    async def _run_pipeline(self, job: Job) -> bytes:
        assert self._pipelines is not None  # noqa: S101 - the type of the job is one of its

        async def report(progress: JsonObject) -> "JsonObject | None":
            if self._takes_progress:
                with suppress(JobsUnavailable, JobsRefused):  # the completion has it all
                    taken = await self._source.report_progress(job, self.name, encode(progress))
                    self._takes_progress = taken is not None
                    return taken
            return None

        return encode(await self._pipelines.run(job.variables, self._threads, report))

    async def _report(self, job: Job, outcome: "bytes | Exception") -> None:
        """Report an outcome. Raises :class:`JobsUnavailable` when the engine did not take it before the lease ended."""
        if isinstance(outcome, Exception):
            await self._report_with_retry(job, outcome)
            return
        try:
            await self._report_with_retry(job, outcome)
        except JobsRefused as refused:  # what was returned cannot be stored; it could not at another try either
            if not refused.is_gone:
                await self._report_with_retry(job, NonRetryable(f"the result was refused: {refused}"))

    async def _report_with_retry(self, job: Job, outcome: "bytes | Exception") -> None:
        pauses, until = BackOff(), time.monotonic() + self._lease.total_seconds()
        while True:
            try:
                await self._report_once(job, outcome)
            except JobsUnavailable:
                pause = pauses.next()
                if time.monotonic() + pause > until:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    async def _report_once(self, job: Job, outcome: "bytes | Exception") -> None:
        if isinstance(outcome, bytes):
            await self._source.complete(job, self.name, outcome)
            return
        failure = describe_failure(outcome)
        try:
            await self._source.fail(job, self.name, failure.message, retryable=failure.retryable, rest=failure.rest)
        except JobsRefused as refused:
            log.warning("job_report_refused job=%s reason=%s", job.id, refused)

    async def _renew(self, job: Job, running: "asyncio.Task[object] | None") -> None:
        """Renew the lease of a job while its handler runs, where the engine allows it. A pipeline whose run is over,
        because it was cancelled or another worker has it, is cancelled; other handlers go on.
        """
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                if not await self._source.renew(job, self.name, self._lease):
                    return
            except JobLost as lost:
                log.info("job_lost job=%s type=%s reason=%s", job.id, job.type, lost)
                if running is not None and self._pipelines is not None and job.type in self._pipelines.job_types:
                    running.cancel()
                return
            except JobsRefused as refused:
                log.warning("job_lease_lost job=%s type=%s reason=%s", job.id, job.type, refused)
                return
            except JobsUnavailable:
                continue

    async def _cancel_running(self) -> None:
        """Ends what still runs; plain handlers cannot be ended, their threads are left behind."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown()


class JobFailure(Struct, frozen=True, kw_only=True):
    """A failure as the engine is told of it. ``rest``: how long the job is not to be claimed; None: as its definition
    says.
    """

    message: str
    retryable: bool
    rest: timedelta | None = None


async def run_handler(handler: Function, job: Job, threads: Executor) -> bytes:
    """The completion of a job: what its handler returned, as JSON. Raises what the handler raises, and
    :class:`NotJson`.
    """
    if handler.kind == "task":
        task = read_task(job)
        return _encode_output(await handler.call(encode(task.input), task, threads))
    return _encode_object(await handler.call(encode(job.variables), job, threads))


def describe_failure(error: Exception) -> JobFailure:
    """What the engine is told of an exception that a handler raised."""
    return JobFailure(
        message=describe_error(error)[:MAX_MESSAGE_CHARS],
        retryable=not isinstance(error, NonRetryable | NotJson),
        rest=error.after if isinstance(error, RetryLater) else None,
    )


def _encode_object(returned: object) -> bytes:
    """What a handler returned as a JSON object; nothing is an empty one. Raises :class:`NotJson`."""
    text = b"{}" if returned is None else encode_json(returned)
    if not text.startswith(b"{"):
        raise NotJson(f"a handler returns an object or nothing, not {type(returned).__name__}")
    return text


def _encode_output(returned: object) -> bytes:
    """What the handler of a task returned, as an object (docs/reference/flows.md#tasks-are-jobs). Raises
    :class:`NotJson`.
    """
    text = b"{}" if returned is None else encode_json(returned)
    return text if text.startswith(b"{") else b'{"$output":%b}' % text


async def _pause(leaving: "asyncio.Task[bool]", seconds: float) -> None:
    if seconds > 0:
        await asyncio.wait({leaving}, timeout=seconds)
