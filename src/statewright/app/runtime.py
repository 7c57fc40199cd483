"""What the use cases need, put together, and what goes on beside them: the process languages of the program, what
operators see and do (``/ops/v1``), what requests with keys and waits need, and what a service does on its own once
clients can reach it.

To add a process language is to name it in ``LANGUAGES`` (docs/process-languages.md).
"""

from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final

from statewright.app.authentication import build_administration, build_egress, build_webhook_egress
from statewright.app.database import Pools, open_pools
from statewright.auth.keys import Sealer
from statewright.cluster.node import ClusterNode
from statewright.computations import ComputationLimits, ComputationPool
from statewright.compute.members import Members
from statewright.engine.callouts import CalloutDispatcher, RunMetrics
from statewright.engine.engine import Engine
from statewright.engine.processors import RetryPolicy
from statewright.engine.run import RunSpans, TracedRuns
from statewright.engine.simulation import SimulationLimits
from statewright.flows.process_language import FLOWS
from statewright.ids import IdSource, system_clock
from statewright.loop.background import ShutdownBudget, finish_all, run_in_background
from statewright.metrics import Metrics
from statewright.network.sockets import PrivateConnections
from statewright.operations.active_suspensions import ActiveSuspensions
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.services.builtin import BuiltinModels
from statewright.services.core import Core
from statewright.services.definitions import DefinitionCache, Refresher
from statewright.services.deletions import Pruner
from statewright.services.flows.dialect import FLOW_DIALECT
from statewright.services.flows.service_tasks import ServiceTasks
from statewright.services.idempotency.requests import IdempotencySweeper, IdempotentRequests
from statewright.services.incident_reports import IncidentReports
from statewright.services.ops.bulk_runs import BulkRunner
from statewright.services.ops.deliveries import SubscriptionRunner
from statewright.services.ops.events import EventLog
from statewright.services.ops.incidents import Concerns, IncidentSweeper, StateSurvey
from statewright.services.ops.queue_watch import QueueWatch, WorkPresence
from statewright.services.ops.queues import ConnectedMembers, RateRecorder, WorkCounts
from statewright.services.ops.service import Operations, OpsAuditSweeper, OpsMetrics
from statewright.services.ops.subscriptions import Subscriptions
from statewright.services.ops.suspensions import SuspensionEnder, SuspensionFollower
from statewright.services.ops.waiting import EntityWaits
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.playbooks.service_runs import MemberTasks, ServiceRuns, add_credentials
from statewright.services.processes.background import ProcessHostConfig, run_process_services
from statewright.services.processes.dialects import build_node_retry, build_transitions
from statewright.services.processes.hosting import Processes, ProcessHosts
from statewright.services.processes.installing import BackgroundService, InstalledLanguage, install_language
from statewright.services.processes.jobs import to_job_record
from statewright.services.processes.push import DoJob
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleConfig, Scheduler
from statewright.services.search_runner import IndexBuilder, SearchRunner
from statewright.services.statistics import CountMerger
from statewright.services.steps import dialect as steps
from statewright.services.takings import Takings
from statewright.services.transactions import OpenTransactions, TransactionTokens
from statewright.settings import Settings
from statewright.steps.process_language import STEPS
from statewright.storage import models
from statewright.storage.auth.keys import CHANNEL as KEY_CHANNEL
from statewright.storage.auth.providers import CHANNEL as PROVIDER_CHANNEL
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.outbox import RecordedTenants
from statewright.storage.connections import DatabaseUrl
from statewright.storage.entities import EntityReader
from statewright.storage.idempotency import KEY_PARTS
from statewright.storage.models import NotificationHandler
from statewright.storage.ops.bulk_claims import BulkJobs
from statewright.storage.ops.bulk_items import BULK_ITEMS
from statewright.storage.ops.history import ACTS
from statewright.storage.ops.incidents import INCIDENT_RETRIES, INCIDENTS
from statewright.storage.ops.suspensions import CHANNEL as SWITCH_CHANNEL
from statewright.storage.processes.jobs import CHANNEL, build_listener
from statewright.storage.processes.parts import PROCESS_PARTS
from statewright.storage.schedules import StoredTasks
from statewright.storage.search.indexes import IndexCatalog, SearchIndexes
from statewright.storage.search.jobs import SearchJobs
from statewright.storage.search.query import SearchDatabase
from statewright.storage.takings import CHANNEL as DUE_CHANNEL
from statewright.telemetry.tracing import Tracer


def build_requests(settings: Settings, pools: Pools, node: ClusterNode) -> IdempotentRequests:
    """What carries out requests with idempotency keys."""
    return IdempotentRequests(
        pools.shared,
        pools.reads,
        node=node.id,
        retention=settings.idempotency_retention,
        wait=settings.idempotency_wait,
    )


