"""A pool of threads for plain functions, which cannot keep a program from ending."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

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
