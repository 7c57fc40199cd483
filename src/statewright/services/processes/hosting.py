"""The hosts of the process languages of one service, and what they keep in this process.

A host is made for a language where the service is put together. Entity services know nothing of it; it stands on them
as any use case does. ``ProcessHosts.get`` finds the host of a language.

A host counts what it does, in plain numbers, and remembers compiled definitions, which never change, and the instances
that this process wrote last. A remembered instance may be old, since other processes write instances, too. An advance
that uses one therefore commits against its version, and believes nothing else of it: neither that a job is unknown, nor
that a node is not parked.

Queues: the jobs that the same workers take.

The workers of the public protocols know types of jobs, not languages. So the jobs of all languages that share them are
one queue. Each language also has its own, from which its jobs are pushed to calculation members.
"""

import asyncio
import secrets
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from statewright.egress import Egress
from statewright.entity import Entity
from statewright.failures import ProcessNotFound
from statewright.ids import Clock, EntityId, ModelId, TenantId, TransactionId, model_id
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.lru import LruCache
from statewright.net import Moment
from statewright.net.arrivals import OpenWaits
from statewright.network.sockets import PrivateConnections
from statewright.processes.changes import JobPolicy
from statewright.processes.computing import DefinitionSource
from statewright.processes.language import DefinitionCompiler, I, P, ProcessInstance, ProcessLanguage
from statewright.services.builtin import FireRequest
from statewright.services.core import Caller, Core
from statewright.services.processes.documents import read_texts
from statewright.services.processes.large_values import ApartValues
from statewright.services.processes.wakeups import DueRows, LogFollowers, PollingWorkers, SharedClaims, Wakeups
from statewright.storage.pool import Pool
from statewright.storage.processes import definitions
from statewright.storage.processes.children import DueChild, DueEnd
from statewright.storage.processes.jobs import LockedJob, QueuedJob, WorkOwner
from statewright.storage.processes.timers import DueTimer
from statewright.telemetry.histogram import Histogram, MinuteCounts

LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_new_histogram = partial(Histogram, LATENCY_BOUNDS_S)


class ProcessMetrics:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.definitions_uploaded = 0
        self.instances_started = 0
        self.instances_ended: Counter[str] = Counter()
        """By outcome: completed, failed, cancelled."""
        self.nodes_executed: Counter[str] = Counter()
        """Entries into nodes, by their type."""
        self.events: Counter[tuple[str, str]] = Counter()
        """Entries of logs, by type and status."""
        self.pending_tokens: Counter[str] = Counter()
        """Tokens that were ``added`` to those that are not admitted, and ``removed`` from them."""
        self.job_retries = 0
        self.delayed_retries = 0
        self.leases_expired = 0
        self.conflicts = 0
        """Advances that had to be computed again because another process was faster."""
        self.pickup = _new_histogram()
        """From the creation of a job to its claim."""
        self.polls = _new_histogram()
        self.transactions: defaultdict[str, Histogram] = defaultdict(_new_histogram)
        """Time to commit, by kind, as ``instance.start``."""
        self.waits: defaultdict[str, Histogram] = defaultdict(_new_histogram)
        """Time spent waiting for an instance, or for the queue."""


MAX_CACHED_NODES: Final = 200_000
"""Nodes of all cached definitions together: a definition may have tens of thousands."""
MAX_CACHED_CHARS: Final = 32 * 1024 * 1024
"""Characters of the documents of all remembered instances together."""
MAX_DOCUMENT_CHARS: Final = 8 * 1024 * 1024
"""Characters of the document of an instance that is worth remembering."""
MIN_INSTANCE_CHARS: Final = 16 * 1024
"""What a small instance counts as: there are no more than so many of them."""
MAX_KNOWN_LATEST: Final = 10_000
"""Definitions of a language of which the number of the latest version is remembered."""

MAX_JOBS: Final = 50_000
"""Jobs in the hands of workers whose owners are remembered."""


class LoadedInstance(Struct, Generic[I], frozen=True, eq=False):
    """An instance and the version of its entity."""

    entity: Entity
    instance: I
    apart: ApartValues = {}
    """Values of the instance that are stored apart from its document."""


def _weigh_instance(loaded: LoadedInstance[I]) -> int:
    apart = sum([one.chars for one in loaded.apart.values()])
    apart += sum([loop.chars for loop in loaded.instance.saved.values()])
    return max(len(loaded.entity.document or "") + apart, MIN_INSTANCE_CHARS)


class PublishedDefinition(Struct, Generic[P], frozen=True, kw_only=True, eq=False):
    """One stored version of a definition, compiled. ``uploaded_at`` is in epoch microseconds."""

    process: P
    brief_process: P
    """The same, for operations within a turn of the event loop."""
    version: int
    uploaded_at: int
    source: str
    """As it is stored."""


