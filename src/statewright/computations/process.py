"""One computing process as the thread sees it that waits for it, and the server that it is forked from."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Final

import msgspec
import psutil

from statewright.computations.fork_server import PID_BYTES, ChildLimits, limit_seconds
from statewright.computations.messages import Task, decode, encode, measure, receive, send
from statewright.failures import ComputationKilled, ComputationTooLarge, ComputationTooLong

START_TIMEOUT_S: Final = 60.0
"""For the imports of the server, on a machine that has other things to do."""
MIN_LOOK_S: Final = 0.01
"""Between two looks at the processor time of a process: the system counts by such steps."""
PROGRAM: Final = "from statewright.computations import fork_server; fork_server.main()"


class ServerGone(OSError):
    """The server of processes could not be started, or has ended."""


class ForkServer:
    """The program that processes are forked from, started when the first is needed. For several threads."""

    def __init__(self, limits: ChildLimits, modules: Sequence[str]) -> None:
        self._command = [sys.executable, "-P", "-c", PROGRAM]
        self._command += [msgspec.json.encode(limits).decode(), *modules]
        self._lock = Lock()
        self._program: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the program, unless it runs. Raises ``OSError``."""
        with self._lock:
            self._ensure_running()

    def fork(self) -> tuple[int, socket.socket]:
        """A new process: its id, and our end of its socket. Raises ``OSError``."""
        with self._lock:
            try:
                return self._ask()
            except OSError:  # the program was killed: another takes its place
                if self._is_closed:
                    raise
                return self._ask()

    def _ask(self) -> tuple[int, socket.socket]:
        control = self._ensure_running()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(control, [b"+"], [theirs.fileno()])
                return _read_pid(control), ours
        except OSError:
            ours.close()
            self._stop()
            raise

    def close(self) -> None:
        """End it; no process can be forked any more."""
        self._is_closed = True
        program = self._program
        if program is not None:
            program.kill()  # lets a thread that waits for it go on
        with self._lock:
            self._stop()

    def _ensure_running(self) -> socket.socket:
        if self._is_closed:
            raise ServerGone("the service is stopping")
        return self._control or self._start()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        with theirs:
            # A session of its own: what a terminal sends to the service's group is the service's to answer.
            self._program = subprocess.Popen(  # noqa: S603 - our own program
                self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        ours.settimeout(START_TIMEOUT_S)
        self._control = ours
        try:
            _read_pid(ours)
        except OSError:
            self._stop()
            raise
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._program is not None:
            self._program.kill()
            self._program.wait()
        self._control = self._program = None


def _read_pid(control: socket.socket) -> int:
    data = b""
    while len(data) < PID_BYTES:
        more = control.recv(PID_BYTES - len(data))
        if not more:
            raise ServerGone("the server of computing processes has ended")
        data += more
    return int.from_bytes(data, "big")


class ComputingProcess:
    """A process that computes; forked when it is first needed, and again after it was killed.

    One thread at a time computes by it; ``kill`` may be called by any other, and ends what it computes.
    """

    def __init__(self, server: ForkServer, *, timeout: timedelta, memory_bytes: int, max_tasks: int) -> None:
        self._server = server
        self._timeout = timeout
        self._memory_bytes = memory_bytes
        self._max_tasks = max_tasks
        self._tasks = 0
        self._lock = Lock()
        self._connection: socket.socket | None = None
        self._is_killed = False
        """Whether the process was told to end, and its socket may not show it yet."""
        self.pid: int | None = None
        """None: there is none now."""

    def start(self) -> socket.socket:
        """Have a process, whose socket this is. Raises ``OSError``."""
        if self._is_killed:  # before it had anything to compute, or just after it
            self.close()
        if self._connection is None:
            self.pid, self._connection = self._server.fork()
            self._tasks = 0
        return self._connection

    def compute(self, task: Task, is_wanted: Callable[[], bool]) -> object:
        """What the task comes to; nothing is begun unless it ``is_wanted`` once there is a process.

        Raises what the task raises, ``ComputationKilled``, ``OSError`` without a process.
        """
        parts = encode(task)
        connection = self.start()
        if not is_wanted():
            raise ComputationKilled
        try:
            data = self._exchange(connection, parts)
        except TimeoutError:
            self.close()
            raise ComputationTooLong(self._timeout) from None
        except OSError:
            data = None
        if data is None:
            self.close()
            raise ComputationKilled
        return self._finish(decode(data))

    def _exchange(self, connection: socket.socket, parts: list[bytes]) -> bytearray | None:
        limit_s, wall_s = limit_seconds(self._timeout.total_seconds(), measure(parts))
        began, spent_s = monotonic(), self._measure_processor_s()
        next_look = began + limit_s  # before that it cannot have had more

        def limit_wait() -> None:
            nonlocal next_look
            now = monotonic()
            if now >= next_look:
                left_s = min(limit_s - self._measure_processor_s() + spent_s, began + wall_s - now)
                if left_s <= 0:
                    raise TimeoutError
                next_look = now + max(left_s, MIN_LOOK_S)
            connection.settimeout(next_look - now)

        connection.settimeout(wall_s)
        send(connection, parts)
        return receive(connection, limit_wait)

    def _measure_processor_s(self) -> float:
        """Seconds of processor time since the process began."""
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:  # it has ended, as its socket will tell
            return 0.0
        return times.user + times.system

    def _finish(self, outcome: object) -> object:
        assert isinstance(outcome, tuple)  # noqa: S101
        kind, value = outcome
        self._tasks += 1
        if kind == "memory":
            self.close()
            raise ComputationTooLarge(self._memory_bytes)
        if self._tasks >= self._max_tasks:
            self.close()  # what it has kept goes with it
        if kind == "failed":
            raise value
        return value

    def kill(self) -> None:
        """End the process, if there is one; whoever computes by it is told."""
        with self._lock:
            if self.pid is not None:
                self._is_killed = True
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process. Only while no other thread computes by it."""
        self.kill()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self.pid = None
            self._is_killed = False
