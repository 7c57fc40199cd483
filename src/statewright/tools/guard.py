"""The process that watches over the process of a task: ``python -I -m statewright.tools.guard``.

The worker writes a request to its standard input and leaves that open; the answer is all that is on its standard
output. In between the guard forks the process of the task, into a session and an empty directory of its own, and reads
what it writes. Whatever ends the task, its own end, a limit, or the end of the standard input, which is how the guard
learns that the worker has cancelled the task or is gone: the guard kills all that the task has started, removes the
directory, and ends.

On Linux descendants that leave the process group are found and killed, too; elsewhere only the group is.
"""

import ctypes
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from statewright.tools.tasks import MIB, TaskAnswer, TaskFailure, TaskLimits, TaskRequest

_TICK_S: Final = 0.05
"""How often the processes of a task are counted."""
_KILL_S: Final = 2.0
"""How long the guard looks for descendants to kill."""
_READ_BYTES: Final = 65_536
_TOLD_CHARS: Final = 1_000
"""Of the end of the standard error that a message quotes."""
_SUBREAPER: Final = 36
"""``PR_SET_CHILD_SUBREAPER``: orphans of the task become children of the guard."""
_DEATH_SIGNAL: Final = 1
"""``PR_SET_PDEATHSIG``: the process of the task ends with the guard, also where that is killed."""
_STDIN: Final = 0


class _Told(Struct, kw_only=True):
    """What a task has written."""

    out: bytearray
    err: bytearray
    answer: bytearray