class ProcessCache(Generic[P]):
    """Versions by tenant, id and number; the least recently used are dropped first."""

    def __init__(self, pool: Pool, language: str, compiler: DefinitionCompiler[P]) -> None:
        self._pool = pool
        self._language = language
        self._compiler = compiler
        self._latest = definitions.LatestVersions(pool)
        self._known_latest: LruCache[tuple[TenantId, str], int] = LruCache(MAX_KNOWN_LATEST)
        self._loading: dict[tuple[TenantId, str, int], asyncio.Task[PublishedDefinition[P] | None]] = {}
        self._entries: LruCache[tuple[TenantId, str, int], PublishedDefinition[P]] = LruCache(
            MAX_CACHED_NODES, lambda published: compiler.count_nodes(published.process)
        )

    async def find(self, tenant: TenantId, definition_id: str, version: int) -> PublishedDefinition[P] | None:
        """One version; None when there is none. Those who ask while it is being loaded wait for the same."""
        key = (tenant, definition_id, version)
        known = self._entries.get(key)
        if known is not None:
            return known
        loading = self._loading.get(key)
        if loading is not None and (loaded := await asyncio.shield(loading)) is not None:
            return loaded  # one that found nothing may have looked before the version was stored
        return await asyncio.shield(self._loading.get(key) or self._begin_loading(key))

    def _begin_loading(self, key: tuple[TenantId, str, int]) -> "asyncio.Task[PublishedDefinition[P] | None]":
        """A task, since who asked first may leave while others wait."""
        loading = self._loading[key] = asyncio.create_task(self._load(*key), name="definition-load")
        loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return loading

    async def _load(self, tenant: TenantId, definition_id: str, version: int) -> PublishedDefinition[P] | None:
        stored = await definitions.fetch_version(self._pool, tenant, self._language, definition_id, version)
        if stored is None:
            return None
        source = stored.source
        process = await read_texts([source], lambda: self._compiler.compile_source(source, version))
        published = PublishedDefinition(
            process=process,
            brief_process=self._compiler.limit_to_turn(process),
            version=version,
            uploaded_at=stored.uploaded_at,
            source=source,
        )
        self._entries.put((tenant, definition_id, version), published)
        return published

    async def find_latest(self, tenant: TenantId, definition_id: str) -> PublishedDefinition[P] | None:
        """The latest version, which is looked up every time: another process may have stored one just now."""
        version = await self._latest.find(tenant, self._language, definition_id)
        if version is None:
            return None
        self._known_latest.put((tenant, definition_id), version)
        return await self.find(tenant, definition_id, version)

    def recall_latest(self, tenant: TenantId, definition_id: str) -> PublishedDefinition[P] | None:
        """What was the latest version when it was last looked up, if it is in memory. There may be a later one."""
        version = self._known_latest.get((tenant, definition_id))
        return None if version is None else self._entries.get((tenant, definition_id, version))


class ProcessHost(Generic[P, I]):
    """Runs the instances of one language in one service; nothing that it keeps outlives the process, or has to.
    ``noun`` is what clients call an instance.
    """

    def __init__(self, parts: "Processes", language: ProcessLanguage[P, I], *, noun: str) -> None:
        self.parts = parts
        self.noun = noun
        self.core = core = parts.core
        self.shared = parts.hosts
        self.language = language
        self.instance_model = model_id(language.models.instance.key.name, language.models.instance.key.version)
        self.metrics = ProcessMetrics()
        self.processes: ProcessCache[P] = ProcessCache(core.pool, language.name, language)
        self.instances: LruCache[tuple[TenantId, EntityId], LoadedInstance[I]] = LruCache(
            MAX_CACHED_CHARS, _weigh_instance
        )
        self.tenants_with_models: set[TenantId] = set()
        """Tenants whose built-in models are known to be there."""

    def build_gone(self) -> ProcessNotFound:
        """What is said of a job that has no instance any more."""
        return ProcessNotFound(f"{self.noun} of a job is gone")

    def define(self, published: PublishedDefinition[P]) -> DefinitionSource[P, I]:
        """A definition as computing processes come by it."""
        return DefinitionSource(self.language, published.source, published.version)


NodeRetry: TypeAlias = "Callable[[Processes, Caller, str, str, JsonObject | None], Awaitable[ProcessInstance]]"
"""Has a failed node of an instance run again, with changes to the variables; the instance afterwards."""


class RefusedJob(Struct, frozen=True):
    """A job that is not handed out: it ends with this result at once."""

    result: JsonObject


