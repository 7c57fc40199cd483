"""What a use case needs of the running service, put together once in ``app``."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from msgspec import Struct

from statewright import logs
from statewright.engine.engine import Engine
from statewright.entity import Actor, ModelKey, Principal
from statewright.failures import Failure, ModelNotFound
from statewright.identity import Clock, IdSource, TenantId
from statewright.services.definitions import Definition, DefinitionCache
from statewright.services.index_builder import IndexBuilder
from statewright.services.search_runner import SearchRunner
from statewright.services.steps.parts import StepParts
from statewright.services.transactions import OpenTransactions
from statewright.storage.entities import EntityReader
from statewright.storage.group_commit import GroupCommit
from statewright.storage.pool import Pool
from statewright.storage.schedules import StoredTasks
from statewright.storage.search import SearchDatabase
from statewright.storage.search_indexes import SearchIndexes
from statewright.storage.search_jobs import SearchJobs
from statewright.storage.unit_of_work import UnitOfWork

T = TypeVar("T")

log = logs.logger("services")


class Caller(Struct, frozen=True):
    """Whom a request acts for, and the open transaction it takes part in, if any."""

    principal: Principal
    transaction: UnitOfWork | None = None

    @property
    def tenant(self) -> TenantId:
        return self.principal.tenant


class Runtime(Struct, frozen=True, kw_only=True):
    """The parts of one service process."""

    pool: Pool
    reader: EntityReader
    commits: GroupCommit
    tasks: StoredTasks
    definitions: DefinitionCache
    engine: Engine
    transactions: OpenTransactions
    ids: IdSource
    clock: Clock
    outliving: "set[asyncio.Task[object]]"
    """Runs that go on although their client has gone, or that never had one."""
    search: SearchDatabase
    search_jobs: SearchJobs
    search_runner: SearchRunner
    search_indexes: SearchIndexes
    index_builder: IndexBuilder
    steps: StepParts
    """What the step engine keeps in this process."""
    stats_group_max: int = 10_000
    """Most groups of one grouped statistic."""
    max_sort_keys: int = 16
    """Most sort keys of one search."""

    def unit(self, caller: Caller, *, origin: Actor | None = None) -> UnitOfWork:
        """A new transaction, or a part of the one the caller joins; to be used in an ``async with`` block.

        ``origin`` is on whose behalf a new one acts, when that is not the caller (spec/workflows.md §15).
        """
        if caller.transaction is not None:
            return caller.transaction.joined(caller.principal)
        return UnitOfWork(
            id=self.ids.transaction(),
            principal=caller.principal,
            reader=self.reader,
            commits=self.commits,
            clock=self.clock,
            origin=origin,
            on_model_change=self.definitions.forget,
        )

    async def definition(self, tenant: TenantId, key: ModelKey) -> Definition:
        """The definition of a model as entity operations see it.

        Raises ``ModelNotFound`` without properties (spec/models.md §10).
        """
        definition = await self.definitions.find(tenant, key)
        if definition is None:
            raise ModelNotFound("model not found")
        return definition

    async def to_the_end(self, work: Coroutine[object, object, T]) -> T:
        """Do work that must not stop in the middle when its client goes away (spec/workflows.md §10.5)."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Start work that nobody waits for; a shutdown gives it time to end."""
        task = asyncio.create_task(work, name="outliving-run")
        self.outliving.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[T]") -> None:
        self.outliving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Failure):
            log.error("outliving_run_failed", error=repr(error))