def build_operations(
    processes: Processes,
    settings: Settings,
    pools: Pools,
    node: ClusterNode,
    *,
    suspensions: ActiveSuspensions,
    incidents: IncidentReports,
    recorded: RecordedTenants,
) -> Operations:
    """It stands on the processes of the service, whose jobs may be claimed again when a suspension ends."""
    core, hosts = processes.core, processes.hosts
    suspensions.on_change.append(hosts.wakeups.wake_all)
    members = ConnectedMembers(node.id, node.members, node.peer_table)
    work = WorkCounts(core, hosts, members)
    events = EventLog(
        pools.shared,
        recorded,
        hosts.instance_models,
        source=settings.events_source,
        retention=settings.events_retention,
    )
    return Operations(
        core=core,
        processes=processes,
        settings=settings,
        members=members,
        drains=node.drains,
        metrics=OpsMetrics(),
        rates=RateRecorder(pools.shared, core.commits.rates),
        work=work,
        queue_watch=QueueWatch(core, work, incidents, alert_after=settings.alert_no_worker_after),
        presence=WorkPresence(
            pools.shared,
            system_clock,
            node=node.id,
            polling=hosts.polling_workers,
            jobs_handed_out=hosts.handed_out,
            members=node.members,
            dispatcher=node.callouts,
        ),
        waits=EntityWaits(
            pools.shared,
            core.commits,
            look_interval=settings.wait_look_interval,
            max_waiters=settings.waiters_per_node,
        ),
        concerns=Concerns(
            suspensions=SuspensionFollower(pools.shared, node, suspensions, recorded),
            suspension_ender=SuspensionEnder(core),
            incident_sweeper=IncidentSweeper(
                pools.shared,
                incidents,
                interval=settings.incident_sweep_interval,
                retention=settings.incident_retention,
            ),
            state_survey=StateSurvey(pools.jobs, system_clock, incidents),
        ),
        idempotency_sweeper=IdempotencySweeper(pools.shared, interval=settings.idempotency_sweep_interval),
        audit_sweeper=OpsAuditSweeper(pools.shared, retention=settings.ops_audit_retention),
        simulation_limits=SimulationLimits(
            max_visits=settings.max_state_visits,
            retry=build_retry_policy(settings),
            checks_output=settings.processor_output == "strict",
        ),
        bulk=BulkRunner(BulkJobs(pools.shared, pools.jobs)),
        events=events,
        webhooks=SubscriptionRunner(
            Subscriptions(
                core=core,
                events=events,
                egress=build_webhook_egress(settings),
                sealer=Sealer(node.secret, "webhooks"),
                allows_inside=settings.webhook_allow_private_networks,
            ),
            incidents,
            node=node.id,
        ),
    )


