"""A PostgreSQL that outlived its service.

After ``kill -9`` of the service the kernel asks PostgreSQL to shut down (``launch.py``), which takes a moment; where
the kernel does not do so, PostgreSQL runs on. The next service on the same data stops what is left and starts its own
server: a server with known settings, a known parent and a known log is worth the fraction of a second that
re-attaching would save.

Only the holder of the data directory's lock comes here, so no process found belongs to a living service. A process is
taken for ours when it is called ``postgres`` and its working directory is the data, which PostgreSQL sees to for each
of its processes. ``postmaster.pid`` alone proves nothing: after a reboot or in a new container the number in it may
be that of any process, and PostgreSQL itself then refuses to start. Hence it is removed once no process is left.
"""

import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import psutil

from statewright.storage.startup_errors import EmbeddedServerRefused

FAST_SHUTDOWN: Final = signal.SIGINT
"""Ends sessions, writes a checkpoint (PostgreSQL 18 manual, §18.5)."""

IMMEDIATE_SHUTDOWN: Final = signal.SIGQUIT
"""Ends at once; the next start recovers from the write-ahead log."""

FAST_TIMEOUT: Final = timedelta(seconds=15)
IMMEDIATE_TIMEOUT: Final = timedelta(seconds=5)


def stop_orphans(pgdata: Path) -> int:
    """End every PostgreSQL process on ``cluster`` and remove its claim; the number of processes found.

    Blocks for up to 25 s; raises ``EmbeddedServerRefused`` when a process survives that.
    """
    claim = pgdata / "postmaster.pid"
    if not claim.exists():
        return 0
    found = find_processes(pgdata)
    # Without their server, backends end by themselves, but only when they next look. SIGINT has other meanings for
    # them.
    server = [process for process in found if process.pid == _read_claimant(claim)]
    left = _signal_and_wait(server, FAST_SHUTDOWN, FAST_TIMEOUT, waiting_for=found) if server else found
    left = _signal_and_wait(left, IMMEDIATE_SHUTDOWN, IMMEDIATE_TIMEOUT, waiting_for=left)
    left = _signal_and_wait(left, signal.SIGKILL, IMMEDIATE_TIMEOUT, waiting_for=left)
    if left:
        numbers = ", ".join(str(process.pid) for process in left)
        raise EmbeddedServerRefused(f"PostgreSQL processes {numbers} still use {pgdata} and cannot be stopped")
    claim.unlink(missing_ok=True)
    return len(found)


def find_processes(pgdata: Path) -> list[psutil.Process]:
    """The living PostgreSQL processes, server and backends alike, that work on ``cluster``."""
    directory = str(pgdata.resolve())
    return [process for process in psutil.process_iter() if _works_on(process, directory)]


def _works_on(process: psutil.Process, directory: str) -> bool:
    try:
        return process.name() == "postgres" and process.cwd() == directory
    except psutil.Error:  # gone, a zombie, or of another account
        return False


def _read_claimant(claim: Path) -> int | None:
    """The number on the first line of ``postmaster.pid``; None when the file is being written or removed."""
    try:
        return int(claim.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _signal_and_wait(
    processes: Sequence[psutil.Process],
    signal_: signal.Signals,
    within: timedelta,
    *,
    waiting_for: Sequence[psutil.Process],
) -> list[psutil.Process]:
    """Those of ``waiting_for`` that are left after ``processes`` got the signal."""
    for process in processes:
        try:
            process.send_signal(signal_)
        except psutil.NoSuchProcess:
            continue
    _, left = psutil.wait_procs(waiting_for, timeout=within.total_seconds())
    return list(left)
