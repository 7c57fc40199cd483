"""Computations in real processes: what ends one of them ends that computation, and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from statewright.computations import ComputationLimits, ComputationPool, compute_in_turn
from statewright.failures import (
    ComputationKilled,
    ComputationsBusy,
    ComputationTooLarge,
    ComputationTooLong,
    SearchTimeout,
    StorageUnavailable,
)
from statewright.ids import TenantId
from statewright.loop.turns import TurnExceeded
from tests.integration.computations import functions

A, B = TenantId("a"), TenantId("b")
MEMORY = 256 * 1024 * 1024
ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def a_pool(
    *,
    processes: int = 2,
    timeout_s: float = 30,
    wait_s: float = 60,
    max_waiting: int = 64,
    max_tasks: int = 500,
) -> AsyncIterator[ComputationPool]:
    limits = ComputationLimits(
        processes=processes,
        timeout=timedelta(seconds=timeout_s),
        wait_timeout=timedelta(seconds=wait_s),
        memory_bytes=MEMORY,
        max_waiting=max_waiting,
        max_tasks=max_tasks,
    )
    pool = ComputationPool(limits)
    try:
        yield pool
    finally:
        await pool.close()


async def wait_until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - other processes set no events
            await asyncio.sleep(0.005)


async def test_results_and_what_is_raised_come_back():
    async with a_pool() as pool:
        assert await pool.compute(A, "test", functions.add_up, [1, 2], times=3) == 9
        with pytest.raises(SearchTimeout) as failed:
            await pool.compute(A, "test", functions.refuse)
        assert failed.value.message == SearchTimeout(2.5).message
        with pytest.raises(ValueError, match="a defect") as defect:
            await pool.compute(A, "test", functions.fail)
        assert "functions.py" in defect.value.__notes__[0]
        assert pool.metrics.outcomes == {"done": 1, "failed": 2}


async def test_processes_are_started_by_the_first_computation_and_used_again():
    async with a_pool() as pool:
        assert pool.pids == []
        first = await pool.compute(A, "test", functions.get_pid)
        assert first != os.getpid()
        assert await pool.compute(A, "test", functions.get_pid) == first


async def test_after_so_many_computations_another_process_takes_over():
    async with a_pool(max_tasks=2) as pool:
        pids = [await pool.compute(A, "test", functions.get_pid) for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_a_computation_that_takes_too_long_is_killed_and_no_other():
    async with a_pool(timeout_s=1) as pool:
        await pool.compute(A, "test", functions.double, 0)
        hanging = asyncio.create_task(pool.compute(A, "test", functions.hang))
        await wait_until(lambda: pool.running == 1)
        killed = pool.pids[0]
        begun = time.monotonic()
        assert await pool.compute(B, "test", functions.double, 4) == 8
        with pytest.raises(ComputationTooLong):
            await hanging
        assert time.monotonic() - begun < 5
        await wait_until(lambda: not is_alive(killed))
        assert await pool.compute(A, "test", functions.double, 5) == 10
        assert pool.metrics.outcomes["timeout"] == 1


async def test_time_in_which_a_process_has_no_processor_does_not_count_until_it_is_half_as_long_again():
    async with a_pool(timeout_s=3) as pool:
        assert await pool.compute(A, "test", functions.idle, 3.3) == 3.3
        begun = time.monotonic()
        with pytest.raises(ComputationTooLong):
            await pool.compute(A, "test", functions.idle, 60)
        assert 4.4 < time.monotonic() - begun < 10


async def test_a_process_that_did_much_has_all_its_time_for_what_is_next():
    async with a_pool(processes=1, timeout_s=3) as pool:
        pids = [await pool.compute(A, "test", functions.burn, 0.4) for _ in range(9)]
        assert len({*pids}) == 1


async def test_a_computation_that_takes_too_much_memory_is_killed():
    async with a_pool(processes=1) as pool:
        with pytest.raises(ComputationTooLarge):
            await pool.compute(A, "test", functions.take_memory, 2 * MEMORY)
        assert await pool.compute(A, "test", functions.take_memory, 1000) == 1000
        assert pool.metrics.outcomes["memory"] == 1


async def test_a_process_that_dies_fails_its_computation():
    async with a_pool(processes=1) as pool:
        with pytest.raises(ComputationKilled) as failed:
            await pool.compute(A, "test", functions.die)
        assert failed.value.code == "COMPUTATION_KILLED"
        assert await pool.compute(A, "test", functions.double, 4) == 8


async def test_what_cannot_be_sent_is_a_defect_and_the_process_goes_on():
    async with a_pool(processes=1) as pool:
        pid = await pool.compute(A, "test", functions.get_pid)
        with pytest.raises(RuntimeError, match="cannot be sent"):
            await pool.compute(A, "test", functions.return_what_cannot_be_sent)
        with pytest.raises((TypeError, AttributeError)):
            await pool.compute(A, "test", lambda: 1)
        assert await pool.compute(A, "test", functions.get_pid) == pid


async def test_when_nobody_waits_any_more_the_process_is_killed():
    async with a_pool(processes=1) as pool:
        await pool.compute(A, "test", functions.double, 0)
        [pid] = pool.pids
        hanging = asyncio.create_task(pool.compute(A, "test", functions.hang))
        await wait_until(lambda: pool.running)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert await pool.compute(B, "test", functions.double, 4) == 8
        assert not is_alive(pid)
        assert pool.metrics.outcomes == {"done": 2, "cancelled": 1}


class Held:
    """An argument that is not sent before it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        self.begun.set()
        assert self.released.wait(30)
        return int, (4,)