AddSecrets: TypeAlias = (
    "Callable[[Processes, TenantId, LockedJob, JsonObject, str | None], Awaitable[JsonObject | RefusedJob]]"
)
"""The payload of a job with the secrets that its worker needs, and the other end of its connection, if it has one."""


class LostJobs(Struct, frozen=True):
    """What becomes of jobs whose leases end: they are handed out again ``limit`` times unless their definitions say
    otherwise, then ``fail`` ends them.
    """

    limit: int | None
    fail: Callable[[Caller, EntityId, str], Awaitable[None]]
    """With the instance and the job."""


class HostedLanguage(Struct, frozen=True, kw_only=True):
    """What background services and workers can do with a language, whatever it is."""

    name: str
    metrics: ProcessMetrics
    shares_jobs: bool
    """Whether the workers of the public protocols take its jobs, beside those of other languages."""
    complete_job: Callable[[Caller, EntityId, str, JsonValue, ProcessNotFound], Awaitable[None]]
    """With the instance, the job, its result, and the failure where there is no such instance."""
    fail_job: Callable[[Caller, EntityId, str, str, ProcessNotFound], Awaitable[None]]
    """The same, with the reason."""
    check_result: Callable[[TenantId, EntityId, str, JsonValue, ProcessNotFound], Awaitable[None]]
    """As ``complete_job``, but nothing is done."""
    take_report: Callable[[Caller, EntityId, str, JsonValue, int, bool], Awaitable[JsonObject]] | None
    """With the instance, the job, its report, when its lease began, and whether the type of the job is suspended;
    ``None``: its jobs report nothing.
    """
    lost_jobs: LostJobs | None
    """``None``: there is no limit."""
    build_payload: Callable[[TenantId, LockedJob], Awaitable[JsonObject]]
    """What a worker is given, but for secrets."""
    add_secrets: "AddSecrets | None"
    """``None``: its jobs need none."""
    find_policy: Callable[[TenantId, QueuedJob], Awaitable[JobPolicy]]
    """How the job is done."""
    fire_timer: Callable[[DueTimer], Awaitable[bool]]
    """Whether it fired."""
    start_child: Callable[[DueChild], Awaitable[None]]
    give_up_child: Callable[[DueChild, str], Awaitable[None]]
    """With the reason."""
    tell_end: Callable[[DueEnd], Awaitable[None]]
    """Let the parent hear of the end of an instance."""
    list_waits: Callable[[TenantId, EntityId], Awaitable[OpenWaits]]
    """What an instance waits for besides jobs, people, signals and timers; nothing when there is no such instance."""
    task_types: tuple[str, ...]
    complete_task: Callable[[Caller, EntityId, str, JsonValue, str, ProcessNotFound], Awaitable[TransactionId]] | None
    """With the instance, the user task, the answer, who gave it, and the failure where there is no such instance; the
    transaction that wrote the instance. ``None``: its instances have no user tasks.
    """
    retry_node: "NodeRetry | None"
    """``None``: nodes are not retried one by one."""


class ProcessHosts:
    """All hosts of a service, and what they share."""

    def __init__(self, clock: Clock) -> None:
        self.wakeups = Wakeups(clock)
        self.claims = SharedClaims()
        self.polling_workers = PollingWorkers(clock)
        self.handed_out: MinuteCounts[tuple[TenantId, str]] = MinuteCounts()
        """Jobs that were given to workers, by tenant and type."""
        self.next_moment = IdClock(clock)
        self.due_children = DueRows()
        self.due_ends = DueRows()
        self.children_cancelled = asyncio.Event()
        """Instances that were awaited are not needed any more."""
        self.log_followers = LogFollowers()
        self.locks = InstanceLocks()
        self.counters_changed = asyncio.Event()
        """Something waits for a counter that may be zero or less."""
        self.owners_of_jobs: LruCache[tuple[TenantId, str], WorkOwner] = LruCache(MAX_JOBS)
        self._hosts: dict[str, object] = {}
        self._hosted: dict[str, HostedLanguage] = {}
        self.instance_models: set[ModelId] = set()
        """Those whose entities are instances."""

    @property
    def names(self) -> tuple[str, ...]:
        """The languages that this node knows: rows of others are left to nodes that know them."""
        return tuple(self._hosted)

    @property
    def hosted(self) -> tuple[HostedLanguage, ...]:
        return tuple(self._hosted.values())

    def add(self, host: ProcessHost[P, I], hosted: HostedLanguage) -> None:
        """A language is hosted from now on."""
        self._hosts[host.language.name] = host
        self.instance_models.add(host.instance_model)
        self._hosted[hosted.name] = hosted

    def get(self, language: ProcessLanguage[P, I]) -> ProcessHost[P, I]:
        """The host of a language."""
        return cast("ProcessHost[P, I]", self._hosts[language.name])  # it was added with this very language

    def get_hosted(self, name: str) -> HostedLanguage:
        """A language by its name."""
        return self._hosted[name]

    def find_hosted(self, name: str | None) -> HostedLanguage | None:
        """The same; ``None`` for one that this node does not know."""
        return None if name is None else self._hosted.get(name)

    @property
    def shared_names(self) -> tuple[str, ...]:
        """The languages whose jobs the workers of the public protocols take."""
        return tuple(hosted.name for hosted in self._hosted.values() if hosted.shares_jobs)

    def count_expired_lease(self, language: str) -> None:
        """A job is free again; one of a language that is not hosted here is not counted."""
        hosted = self._hosted.get(language)
        if hosted is not None:
            hosted.metrics.leases_expired += 1


