"""Work that a process does by itself, again and again, until its task is cancelled; and the time that a shutdown has.

A round that fails is logged and followed by the next one, whatever the failure: the end of a loop would go unnoticed.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from random import Random
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from statewright.loop.turns import Container, take_apart
from statewright.telemetry import logs
from statewright.telemetry.logs import Log

log = logs.logger(__name__)

_random = Random()  # noqa: S311 - our own: property tests reset the module's shared state, and compare it


MAX_INLINE_BYTES: Final = 64 * 1024
"""Bytes of input that the event loop works on by itself; more may take longer than others should wait."""

SWITCH_INTERVAL_S: Final = 0.001
"""After which a thread that computes gives way to one that waits. With the 5 ms of the interpreter, the event loop
would wait for each of them several times before it gets anything done.
"""

_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-input")
"""Few threads: they compute, so that each more of them lets the event loop wait longer for its turn."""

_disposal = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disposal")
"""Nobody waits for it."""

_Result = TypeVar("_Result")


def shorten_thread_switches() -> None:
    """Let threads that compute give way to the event loop soon (``SWITCH_INTERVAL_S``)."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


async def run_by_size(size: int, compute: Callable[[], _Result]) -> _Result:
    """The result of a computation on ``size`` bytes of input: at once for a small one, else from a thread.

    ``compute`` must touch nothing that the event loop may change meanwhile.
    """
    return compute() if size <= MAX_INLINE_BYTES else await run_in_thread(compute)


class _LargeValues:
    """What one event loop has in hand."""

    def __init__(self) -> None:
        self.computations = 0
        """Those in threads, or waiting for one."""
        self.disposer = Disposer(_disposal.submit)


_large_values: WeakKeyDictionary[asyncio.AbstractEventLoop, _LargeValues] = WeakKeyDictionary()


def _get_large_values() -> _LargeValues:
    loop = asyncio.get_running_loop()
    found = _large_values.get(loop)
    if found is None:
        found = _large_values[loop] = _LargeValues()
    return found


def free_in_parts(value: object, size: int) -> None:
    """Have a value of a text of so many bytes freed by a thread, if it is large, as soon as it is not used any more."""
    if size > MAX_INLINE_BYTES and isinstance(value, list | dict):
        _get_large_values().disposer.add(value)


def has_large_values() -> bool:
    """Whether large values are computed on, or values that were handed to ``free_in_parts`` not freed yet."""
    values = _get_large_values()
    return values.computations > 0 or values.disposer.is_holding


async def run_in_thread(compute: Callable[[], _Result]) -> _Result:
    """As ``run_by_size`` for a large input: work that is bounded by its size, and that no definition decides. What
    definitions compute is computed by processes (:mod:`statewright.computations`).
    """
    values = _get_large_values()
    values.computations += 1
    computing = asyncio.get_running_loop().run_in_executor(_executor, compute)
    computing.add_done_callback(partial(_count_off, values))
    return await computing


def _count_off(values: _LargeValues, _: object) -> None:
    values.computations -= 1


SLICE_S: Final = 0.004
"""How long the event loop works on many small things before others get their turn."""


class TimeSlices:
    """Gives others on the event loop their turn between the parts of a long work."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + SLICE_S

    async def yield_if_due(self) -> None:
        """To be called after each part; waits only now and then."""
        if self._clock() > self._until:
            await asyncio.sleep(0)
            self._until = self._clock() + SLICE_S


class OneByOne:
    """``async with`` it: those who were woken at once work one after the other, and between two of them everything else
    on the event loop has its turn.
    """

    def __init__(self) -> None:
        self._working = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._working.acquire()

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            self._working.release()


async def collect_in_turns(portions: Iterable[Iterable[_Result]]) -> list[_Result]:
    """All results of a long computation, of which others on the event loop have their turn between two portions."""
    found: list[_Result] = []
    slices = TimeSlices()
    for portion in portions:
        found += portion
        await slices.yield_if_due()
    return found


DEFAULT_SPREAD: Final = (0.9, 1.1)
"""Pauses vary so much, that processes which were started together do not work in step."""


@contextmanager
def log_failures(log: Log, event: str, **keys: object) -> Iterator[None]:
    """The failure of the block is logged as ``event``, and goes no further. Cancellation does."""
    try:
        yield
    except Exception as error:
        log.warning(event, **keys, error=repr(error))


FAILURE_PAUSE_S: Final = 0.1
"""Behind a round that failed, whatever wakes."""


async def repeat(
    run_once: Callable[[], Awaitable[object]],
    interval: timedelta,
    *,
    log: Log,
    failure: str,
    spread: tuple[float, float] = DEFAULT_SPREAD,
    waits_first: bool = False,
    wake: asyncio.Event | None = None,
) -> None:
    """Do rounds of work until cancelled; a failed one is logged as the event ``failure``.

    Between two rounds ``interval`` passes, times a random number of ``spread``. The next round follows at once when
    ``run_once`` returned ``True``, which says that there is more to do, and as soon as ``wake`` is set. With
    ``waits_first`` a pause comes before the first round.
    """
    more = not waits_first
    while True:
        if not more:
            await _wait(interval.total_seconds() * _random.uniform(*spread), wake)
        if wake is not None:
            wake.clear()
        more, failed = False, True
        with log_failures(log, failure):
            more = await run_once() is True
            failed = False
        if failed:  # what woke it may do so at once again
            await asyncio.sleep(min(interval.total_seconds(), FAILURE_PAUSE_S))


class Removal:
    """Removes what is not kept any longer, a batch at a time; every node may do so at once. ``remove_batch`` says how
    much it has removed, ``full`` at most.
    """

    def __init__(self, remove_batch: Callable[[], Awaitable[int]], full: int) -> None:
        self._remove_batch = remove_batch
        self._full = full
        self._due_at = 0.0
        self.removed = 0
        """Since the start of the process."""

    async def run(self) -> None:
        """Remove batches until one is not full; half of the time the database has rest."""
        while True:
            began = time.monotonic()
            if not await self._remove_one():
                return
            await asyncio.sleep(time.monotonic() - began)

    async def run_if_due(self, interval: timedelta) -> None:
        """Remove a batch, unless there was one within the ``interval`` that was not full."""
        if time.monotonic() >= self._due_at:
            is_full = await self._remove_one()
            self._due_at = time.monotonic() + (0.0 if is_full else interval.total_seconds())

    async def _remove_one(self) -> bool:
        count = await self._remove_batch()
        self.removed += count
        return count >= self._full


async def _wait(seconds: float, wake: asyncio.Event | None) -> None:
    if wake is None:
        await asyncio.sleep(seconds)
    else:
        await wait_at_most(wake.wait(), seconds)


async def wait_at_most(happening: Awaitable[object], seconds: float) -> None:
    """Returns when it has happened, or the time is up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await happening


