"""The user that the embedded PostgreSQL runs as, and what that user can reach.

PostgreSQL refuses to run as root. Started by an ordinary user, the service runs it as that user. Started by root, it
runs as the owner of the data, so that a data directory keeps its owner for life; new data is given to an unprivileged
user.
"""

import os
import pwd
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from statewright.storage.startup_errors import EmbeddedServerRefused

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
    """Whom to run the server of ``cluster`` as; the directory need not exist yet. Raises ``EmbeddedServerRefused``."""
    if os.geteuid() != 0:
        return OsUser(name=_get_user_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid())
    if pgdata.exists() and (owner := pgdata.stat()).st_uid != 0:
        return OsUser(name=_get_user_name(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid)
    return _find_unprivileged_user()


def change_owner(path: Path, user: OsUser) -> None:
    """Make ``account`` the owner of ``path`` and of all that is in it."""
    if user.is_self:
        return
    for directory, _, files in os.walk(path):
        for entry in (directory, *(os.path.join(directory, name) for name in files)):  # noqa: PTH118 - thousands of files
            os.chown(entry, user.uid, user.gid, follow_symlinks=False)


def can_reach(user: OsUser, path: Path) -> bool:
    """Whether every directory above ``path`` may be searched by ``account``, as far as the plain permission bits
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
