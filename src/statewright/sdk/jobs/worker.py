"""Polling for jobs, running their handlers, reporting the outcome.

One task polls, never for more jobs than there is room for; every job is a task of its own, and its lease is renewed
while its handler runs. Whatever a handler raises is reported and ends nothing but its job. When the worker is told to
leave it stops polling, and what it has claimed is finished.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from statewright.jsonval.codec import encode as encode_exactly
from statewright.sdk.backoff import BackOff
from statewright.sdk.functions import Function
from statewright.sdk.jobs.job import Job, NonRetryable
from statewright.sdk.jobs.source import JobSource, JobsRefused, JobsUnavailable, Poll
from statewright.sdk.outcomes import NotJson, encode
from statewright.sdk.threads import DaemonThreads

WAIT: Final = timedelta(seconds=25)
"""How long a poll may wait for a job."""
LEASE: Final = timedelta(seconds=30)
SHORTEST_ROUND: Final = 0.5
"""Seconds between two polls that find nothing: an engine that cannot wait is not asked without a pause."""
LONGEST_MESSAGE: Final = 10_000
"""Characters of a failure that are reported."""

log = logging.getLogger("statewright.sdk.jobs")


class JobWorker:
    """Does jobs of the types it has handlers for, ``concurrency`` at once."""

    def __init__(
        self,
        source: JobSource,
        handlers: Mapping[str, Function],
        *,
        concurrency: int = 64,
        lease: timedelta = LEASE,
        wait: timedelta = WAIT,
        name: str | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._source = source
        self._handlers = handlers
        self._concurrency = concurrency
        self._lease = lease
        self._wait = wait
        self._threads = DaemonThreads(concurrency)
        self._running = set[asyncio.Task[None]]()
        self._pauses = BackOff()

    async def serve(self, leave: asyncio.Event, *, grace: float) -> None:
        """Returns when ``leave`` is set and what was claimed is done; ``grace`` limits that, in seconds."""
        leaving = asyncio.create_task(leave.wait(), name="leave")
        log.info("job_worker_started worker=%s types=%s", self.name, ",".join(self._handlers))
        try:
            while not leaving.done():
                await self._round(leaving)
            if self._running:
                await asyncio.wait(self._running, timeout=grace)
        finally:
            leaving.cancel()
            await self._break_off()
            await self._source.close()
            log.info("job_worker_stopped worker=%s", self.name)

    async def _round(self, leaving: "asyncio.Task[bool]") -> None:
        """One poll, when there is room for a job; or until there is."""
        room = self._concurrency - len(self._running)
        if room == 0:
            await asyncio.wait({leaving, *self._running}, return_when=asyncio.FIRST_COMPLETED)
            return
        begun = time.monotonic()
        polling = asyncio.create_task(self._source.poll(self._poll(room)), name="poll")
        try:
            await asyncio.wait({leaving, polling}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            polling.cancel()  # unless it is done; the engine notices, and keeps what it was about to hand out
        await asyncio.wait({polling})
        if polling.cancelled():
            return
        try:
            jobs = polling.result()
        except (JobsUnavailable, JobsRefused) as error:
            log.warning("job_poll_failed worker=%s reason=%s", self.name, error)
            await _pause(leaving, self._pauses.next())
            return
        self._pauses.reset()
        for job in jobs:
            self._begin(job)
        if not jobs:
            await _pause(leaving, SHORTEST_ROUND - (time.monotonic() - begun))

    def _poll(self, room: int) -> Poll:
        return Poll(worker=self.name, types=tuple(self._handlers), most=room, lease=self._lease, wait=self._wait)

    def _begin(self, job: Job) -> None:
        task = asyncio.create_task(self._do(job), name=f"job-{job.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _do(self, job: Job) -> None:
        renewing = asyncio.create_task(self._renew(job), name=f"lease-{job.id}")
        try:
            await self._report(job, await self._outcome(job))
        except JobsUnavailable as error:  # the lease ends, and the job comes again
            log.warning("job_report_failed job=%s type=%s reason=%s", job.id, job.type, error)
        finally:
            renewing.cancel()

    async def _outcome(self, job: Job) -> "bytes | Exception":
        """The variables that the handler returned, as JSON, or what it raised."""
        handler = self._handlers.get(job.type)
        if handler is None:
            return NonRetryable(f"no handler registered for {job.type}")
        try:
            return _object(await handler.call(encode_exactly(job.variables), job, self._threads))
        except Exception as error:  # whatever goes wrong in a user's handler is its outcome
            log.exception("job_failed job=%s type=%s instance=%s", job.id, job.type, job.instance_id)
            return error

    async def _report(self, job: Job, outcome: "bytes | Exception") -> None:
        """Raises :class:`JobsUnavailable` when nobody took the report while the job was still ours."""
        if isinstance(outcome, Exception):
            await self._insist(job, outcome)
            return
        try:
            await self._insist(job, outcome)
        except JobsRefused as refused:  # what was returned cannot be stored; it could not at another try either
            if not refused.is_gone:
                await self._insist(job, NonRetryable(f"the result was refused: {refused}"))

    async def _insist(self, job: Job, outcome: "bytes | Exception") -> None:
        pauses, until = BackOff(), time.monotonic() + self._lease.total_seconds()
        while True:
            try:
                await self._tell(job, outcome)
            except JobsUnavailable:
                pause = pauses.next()
                if time.monotonic() + pause > until:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    async def _tell(self, job: Job, outcome: "bytes | Exception") -> None:
        if isinstance(outcome, bytes):
            await self._source.complete(job, self.name, outcome)
            return
        message = (str(outcome) or type(outcome).__name__)[:LONGEST_MESSAGE]
        retryable = not isinstance(outcome, NonRetryable | NotJson)
        try:
            await self._source.fail(job, self.name, message, retryable=retryable)
        except JobsRefused as refused:
            log.warning("job_report_refused job=%s reason=%s", job.id, refused)

    async def _renew(self, job: Job) -> None:
        """Keeps a job ours while its handler runs, where the engine lets us."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                if not await self._source.renew(job, self.name, self._lease):
                    return
            except JobsRefused as refused:
                log.warning("job_lease_lost job=%s type=%s reason=%s", job.id, job.type, refused)
                return
            except JobsUnavailable:
                continue

    async def _break_off(self) -> None:
        """Ends what still runs; plain handlers cannot be ended, their threads are left behind."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown()


def _object(returned: object) -> bytes:
    """What a handler returned as a JSON object; nothing is an empty one. Raises :class:`NotJson`."""
    text = b"{}" if returned is None else encode(returned)
    if not text.startswith(b"{"):
        raise NotJson(f"a handler returns an object or nothing, not {type(returned).__name__}")
    return text


async def _pause(leaving: "asyncio.Task[bool]", seconds: float) -> None:
    if seconds > 0:
        await asyncio.wait({leaving}, timeout=seconds)
