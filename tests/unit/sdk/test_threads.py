"""The pool that runs plain functions."""

import threading

import pytest

from statewright.sdk.jobs import DaemonThreadPool


def name() -> str:
    return threading.current_thread().name


def test_a_call_gives_its_result():
    assert DaemonThreadPool(1).submit(pow, 2, 10).result(10) == 1024


def test_a_call_that_raises_gives_its_error():
    with pytest.raises(ZeroDivisionError):
        DaemonThreadPool(1).submit(lambda: 1 // 0).result(10)


def test_calls_run_side_by_side_up_to_the_limit():
    threads, meeting = DaemonThreadPool(3), threading.Barrier(3, timeout=10)
    futures = [threads.submit(meeting.wait) for _ in range(3)]
    assert sorted(future.result(10) for future in futures) == [0, 1, 2]


def test_there_are_never_more_threads_than_the_limit():
    threads = DaemonThreadPool(2)
    futures = [threads.submit(name) for _ in range(50)]
    assert len({future.result(10) for future in futures}) <= 2


def test_threads_are_used_again():
    threads = DaemonThreadPool(2)
    first = threads.submit(name).result(10)
    threads.submit(threading.Barrier(1).wait).result(10)
    assert {threads.submit(name).result(10) for _ in range(20)} <= {first, "statewright-node-2"}


def test_a_cancelled_call_is_never_made():
    threads, gate, made = DaemonThreadPool(1), threading.Event(), list[str]()
    blocking = threads.submit(gate.wait)
    cancelled = threads.submit(made.append, "made")
    assert cancelled.cancel()
    gate.set()
    blocking.result(10)
    threads.submit(name).result(10)
    assert not made


def test_shutting_down_ends_the_threads():
    threads = DaemonThreadPool(2)
    worker = threads.submit(threading.current_thread).result(10)
    threads.shutdown()
    worker.join(10)
    assert not worker.is_alive()