@asynccontextmanager
async def run_in_background(work: Mapping[str, Coroutine[object, object, None]]) -> AsyncIterator[None]:
    """The coroutines run inside the block, each as a task of its name, and are cancelled at its end."""
    tasks = [asyncio.create_task(part, name=name) for name, part in work.items()]
    try:
        yield
    finally:
        await cancel_all(tasks)


def is_cancelled() -> bool:
    """Whether a cancellation is of the current task; closing a channel cancels its calls too."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def cancel_all(tasks: "Collection[asyncio.Task[Any]]") -> None:  # Any: the results are not looked at
    """Cancel the tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


LEASE_TIMEOUT: Final = timedelta(seconds=15)
"""How long work waits for another process when its own is gone."""


@asynccontextmanager
async def hold_lease(renew: Callable[[], Awaitable[bool]], lease: timedelta = LEASE_TIMEOUT) -> AsyncIterator[None]:
    """Renews a lease while the block runs, and cancels the task that runs it when the lease is lost."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks
    renewal = asyncio.create_task(_renew_until_lost(renew, lease, task), name="lease")
    try:
        yield
    finally:
        renewal.cancel()


async def _renew_until_lost(
    renew: Callable[[], Awaitable[bool]], lease: timedelta, task: "asyncio.Task[object]"
) -> None:
    while True:
        await asyncio.sleep(lease.total_seconds() / 3)
        with log_failures(log, "lease_not_renewed"):
            if not await renew():
                task.cancel()
                return


class ShutdownBudget:
    """How long work under way may still take. One for a whole shutdown: what one part of it needs, the next lacks."""

    def __init__(self, total: timedelta, clock: Callable[[], float] = monotonic) -> None:
        self._total_s = total.total_seconds()
        self._clock = clock
        self._ends_at: float | None = None

    def begin(self) -> None:
        """The shutdown begins; called again, it changes nothing."""
        if self._ends_at is None:
            self._ends_at = self._clock() + self._total_s

    @property
    def remaining_s(self) -> float:
        """Seconds; all of them before it has begun, and none when it is over."""
        return self._total_s if self._ends_at is None else max(0.0, self._ends_at - self._clock())


async def finish_all(tasks: "set[asyncio.Task[object]]", budget: ShutdownBudget) -> None:
    """Let runs whose client has gone come to their end, for a while; the rest is cancelled, and undone."""
    if tasks:
        _, late = await asyncio.wait(set(tasks), timeout=budget.remaining_s)
        if late:
            log.warning("runs_cut_off", count=len(late))
            await cancel_all(late)


LOOK_INTERVAL_S: Final = 0.05
"""Pause between two looks for values that are not used any more."""

MAX_LOOKS: Final = 2_400
"""Looks for the end of a value, two minutes in all; one that is used for longer is freed by its last user."""


class Disposer:
    """Large JSON values of one event loop, freed by a thread when nobody uses them any more. ``run`` has a thread carry
    out a function.

    Who has been given a large value cannot know whether it is the last one to use it. So such values are handed over
    here: they are kept until nobody else does, and a thread takes them apart (:mod:`statewright.loop.turns`).
    """

    def __init__(self, run: Callable[[Callable[[], None]], object]) -> None:
        self._run = run
        self._values: dict[int, tuple[Container, int]] = {}
        """By identity: handed over twice, each would be taken for a use of the other."""
        self._unused: list[list[Container]] = []
        """What threads take apart; each list is empty when that is done."""
        self._is_due = False

    @property
    def is_holding(self) -> bool:
        """Whether there are values that are not freed yet."""
        self._unused = [*filter(None, self._unused)]
        return bool(self._values or self._unused)

    def add(self, value: Container) -> None:
        """Free a value in parts when it is not used any more."""
        self._values[id(value)] = (value, MAX_LOOKS)
        self._schedule()

    def _schedule(self) -> None:
        if self._values and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look)

    def _look(self) -> None:
        self._is_due = False
        kept: dict[int, tuple[Container, int]] = {}
        unused: list[Container] = []
        value: Container | None = None
        while self._values:
            key, (value, looks) = self._values.popitem()
            if sys.getrefcount(value) <= _OWN_REFERENCES:
                unused.append(value)
            elif looks:
                kept[key] = (value, looks - 1)
        value = None
        self._values = kept
        if unused:
            self._unused = [*filter(None, self._unused), unused]
            self._run(lambda: take_apart(unused))
        self._schedule()


_OWN_REFERENCES: Final = 2
"""To a value that only a local variable refers to, as ``sys.getrefcount`` counts them."""