async def test_a_process_that_was_killed_before_it_was_used_is_none_for_the_next():
    async with a_pool(processes=1) as pool:
        await pool.compute(A, "test", functions.double, 0)
        held = Held()
        given_up = asyncio.create_task(pool.compute(A, "test", functions.double, held))
        await wait_until(held.begun.is_set)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        held.released.set()
        assert await pool.compute(B, "test", functions.double, 4) == 8


async def test_who_is_cancelled_with_his_result_kills_no_other_computation(monkeypatch: pytest.MonkeyPatch):
    async with a_pool(processes=1) as pool:
        end = pool._end

        def end_and_cancel(*ended: Any) -> None:
            monkeypatch.undo()
            end(*ended)
            first.cancel()

        await pool.compute(A, "test", functions.double, 0)
        monkeypatch.setattr(pool, "_end", end_and_cancel)
        held = Held()
        first = asyncio.create_task(pool.compute(A, "test", functions.double, 1))
        second = asyncio.create_task(pool.compute(B, "test", functions.double, held))
        with pytest.raises(asyncio.CancelledError):
            await first
        held.released.set()
        assert await second == 8
        assert await pool.compute(A, "test", functions.get_pid) in pool.pids


async def test_what_nobody_waits_for_is_not_begun(tmp_path: Path):
    async with a_pool(processes=1) as pool:
        first = asyncio.create_task(leave_mark(pool, A, tmp_path, "first"))
        await wait_until((tmp_path / "first").exists)
        second = asyncio.create_task(leave_mark(pool, A, tmp_path, "second"))
        await wait_until(lambda: pool.waiting)
        second.cancel()
        await asyncio.wait([second])
        assert pool.waiting == 0
        (tmp_path / "go").touch()
        await first
        assert await pool.compute(A, "test", functions.double, 1) == 2
        assert not (tmp_path / "second").exists()


async def test_another_tenant_starts_at_once_whatever_one_has_queued(tmp_path: Path):
    async with a_pool(processes=2) as pool:
        hogs = [asyncio.create_task(leave_mark(pool, A, tmp_path, f"a{n}")) for n in range(6)]
        await wait_until((tmp_path / "a0").exists)
        assert (pool.running, pool.waiting) == (1, 5)
        assert [await pool.compute(B, "test", functions.double, n) for n in range(5)] == [0, 2, 4, 6, 8]
        assert [name for name in range(6) if (tmp_path / f"a{name}").exists()] == [0]
        (tmp_path / "go").touch()
        await asyncio.gather(*hogs)


async def test_a_computation_that_has_waited_too_long_is_refused(tmp_path: Path):
    async with a_pool(processes=1, wait_s=0.1) as pool:
        first = asyncio.create_task(leave_mark(pool, A, tmp_path, "first"))
        await wait_until((tmp_path / "first").exists)
        with pytest.raises(ComputationsBusy, match=r"within 0\.1 s") as refused:
            await leave_mark(pool, A, tmp_path, "second")
        assert (refused.value.retryable, refused.value.retry_after_s) == (True, 1)
        assert pool.waiting == 0
        (tmp_path / "go").touch()
        await first
        assert not (tmp_path / "second").exists()
        assert pool.metrics.outcomes == {"done": 1, "refused": 1}


async def test_a_tenant_with_too_many_that_wait_is_refused_and_no_other(tmp_path: Path):
    async with a_pool(processes=1, max_waiting=2) as pool:
        tasks = [asyncio.create_task(leave_mark(pool, A, tmp_path, str(n))) for n in range(3)]
        await wait_until(lambda: pool.waiting == 2)
        with pytest.raises(ComputationsBusy):
            await pool.compute(A, "test", functions.double, 1)
        other = asyncio.create_task(pool.compute(B, "test", functions.double, 1))
        (tmp_path / "go").touch()
        assert await other == 2
        await asyncio.gather(*tasks)
        assert pool.metrics.outcomes == {"refused": 1, "done": 4}