def main() -> int:
    """Run the task that the standard input asks for."""
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=TaskRequest)
    _control(_SUBREAPER, 1)
    directory = tempfile.mkdtemp(prefix="statewright-task-")
    try:
        answer = _Watch(request, directory).run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    return 0


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Watch:
    """One task, from its start to the end of all its processes."""

    def __init__(self, request: TaskRequest, directory: str) -> None:
        self._request = request
        self._limits = request.limits
        self._told = _Told(out=bytearray(), err=bytearray(), answer=bytearray())
        self._pipes: dict[int, bytearray] = {}
        self._pid = self._start(directory)
        self._deadline = time.monotonic() + self._limits.time_s

    def _start(self, directory: str) -> int:
        ends = [os.pipe() for _ in range(3)]
        pid = os.fork()
        if pid == 0:
            for read, _ in ends:
                os.close(read)
            _become_task(self._request, directory, *(write for _, write in ends))
        for (read, write), told in zip(ends, (self._told.out, self._told.err, self._told.answer), strict=True):
            os.close(write)
            os.set_blocking(read, False)
            self._pipes[read] = told
        return pid

    def run(self) -> bytes:
        """The answer."""
        failure = self._watch()
        with suppress(ProcessLookupError):  # the group is there until its leader is waited for
            os.killpg(self._pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        _kill_descendants()
        for pipe in tuple(self._pipes):
            self._read(pipe)
        return self._conclude(status, failure or self._find_flood())

    def _watch(self) -> TaskFailure | None:
        """Returns when the task has ended, or is to be: a failure says why."""
        with selectors.DefaultSelector() as selector:
            for pipe in (_STDIN, *self._pipes):
                selector.register(pipe, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_TICK_S):
                    if key.fd == _STDIN:
                        if not os.read(_STDIN, _READ_BYTES):
                            return TaskFailure(code="CANCELLED", message="the task was cancelled")
                    elif self._read(key.fd):
                        selector.unregister(key.fd)
                if self._has_ended():
                    return None
                if (failure := self._find_failure()) is not None:
                    return failure

    def _has_ended(self) -> bool:
        """Whether the first process of the task has. Orphans that have ended are waited for, or they would count."""
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == self._pid:
                return True
            os.waitpid(ended.si_pid, 0)
        return False

    def _read(self, pipe: int) -> bool:
        """Take what is in a pipe; whether it has ended. Nothing is kept beyond the limit."""
        told = self._pipes[pipe]
        with suppress(BlockingIOError):
            while piece := os.read(pipe, _READ_BYTES):
                told += piece[: self._limits.output_bytes + 1 - len(told)]
                if len(told) > self._limits.output_bytes:
                    return False
            return True
        return False

    def _find_failure(self) -> TaskFailure | None:
        if time.monotonic() > self._deadline:
            return TaskFailure(
                code="TIME_LIMIT", message=f"the task took longer than {self._limits.time_s:g} s", retryable=True
            )
        if sum(1 for _ in _list_descendants(os.getpid())) > self._limits.processes:
            return TaskFailure(
                code="PROCESS_LIMIT", message=f"the task has more than {self._limits.processes} processes"
            )
        return self._find_flood()

    def _find_flood(self) -> TaskFailure | None:
        limit = self._limits.output_bytes
        if len(self._told.answer) > limit:
            return TaskFailure(code="OUTPUT_LIMIT", message=f"the result has more than {limit} bytes")
        if len(self._told.out) + len(self._told.err) > limit:
            return TaskFailure(code="OUTPUT_LIMIT", message=f"the task has written more than {limit} bytes")
        return None

    def _conclude(self, status: int, failure: TaskFailure | None) -> bytes:
        if failure is None and status == 0 and self._told.answer:
            return bytes(self._told.answer)
        result = msgspec.Raw(b"null")
        if failure is None and self._request.kind == "shell" and status >= 0:
            written = {"exit_code": status, "stdout": _decode(self._told.out), "stderr": _decode(self._told.err)}
            result = msgspec.Raw(msgspec.json.encode(written))
            if status == 0:
                return msgspec.json.encode(TaskAnswer(result=result))
        failure = failure or self._explain(status)
        return msgspec.json.encode(TaskAnswer(result=result, failure=failure))

    def _explain(self, status: int) -> TaskFailure:
        quoted = _decode(self._told.err).strip()[-_TOLD_CHARS:]
        said = f": {quoted}" if quoted else ""
        if status == -signal.SIGXCPU:
            return TaskFailure(
                code="CPU_LIMIT", message=f"the task used more than {self._limits.cpu_s} s of a processor"
            )
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            return TaskFailure(code="KILLED", message=f"the task was ended by {name}{said}", retryable=True)
        return TaskFailure(code=f"EXIT_{status}", message=f"the task ended with exit code {status}{said}")


def _decode(told: bytearray) -> str:
    return told.decode(errors="replace").replace("\0", "\ufffd")


def _become_task(request: TaskRequest, directory: str, out: int, err: int, answer: int) -> NoReturn:
    """Do the task in this process, which was forked for it."""
    code = 1
    try:
        _control(_DEATH_SIGNAL, signal.SIGKILL)
        os.setsid()
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ |= {"HOME": directory, "TMPDIR": directory}
        os.chdir(directory)
        _set_limits(request.limits)
        from statewright.tools import programs  # here: what tasks need is not loaded by the guard

        answered = programs.run(request)
        sys.stdout.flush()
        _write(answer, msgspec.json.encode(answered))
        code = 0
    except BaseException:  # whatever it is, this copy of the guard must not go on as one
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _write(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _set_limits(limits: TaskLimits) -> None:
    wanted = {
        resource.RLIMIT_AS: limits.memory_mib * MIB,
        resource.RLIMIT_FSIZE: limits.file_mib * MIB,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in wanted.items():
        _, most = resource.getrlimit(name)
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(name, (allowed, allowed))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    if most == resource.RLIM_INFINITY or most > limits.cpu_s:
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))  # SIGXCPU, then SIGKILL


def _list_descendants(pid: int) -> Iterator[int]:
    """All below a process, as far as the system tells."""
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _list_descendants(child)


def _kill_descendants() -> None:
    """Kill and wait for all that is left below the guard."""
    until = time.monotonic() + _KILL_S
    while time.monotonic() < until:
        for pid in tuple(_list_descendants(os.getpid())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


if __name__ == "__main__":
    sys.exit(main())