class Processes(Struct, frozen=True, kw_only=True, eq=False):
    """What a service has to run processes with, beside what it stands on."""

    core: Core
    hosts: ProcessHosts
    egress: Egress
    """Sends the requests of process languages."""
    credentials: Path | None
    """Where the files of credentials are (docs/reference/executions.md#keychain); None where there are none."""
    connections: PrivateConnections
    """Over which secrets may leave the service."""
    sends_requests: bool
    """Whether the service does ``http`` tasks of pipelines (docs/reference/executions.md#task-kinds)."""

    def within(self, pool: Pool) -> "Processes":
        """The same for a use case that writes by statements of its own: all of them go over ``pool``."""
        return replace(self, core=self.core.within(pool))


HostedTransition: TypeAlias = Callable[[Processes, Caller, FireRequest], Awaitable[TransactionId]]
"""What a transition of a model does that clients may fire; the transaction that wrote the entity."""


# Taking turns at an instance within this process.
#
# What makes an advance safe is the version of the instance, compared when it commits. But of many that change one
# instance at once all but one would then have worked in vain, so those of one process queue up here. It is no more than
# that: with other processes there are conflicts, and an advance that loses one starts again.


class InstanceLocks:
    """A queue for each instance that is being worked on."""

    def __init__(self) -> None:
        self._locks: dict[tuple[TenantId, EntityId], tuple[asyncio.Lock, int]] = {}

    def is_held(self, tenant: TenantId, instance: EntityId) -> bool:
        """Whether another task would have to wait for its turn at the instance."""
        return (tenant, instance) in self._locks

    @asynccontextmanager
    async def hold(self, tenant: TenantId, instance: EntityId) -> AsyncIterator[None]:
        """No other task of this process is in such a block for the instance; first come, first served."""
        key = (tenant, instance)
        lock, users = self._locks.get(key) or (asyncio.Lock(), 0)
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)


# When things happen to instances, and the ids they may use (``statewright.net.marking``).

_MILLISECOND_SHIFT: Final = 80
_SEQUENCE_SHIFT: Final = 64
_SEQUENCES: Final = 1 << 16
_NODE_SHIFT: Final = 32


class IdClock:
    """Moments of this process. Their ids rise, also within a millisecond.

    An id is 48 bits of milliseconds, 16 of a sequence within the millisecond, 32 that tell processes apart, and 32 for
    what one moment creates.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._node = secrets.randbits(32)
        self._last = 0
        """Milliseconds and sequence of the last moment, as one number."""

    def __call__(self) -> Moment:
        at = self._clock()
        self._last = max(self._last + 1, (at // 1000) * _SEQUENCES)
        milliseconds, sequence = divmod(self._last, _SEQUENCES)
        first = milliseconds << _MILLISECOND_SHIFT | sequence << _SEQUENCE_SHIFT | self._node << _NODE_SHIFT
        return Moment(at=at, first_id=first)


class JobQueue(Struct, frozen=True, eq=False):
    """The jobs of some languages in one service."""

    parts: Processes
    languages: tuple[str, ...]
    """At least one."""

    @property
    def metrics(self) -> ProcessMetrics:
        """Where claims are counted, which may find jobs of any of the languages: with the first one."""
        return self.parts.hosts.get_hosted(self.languages[0]).metrics

    def get_language(self, name: str) -> HostedLanguage:
        """One of the languages."""
        return self.parts.hosts.get_hosted(name)


def find_shared_queue(processes: Processes) -> JobQueue:
    """The queue of the public protocols."""
    return JobQueue(processes, processes.hosts.shared_names)


def get_own_queue(host: ProcessHost[P, I]) -> JobQueue:
    """The queue of one language."""
    return JobQueue(host.parts, (host.language.name,))
