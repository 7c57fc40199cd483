"""What a transaction has written (docs/reference/operations.md#transactions)."""

from uuid import UUID

from statewright.ids import TransactionId, find_time
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import transactions
from statewright.storage.ops.transactions import TransactionKey as TransactionKey
from statewright.storage.ops.transactions import WrittenEntity as WrittenEntity


async def list_written(
    runtime: Runtime, caller: Caller, transaction: TransactionId, page: PageRequest[TransactionKey]
) -> Page[WrittenEntity, TransactionKey]:
    """The entities that a transaction has written, by id; none when it is unknown. Raises ``SearchTimeout``."""
    made_at = find_time(transaction)
    if made_at is None:
        return Page(items=(), last_key=None)
    found = await transactions.list_written(
        runtime.search, caller.tenant, transaction, made_at=made_at, limit=page.size + 1, after=page.after
    )
    return build_page(page, found, lambda each: TransactionKey(UUID(each.id)))
