"""Limits of tasks of tools, with real processes: nothing of a task is left, whatever ends it (docs/guides/tools.md)."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from statewright.tools.tasks import Kind, TaskAnswer, TaskFailure, TaskLimits, TaskRequest
from statewright.tools.worker import choose_environment, run_in_process
from tests.service import eventually

USUAL = TaskLimits()


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other test has: what the command lines of processes are found by."""
    return f"77.{secrets.randbelow(10**9):09}"


async def do(kind: Kind, *, limits: TaskLimits = USUAL, **fields: Any) -> TaskAnswer:
    """What a task comes to."""
    return await run_in_process(a_request(kind, limits, **fields), choose_environment(os.environ, []))


def a_request(kind: Kind, limits: TaskLimits = USUAL, **fields: Any) -> TaskRequest:
    return TaskRequest(kind=kind, fields=msgspec.Raw(msgspec.json.encode(fields)), limits=limits)


def read(answer: TaskAnswer) -> Any:
    """Its result; it must have no failure."""
    assert answer.failure is None, answer.failure
    return msgspec.json.decode(answer.result)


def get_failure(answer: TaskAnswer) -> TaskFailure:
    assert answer.failure is not None, answer.result
    return answer.failure


def list_marked(mark: str) -> list[list[str]]:
    """The command lines of processes that have the mark."""
    return [found for one in psutil.process_iter(["cmdline"]) if mark in " ".join(found := one.info["cmdline"] or [])]


@pytest.mark.parametrize(
    ("kind", "limits", "text", "code"),
    [
        ("python", {"time_s": 0.4}, "while True: pass", "TIME_LIMIT"),
        ("python", {"cpu_s": 1}, "while True: pass", "CPU_LIMIT"),
        ("python", {"memory_mib": 200}, "x = bytearray(300 * 1024 * 1024)", "MEMORY_LIMIT"),
        ("duckdb", {"memory_mib": 600}, "select list(range) from range(1000000000)", "MEMORY_LIMIT"),
        ("python", {"output_bytes": 10_000}, "while True: print('x' * 1000)", "OUTPUT_LIMIT"),
        ("python", {"output_bytes": 10_000}, "result = 'x' * 10_001", "OUTPUT_LIMIT"),
        ("shell", {"output_bytes": 10_000}, "yes 1>&2", "OUTPUT_LIMIT"),
        ("shell", {"processes": 20}, "bomb() { bomb | bomb & }; bomb; sleep 5", "PROCESS_LIMIT"),
    ],
)
async def test_a_task_beyond_a_limit_is_ended(kind: Kind, limits: Any, text: str, code: str) -> None:
    name = "code" if kind == "python" else "command"
    assert get_failure(await do(kind, limits=TaskLimits(**limits), **{name: text})).code == code


async def test_a_task_opens_and_writes_no_more_files_than_it_may() -> None:
    limits = TaskLimits(open_files=32, file_mib=1)
    failure = get_failure(await do("python", limits=limits, code="all = [open('/dev/null') for _ in range(40)]"))
    assert (failure.code, "Too many open files" in failure.message) == ("PYTHON_ERROR", True)
    failure = get_failure(await do("python", limits=limits, code="open('x', 'wb').write(bytes(2 ** 21))"))
    assert "File too large" in failure.message


async def test_a_task_sees_nothing_of_the_environment_and_has_a_directory_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STATEWRIGHT_POSTGRES_URL", "postgres://secret")
    code = (
        "import os; open('x', 'w'); result = [dict(os.environ), os.getcwd(), os.listdir(), os.listdir('/proc/self/fd')]"
    )
    environment, directory, listed, descriptors = read(await do("python", code=code))
    is_there = await asyncio.to_thread(Path(directory).exists)
    assert set(environment) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "HOME"}
    assert environment["HOME"] == environment["TMPDIR"] == directory
    assert listed == ["x"]
    assert len(descriptors) < 12
    assert not is_there


@pytest.mark.parametrize("command", ["sleep MARK & echo begun", "setsid sleep MARK >&- 2>&- & echo begun"])
async def test_what_a_task_leaves_behind_is_ended(command: str, mark: str) -> None:
    assert read(await do("shell", command=command.replace("MARK", mark)))["stdout"] == "begun\n"
    assert list_marked(mark) == []


async def test_orphans_that_have_ended_do_not_count() -> None:
    command = "i=0; while test $i -lt 40; do (true &); sleep 0.01; i=$((i + 1)); done; echo ended"
    assert read(await do("shell", limits=TaskLimits(processes=20), command=command))["stdout"] == "ended\n"


async def test_a_task_whose_guard_is_killed_ends_with_it(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    code = f"import os, time; open({str(begun)!r}, 'w').write(str(os.getppid())); time.sleep(77)"
    running = asyncio.create_task(do("python", code=code))
    await until(lambda: begun.exists() and begun.read_text())
    guard = psutil.Process(int(begun.read_text()))
    [task] = guard.children()
    guard.kill()
    failure = get_failure(await running)
    assert (failure.code, failure.retryable) == ("KILLED", True)
    await until(lambda: not task.is_running())


async def test_a_task_that_is_cancelled_is_ended_with_all_its_processes(tmp_path: Path, mark: str) -> None:
    begun = tmp_path / "begun"
    command = f"setsid sleep {mark} & touch {begun}; while :; do :; done"
    running = asyncio.create_task(do("shell", command=command))
    await until(begun.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list_marked(mark) == []
    assert not list_marked(str(begun))


async def until(fact: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, fact)


def test_a_task_ends_with_the_worker_that_asked_for_it(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    guard = subprocess.Popen(
        [sys.executable, "-I", "-m", "statewright.tools.guard"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert guard.stdin is not None
    assert guard.stdout is not None
    code = f"import os, time; open({str(begun)!r}, 'w').write(os.getcwd()); time.sleep(99)"
    guard.stdin.write(msgspec.json.encode(a_request("python", code=code)) + b"\n")
    guard.stdin.flush()
    eventually(lambda: begun.exists() and begun.read_text())
    guard.stdin.close()
    assert get_failure(msgspec.json.decode(guard.stdout.read(), type=TaskAnswer)).code == "CANCELLED"
    guard.stdout.close()
    assert guard.wait(10) == 0
    assert not Path(begun.read_text()).exists()
