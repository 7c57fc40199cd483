"""Change the account, arrange to be told of the service's end, then turn into another program.

Run by path as a program of its own (``python launcher.py …``) between the service and PostgreSQL, so that none of this
happens in a forked copy of a threaded process. It imports nothing but the standard library.

1. *Account.* PostgreSQL refuses to run as root. Started by root, the program goes on as an unprivileged user.
2. *Reach.* That user cannot search root's private directories (``/root``, ``mktemp -d``), where both our data and the
   virtual environment with PostgreSQL's programs may be. When asked to, the program keeps the one capability that
   lets it do so, CAP_DAC_OVERRIDE, which every container engine grants root by default. PostgreSQL asks ``access(2)``
   before it runs its own parts, and that call forgets the capabilities of a process that is not root unless
   SECBIT_NO_SETUID_FIXUP is set.
3. *The service's end.* The kernel sends the program a signal when the service dies, however it dies (Linux only). The
   kernel forgets this wish at every change of credentials, hence the order.
"""

import ctypes
import os
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_SECUREBITS: Final = 28
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
SECBIT_NO_SETUID_FIXUP: Final = 1 << 2
CAP_DAC_OVERRIDE: Final = 1
CAPABILITY_VERSION: Final = 0x20080522
"""``_LINUX_CAPABILITY_VERSION_3`` of <linux/capability.h>."""


def main(arguments: list[str]) -> None:
    """``<parent pid> <signal> <uid> <gid> <reach everything: 0|1> <program> <argument>…``"""
    parent, death_signal, uid, gid, reach = map(int, arguments[:5])
    program = arguments[5:]
    if uid != os.geteuid():
        change_user(uid, gid, keep_reach=reach == 1)
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        return  # the service ended before the wish was made
    os.execv(program[0], program)  # noqa: S606  (this program exists to become another one)


def change_user(uid: int, gid: int, *, keep_reach: bool) -> None:
    """From root to ``uid`` for good, with or without the right to search directories of other accounts."""
    if keep_reach:
        prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)  # else the kernel takes all capabilities away with the user
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if keep_reach:
        keep_only(CAP_DAC_OVERRIDE)


def keep_only(capability: int) -> None:
    """Give up every capability but this one, which then survives ``exec``."""
    bit = 1 << capability
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(
        bit, bit, bit, 0, 0, 0
    )  # effective, permitted, inheritable; low words, then high words
    check_result(load_libc().capset(header, sets), "capset")
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def prctl(option: int, *arguments: int) -> None:
    """prctl(2); raises OSError."""
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    check_result(load_libc().prctl(option, *padded), "prctl")


def load_libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def check_result(result: int, call: str) -> None:
    """Raise OSError when a system call failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as failure:
        needed = ", needed to reach directories that only root may search" if sys.argv[5] == "1" else ""
        sys.exit(f"FATAL:  cannot run {sys.argv[6]} as user {sys.argv[3]}{needed}: {failure}")
