"""The program started without its imports: a process that has imported it forks one for each start.

The imports take most of the processor time of a start, and the tests of whole programs start some two hundred. What
follows them is the same process as any: a session, a home, an environment and signals of its own. Tests that are about
the installed command itself (``test_installation``, ``test_quick_start``, ``test_guides``) start it as a user does.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

_MAX_MESSAGE = 1 << 17
_RESTING_S = 60.0
"""A fork server that has said nothing for so long has failed."""


class Process(Protocol):
    """What tests ask of a process, as of one of ``subprocess``."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class ForkServer:
    """The client's side of the process that forks. One for each process of pytest, started when first asked."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, called: Sequence[str], home: Path, environment: Mapping[str, str], out: BinaryIO, errors: BinaryIO
    ) -> Process:
        """The program in a session of its own, called with the arguments that follow its name; a Python file, if that
        is what the name is, which calls the program.
        """
        call = {"called": list(called), "home": str(home), "environment": dict(environment)}
        pid = self._ask(call, out.fileno(), errors.fileno())
        return _Forked(self, pid, list(called))

    def poll(self, pid: int) -> int | None:
        """The exit code of a process that has ended, and which is forgotten then."""
        code: int | None = self._ask({"poll": pid})
        return code

    def _ask(self, message: Mapping[str, object], *descriptors: int) -> Any:  # Any: JSON
        with self._turn:
            if self._socket is None:
                self._socket, self._process = _launch()
                atexit.register(self._close)
            socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors)
            return json.loads(self._socket.recv(_MAX_MESSAGE))

    def _close(self) -> None:
        assert self._socket is not None
        assert self._process is not None
        self._socket.close()
        self._process.wait(_RESTING_S)


FORK_SERVER = ForkServer()


class _Forked:
    """A process that is a child of the fork server."""

    def __init__(self, server: ForkServer, pid: int, called: list[str]) -> None:
        self._server = server
        self._called = called
        self._ends = os.pidfd_open(pid)
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.poll(self.pid)
            if self.returncode is not None:
                os.close(self._ends)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        while self.poll() is None:
            if not select.select([self._ends], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._called, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _launch() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=Path(__file__).parents[2],
            env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | {"LANG": "C.UTF-8"},
            start_new_session=True,
        )
    ours.settimeout(_RESTING_S)
    return ours, process


def _serve(connection: socket.socket) -> list[str]:
    """Answers until the client is gone; in a process that it has forked, what was called, with its arguments."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _MAX_MESSAGE, 2)
        if not message:
            raise SystemExit
        call = json.loads(message)
        if "poll" in call:
            pid, status = os.waitpid(call["poll"], os.WNOHANG)
            connection.send(json.dumps(os.waitstatus_to_exitcode(status) if pid else None).encode())
            continue
        pid = os.fork()
        if pid:
            for descriptor in descriptors:
                os.close(descriptor)
            connection.send(json.dumps(pid).encode())
            continue
        connection.close()
        os.setsid()
        for number, descriptor in enumerate(descriptors, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(call["home"])
        os.environ.clear()
        os.environ.update(call["environment"])
        called: list[str] = call["called"]
        return called


def _main() -> None:
    from statewright.cli.main import main

    import_module("statewright.app")  # as the command does when it is called
    assert threading.active_count() == 1, "another thread would not be there after a fork"
    gc.freeze()
    sys.path[:] = [place for place in sys.path if place != str(Path.cwd())]  # `-m` put it there; a command has none
    sys.argv[:] = _serve(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        main()


if __name__ == "__main__":
    _main()
