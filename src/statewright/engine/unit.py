"""What the engine needs of the transaction in which it runs, so that it does not depend on how one is stored, and of
those who may keep a run from moving, so that it does not know why they do.

The unit of work of ``storage`` is one. Everything that is staged in it becomes durable when its owner commits it, or
with a segment; an instant is in epoch microseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from statewright.entity import Actor, Arming, Entity, Event, ModelKey, Principal, ScheduledTask, TaskKey
from statewright.failures import Failure
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.schema import Claim, Extender, Extension


class StagedTasks(Protocol):
    """Scheduled transitions that the transaction arms and withdraws."""

    def arm(self, entity: EntityId, key: TaskKey, arming: Arming) -> None: ...

    def withdraw(self, entity: EntityId, key: TaskKey, armed_in: TransactionId | None) -> None: ...

    def expect(self, entity: EntityId, key: TaskKey, armed_in: TransactionId) -> None:
        """Have the commit fail unless the stored task is of that arming."""
        ...

    def overlay(
        self, entity: EntityId, stored: Mapping[TaskKey, ScheduledTask]
    ) -> Mapping[TaskKey, TransactionId | None]:
        """All tasks of an entity as the transaction sees them, by their stored arming."""
        ...


class GrownSchema(Protocol):
    """The schema of a model with what the transaction has taught it."""

    @property
    def extender(self) -> Extender: ...


class StagedGrowth(Protocol):
    """What the documents of the transaction teach their models."""

    def add(self, model: ModelId, extension: Extension, extender: Extender, revision: int) -> None: ...


class Unit(Protocol):
    """A transaction of one principal, a savepoint within one, or a request that has joined one."""

    warnings: list[str]

    @property
    def on_close(self) -> list[Callable[[], None]]:
        """Called when it ends, whatever became of it."""
        ...

    @property
    def id(self) -> TransactionId:
        """The segment that is open now."""
        ...

    @property
    def label(self) -> TransactionId:
        """The id of the first segment, under which the run is told to its client."""
        ...

    @property
    def tenant(self) -> TenantId: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def executor(self) -> Actor: ...

    @property
    def origin(self) -> Actor: ...

    @property
    def attributed(self) -> Actor: ...

    @property
    def started_at(self) -> int: ...

    @property
    def now(self) -> int: ...

    @property
    def may_segment(self) -> bool: ...

    @property
    def tasks(self) -> StagedTasks: ...

    @property
    def growth(self) -> StagedGrowth: ...

    def find_grown(self, model: ModelId) -> GrownSchema | None:
        """A model as the transaction has extended it; None when it has not."""
        ...

    def create(
        self,
        entity: Entity,
        *,
        claims: Sequence[Claim] | None = None,
        lock: int | None = None,
        is_intermediate: bool = False,
    ) -> None:
        """Stage a new entity; ``is_intermediate``: this version is no outcome, and bears the id that it has."""
        ...

    def save(
        self,
        entity: Entity,
        *,
        if_match: bool = False,
        claims: Sequence[Claim] | None = None,
        is_intermediate: bool = False,
    ) -> None: ...

    def expect(self, entity_id: EntityId, version: TransactionId) -> None:
        """Have the commit fail unless the stored version is that one."""
        ...

    def record(self, entity_id: EntityId, event: Event) -> None:
        """Stage an audit event, later than all before it."""
        ...

    def open_savepoint(self) -> "AbstractAsyncContextManager[Unit, None]": ...

    async def commit(self) -> int | None:
        """Make what is staged part of the surrounding unit; the engine commits savepoints only."""
        ...

    def release_gate(self) -> AbstractAsyncContextManager[None, None]:
        """Let requests that join the transaction have their turn while the block waits for a member."""
        ...

    async def prepare_callout(self) -> None:
        """To be awaited before a callout."""
        ...

    async def commit_segment(self, next_id: TransactionId) -> None: ...

    async def commit_failure_event(self, entity_id: EntityId, event: Event, failure: Failure) -> bool:
        """Make one audit event durable, whatever becomes of the transaction; whether operators are told of the failure
        by that.
        """
        ...


class RunGuard(Protocol):
    """What may keep runs from moving. It is asked before anything moves; names are empty while they are not known."""

    async def admit_run(self, unit: Unit, model: ModelKey, entity: EntityId, workflow: str, transition: str) -> None:
        """The unit is about to move an entity. Raises the failure of a run that must not begin."""
        ...

    def admit_move(self, unit: Unit, model: ModelKey, entity: EntityId, workflow: str, transition: str) -> None:
        """A run that was admitted is about to fire this transition. Raises the failure of one that must not."""
        ...

    def find_hold(self, tenant: TenantId, model: ModelKey, workflow: str, transition: str) -> str | None:
        """Why a cascade comes to rest before a transition; None where it does not."""
        ...

    def admit_callout(self, tenant: TenantId, tags: Iterable[str]) -> None:
        """Members with these tags are about to be asked. Raises the failure of a run that must not ask them."""
        ...
