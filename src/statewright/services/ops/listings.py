"""Messages and search jobs in lists (docs/reference/operations.md#messages-and-search-jobs)."""

from collections.abc import Sequence
from uuid import UUID

from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import listings
from statewright.storage.ops.listings import ListedMessage as ListedMessage
from statewright.storage.ops.listings import ListedSearchJob as ListedSearchJob
from statewright.storage.ops.listings import MessageKey as MessageKey
from statewright.storage.ops.listings import SearchJobKey as SearchJobKey


async def list_messages(
    runtime: Runtime, caller: Caller, page: PageRequest[MessageKey]
) -> Page[ListedMessage, MessageKey]:
    """The edge messages of the tenant, the newest first."""
    found = await listings.list_messages(runtime.pool, caller.tenant, limit=page.size + 1, after=page.after)
    return build_page(page, found, lambda message: MessageKey(UUID(message.id)))


async def list_search_jobs(
    runtime: Runtime,
    caller: Caller,
    page: PageRequest[SearchJobKey],
    *,
    statuses: Sequence[str] | None,
    model: str | None,
) -> Page[ListedSearchJob, SearchJobKey]:
    """The search jobs of the tenant whose results are still kept, the newest first."""
    found = await listings.list_search_jobs(
        runtime.pool,
        caller.tenant,
        statuses=statuses,
        model=model,
        retention_us=runtime.search_jobs.retention_us,
        limit=page.size + 1,
        after=page.after,
    )
    return build_page(page, found, lambda job: SearchJobKey(job.created_at, UUID(job.id)))
