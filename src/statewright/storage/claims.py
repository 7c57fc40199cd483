"""Claims on unique keys: how they are named in the database, and who holds them (spec/models.md §11)."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from statewright.identity import EntityId, ModelId, TenantId
from statewright.schema import Claim
from statewright.storage.pool import Pool

HASH_BYTES = 16
"""As long as a UUID, which is how it is stored; claims are equal when their hashes are."""


def claim_hash(model: ModelId, claim: Claim) -> str:
    """The name of a claim within its tenant, as 32 hexadecimal digits."""
    key = claim.key_id.encode()
    return blake2b(b"%s%d:%s%s" % (model.encode(), len(key), key, claim.values), digest_size=HASH_BYTES).hexdigest()


def claim_hashes(model: ModelId, claims: Iterable[Claim]) -> tuple[str, ...]:
    """The names of all claims of one entity."""
    return tuple(claim_hash(model, claim) for claim in claims)


HOLDERS = """
    SELECT claimed.hash, holder.entity
      FROM unnest($2::uuid[]) AS claimed (hash)
     CROSS JOIN LATERAL (SELECT entity FROM unique_claim WHERE tenant = $1 AND hash = claimed.hash LIMIT 1) AS holder
"""


async def holders(pool: Pool, tenant: TenantId, hashes: Sequence[str]) -> dict[str, EntityId]:
    """Who holds the claims that are taken, as last committed."""
    async with pool.connection() as connection:
        rows = await connection.fetch(HOLDERS, tenant, hashes)
    return {row["hash"].hex: EntityId(str(row["entity"])) for row in rows}
