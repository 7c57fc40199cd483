"""What the use cases need, put together, and what goes on beside them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from statewright.app.pools import Pools, pools_of
from statewright.app.tasks import cancelled, finished
from statewright.cluster.node import ClusterNode
from statewright.compute.transaction_tokens import TransactionTokens
from statewright.engine.callouts import Desk
from statewright.engine.engine import Engine
from statewright.engine.processors import Retry
from statewright.grace import Grace
from statewright.identity import IdSource, system_clock
from statewright.services.definitions import DefinitionCache, Refresher
from statewright.services.index_builder import IndexBuilder
from statewright.services.retention import Pruner
from statewright.services.runtime import Runtime
from statewright.services.search_runner import SearchRunner
from statewright.services.steps.parts import StepParts
from statewright.services.transactions import OpenTransactions
from statewright.settings import Settings
from statewright.storage import announcements
from statewright.storage.connections import Target
from statewright.storage.entities import EntityReader
from statewright.storage.group_commit import GroupCommit
from statewright.storage.lookups import Lookups
from statewright.storage.schedules import StoredTasks
from statewright.storage.search import SearchDatabase
from statewright.storage.search_indexes import SearchIndexes
from statewright.storage.search_jobs import SearchJobs
from statewright.storage.steps import wakeups


@asynccontextmanager
async def runtime_of(settings: Settings, database: Target, node: ClusterNode, grace: Grace) -> AsyncIterator[Runtime]:
    """The use cases can be called inside the block; at its end runs whose client has gone have the ``grace``."""
    async with pools_of(settings, database) as pools, AsyncExitStack() as stack:
        runtime = _parts(settings, database, pools, node)
        upkeep = [asyncio.create_task(work, name=name) for name, work in _upkeep(settings, database, runtime).items()]
        stack.push_async_callback(cancelled, upkeep)
        stack.push_async_callback(runtime.commits.drain)
        stack.push_async_callback(finished, runtime.outliving, grace)
        yield runtime


def _parts(settings: Settings, database: Target, pools: Pools, node: ClusterNode) -> Runtime:
    ids = IdSource()
    tasks = StoredTasks(pools.shared)
    tokens = TransactionTokens(node.secret, node=node.id, ttl=settings.tx_token_ttl.total_seconds(), clock=system_clock)
    transactions = OpenTransactions(tokens)
    definitions = DefinitionCache(pools.shared, system_clock, lease=settings.model_cache_lease)
    jobs = SearchJobs(pools.shared, pools.jobs, retention=settings.search_snapshot_ttl)
    indexes = SearchIndexes(pools.shared, database)
    return Runtime(
        pool=pools.shared,
        reader=EntityReader(pools.reads),
        commits=GroupCommit(pools.commits),
        tasks=tasks,
        definitions=definitions,
        engine=_engine(settings, Desk(callouts=node.callouts, tokens=transactions, ids=ids), tasks),
        transactions=transactions,
        ids=ids,
        clock=system_clock,
        outliving=set(),
        search=_search(settings, pools),
        search_jobs=jobs,
        search_runner=SearchRunner(jobs, definitions, reap_interval=settings.search_reap_interval),
        search_indexes=indexes,
        index_builder=IndexBuilder(indexes),
        steps=StepParts(pools.shared, system_clock),
        stats_group_max=settings.stats_group_max,
        max_sort_keys=settings.search_max_sort_keys,
    )


def _engine(settings: Settings, desk: Desk, tasks: StoredTasks) -> Engine:
    retry = Retry(attempts=settings.retry_attempts, delay_ms=settings.retry_delay // timedelta(milliseconds=1))
    return Engine(
        desk,
        tasks,
        max_visits=settings.max_state_visits,
        retry=retry,
        checks_output=settings.processor_output == "strict",
    )


def _search(settings: Settings, pools: Pools) -> SearchDatabase:
    return SearchDatabase(
        pools.searches,
        timeout=settings.search_timeout,
        scan_budget=settings.search_scan_budget,
        lookups=Lookups(pools.lookups, pools.searches),
        past=pools.past,
    )


def _upkeep(settings: Settings, database: Target, runtime: Runtime) -> dict[str, Coroutine[object, object, None]]:
    """What every process does all the time, by the name of its task."""
    definitions = runtime.definitions
    waking = {wakeups.CHANNEL: wakeups.hearing(runtime.steps.wakeups.wake)}
    work: dict[str, Coroutine[object, object, None]] = {
        "announcements": announcements.follow(database, definitions.forget, definitions.forget_all, others=waking),
        "definition-refresh": Refresher(runtime.pool, definitions, system_clock).run(),
        "search-jobs": runtime.search_runner.run(),
        "search-expiry": runtime.search_runner.reap(),
        "search-indexes": runtime.index_builder.run(),
    }
    if settings.history_retention.is_limited:
        pruner = Pruner(runtime.pool, settings.history_retention, interval=settings.history_prune_interval)
        work["history-pruning"] = pruner.run()
    return work
