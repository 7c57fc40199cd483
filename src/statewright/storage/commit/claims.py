"""Claims of unique keys: how they are named in the database, who holds them, and what a transaction stages
(docs/reference/models.md#unique-keys).

A write carries what its entity claims from then on. Whether a claim is free is decided by the commit, when all of the
transaction is known; so within it one entity may let go of a value and another take it, in any order. A joined request
asks before it merges: it, and not the owner of the transaction, should hear of a value that is taken.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from statewright.entity import Entity
from statewright.failures import UniqueViolation
from statewright.ids import EntityId, ModelId, TenantId
from statewright.schema import Claim
from statewright.storage.commit.submission import ClaimRow, Submission, Write
from statewright.storage.pool import Pool

HASH_BYTES: Final = 16
"""As long as a UUID, which is how it is stored; claims are equal when their hashes are."""

KeepsClaim = Callable[[EntityId, str], bool]
"""Tells whether an entity that has, or wanted, a claim has it when the transaction ends."""

_encode = msgspec.json.Encoder().encode


def hash_claim(model: ModelId, claim: Claim) -> str:
    """The name of a claim within its tenant, as 32 hexadecimal digits."""
    key = claim.key_id.encode()
    return blake2b(b"%s%d:%s%s" % (model.encode(), len(key), key, claim.values), digest_size=HASH_BYTES).hexdigest()


def hash_claims(model: ModelId, claims: Iterable[Claim]) -> tuple[str, ...]:
    """The names of all claims of one entity."""
    return tuple(hash_claim(model, claim) for claim in claims)


class StagedClaims:
    """Who wants which claim in the overlay of a unit of work; an entity may have changed its mind since."""

    def __init__(self, outer: "StagedClaims | None") -> None:
        self._outer = outer
        self._claimants: dict[str, EntityId] = {}

    def stage(self, entity: Entity, claims: Sequence[Claim] | None) -> tuple[str, ...] | None:
        """Note what an entity claims; the hashes, or None when its model has no unique keys."""
        if claims is None:
            return None
        hashes = hash_claims(entity.model, claims)
        self._claimants |= dict.fromkeys(hashes, entity.id)
        return hashes

    def refuse_doubles(self, writes: Mapping[EntityId, Write], keeps: KeepsClaim) -> None:
        """Raises ``UniqueViolation`` when two entities of the transaction would hold the same claim."""
        if not self._claimants:
            return
        claimed = _map_claims(writes)
        if len(claimed) < sum(len(write.claims or ()) for write in writes.values()):
            raise UniqueViolation
        for hash_, id_ in claimed.items():
            if any(other != id_ and keeps(other, hash_) for other in self._iter_outer_claimants(hash_)):
                raise UniqueViolation

    def merge(self, inner: "StagedClaims") -> None:
        """Take over what a nested unit has staged."""
        self._claimants |= inner._claimants

    def clear(self) -> None:
        """Begin anew: what was staged is committed."""
        self._claimants.clear()

    def _iter_outer_claimants(self, hash_: str) -> Iterator[EntityId]:
        outer = self._outer
        while outer is not None:
            if (claimant := outer._claimants.get(hash_)) is not None:
                yield claimant
            outer = outer._outer


def _map_claims(writes: Mapping[EntityId, Write]) -> dict[str, EntityId]:
    """What is claimed, and the entity that claims it."""
    return {hash_: id_ for id_, write in writes.items() for hash_ in write.claims or ()}


def build_claim_rows(tenant: TenantId, writes: Mapping[EntityId, Write]) -> list[ClaimRow]:
    """What entities with unique keys claim from now on."""
    keyed = [(id_, write.claims) for id_, write in writes.items() if write.claims is not None]
    return [(tenant, id_, hash_) for id_, claims in keyed for hash_ in claims or (None,)]


HOLDERS: Final = """
    SELECT claimed.hash, holder.entity
      FROM unnest($2::uuid[]) AS claimed (hash)
     CROSS JOIN LATERAL (SELECT entity FROM unique_claim WHERE tenant = $1 AND hash = claimed.hash LIMIT 1) AS holder
"""


async def fetch_holders(pool: Pool, tenant: TenantId, hashes: Sequence[str]) -> dict[str, EntityId]:
    """Who holds the claims that are taken, as last committed."""
    async with pool.connection() as connection:
        rows = await connection.fetch(HOLDERS, tenant, hashes)
    return {row["hash"].hex: EntityId(str(row["entity"])) for row in rows}


async def refuse_taken_claims(
    pool: Pool, tenant: TenantId, writes: Mapping[EntityId, Write], keeps: KeepsClaim
) -> None:
    """Raises ``UniqueViolation`` when the writes claim what another entity holds, and keeps."""
    wanted = _map_claims(writes)
    if not wanted:
        return
    found = await fetch_holders(pool, tenant, list(wanted))
    if any(holder != wanted[hash_] and keeps(holder, hash_) for hash_, holder in found.items()):
        raise UniqueViolation


def encode_claims(batch: Sequence[Submission]) -> str | None:
    """The claims of the transactions of a batch, for the commit statement; None when none of them has unique keys."""
    claims = [
        {"t": number, "tenant": tenant, "entity": entity, "hash": hash_}
        for number, submission in enumerate(batch)
        for tenant, entity, hash_ in submission.claims
    ]
    return _encode(claims).decode() if claims else None
