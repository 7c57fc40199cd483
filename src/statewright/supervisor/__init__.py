"""Several service processes on one host behind the same ports: ``statewright serve --workers N``.

The supervisor owns what must exist once: the embedded server, if there is one, the migrations at the start, the ports
and the admin listener. Each worker is a whole service and a node of the cluster like any other; no request passes
through the supervisor. It starts workers, replaces those that end, and forwards signals.

*Ports.* There is an HTTP socket for each worker, bound to the same port (SO_REUSEPORT), and the supervisor keeps them
open. So a connection that the kernel has given to a worker waits when that worker is gone, and its successor, which
gets the same socket, accepts it. The gRPC port is bound by each worker; the supervisor holds a socket on it that does
not listen, so that no other program can take it.

*Rolling restart* (SIGHUP). Worker by worker: the successor is started and ready before the predecessor is asked to
stop, so at any time there is a process that accepts on every socket. The predecessor closes its connections with their
next response and lets its requests end. A successor that does not become ready ends the restart, and nothing is lost.

*Loss of the supervisor.* A worker whose supervisor is gone reads the end of its standard input and stops as on
SIGTERM.
"""
