"""Keeps a number of workers running, each in a slot with an HTTP socket of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta

from statewright import logs
from statewright.supervisor.assignment import Assignment
from statewright.supervisor.processes import Worker, WorkerFailed

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
"""Before a worker that ended is replaced; doubled while its successors end soon, too."""

SETTLED_S = 30.0
"""A worker that has lived so long did not fail at its start."""

log = logs.logger("supervisor")


class Slot:
    """A place for one worker."""

    def __init__(self, number: int, listener: socket.socket) -> None:
        self.number = number
        self.listener = listener
        self.worker: Worker | None = None
        self.busy = asyncio.Lock()
        """Held while the worker is being replaced."""


class Slots:
    """All places. ``assignment`` makes what a worker is told from its number and socket."""

    def __init__(
        self,
        listeners: list[socket.socket],
        assignment: Callable[[int, int], Assignment],
        *,
        start_within: timedelta,
        stop_within: timedelta,
    ) -> None:
        self._slots = [Slot(number, listener) for number, listener in enumerate(listeners, start=1)]
        self._assignment = assignment
        self._start_within = start_within
        self._stop_within = stop_within
        self._stopping = False
        self._rolling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._processes: set[Worker] = set()

    @property
    def workers(self) -> Iterator[Worker]:
        """Those that are ready."""
        return (slot.worker for slot in self._slots if slot.worker is not None and slot.worker.is_running)

    async def fill(self) -> None:
        """Start all workers. Raises :class:`WorkerFailed` when one of them cannot."""
        outcomes = await asyncio.gather(*(self._fill_one(slot) for slot in self._slots), return_exceptions=True)
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
            for slot in self._slots:
                if self._stopping or not await self._replace(slot):
                    return False
        log.info("rolling_restart_complete")
        return True

    async def empty(self) -> None:
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

    def begin(self, work: Awaitable[object], name: str) -> None:
        """Let something go on by itself, until :meth:`empty`."""

        async def working() -> None:
            await work

        task = asyncio.create_task(working(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _occupy(self, slot: Slot) -> Worker:
        """A new worker in the slot, ready. Raises :class:`WorkerFailed`."""
        worker, report = await Worker.start(self._assignment(slot.number, slot.listener.fileno()))
        self._processes = {process for process in self._processes if process.is_running} | {worker}
        await worker.ready(report, self._start_within)
        slot.worker = worker
        log.info("worker_ready", number=slot.number, process=worker.process_id)
        self.begin(self._watch(slot, worker), f"worker-{slot.number}")
        return worker

    async def _fill_one(self, slot: Slot) -> None:
        async with slot.busy:
            await self._occupy(slot)

    async def _replace(self, slot: Slot) -> bool:
        async with slot.busy:
            predecessor = slot.worker
            try:
                await self._occupy(slot)
            except (WorkerFailed, OSError) as failed:
                log.error("rolling_restart_failed", number=slot.number, error=str(failed))  # noqa: TRY400 - it said why
                return False
            if predecessor is not None:
                await predecessor.stop(self._stop_within)
        return True

    async def _watch(self, slot: Slot, worker: Worker) -> None:
        """Replace a worker that ends without having been told to."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        code = await worker.ended()
        if self._stopping or worker.is_told_to_stop:
            return
        log.error("worker_lost", number=slot.number, process=worker.process_id, code=code)
        pause = FIRST_PAUSE_S if loop.time() - begun > SETTLED_S else 2 * FIRST_PAUSE_S
        while not self._stopping:
            await asyncio.sleep(pause)
            async with slot.busy:
                if slot.worker is not worker:  # a rolling restart was faster
                    return
                with suppress(WorkerFailed, OSError):
                    await self._occupy(slot)
                    return
            pause = min(pause * 2, LONGEST_PAUSE_S)
