"""The user that the embedded PostgreSQL runs as, and what that user can reach.

PostgreSQL refuses to run as root. Started by an ordinary user, the service runs it as that user. Started by root, it
runs as the owner of the data, so that a data directory keeps its owner for life; new data is given to an unprivileged
user.
"""

import os
import pwd
import stat
from pathlib import Path

from msgspec import Struct

from statewright.storage.refusals import EmbeddedServerRefused

CANDIDATES = ("statewright", "nobody")
"""Users to own new data when root starts the service, best first. A ``postgres`` user is left to the system's own
server.
"""


class Account(Struct, frozen=True, kw_only=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int

    @property
    def is_self(self) -> bool:
        """Whether this process already runs as this user."""
        return self.uid == os.geteuid()


def account_for(cluster: Path) -> Account:
    """Whom to run the server of ``cluster`` as; the directory need not exist yet. Raises ``EmbeddedServerRefused``."""
    if os.geteuid() != 0:
        return Account(name=_name_of(os.geteuid()), uid=os.geteuid(), gid=os.getegid())
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(name=_name_of(owner.st_uid), uid=owner.st_uid, gid=owner.st_gid)
    return _unprivileged()


def give(path: Path, account: Account) -> None:
    """Make ``account`` the owner of ``path`` and of all that is in it."""
    if account.is_self:
        return
    for directory, _, files in os.walk(path):
        for entry in (directory, *(os.path.join(directory, name) for name in files)):  # noqa: PTH118 - thousands of files
            os.chown(entry, account.uid, account.gid, follow_symlinks=False)


def can_reach(account: Account, path: Path) -> bool:
    """Whether every directory above ``path`` may be searched by ``account``, as far as the plain permission bits
    tell.
    """
    return all(_may_search(account, directory.stat()) for directory in path.resolve().parents)


def _may_search(account: Account, directory: os.stat_result) -> bool:
    if directory.st_uid == account.uid:
        return bool(directory.st_mode & stat.S_IXUSR)
    if directory.st_gid == account.gid:
        return bool(directory.st_mode & stat.S_IXGRP)
    return bool(directory.st_mode & stat.S_IXOTH)


def _unprivileged() -> Account:
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedServerRefused(
        f"PostgreSQL does not run as root, and there is no user named {' or '.join(CANDIDATES)} to run it as"
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # usual in containers that run as a bare number
        return str(uid)
