"""What a computing process does: one task after the other, until the service closes its end of the socket.

The clock of the system ends a task that takes too long also when nothing of Python runs, and when the service that
would kill the process is gone: an alarm whose signal is left to do what signals do.
"""

import gc
import os
import resource
import signal
import socket
import traceback
from typing import Final, NoReturn

from msgspec import Struct

from statewright.computations.messages import BYTES_PER_S, MessageTooLarge, Outcome, decode, encode, receive, send

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
