"""The program that computing processes are forked from, and what they do.

The server has imported what they need, and has one thread. Its standard input is a socket. With each message comes the
socket of a process that is to be forked; the answer is the process id. When the service closes its end, or is gone, the
server ends. Its arguments are limits as JSON, and the names of modules to import.

A process does one task after the other, until the service closes its end of the socket. The clock of the system ends a
task that takes too long also when nothing of Python runs, and when the service that would kill the process is gone: an
alarm whose signal is left to do what signals do.
"""

import gc
import os
import resource
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from statewright.computations.messages import BYTES_PER_S, MessageTooLarge, Outcome, decode, encode, receive, send

PID_BYTES: Final = 8
READY: Final = bytes(PID_BYTES)
"""The first answer: all is imported."""


def main() -> None:
    """Serve until the service is gone."""
    limits, modules = msgspec.json.decode(sys.argv[1], type=ChildLimits), sys.argv[2:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)  # the service decides; children need no one who waits for them
    os.nice(limits.niceness)
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is imported is not copied for each process by looking for garbage
    control = socket.socket(fileno=0)
    control.sendall(READY)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not asked:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            run(socket.socket(fileno=descriptors[0]), limits)
        os.close(descriptors[0])
        control.sendall(pid.to_bytes(PID_BYTES, "big"))


ALARM_MARGIN_S: Final = 1.0
"""How much later than the service the alarm ends a task: the service knows why, and who is told."""
MAX_RESULT_BYTES: Final = 128 * 1024 * 1024
"""Of the pickle of a result, which the service has to hold."""


WALL_FACTOR: Final = 1.5
"""How much longer than its processor time a task may take by the clock: for a machine that has other things to do."""


def limit_seconds(timeout_s: float, size: int) -> tuple[float, float]:
    """What a task of so many bytes may take: of processor time, and by the clock."""
    limit_s = timeout_s + size / BYTES_PER_S
    return limit_s, limit_s * WALL_FACTOR


class ChildLimits(Struct, frozen=True, kw_only=True):
    """What a process may take."""

    timeout_s: float
    """Of processor time, for one task."""
    memory_bytes: int
    niceness: int


def run(connection: socket.socket, limits: ChildLimits) -> NoReturn:
    """Do tasks until there are no more, then exit."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _limit_memory(limits.memory_bytes)
    try:
        while (data := receive(connection)) is not None:
            _, wall_s = limit_seconds(limits.timeout_s, len(data))
            signal.setitimer(signal.ITIMER_REAL, wall_s + ALARM_MARGIN_S)
            send(connection, _do(data))
            signal.setitimer(signal.ITIMER_REAL, 0)
            del data
            gc.collect(0)
    except OSError:
        pass  # the service is gone
    except MemoryError:
        os._exit(1)
    os._exit(0)


def _limit_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _do(data: bytearray) -> list[bytes]:
    try:
        return encode(_compute(data), MAX_RESULT_BYTES)
    except (MemoryError, MessageTooLarge):
        return encode(("memory", None))
    except Exception as error:  # what cannot be pickled is a defect
        return encode(("failed", RuntimeError(f"result of a computation cannot be sent: {error!r}")))


def _compute(data: bytearray) -> Outcome:
    try:
        task = decode(data)
        assert callable(task)  # noqa: S101
        return "done", task()
    except MemoryError:
        raise
    except Exception as error:  # raised where the result is waited for
        error.add_note("in a computing process:\n" + "".join(traceback.format_exception(error)))
        return "failed", error
