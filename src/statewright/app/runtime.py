"""What the use cases need, put together, and what goes on beside them."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final

from statewright.app.authentication import build_administration
from statewright.app.database import Pools, open_pools
from statewright.app.languages import host_languages, list_builtin_models, list_builtin_transitions
from statewright.app.operations import add_operations
from statewright.app.outgoing import build_egress
from statewright.background import ShutdownBudget, finish_all, run_in_background
from statewright.cluster.node import ClusterNode
from statewright.compute.transaction_tokens import TransactionTokens
from statewright.egress import Egress
from statewright.engine.callouts import CalloutDispatcher
from statewright.engine.engine import Engine
from statewright.engine.metrics import RunMetrics
from statewright.engine.processors import RetryPolicy
from statewright.engine.simulation import SimulationLimits
from statewright.engine.traced import TracedDispatcher, TracedEngine
from statewright.ids import IdSource, system_clock
from statewright.services.auth.identity import Administration
from statewright.services.definitions import DefinitionCache, Refresher
from statewright.services.idempotency.sweeping import IdempotencySweeper
from statewright.services.incident_reports import IncidentReports
from statewright.services.index_builder import IndexBuilder
from statewright.services.ops.audit import OpsAuditSweeper
from statewright.services.ops.incidents import IncidentSweeper
from statewright.services.ops.presence import WorkPresence
from statewright.services.ops.queue_watch import QueueWatch
from statewright.services.ops.rates import RateRecorder
from statewright.services.ops.suspensions import SuspensionEnder, SuspensionFollower
from statewright.services.playbooks.keychain import Keychain
from statewright.services.playbooks.resources import PipelineResources
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.retention import Pruner
from statewright.services.runtime import Extensions, Runtime
from statewright.services.search_runner import SearchRunner
from statewright.services.transactions import OpenTransactions
from statewright.settings import Settings
from statewright.storage import announcements
from statewright.storage.announcements import NotificationHandler
from statewright.storage.auth.providers import CHANNEL as PROVIDER_CHANNEL
from statewright.storage.auth.signing_keys import CHANNEL as KEY_CHANNEL
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.traced import TracedGroupCommit
from statewright.storage.connections import DatabaseUrl
from statewright.storage.entities import EntityReader
from statewright.storage.idempotency.parts import KEY_PARTS
from statewright.storage.ops.acts import ACTS
from statewright.storage.ops.incident_retries import INCIDENT_RETRIES
from statewright.storage.ops.incidents import INCIDENTS
from statewright.storage.ops.suspensions import CHANNEL as SWITCH_CHANNEL
from statewright.storage.processes.jobs import CHANNEL, build_listener
from statewright.storage.processes.parts import PROCESS_PARTS
from statewright.storage.schedules import StoredTasks
from statewright.storage.search.index_catalog import IndexCatalog
from statewright.storage.search.indexes import SearchIndexes
from statewright.storage.search.jobs import SearchJobs
from statewright.storage.search.query import SearchDatabase
from statewright.suspensions import ActiveSuspensions
from statewright.tracing import Tracer


@asynccontextmanager
async def build_runtime(
    settings: Settings,
    database: DatabaseUrl,
    node: ClusterNode,
    grace: ShutdownBudget,
    tracer: Tracer | None = None,
) -> AsyncIterator[Runtime]:
    """The use cases can be called inside the block; at its end runs whose client has gone have the ``grace``."""
    async with open_pools(settings, database) as pools, AsyncExitStack() as stack:
        runtime = _assemble(settings, database, pools, node, tracer)
        stack.push_async_callback(runtime.extensions.get(Egress).close)
        await runtime.extensions.get(SuspensionFollower).refresh()
        identity = runtime.extensions.get(Administration).identity
        if identity is not None:
            stack.push_async_callback(identity.live_providers.close)
        await stack.enter_async_context(run_in_background(_build_maintenance(settings, database, runtime)))
        stack.push_async_callback(runtime.commits.drain)
        stack.push_async_callback(finish_all, runtime.detached_runs, grace)
        yield runtime


def _assemble(
    settings: Settings, database: DatabaseUrl, pools: Pools, node: ClusterNode, tracer: Tracer | None
) -> Runtime:
    ids = IdSource()
    tasks = StoredTasks(pools.shared)
    tokens = TransactionTokens(node.secret, node=node.id, ttl=settings.tx_token_ttl.total_seconds(), clock=system_clock)
    transactions = OpenTransactions(tokens)
    builtin = list_builtin_models()
    suspensions = ActiveSuspensions()
    incidents = IncidentReports(
        pools.shared, system_clock, is_on=settings.incidents == "on", max_payload=settings.incident_max_payload
    )
    definitions = DefinitionCache(pools.shared, system_clock, builtin=builtin, lease=settings.model_cache_lease)
    jobs = SearchJobs(pools.shared, pools.jobs, retention=settings.search_snapshot_ttl)
    indexes = SearchIndexes(pools.shared, database)
    runtime = Runtime(
        pool=pools.shared,
        reader=EntityReader(pools.reads),
        commits=_build_group_commit(settings, pools, tracer),
        tasks=tasks,
        definitions=definitions,
        engine=_build_engine(
            settings,
            CalloutDispatcher(
                transport=node.callouts,
                tokens=transactions,
                ids=ids,
                metrics=_build_run_metrics(settings),
                suspensions=suspensions,
                report_swallowed=incidents.report_swallowed,
            ),
            tasks,
            tracer,
        ),
        transactions=transactions,
        ids=ids,
        clock=system_clock,
        detached_runs=set(),
        search=_build_search(settings, pools),
        search_jobs=jobs,
        search_runner=SearchRunner(jobs, definitions, reap_interval=settings.search_reap_interval),
        search_indexes=indexes,
        index_builder=IndexBuilder(indexes),
        builtin=builtin,
        builtin_transitions=list_builtin_transitions(),
        suspensions=suspensions,
        incidents=incidents,
        extensions=Extensions(),
        max_stats_groups=settings.stats_group_max,
        max_sort_keys=settings.search_max_sort_keys,
        tracer=tracer,
    )
    runtime.extensions.add(build_egress(settings))
    runtime.extensions.add(
        PipelineResources(keychain=Keychain(settings.playbooks_secrets), sends_requests=settings.playbooks_requests)
    )
    runtime.extensions.add(build_administration(settings, pools.shared))
    host_languages(runtime)
    runtime.extensions.add(_build_simulation_limits(settings))
    add_operations(runtime, settings, pools, node)
    return runtime


PARTS: Final = (*PROCESS_PARTS, *KEY_PARTS, INCIDENT_RETRIES, ACTS)
"""Of the commit statement, beside those of entities."""


def _build_group_commit(settings: Settings, pools: Pools, tracer: Tracer | None) -> GroupCommit:
    parts = (*PARTS, INCIDENTS) if settings.incidents == "on" else PARTS
    if tracer is None:
        return GroupCommit(pools.commits, parts=parts)
    return TracedGroupCommit(pools.commits, tracer, parts=parts)


def _build_engine(
    settings: Settings, dispatcher: CalloutDispatcher, tasks: StoredTasks, tracer: Tracer | None
) -> Engine:
    build = Engine if tracer is None else partial(TracedEngine, tracer=tracer)
    if tracer is not None:
        dispatcher = TracedDispatcher(
            transport=dispatcher.transport,
            tokens=dispatcher.tokens,
            ids=dispatcher.ids,
            metrics=dispatcher.metrics,
            suspensions=dispatcher.suspensions,
            report_swallowed=dispatcher.report_swallowed,
            tracer=tracer,
        )
    return build(
        dispatcher,
        tasks,
        max_visits=settings.max_state_visits,
        retry=_build_retry_policy(settings),
        checks_output=settings.processor_output == "strict",
    )


def _build_retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(attempts=settings.retry_attempts, delay_ms=settings.retry_delay // timedelta(milliseconds=1))


def _build_simulation_limits(settings: Settings) -> SimulationLimits:
    return SimulationLimits(
        max_visits=settings.max_state_visits,
        retry=_build_retry_policy(settings),
        checks_output=settings.processor_output == "strict",
    )


def _build_run_metrics(settings: Settings) -> RunMetrics:
    return RunMetrics(settings.metrics_max_labels, settings.metrics_models)


def _build_search(settings: Settings, pools: Pools) -> SearchDatabase:
    return SearchDatabase(
        pools.searches,
        timeout=settings.search_timeout,
        scan_budget=settings.search_scan_budget,
        catalog=IndexCatalog(pools.lookups, pools.searches),
        past=pools.past,
    )


def _build_maintenance(
    settings: Settings, database: DatabaseUrl, runtime: Runtime
) -> dict[str, Coroutine[object, object, None]]:
    """What every process does all the time, by the name of its task."""
    definitions = runtime.definitions
    wakeups = runtime.extensions.get(ProcessHosts).wakeups
    suspensions = runtime.extensions.get(SuspensionFollower)
    waking: dict[str, NotificationHandler] = {
        CHANNEL: build_listener(wakeups.wake),
        SWITCH_CHANNEL: lambda _revision: suspensions.announce_change(),
    }
    identity = runtime.extensions.get(Administration).identity
    if identity is not None:
        waking[KEY_CHANNEL] = lambda _kid: identity.key_ring.changed.set()
        waking[PROVIDER_CHANNEL] = lambda _: identity.live_providers.changed.set()

    def forget_all() -> None:
        definitions.forget_all()
        suspensions.announce_change()
        if identity is not None:
            identity.key_ring.changed.set()
            identity.live_providers.changed.set()

    follow = announcements.follow(
        database,
        definitions.forget,
        forget_all,
        others=waking,
        set_listening=wakeups.idle.set_listening,
    )
    work: dict[str, Coroutine[object, object, None]] = {
        "announcements": follow,
        "suspensions": suspensions.run(),
        "incidents": runtime.incidents.run(),
        "queue-watch": runtime.extensions.get(QueueWatch).run(),
        "work-presence": runtime.extensions.get(WorkPresence).run(),
        "incident-sweep": runtime.extensions.get(IncidentSweeper).run(),
        "suspension-ends": runtime.extensions.get(SuspensionEnder).run(),
        "definition-refresh": Refresher(runtime.pool, definitions, system_clock).run(),
        "search-jobs": runtime.search_runner.run(),
        "search-expiry": runtime.search_runner.reap(),
        "search-indexes": runtime.index_builder.run(),
    }
    work["idempotency-sweep"] = runtime.extensions.get(IdempotencySweeper).run()
    if identity is not None:
        work["signing-keys"] = identity.key_ring.follow()
        work["identity-providers"] = identity.live_providers.follow()
    if settings.ops_enabled:
        work["commit-rates"] = runtime.extensions.get(RateRecorder).run()
        work["ops-audit-sweep"] = runtime.extensions.get(OpsAuditSweeper).run()
    if settings.history_retention.is_limited:
        pruner = Pruner(runtime.pool, settings.history_retention, interval=settings.history_prune_interval)
        work["history-pruning"] = pruner.run()
    return work