def build_retry_policy(settings: Settings) -> RetryPolicy:
    """How processors are asked again."""
    return RetryPolicy(attempts=settings.retry_attempts, delay_ms=settings.retry_delay // timedelta(milliseconds=1))


LANGUAGES: Final[tuple[InstalledLanguage, ...]] = (
    install_language(
        STEPS,
        transitions=steps.TRANSITIONS,
        render_job=to_job_record,
        shares_jobs=True,
        retry_node=build_node_retry(steps.STEP_DIALECT, "retry", "stepId"),
    ),
    install_language(FLOWS, transitions=build_transitions(FLOW_DIALECT), render_job=to_job_record, shares_jobs=True),
    install_language(
        PLAYBOOKS,
        noun=PLAYBOOK_DIALECT.nouns.instance,
        transitions=build_transitions(PLAYBOOK_DIALECT),
        render_job=to_job_record,
        shares_jobs=True,
        add_secrets=add_credentials,
    ),
)


def list_builtin_models() -> BuiltinModels:
    """The built-in models of all languages."""
    return BuiltinModels(model for language in LANGUAGES for model in language.models)


def host_languages(processes: Processes) -> None:
    """Let a service run the instances of all languages. Its built-in models are those that it was made with."""
    for language in LANGUAGES:
        language.host(processes)
        for model, fire in language.transitions.items():
            processes.core.builtin_transitions[model] = partial(fire, processes)


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
        stack.push_async_callback(runtime.core.computations.close)
        stack.push_async_callback(runtime.processes.egress.close)
        stack.push_async_callback(runtime.operations.webhooks.parts.egress.close)
        await runtime.operations.concerns.suspensions.refresh()
        identity = runtime.identity.identity
        if identity is not None:
            stack.push_async_callback(identity.live_providers.close)
        await stack.enter_async_context(run_in_background(_build_maintenance(settings, database, runtime)))
        stack.push_async_callback(runtime.core.takings.close)
        stack.push_async_callback(runtime.core.commits.drain)
        stack.push_async_callback(finish_all, runtime.core.detached_runs, grace)
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
    recorded = RecordedTenants()
    incidents = IncidentReports(
        pools.shared, system_clock, is_on=settings.incidents == "on", max_payload=settings.incident_max_payload
    )
    definitions = DefinitionCache(pools.shared, system_clock, builtin=builtin, lease=settings.model_cache_lease)
    jobs = SearchJobs(pools.shared, pools.jobs, retention=settings.search_snapshot_ttl)
    indexes = SearchIndexes(pools.shared, database)
    computations = _build_computations(settings)
    core = Core(
        pool=pools.shared,
        computations=computations,
        reader=EntityReader(pools.reads),
        commits=_build_group_commit(settings, pools, tracer, recorded),
        tasks=tasks,
        definitions=definitions,
        engine=_build_engine(
            settings,
            CalloutDispatcher(
                transport=node.callouts,
                tokens=transactions,
                ids=ids,
                metrics=_build_run_metrics(settings),
                guards=(suspensions,),
                report_swallowed=incidents.report_swallowed,
                spans=RunSpans() if tracer is None else TracedRuns(tracer),
            ),
            tasks,
            computations,
        ),
        transactions=transactions,
        ids=ids,
        clock=system_clock,
        detached_runs=set(),
        workflow_imports=Counter(),
        search=_build_search(settings, pools),
        search_jobs=jobs,
        search_runner=SearchRunner(
            jobs, definitions, reap_interval=settings.search_reap_interval, computations=computations
        ),
        search_indexes=indexes,
        index_builder=IndexBuilder(indexes),
        builtin=builtin,
        builtin_transitions={},
        guard=suspensions,
        failures=incidents,
        takings=Takings(
            pools.shared,
            incidents,
            node=node.id,
            name=node.name,
            count_nodes=lambda: 1 + sum(not peer.draining for peer in node.peer_table.peers.values()),
        ),
        requests=build_requests(settings, pools, node),
        max_stats_groups=settings.stats_group_max,
        max_sort_keys=settings.search_max_sort_keys,
        tracer=tracer,
    )
    processes = Processes(
        core=core,
        hosts=ProcessHosts(system_clock),
        egress=build_egress(settings),
        credentials=settings.playbooks_secrets,
        connections=PrivateConnections(has_tls=settings.tls_cert is not None, proxies=settings.trusted_proxies),
        sends_requests=settings.playbooks_requests,
    )
    host_languages(processes)
    return Runtime(
        core=core,
        processes=processes,
        operations=build_operations(
            processes, settings, pools, node, suspensions=suspensions, incidents=incidents, recorded=recorded
        ),
        identity=build_administration(settings, pools.shared),
    )


PARTS: Final = (*PROCESS_PARTS, *KEY_PARTS, INCIDENT_RETRIES, ACTS, BULK_ITEMS)
"""Of the commit statement, beside those of entities."""


def _build_group_commit(
    settings: Settings, pools: Pools, tracer: Tracer | None, recorded: RecordedTenants
) -> GroupCommit:
    parts = (*PARTS, INCIDENTS) if settings.incidents == "on" else PARTS
    return GroupCommit(pools.commits, parts=parts, tracer=tracer, recorded=recorded)


def _build_engine(
    settings: Settings,
    dispatcher: CalloutDispatcher,
    tasks: StoredTasks,
    computations: ComputationPool,
) -> Engine:
    return Engine(
        dispatcher,
        tasks,
        max_visits=settings.max_state_visits,
        retry=build_retry_policy(settings),
        checks_output=settings.processor_output == "strict",
        computations=computations,
    )


COMPUTED_WITH: Final = (
    "statewright.steps.process_language",
    "statewright.flows.process_language",
    "statewright.playbooks.process_language",
    "statewright.playbooks.dispatch",
    "statewright.processes.computing",
    "statewright.conditions.search",
    "statewright.engine.criteria",
    "statewright.engine.explanation",
    "statewright.engine.simulation.simulator",
    "statewright.workflow.review",
)
"""What computing processes have imported when they are forked."""


def _build_computations(settings: Settings) -> ComputationPool:
    limits = ComputationLimits(
        processes=settings.computation_processes,
        timeout=settings.computation_timeout,
        wait_timeout=settings.computation_wait,
        memory_bytes=settings.computation_memory,
    )
    return ComputationPool(limits, COMPUTED_WITH)


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
    core, operations = runtime.core, runtime.operations
    definitions = core.definitions
    wakeups = runtime.processes.hosts.wakeups
    suspensions = operations.concerns.suspensions
    waking: dict[str, NotificationHandler] = {
        CHANNEL: build_listener(wakeups.wake),
        SWITCH_CHANNEL: lambda _revision: suspensions.announce_change(),
        DUE_CHANNEL: core.takings.wake,
    }
    identity = runtime.identity.identity
    if identity is not None:
        waking[KEY_CHANNEL] = lambda _kid: identity.key_ring.changed.set()
        waking[PROVIDER_CHANNEL] = lambda _: identity.live_providers.changed.set()

    def forget_all() -> None:
        definitions.forget_all()
        suspensions.announce_change()
        if identity is not None:
            identity.key_ring.changed.set()
            identity.live_providers.changed.set()

    follow = models.follow(
        database,
        definitions.forget,
        forget_all,
        others=waking,
        set_listening=wakeups.idle.set_listening,
    )
    work: dict[str, Coroutine[object, object, None]] = {
        "announcements": follow,
        "suspensions": suspensions.run(),
        "incidents": operations.concerns.incident_sweeper.reports.run(),
        "queue-watch": operations.queue_watch.run(),
        "work-presence": operations.presence.run(),
        "incident-sweep": operations.concerns.incident_sweeper.run(),
        "state-survey": operations.concerns.state_survey.run(),
        "suspension-ends": operations.concerns.suspension_ender.run(),
        "definition-refresh": Refresher(core.pool, definitions, system_clock).run(),
        "search-jobs": core.search_runner.run(),
        "search-expiry": core.search_runner.reap(),
        "search-indexes": core.index_builder.run(),
        "entity-counts": CountMerger(core.pool).run(),
    }
    work["event-sweep"] = operations.events.sweep()
    work["idempotency-sweep"] = operations.idempotency_sweeper.run()
    if identity is not None:
        work["signing-keys"] = identity.key_ring.follow()
        work["identity-providers"] = identity.live_providers.follow()
    if settings.ops_enabled:
        work["commit-rates"] = operations.rates.run()
        work["event-streams"] = operations.events.run()
        work["webhooks"] = operations.webhooks.run()
        work["webhook-sweep"] = operations.webhooks.sweep()
        work["bulk-jobs"] = operations.bulk.run(operations)
        work["ops-audit-sweep"] = operations.audit_sweeper.run()
    if settings.history_retention.is_limited:
        pruner = Pruner(core.pool, settings.history_retention, interval=settings.history_prune_interval)
        work["history-pruning"] = pruner.run()
    return work


@asynccontextmanager
async def run_scheduler(settings: Settings, runtime: Runtime, metrics: Metrics) -> AsyncIterator[None]:
    """Scheduled transitions fire inside the block, if this process is to fire them.

    Those under way at its end are outliving runs like others.
    """
    if not settings.scheduler_enabled:
        yield
        return
    pace = ScheduleConfig(
        scan_interval=settings.scheduler_scan_interval,
        batch_size=settings.scheduler_batch_size,
        backoff=settings.scheduler_redispatch_backoff,
        expiry_grace=settings.scheduler_expiry_grace,
        max_attempts=settings.scheduler_max_attempts,
    )
    scheduler = Scheduler(runtime.core, pace)
    metrics.register_scheduler(scheduler.metrics)
    async with run_in_background({"scheduler": scheduler.run()}):
        yield


@asynccontextmanager
async def run_step_engine(
    settings: Settings, runtime: Runtime, members: Members, node: ClusterNode
) -> AsyncIterator[None]:
    """The step engine goes on by itself inside the block, and pushes jobs to members if it is to do so."""
    pace = ProcessHostConfig(
        fires_timers=settings.scheduler_enabled,
        scan_interval=settings.scheduler_scan_interval,
        sweep_interval=settings.steps_sweep_interval,
        retentions={
            STEPS.name: settings.steps_retention,
            FLOWS.name: settings.flows_retention,
            PLAYBOOKS.name: settings.playbooks_retention,
        },
    )
    pushes = settings.steps_dispatch == "both"
    tasks = ServiceTasks(runtime.processes, sends_requests=settings.flows_requests)
    asked = MemberTasks(runtime.core, node.callouts, wait=settings.dispatch_wait_timeout)
    runs = ServiceRuns(runtime.processes, asked)
    pipelines: dict[str, DoJob] = {PLAYBOOKS.name: runs.do}
    pushers: list[BackgroundService] = (
        [each.build_pusher(runtime.processes, members, node.local, pipelines.get(each.name)) for each in LANGUAGES]
        if pushes
        else []
    )
    async with (
        run_process_services(runtime.processes, pace, pushers),
        run_in_background({"flow-tasks": tasks.run(), "playbook-runs": runs.run()}),
    ):
        yield
