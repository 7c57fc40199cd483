"""The program that computing processes are forked from: it has imported what they need, and has one thread.

Its standard input is a socket. With each message comes the socket of a process that is to be forked; the answer is the
process id. When the service closes its end, or is gone, the server ends. Its arguments are limits as JSON, and the
names of modules to import.
"""

import gc
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Final

import msgspec

from statewright.computations import child
from statewright.computations.child import ChildLimits

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
            child.run(socket.socket(fileno=descriptors[0]), limits)
        os.close(descriptors[0])
        control.sendall(pid.to_bytes(PID_BYTES, "big"))
