"""Assertions that clients have authenticated with, so that each counts once, on whichever node
(docs/reference/authentication.md#private-keys-of-clients).
"""

from statewright.ids import TenantId
from statewright.storage.pool import Pool


class StoredAssertions:
    """The assertions of one database; those of a client that have expired go when it uses another."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    RECORD = """
        WITH expired AS (
            DELETE FROM client_assertion WHERE tenant = $1 AND client = $2 AND expires_at < $5 AND digest <> $3
        )
        INSERT INTO client_assertion (tenant, client, digest, expires_at)
        SELECT tenant, id, $3::bytea, $4::bigint FROM auth_client WHERE tenant = $1 AND id = $2
            ON CONFLICT DO NOTHING
    """

    async def record(self, tenant: TenantId, client: str, digest: bytes, *, expires_at: int, now: int) -> bool:
        """Remember an assertion until it expires; False when it was used before, or the client is gone. Times in
        microseconds since 1970. Raises ``StorageUnavailable``.
        """
        async with self._pool.connection() as connection:
            tag: str = await connection.execute(self.RECORD, tenant, client, digest, expires_at, now)
        return tag == "INSERT 0 1"
