"""Keeps a number of workers running, each with an HTTP socket that survives it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.supervisor.worker_process import WorkerConfig, WorkerFailed, WorkerProcess

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
        return (slot.worker for slot in self._entries if slot.worker is not None and slot.worker.is_running)

    async def start(self) -> None:
        """Start all workers. Raises :class:`WorkerFailed` when one of them cannot."""
        outcomes = await asyncio.gather(*(self._start_one(slot) for slot in self._entries), return_exceptions=True)
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
            for slot in self._entries:
                if self._stopping or not await self._replace(slot):
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
