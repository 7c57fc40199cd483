"""What use cases of entities need of the running service, put together once in ``app``."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from statewright.computations import ComputationPool
from statewright.engine.engine import Engine
from statewright.entity import Actor, ModelKey, Principal, ScheduledTask
from statewright.failures import Failure, ModelNotFound
from statewright.ids import Clock, IdSource, ModelId, TenantId, TransactionId, model_id
from statewright.operations.active_suspensions import HeldProcesses, HeldTimers, Hold
from statewright.operations.idempotency import StoredAnswer
from statewright.services.builtin import BuiltinModels, FireRequest
from statewright.services.definitions import DefinitionCache, ModelDefinition
from statewright.services.idempotency.requests import IdempotentRequests
from statewright.services.search_runner import IndexBuilder, SearchRunner
from statewright.services.takings import Takings
from statewright.services.transactions import OpenTransactions
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.commit.unit_of_work import Transaction, TransactionGuard, UnitOfWork
from statewright.storage.entities import EntityReader
from statewright.storage.pool import Pool
from statewright.storage.schedules import StoredTasks
from statewright.storage.search.indexes import SearchIndexes
from statewright.storage.search.jobs import SearchJobs
from statewright.storage.search.query import SearchDatabase
from statewright.telemetry import logs
from statewright.telemetry.tracing import Tracer

T = TypeVar("T")
R = TypeVar("R")

log = logs.logger(__name__)


class CommitGuard(TransactionGuard, Protocol):
    """What is around the commits of one request, so that something becomes durable with its effect, or its failure."""

    @property
    def answer(self) -> StoredAnswer | None:
        """What the request is answered, once that is durable."""
        ...

    @property
    def elements(self) -> tuple[str, ...]:
        """What became of chunks that are durable, those of earlier attempts at the request included."""
        ...

    @property
    def is_left(self) -> bool:
        """Whether the client has gone, and the run goes on."""
        ...

    def respond_with(self, compose: Callable[[object], Awaitable[StoredAnswer]]) -> None:
        """How the interface makes the answer of what the use case commits with."""
        ...

    def convert_results(self, convert: Callable[[object], object]) -> None:
        """What the answer is made of, where the next commit is made with another result."""
        ...

    def open_chunk(
        self,
        before: Sequence[object],
        encode: Callable[[object], bytes],
        *,
        is_last: bool,
        conclude: Callable[[Failure], object] | None,
    ) -> None:
        """The next commit is that of a chunk, after others that became of what was ``before``; ``conclude`` is what a
        failure comes to that is told as a result.
        """
        ...

    def commit(
        self, unit: UnitOfWork, result: object, commit: Callable[[], Awaitable[int | None]]
    ) -> Awaitable[int | None]:
        """Commit the unit by ``commit``, and more with it."""
        ...

    def carry_out(
        self, act: Callable[[Pool], Awaitable[T]], conclude: Callable[[T], object], pool: Pool
    ) -> Awaitable[T]:
        """Do something by statements of its own, and more in the same transaction."""
        ...

    def amend_answer(self, result: object) -> Awaitable[None]:
        """Another result than the one that was committed with, of which no client has been told."""
        ...

    def settle_failure(self, unit: UnitOfWork, failure: Failure) -> Awaitable[Failure]:
        """What is told of the failure of a transaction, after what there was to be made durable of it."""
        ...

    def follow(self, work: Coroutine[object, object, T]) -> Coroutine[object, object, T]:
        """Do work that goes on when the client leaves."""
        ...

    def leave(self) -> None:
        """The client has gone, and the work that is followed goes on."""
        ...


class WorkGuard(Protocol):
    """What may keep work from moving, whatever for. What it finds is None where the work may go on."""

    @property
    def on_change(self) -> list[Callable[[], None]]:
        """Called when it holds other work than before."""
        ...

    @property
    def held_timers(self) -> HeldTimers | None:
        """Scheduled transitions that are not to be taken."""
        ...

    async def ensure_current(self) -> None:
        """Know of every change that others rely on. Raises ``StorageUnavailable``."""
        ...

    async def load_anew(self) -> None:
        """Learn of what changed a moment ago. Raises ``StorageUnavailable``."""
        ...

    def refuse(self, hold: Hold) -> Failure:
        """What a client is told whose request is refused; it is counted."""
        ...

    def is_idle(self, tenant: TenantId) -> bool:
        """Whether nothing of a tenant is held."""
        ...

    def find_tenant(self, tenant: TenantId) -> Hold | None: ...

    def find_process(self, tenant: TenantId, instance: str, definition: str) -> Hold | None: ...

    def find_definition(self, tenant: TenantId, definition: str) -> Hold | None: ...

    def find_job_type(self, tenant: TenantId, job_type: str) -> Hold | None: ...

    def has_job_types(self, tenant: TenantId) -> bool:
        """Whether jobs of some type are held."""
        ...

    def find_tags(self, tenant: TenantId, tags: Iterable[str]) -> Hold | None: ...

    def get_held_processes(self, tenant: TenantId) -> HeldProcesses | None:
        """The instances whose jobs are not handed out."""
        ...


class FailureReports(Protocol):
    """What operators are told of runs and timers that fail, beside what clients are."""

    def report_run(self, principal: Principal, failure: Failure) -> None:
        """A run has failed, and nothing is written with that."""
        ...

    def build_run_parts(self, principal: Principal, failure: Failure) -> Mapping[str, StagedPart]:
        """What is to be committed with the event of a failure."""
        ...

    def watch_commit(self, parts: MutableMapping[str, StagedPart]) -> AbstractContextManager[None]:
        """The length of a commit that may tell of failures."""
        ...

    async def note_timer(
        self, principal: Principal, task: ScheduledTask, model: str, failure: Failure, *, max_failures: int
    ) -> bool:
        """A scheduled transition failed; whether it is tried no more. Raises ``StorageUnavailable``."""
        ...

    def build_expired_timer(
        self, principal: Principal, task: ScheduledTask, model: str, workflow: str | None, details: str
    ) -> Mapping[str, StagedPart]:
        """What is to be committed with the end of a scheduled transition that came too late."""
        ...


class Caller(Struct, frozen=True):
    """Whom a request acts for, the open transaction it takes part in, if any, what is around its commits, the innermost
    first, and what else is written by them.
    """

    principal: Principal
    transaction: UnitOfWork | None = None
    around: tuple[CommitGuard, ...] = ()
    parts: Mapping[str, StagedPart] = {}
    """What its transactions write beside their effect, by names of optional parts of the commit statement."""

    @property
    def tenant(self) -> TenantId:
        return self.principal.tenant

    @property
    def answer(self) -> StoredAnswer | None:
        """What the request is answered, where that is durable."""
        for guard in self.around:
            if (answer := guard.answer) is not None:
                return answer
        return None

    @property
    def is_left(self) -> bool:
        """Whether the client has gone, and the run goes on."""
        return any(guard.is_left for guard in self.around)

    def respond_with(self, compose: Callable[[T], Awaitable[StoredAnswer]]) -> None:
        """How the interface makes the answer of what the use case commits with."""
        for guard in self.around:
            guard.respond_with(_widen(compose))

    def convert_result(self, convert: Callable[[T], object]) -> None:
        """What the interface makes the answer of, where the next commit is made with another result."""
        for guard in self.around:
            guard.convert_results(_widen(convert))

    def commit(self, unit: UnitOfWork, result: object) -> Awaitable[int | None]:
        """Commit what the request amounts to, with what is around: ``result`` is what the interface makes the answer
        of. Otherwise as ``UnitOfWork.commit``.
        """
        commit: Callable[[], Awaitable[int | None]] = unit.commit
        for guard in self.around:
            commit = partial(guard.commit, unit, result, commit)
        return commit()

    def carry_out(
        self, pool: Pool, act: Callable[[Pool], Awaitable[T]], conclude: Callable[[T], object]
    ) -> Awaitable[T]:
        """Do something by statements of its own on the pool that ``act`` is given, with what is around: the interface
        makes the answer of what ``conclude`` gives. An act that gives False has had no effect.
        """
        for guard in self.around:
            act = partial(guard.carry_out, act, conclude)
        return act(pool)

    async def amend_answer(self, result: object) -> None:
        """Keep another answer than the one that was committed, of which no client has been told."""
        for guard in self.around:
            await guard.amend_answer(result)


def _widen(read: Callable[[T], R]) -> Callable[[object], R]:
    """For guards, which do not know what a use case commits with: it is what its interface reads."""
    return cast("Callable[[object], R]", read)


BuiltinTransition: TypeAlias = Callable[[Caller, FireRequest], Awaitable[TransactionId]]
"""What a transition of a built-in model does that clients may fire; the transaction that wrote the entity."""


class Core(Struct, frozen=True, kw_only=True):
    """What a service process has whatever it hosts: storage, definitions, the engine, clock and ids."""

    pool: Pool
    computations: ComputationPool
    reader: EntityReader
    commits: GroupCommit
    tasks: StoredTasks
    definitions: DefinitionCache
    engine: Engine
    transactions: OpenTransactions
    ids: IdSource
    clock: Clock
    detached_runs: "set[asyncio.Task[object]]"
    """Runs that go on although their client has gone, or that never had one."""
    search: SearchDatabase
    search_jobs: SearchJobs
    search_runner: SearchRunner
    search_indexes: SearchIndexes
    index_builder: IndexBuilder
    builtin: BuiltinModels
    builtin_transitions: dict[ModelId, BuiltinTransition]
    """For each built-in model that has transitions open to clients."""
    guard: WorkGuard
    failures: FailureReports
    takings: Takings
    requests: IdempotentRequests
    """Those with idempotency keys."""
    workflow_imports: Counter[str]
    """Imports and what else changes workflows, by the origin of their revisions, since the start."""
    max_stats_groups: int = 10_000
    """Most groups of one grouped statistic."""
    max_sort_keys: int = 16
    """Most sort keys of one search."""
    tracer: Tracer | None = None
    """Makes spans; None where traces are only passed on."""

    def open_unit(self, caller: Caller, *, origin: Actor | None = None) -> UnitOfWork:
        """A new transaction, or a part of the one the caller joins; to be used in an ``async with`` block.

        ``origin`` is on whose behalf a new one acts, when that is not the caller
        (docs/reference/workflows.md#attribution-of-runs).
        """
        if caller.transaction is not None:
            return caller.transaction.join(caller.principal)
        transaction = Transaction(
            self.ids.new_transaction_id(),
            reader=self.reader,
            commits=self.commits,
            clock=self.clock,
            origin=origin,
            on_model_change=self.definitions.forget,
            guards=caller.around,
        )
        unit = UnitOfWork(transaction, caller.principal)
        if caller.parts:
            unit.parts.update(caller.parts)
        return unit

    def within(self, pool: Pool) -> "Core":
        """The same, for a use case that writes by statements of its own: all of them go over ``pool``."""
        return replace(self, pool=pool, search_indexes=self.search_indexes.within(pool))

    def forget_definitions(self, tenant: TenantId) -> None:
        """Look again at what a transaction may have changed in which a use case has run."""
        self.definitions.forget_tenant(tenant)
        self.index_builder.wake()

    async def get_definition(self, tenant: TenantId, key: ModelKey) -> ModelDefinition:
        """The definition of a model as entity operations see it.

        Raises ``ModelNotFound`` without properties (docs/reference/models.md#model-states-and-operations).
        """
        definition = await self.definitions.find_by_id(tenant, model_id(key.name, key.version))
        if definition is None:
            raise ModelNotFound(f"model not found: {key.name}/{key.version}")
        return definition

    async def run_to_completion(self, work: Coroutine[object, object, T]) -> T:
        """Do work that must not stop in the middle when its client goes away
        (docs/reference/workflows.md#commit_before_dispatch).
        """
        return await asyncio.shield(self.start_detached(work))

    def start_detached(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Start work that no caller need wait for; a shutdown gives it time to end."""
        task = asyncio.create_task(work, name="outliving-run")
        self.detached_runs.add(task)
        task.add_done_callback(self._finish_detached)
        return task

    def _finish_detached(self, task: "asyncio.Task[T]") -> None:
        self.detached_runs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Failure):
            log.error("outliving_run_failed", error=repr(error))
