"""Changes of the entities of a tenant (docs/reference/operations.md#changes)."""

from statewright.services.ops.lists import PageRequest
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import changes
from statewright.storage.ops.changes import ChangeFilter as ChangeFilter
from statewright.storage.ops.changes import ChangeKey as ChangeKey
from statewright.storage.ops.changes import FoundChange as FoundChange
from statewright.storage.ops.changes import FoundChanges as FoundChanges


async def find_changes(
    runtime: Runtime, caller: Caller, wanted: ChangeFilter, page: PageRequest[ChangeKey]
) -> FoundChanges:
    """Changes, the newest first, as far as one request comes. Raises ``SearchTimeout``."""
    return await changes.find_changes(
        runtime.search, caller.tenant, wanted, now=runtime.clock(), limit=page.size, after=page.after
    )
