"""How many files the process may open, and how the connections of clients share them.

A port that is full must not starve the others: health, the admin listener and the database need files, too.
"""

import resource
from typing import Final

from msgspec import Struct

MAX_FILES: Final = 1_048_576
"""No more are asked for, whatever the system would grant."""

RESERVED_FILES: Final = 256
"""Files that no client gets: connections to the database and to other nodes, logs, sockets that listen."""

MAX_CONNECTIONS: Final = 10_000
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_NODE_CONNECTIONS: Final = 1000


class ConnectionShares(Struct, frozen=True, kw_only=True):
    """Connections that each of the ports may have."""

    http: int
    grpc: int
    nodes: int
    admin: int


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; how many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems grant less than they say
        return soft
    return wanted


def share_connections(grpc_limit: int) -> ConnectionShares:
    """Half of the files for HTTP, a quarter for gRPC, an eighth for other nodes, as far as that is needed.
    ``grpc_limit`` is what the settings allow.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_FILES if soft == resource.RLIM_INFINITY else soft
    free = max(files - RESERVED_FILES, files // 2)
    return ConnectionShares(
        http=min(MAX_CONNECTIONS, free // 2),
        grpc=min(grpc_limit, free // 4),
        nodes=min(MAX_NODE_CONNECTIONS, free // 8),
        admin=min(MAX_ADMIN_CONNECTIONS, free // 16),
    )
