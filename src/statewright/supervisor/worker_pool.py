"""Keeps a number of workers running, each with an HTTP socket that survives it.

The supervisor sends a worker its configuration, and the worker reports when it is ready; both are one line of JSON.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final, Self

import msgspec
from msgspec import Struct

from statewright.app.database import StartFailed
from statewright.telemetry import logs


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """Sent on the standard input of the worker, which stays open as long as the supervisor runs.

    Never on the command line: ``database`` is a URL and may hold a password. ``http_socket`` and ``report`` are
    inherited file descriptors.
    """

    number: int
    database: str
    http_socket: int
    grpc_port: int
    report: int

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class ReadyReport(Struct, frozen=True, kw_only=True):
    """The worker is ready; ``admin_port`` is its own admin listener, on loopback."""

    admin_port: int

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


read_worker_config = msgspec.json.Decoder(WorkerConfig).decode
read_report = msgspec.json.Decoder(ReadyReport).decode


class WorkerFailed(StartFailed):
    """A worker ended, or was given up, before it was ready; it has logged why on stderr."""


class WorkerProcess:
    """A started process. ``admin_port`` is known once it is ready."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.admin_port = 0
        self.is_stop_requested = False
        self._process = process

    @classmethod
    async def start(cls, config: WorkerConfig) -> tuple[Self, int]:
        """A new process, and the descriptor on which it reports; ``config.report`` is filled in here."""
        reading, writing = os.pipe()
        complete = msgspec.structs.replace(config, report=writing)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "statewright.supervisor.worker",
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(config.http_socket, writing),
                start_new_session=True,  # a key press at the terminal is for the supervisor
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        process.stdin.write(complete.to_line())
        return cls(config.number, process), reading

    async def wait_ready(self, report: int, within: timedelta) -> None:
        """Wait until the worker serves. Raises :class:`WorkerFailed`; the process is gone then.

        When the wait is cancelled, the process goes on and has to be stopped.
        """
        try:
            async with asyncio.timeout(within.total_seconds()):
                self.admin_port = (await _receive_report(report)).admin_port
        except (TimeoutError, msgspec.DecodeError) as failed:
            await self.kill()
            raise WorkerFailed(f"worker {self.number} did not become ready") from failed
        except OSError:
            await self.kill()
            raise

    async def stop(self, within: timedelta) -> None:
        """Ask the process to stop and wait for it; by force when it takes longer."""
        self.request_stop()
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    def request_stop(self) -> None:
        """Send SIGTERM, once: a second one would end the worker without waiting for its requests."""
        if not self.is_stop_requested and self.is_running:  # else it is on its way
            self.is_stop_requested = True
            with suppress(ProcessLookupError):
                self._process.terminate()

    def signal_kill(self) -> None:
        """End the process at once, without waiting."""
        self.is_stop_requested = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def kill(self) -> None:
        """End the process at once, and wait for it."""
        self.signal_kill()
        await self._process.wait()

    async def wait_ended(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        return await self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def process_id(self) -> int:
        return self._process.pid


async def _receive_report(descriptor: int) -> ReadyReport:
    """The report of a worker; one that ends before it is ready sends an empty line, which cannot be decoded."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)  # the transport's from now on, which closes it
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return read_report(await reader.readline())
    finally:
        transport.close()


MIN_RESTART_PAUSE_S, MAX_RESTART_PAUSE_S = 0.2, 30.0
"""Pause before a worker that ended is replaced; doubled while its successors end soon, too."""

STABLE_AFTER_S: Final = 30.0
"""Seconds after which a worker that ends did not fail at its start: its successor comes after the shortest pause."""

log = logs.logger(__name__)


class WorkerEntry:
    """One worker and what outlives it: its number and its HTTP socket."""

    def __init__(self, number: int, listener: socket.socket) -> None:
        self.number = number
        self.listener = listener
        self.worker: WorkerProcess | None = None
        self.lock = asyncio.Lock()
        """Held while the worker is being replaced."""


class WorkerPool:
    """All workers. ``build_config`` makes the configuration of a worker from its number and socket descriptor."""

    def __init__(
        self,
        listeners: list[socket.socket],
        build_config: Callable[[int, int], WorkerConfig],
        *,
        start_within: timedelta,
        stop_within: timedelta,
    ) -> None:
        self._entries = [WorkerEntry(number, listener) for number, listener in enumerate(listeners, start=1)]
        self._build_config = build_config
        self._start_within = start_within
        self._stop_within = stop_within
        self._stopping = False
        self._rolling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._processes: set[WorkerProcess] = set()

    @property
    def workers(self) -> Iterator[WorkerProcess]:
        """The workers that are ready."""
        return (entry.worker for entry in self._entries if entry.worker is not None and entry.worker.is_running)

    async def start(self) -> None:
        """Start all workers. Raises :class:`WorkerFailed` when one of them cannot."""
        outcomes = await asyncio.gather(*(self._start_one(entry) for entry in self._entries), return_exceptions=True)
        for failed in outcomes:
            if isinstance(failed, BaseException):
                raise failed

    async def roll(self) -> bool:
        """Replace every worker, one after the other; False when a successor did not become ready."""
        if self._rolling.locked():
            log.warning("rolling_restart_under_way")
            return False
        async with self._rolling:
            log.info("rolling_restart_started")
            for entry in self._entries:
                if self._stopping or not await self._replace(entry):
                    return False
        log.info("rolling_restart_complete")
        return True

    async def stop(self) -> None:
        """Ask all workers to stop, and wait for them."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.gather(*(worker.stop(self._stop_within) for worker in self._processes if worker.is_running))

    def kill(self) -> None:
        """End all workers at once, without waiting."""
        for worker in self._processes:
            worker.signal_kill()

    def start_task(self, work: Awaitable[object], name: str) -> None:
        """Run something in the background, until :meth:`stop`."""

        async def working() -> None:
            await work

        task = asyncio.create_task(working(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_worker(self, entry: WorkerEntry) -> WorkerProcess:
        """Start a worker and wait until it is ready. Raises :class:`WorkerFailed`."""
        worker, report = await WorkerProcess.start(self._build_config(entry.number, entry.listener.fileno()))
        self._processes = {process for process in self._processes if process.is_running} | {worker}
        await worker.wait_ready(report, self._start_within)
        entry.worker = worker
        log.info("worker_ready", number=entry.number, process=worker.process_id)
        self.start_task(self._watch(entry, worker), f"worker-{entry.number}")
        return worker

    async def _start_one(self, entry: WorkerEntry) -> None:
        async with entry.lock:
            await self._start_worker(entry)

    async def _replace(self, entry: WorkerEntry) -> bool:
        async with entry.lock:
            predecessor = entry.worker
            try:
                await self._start_worker(entry)
            except (WorkerFailed, OSError) as failed:
                log.error("rolling_restart_failed", number=entry.number, error=str(failed))  # noqa: TRY400 - the worker has logged why
                return False
            if predecessor is not None:
                await predecessor.stop(self._stop_within)
        return True

    async def _watch(self, entry: WorkerEntry, worker: WorkerProcess) -> None:
        """Replace a worker that ends without having been told to."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        code = await worker.wait_ended()
        if self._stopping or worker.is_stop_requested:
            return
        log.error("worker_lost", number=entry.number, process=worker.process_id, code=code)
        pause = MIN_RESTART_PAUSE_S if loop.time() - begun > STABLE_AFTER_S else 2 * MIN_RESTART_PAUSE_S
        while not self._stopping:
            await asyncio.sleep(pause)
            async with entry.lock:
                if entry.worker is not worker:  # a rolling restart was faster
                    return
                with suppress(WorkerFailed, OSError):
                    await self._start_worker(entry)
                    return
            pause = min(pause * 2, MAX_RESTART_PAUSE_S)
