"""What ``/readyz`` says of this process."""

import asyncio

from statewright import logs
from statewright.cluster.node import ClusterNode
from statewright.failures import StorageUnavailable
from statewright.storage import migrate
from statewright.storage.faults import check_writes
from statewright.storage.pool import Pool
from statewright.storage.startup_errors import SchemaNewer, StartRefused

log = logs.logger(__name__)


class Readiness:
    """Whether the service can do its work now: start-up is complete, the database answers, and takes writes."""

    CHECK_TIMEOUT_S = 1.0

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._node: ClusterNode | None = None

    def open(self, pool: Pool, node: ClusterNode) -> None:
        """Start-up is complete."""
        self._pool, self._node = pool, node

    def close(self) -> None:
        """Shutdown begins."""
        self._pool = None

    async def check(self) -> bool:
        """Ask the database."""
        is_writable = True
        if self._pool is None or self._node is None:
            return False
        if not self._node.is_alive:
            log.warning("not_ready", error="the other nodes take this one for lost")
            return False
        try:
            async with asyncio.timeout(self.CHECK_TIMEOUT_S), self._pool.connection() as connection:
                is_writable = await check_writes(connection, self._pool.faults)
                connection.is_broken |= not is_writable  # a session that began so may stay so: the next asks anew
                await migrate.check_schema(connection)
        except SchemaNewer:  # nodes of a newer release have joined: the rolling upgrade must not stop this one
            return is_writable
        except (StorageUnavailable, TimeoutError, StartRefused) as reason:
            log.warning("not_ready", error=str(reason) or type(reason).__name__)
            return False
        if not is_writable:
            log.warning("not_ready", error="the database takes no writes")
        return is_writable
