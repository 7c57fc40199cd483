"""What the commit statement tells of tenants that record: an optional part (docs/reference/operations.md#events-out).

Nobody stages rows of it. Which tenants record is a switch, of which every node knows before it holds
(``storage/ops/suspensions.py``); a batch of others is sent as if there were no such part.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

import msgspec

from statewright.ids import TenantId
from statewright.loop.deadlines import Lease
from statewright.storage.commit.overlay import Submission
from statewright.storage.commit.statement import PACKAGE, Part, read_sections

TELL_COPIED: Final = """
    -- What was copied in a transaction that is still open.
    INSERT INTO event_outbox (tenant, at, transaction_id, entity, model, change, from_state, state, transition,
                              attributed_id, attributed_kind, executor_id, executor_kind)
    SELECT tenant, valid_from, transaction_id, id, model, 'create', NULL, state, transition,
           attributed_id, attributed_kind, executor_id, executor_kind
      FROM entity
     WHERE tenant = $1 AND id = ANY ($2::uuid[])
"""

_encode = msgspec.json.Encoder().encode


class RecordedTenants:
    """The tenants that record, as this node knows them."""

    def __init__(self) -> None:
        self.presence = Lease(inf)
        """That of this node: as long as it lasts, a change would have waited for it."""
        self.load: Callable[[], Awaitable[frozenset[TenantId]]] | None = None
        self.list_batches: Callable[[], set[asyncio.Task[None]]] = set
        """The work on batches whose statements may have been composed already."""
        self._tenants: set[TenantId] = set()
        self._unaware: set[asyncio.Task[None]] = set()

    def __contains__(self, tenant: TenantId) -> bool:
        return tenant in self._tenants

    def replace_all(self, tenants: frozenset[TenantId]) -> None:
        """These are all there are; batches that are on their way may not know it."""
        if tenants != self._tenants:
            self._tenants.clear()
            self._tenants.update(tenants)
            self._unaware |= self.list_batches()

    async def load_anew(self) -> None:
        """This node counts as dead for the others, who do not wait for it. Raises ``StorageUnavailable``."""
        if self.load is not None:
            self.replace_all(await self.load())

    async def wait_until_effective(self, timeout_s: float) -> bool:
        """Wait for the end of batches that may not know of a change; whether there is none any more."""
        if self._unaware:
            await asyncio.wait(self._unaware, timeout=timeout_s)
            self._unaware = {batch for batch in self._unaware if not batch.done()}
        return not self._unaware

    def build_part(self) -> Part:
        """The part of the commit statement that writes what they record."""
        sections = read_sections(PACKAGE, "outbox.sql")
        return Part(name="outbox", sections=sections, encode=self._encode, tenants=self._tenants, copied=TELL_COPIED)

    def _encode(self, batch: Sequence[Submission]) -> str | None:
        recorded = [number for number, submission in enumerate(batch) if submission.rows[0].tenant in self._tenants]
        return _encode(recorded).decode() if recorded else None
