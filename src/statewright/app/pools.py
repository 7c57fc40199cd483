"""The connections of one process, divided so that nothing slow can take those of what must be quick."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from statewright.services.search_runner import CONCURRENCY as JOB_CONNECTIONS
from statewright.settings import Settings
from statewright.storage.connections import Target
from statewright.storage.entities import MAX_IN_FLIGHT as READ_CONNECTIONS
from statewright.storage.group_commit import CONNECTIONS as COMMIT_CONNECTIONS
from statewright.storage.group_commit import commit_sessions
from statewright.storage.pool import Pool
from statewright.storage.search import lookup_sessions, past_sessions, search_sessions

MOST_SEARCH_CONNECTIONS = 8
"""Of the connections of a process; searches take a quarter of them."""

LOOKUP_CONNECTIONS = 2
"""For searches by a declared index, which take a fraction of a millisecond."""

PAST_CONNECTIONS = 2
"""Searches of the past at a time."""


class Pools(Struct, frozen=True, kw_only=True):
    """Each for one kind of work."""

    shared: Pool
    """For everything that has no pool of its own."""
    reads: Pool
    """By id."""
    commits: Pool
    searches: Pool
    lookups: Pool
    past: Pool
    jobs: Pool
    """Search jobs, which have no limit in time."""


@asynccontextmanager
async def pools_of(settings: Settings, database: Target) -> AsyncIterator[Pools]:
    """All pools, open inside the block; together they have ``postgres_max_conns``, if that is enough for all."""
    within = settings.search_timeout
    searching = max(1, min(settings.postgres_max_conns // 4, MOST_SEARCH_CONNECTIONS))
    searchers = searching + LOOKUP_CONNECTIONS + PAST_CONNECTIONS + JOB_CONNECTIONS
    reserved = COMMIT_CONNECTIONS + READ_CONNECTIONS + searchers
    shared = max(settings.postgres_max_conns - reserved, 1)
    async with AsyncExitStack() as stack:

        async def opened(sessions: Target, *, size: int, keep: int = 0) -> Pool:
            return await stack.enter_async_context(Pool(sessions, size=size, keep=keep))

        yield Pools(
            shared=await opened(database, size=shared, keep=min(settings.postgres_min_conns, shared)),
            reads=await opened(database, size=READ_CONNECTIONS, keep=READ_CONNECTIONS),
            commits=await opened(commit_sessions(database), size=COMMIT_CONNECTIONS, keep=COMMIT_CONNECTIONS),
            searches=await opened(search_sessions(database, timeout=within), size=searching),
            lookups=await opened(lookup_sessions(database, timeout=within), size=LOOKUP_CONNECTIONS),
            past=await opened(past_sessions(database, timeout=within), size=PAST_CONNECTIONS),
            jobs=await opened(search_sessions(database), size=JOB_CONNECTIONS),
        )