async def test_closing_ends_what_is_computed_and_what_waits_at_once():
    others = list_servers()
    async with a_pool(processes=1) as pool:
        await pool.compute(A, "test", functions.double, 0)
        [pid] = pool.pids
        tasks = [asyncio.create_task(pool.compute(A, "test", functions.hang)) for _ in range(2)]
        await wait_until(lambda: pool.running and pool.waiting)
        begun = time.monotonic()
        await pool.close()
        assert time.monotonic() - begun < 5
        assert [type(raised) for raised in await asyncio.gather(*tasks, return_exceptions=True)] == 2 * [
            StorageUnavailable
        ]
        await wait_until(lambda: not is_alive(pid))
        assert list_servers() <= others
        with pytest.raises(StorageUnavailable):
            await pool.compute(A, "test", functions.double, 0)


async def test_closing_does_not_wait_for_a_start():
    others = list_servers()
    async with a_pool() as pool:
        task = asyncio.create_task(pool.compute(A, "test", functions.double, 0))
        await wait_until(lambda: pool.running)
        await pool.close()
        with pytest.raises(StorageUnavailable):
            await task
        assert list_servers() <= others


async def test_a_server_of_processes_that_was_killed_is_started_again():
    async with a_pool(processes=1) as pool:
        pid = await pool.compute(A, "test", functions.get_pid)
        server = psutil.Process(pid).ppid()
        os.kill(server, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ComputationKilled):
            await pool.compute(A, "test", functions.get_pid)
        assert await pool.compute(A, "test", functions.double, 4) == 8


ORPHANS = """
import asyncio
from datetime import timedelta
from statewright.computations import ComputationLimits, ComputationPool
from tests.integration.computations import functions

async def main():
    pool = ComputationPool(ComputationLimits(timeout=timedelta(seconds=1)))
    print(await pool.compute("a", "test", functions.get_pid), flush=True)
    await pool.compute("a", "test", functions.hang)

asyncio.run(main())
"""


def test_a_service_that_is_killed_leaves_no_processes():
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        assert program.stdout is not None
        hanging = psutil.Process(int(program.stdout.readline()))
        server = hanging.parent()
        assert server is not None
        program.kill()
    _, alive = psutil.wait_procs([hanging, server], timeout=20)
    assert alive == []


def test_signals_for_the_group_of_a_service_are_the_service_s_to_answer(capfd: pytest.CaptureFixture[str]):
    command = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL
    ) as program:
        assert program.stdout is not None
        process = psutil.Process(int(program.stdout.readline()))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        server = process.parent()
        assert server is not None
        server.send_signal(signal.SIGTERM)
        assert os.getpgid(process.pid) != os.getpgid(program.pid)
        os.killpg(program.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs([process, server], timeout=20)
    assert alive == []
    assert "Traceback" not in capfd.readouterr().err


async def test_large_values_leave_the_event_loop_free():
    value = {f"member{n}": [n, str(n), {"deep": n}] for n in range(100_000)}
    async with a_pool() as pool:
        await pool.warm()
        computing = asyncio.create_task(pool.compute(A, "test", functions.repeat, value))
        turns = 0
        while not computing.done():
            turns += 1
            await asyncio.sleep(0.001)
        assert await computing == value
        assert turns > 20


async def test_what_fits_into_a_turn_starts_no_process():
    async with a_pool() as pool:
        assert await compute_in_turn(pool, A, "test", lambda: 1, functions.get_pid) == (1, False)
        assert pool.pids == []
        found, in_process = await compute_in_turn(pool, A, "test", exceed, functions.get_pid)
        assert [found] == pool.pids
        assert in_process
        assert await compute_in_turn(pool, A, "test", lambda: 1, functions.get_pid, is_large=True) == (found, True)


def exceed() -> int:
    raise TurnExceeded


async def leave_mark(pool: ComputationPool, tenant: TenantId, where: Path, name: str, until: str = "go") -> None:
    await pool.compute(tenant, "test", functions.leave_mark_and_wait, where / name, where / until)


def is_alive(pid: int) -> bool:
    """A process that is only waited for is none any more."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def list_servers() -> set[int]:
    """The programs that computing processes are forked from; services of other tests have theirs."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if is_alive(child.pid) and "fork_server" in " ".join(child.cmdline())}
