"""Where the embedded PostgreSQL has its socket: a directory in the system's temporary one, since the path of a socket
must be short. A service that is killed leaves its directory behind; the next one that starts here removes it.
"""

import os
import shutil
import socket
import stat
import tempfile
import time
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Final

from statewright.storage.embedded.data_directory import DataDirectory
from statewright.storage.embedded.os_user import OsUser

MAX_SOCKET_PATH: Final = 103
"""Bytes; ``sun_path`` without its end mark on macOS. Linux allows 107."""

SOCKET: Final = ".s.PGSQL.5432"

CONNECT_TIMEOUT_S: Final = 0.2

ABANDONED_AFTER: Final = timedelta(minutes=10)
"""A directory without a server may belong to one that is just being started."""


def prepare_socket_directory(data: DataDirectory, user: OsUser) -> Path:
    """An empty directory with a short name that only ``account`` and root can enter.

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
