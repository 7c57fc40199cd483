"""Computations as the event loop sees them: they wait for a process by turns, and come back as results or failures.

Which computation is next: tenants take turns, and none ever has more than its share: a computation cannot be made
to go away for another, so what a tenant leaves free is there when the next one comes.

Of each tenant only so many wait. There is no input or output here, and no clock.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final, Generic, ParamSpec, TypeVar, cast

from msgspec import Struct

from statewright.computations.fork_server import ChildLimits
from statewright.computations.messages import Task
from statewright.computations.process import ComputingProcess, ForkServer
from statewright.failures import ComputationKilled, ComputationsBusy, StorageUnavailable
from statewright.ids import TenantId
from statewright.loop.turns import TurnExceeded
from statewright.telemetry import logs
from statewright.telemetry.histogram import Histogram

W = TypeVar("W")


class FairQueue(Generic[W]):
    """What waits for one of ``processes``, by tenant, and how many each tenant has under way.

    A tenant gets no more than ``share`` of them, and of each no more than ``max_waiting`` wait.
    """

    def __init__(self, *, processes: int, share: int, max_waiting: int) -> None:
        self._free = processes
        self._share = share
        self._max_waiting = max_waiting
        self._waiting: OrderedDict[TenantId, deque[W]] = OrderedDict()
        """The tenant whose turn it is comes first; none without anything that waits."""
        self._running: Counter[TenantId] = Counter()

    @property
    def waiting(self) -> int:
        """Of all tenants."""
        return sum(map(len, self._waiting.values()))

    def add(self, tenant: TenantId, work: W) -> None:
        """Let something wait. Raises ``ComputationsBusy``."""
        queue = self._waiting.get(tenant)
        if queue is not None and len(queue) >= self._max_waiting:
            raise ComputationsBusy(f"{len(queue)} computations of the tenant wait already")
        self._waiting.setdefault(tenant, deque()).append(work)

    def take(self) -> tuple[TenantId, W] | None:
        """What is to be begun now, which then is under way; None when nothing is."""
        within = (tenant for tenant in self._waiting if self._running[tenant] < self._share)
        tenant = next(within, None) if self._free else None
        if tenant is None:
            return None
        queue = self._waiting[tenant]
        work = queue.popleft()
        self._waiting.move_to_end(tenant)
        if not queue:
            del self._waiting[tenant]
        self._running[tenant] += 1
        self._free -= 1
        return tenant, work

    def end(self, tenant: TenantId) -> None:
        """Something of a tenant that was under way has ended."""
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    def drain(self) -> list[W]:
        """All that waits; afterwards nothing does."""
        waiting = [work for queue in self._waiting.values() for work in queue]
        self._waiting.clear()
        return waiting

    def discard(self, tenant: TenantId, work: W) -> None:
        """Nobody waits for it any more; what is not there is none."""
        queue = self._waiting.get(tenant)
        if queue is not None and work in queue:
            queue.remove(work)
            if not queue:
                del self._waiting[tenant]


log = logs.logger(__name__)

Args = ParamSpec("Args")
R = TypeVar("R")

SECONDS_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

NICENESS: Final = 5
"""How far processes give way to the event loop, where there are fewer processors than work."""


class ComputationLimits(Struct, frozen=True, kw_only=True):
    """What computations may take."""

    processes: int = 2
    timeout: timedelta = timedelta(seconds=3)
    """For one computation, once it has a process: of processor time, and ``WALL_FACTOR`` times as long by the clock."""
    wait_timeout: timedelta = timedelta(seconds=10)
    """For a process."""
    memory_bytes: int = 512 * 1024 * 1024
    """For one process."""
    max_waiting: int = 64
    """Computations of one tenant that wait for a process."""
    max_tasks: int = 500
    """Of one process, before another takes its place."""

    @property
    def share(self) -> int:
        """Processes that one tenant may have: half of them, so that no tenant by itself keeps all others waiting."""
        return max(1, self.processes // 2)


OUTCOMES: Final = ("done", "failed", "timeout", "memory", "died", "cancelled", "refused")
"""What becomes of computations: ``failed`` by what they raised, ``cancelled`` since nobody waited any more."""


class ComputationMetrics:
    """Counts since the start of the service."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """Of ``OUTCOMES``."""
        self.seconds = Histogram(SECONDS_BOUNDS)
        """From when it was asked for."""


class _Work(Generic[R]):
    """A computation, and who waits for it."""

    __slots__ = ("answer", "process", "task")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.process: ComputingProcess | None = None


class ComputationPool:
    """The computing processes of one service. ``modules`` are imported by the server that they are forked from.

    Nothing is started before the first computation, or ``warm``. To be closed on the event loop that computes by it.
    """

    def __init__(self, limits: ComputationLimits, modules: Sequence[str] = ()) -> None:
        self.metrics = ComputationMetrics()
        self._limits = limits
        child = ChildLimits(
            timeout_s=limits.timeout.total_seconds(), memory_bytes=limits.memory_bytes, niceness=NICENESS
        )
        self._server = ForkServer(child, modules)
        self._processes = [
            ComputingProcess(
                self._server, timeout=limits.timeout, memory_bytes=limits.memory_bytes, max_tasks=limits.max_tasks
            )
            for _ in range(limits.processes)
        ]
        self._free = [*self._processes]
        self._threads = ThreadPoolExecutor(limits.processes, thread_name_prefix="computation")
        self._queue: FairQueue[_Work[object]] = FairQueue(
            processes=limits.processes, share=limits.share, max_waiting=limits.max_waiting
        )
        self._running: set[Future[object]] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Computations that wait for a process."""
        return self._queue.waiting

    @property
    def running(self) -> int:
        """Computations under way."""
        return len(self._running)

    @property
    def pids(self) -> list[int]:
        """The processes that there are now."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def compute(
        self, tenant: TenantId, kind: str, function: Callable[Args, R], *args: Args.args, **kwargs: Args.kwargs
    ) -> R:
        """The result of a computation; ``kind`` is what log and metrics call it.

        When the task that waits for it is cancelled, its process is killed. Raises what the function raises,
        ``ComputationKilled`` and ``ComputationsBusy``.
        """
        begun = monotonic()
        waits: asyncio.TimerHandle | None = None
        work: _Work[object] = _Work(partial(function, *args, **kwargs))
        outcome = "failed"
        try:
            self._add(tenant, work)
            if work.process is None:
                wait_s = self._limits.wait_timeout.total_seconds()
                waits = asyncio.get_running_loop().call_later(wait_s, self._refuse_late, tenant, work)
            result = cast("R", await work.answer)  # what the function returns
            outcome = "done"
        except ComputationKilled as killed:
            outcome = killed.outcome
            seconds = round(monotonic() - begun, 3)
            log.warning("computation_killed", tenant=tenant, kind=kind, outcome=outcome, seconds=seconds)
            raise
        except ComputationsBusy as busy:
            outcome = "refused"
            log.warning("computation_refused", tenant=tenant, kind=kind, reason=busy.message)
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            self._give_up(tenant, work)
            raise
        finally:
            if waits is not None:
                waits.cancel()
            self.metrics.outcomes[outcome] += 1
            self.metrics.seconds.observe(monotonic() - begun)
        return result

    def _add(self, tenant: TenantId, work: _Work[object]) -> None:
        if self._is_closed:
            raise _tell_stop()
        self._queue.add(tenant, work)
        self._begin_next()

    def _refuse_late(self, tenant: TenantId, work: _Work[object]) -> None:
        if work.process is None and not work.answer.done():
            self._queue.discard(tenant, work)
            seconds = self._limits.wait_timeout.total_seconds()
            work.answer.set_exception(ComputationsBusy(f"no process has come free for this within {seconds:g} s"))

    def _begin_next(self) -> None:
        while (taken := self._queue.take()) is not None:
            tenant, work = taken
            process = work.process = self._free.pop()
            running = self._threads.submit(process.compute, work.task, partial(self._is_wanted, work))
            self._running.add(running)
            running.add_done_callback(partial(self._hand_over, tenant, work))

    def _is_wanted(self, work: _Work[object]) -> bool:
        return not (work.answer.done() or self._is_closed)

    def _hand_over(self, tenant: TenantId, work: _Work[object], done: "Future[object]") -> None:
        work.answer.get_loop().call_soon_threadsafe(self._end, tenant, work, done)

    def _end(self, tenant: TenantId, work: _Work[object], done: "Future[object]") -> None:
        assert work.process is not None  # noqa: S101 - it was begun
        self._free.append(work.process)
        work.process = None  # who is cancelled from now on kills what others compute by it no more
        self._running.discard(done)
        self._queue.end(tenant)
        raised = done.exception()
        if raised is not None and self._is_closed:
            raised = _tell_stop()
        if work.answer.done():
            pass  # nobody waits for it any more
        elif raised is None:
            work.answer.set_result(done.result())
        else:
            work.answer.set_exception(raised)
        if not self._is_closed:
            self._begin_next()

    def _give_up(self, tenant: TenantId, work: _Work[object]) -> None:
        self._queue.discard(tenant, work)
        if work.process is not None:
            work.process.kill()

    async def warm(self) -> None:
        """Have the server started that processes are forked from. Raises ``OSError``."""
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        """Kill the processes; what they computed fails, and so does what waits for them."""
        self._is_closed = True
        for process in self._processes:
            process.kill()
        await asyncio.to_thread(self._join)
        await asyncio.sleep(0)  # what has ended meanwhile is answered
        for work in self._queue.drain():
            if not work.answer.done():
                work.answer.set_exception(_tell_stop())

    def _join(self) -> None:
        self._server.close()
        self._threads.shutdown()
        for process in self._processes:
            process.close()


def _tell_stop() -> StorageUnavailable:
    return StorageUnavailable("the service is stopping")


async def compute_in_turn(
    pool: ComputationPool,
    tenant: TenantId,
    kind: str,
    compute_briefly: Callable[[], R],
    computation: Callable[[], R],
    *,
    is_large: bool = False,
) -> tuple[R, bool]:
    """The result of a computation, and whether it took a process: when ``compute_briefly``, which is tried first,
    raised ``TurnExceeded``, or when it is known to be too large for a turn.

    Raises what they raise, and as ``ComputationPool.compute``.
    """
    if not is_large:
        try:
            return compute_briefly(), False
        except TurnExceeded:
            pass
    return await pool.compute(tenant, kind, computation), True
