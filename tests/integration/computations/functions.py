"""What the tests have computed. Processes import this module, so it imports nothing of the tests."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from statewright.failures import SearchTimeout


def double(value: int) -> int:
    return 2 * value


def repeat(value: object) -> object:
    return value


def get_pid() -> int:
    return os.getpid()


def hang() -> None:
    """Hold the interpreter, so that nothing of Python runs in the process, not even for a signal."""
    ("a" * 1_000_000).strip("b" * 1_000_000 + "a")


def idle(seconds: float) -> float:
    """Be there, and have no processor."""
    time.sleep(seconds)
    return seconds


def burn(seconds: float) -> int:
    """Have so much of a processor."""
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass
    return os.getpid()


def take_memory(size: int) -> int:
    return len(bytearray(size))


def refuse() -> None:
    raise SearchTimeout(2.5)


def fail() -> None:
    raise ValueError("a defect")


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def return_what_cannot_be_sent() -> object:
    return threading.Lock()


def leave_mark_and_wait(mark: Path, until: Path) -> None:
    """Say that it has begun, and go on until it is told."""
    mark.touch()
    while not until.exists():
        time.sleep(0.005)


def add_up(values: Sequence[int], *, times: int = 1) -> int:
    return sum(values) * times
