"""What a simulated entity consists of, and a unit of work on it: a transaction in memory, on its own."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from msgspec import Struct

from statewright.entity import Actor, Arming, AuditEvent, Entity, Event, Principal, ScheduledTask, TaskKey
from statewright.failures import Failure
from statewright.ids import EntityId, IdSource, ModelId, TenantId, TransactionId
from statewright.operations.checks import JudgedCriterion
from statewright.schema import Claim, Extender, Extension

_DECLINED: Final = frozenset({"TRANSITION_NOT_MATCH_CRITERION", "WORKFLOW_SKIP"})
"""Audit events that tell of criteria that did not hold."""


class Grown(Struct, frozen=True):
    """The schema of the model with what the simulation has taught it."""

    extender: Extender


class World:
    """The one entity that there is, its timers, what its model has learnt, and the time in epoch microseconds."""

    def __init__(self, now: int, ids: IdSource) -> None:
        self.now = now
        self.ids = ids
        self.entity: Entity | None = None
        self.timers: dict[TaskKey, ScheduledTask] = {}
        self.grown: dict[ModelId, Grown] = {}
        self.criteria: list[JudgedCriterion] = []
        """Criteria that were judged since they were taken last."""


class Tasks:
    """Timers as a unit sees them; what is not committed is dropped with it."""

    def __init__(self, unit: "SimulatedUnit", timers: dict[TaskKey, ScheduledTask]) -> None:
        self._unit = unit
        self.timers = timers

    def arm(self, entity: EntityId, key: TaskKey, arming: Arming) -> None:
        """Set a timer in place of any under the same key."""
        unit = self._unit
        self.timers[key] = ScheduledTask(
            tenant=unit.tenant, entity=entity, key=key, arming=arming, armed_in=unit.id, attempts=1
        )

    def withdraw(self, entity: EntityId, key: TaskKey, armed_in: TransactionId | None) -> None:
        """Remove a timer."""
        self.timers.pop(key, None)

    def expect(self, entity: EntityId, key: TaskKey, armed_in: TransactionId) -> None:
        """There is nobody else who could have removed it."""

    def overlay(
        self, entity: EntityId, stored: Mapping[TaskKey, ScheduledTask]
    ) -> Mapping[TaskKey, TransactionId | None]:
        """The timers of the entity by their arming."""
        return {key: task.armed_in for key, task in self.timers.items()}


class Growth:
    """What the documents of a unit teach the model."""

    def __init__(self, grown: dict[ModelId, Grown]) -> None:
        self.grown = grown

    def add(self, model: ModelId, extension: Extension, extender: Extender, revision: int) -> None:
        """The model has learnt from a document."""
        self.grown[model] = Grown(extender)


ValueT = TypeVar("ValueT")


class _Block(AbstractAsyncContextManager[ValueT, None]):
    """A block that gives a value, and at whose end nothing is to be done."""

    def __init__(self, value: ValueT) -> None:
        self._value = value

    async def __aenter__(self) -> ValueT:
        return self._value

    async def __aexit__(self, *_failure: object) -> None:
        return None


class SimulatedUnit:
    """A unit of work of the engine (``statewright.engine.unit.Unit``)."""

    def __init__(self, world: World, principal: Principal, *, parent: "SimulatedUnit | None" = None) -> None:
        self._world = world
        self._parent = parent
        self._id: TransactionId = world.ids.new_transaction_id()
        self.principal = principal
        self.warnings: list[str] = []
        self.on_close: list[Callable[[], None]] = []
        self.events: list[AuditEvent] = []
        self.staged: Entity | None = None
        self.tasks: Tasks = Tasks(self, dict(world.timers if parent is None else parent.tasks.timers))
        self.growth: Growth = Growth(dict(world.grown if parent is None else parent.growth.grown))
        self.label: TransactionId = self.id if parent is None else parent.label
        self.started_at = world.now

    @property
    def id(self) -> TransactionId:
        """The segment that is open now."""
        return self._id if self._parent is None else self._parent.id

    @property
    def tenant(self) -> TenantId:
        return self.principal.tenant

    @property
    def executor(self) -> Actor:
        return self.principal.actor

    origin = executor
    attributed = executor

    @property
    def now(self) -> int:
        """The time of the simulation."""
        return self._world.now

    @property
    def may_segment(self) -> bool:
        return True

    def create(
        self,
        entity: Entity,
        *,
        claims: Sequence[Claim] | None = None,
        lock: int | None = None,
        is_intermediate: bool = False,
    ) -> None:
        """Stage the entity."""
        self.staged = entity

    def save(
        self,
        entity: Entity,
        *,
        if_match: bool = False,
        claims: Sequence[Claim] | None = None,
        is_intermediate: bool = False,
    ) -> None:
        """Stage the entity."""
        self.staged = entity

    def expect(self, entity_id: EntityId, version: TransactionId) -> None:
        """There is nobody else who could have changed it."""

    def find_grown(self, model: ModelId) -> Grown | None:
        """What the model has learnt."""
        return self.growth.grown.get(model)

    def record(self, entity_id: EntityId, event: Event) -> None:
        """Audit events are kept with the unit, and say which criteria do not hold."""
        self.events.append(event.stamp(self._world.now + len(self.events)))
        data = event.data or {}
        name = data.get("transition" if event.type == "TRANSITION_NOT_MATCH_CRITERION" else "workflowName")
        if event.type in _DECLINED and isinstance(name, str):
            self._world.criteria.append(JudgedCriterion(name=name, matches=False, reason=str(data.get("reason"))))

    def open_savepoint(self) -> "_Block[SimulatedUnit]":
        """A part of the unit that can be dropped alone."""
        return _Block(SimulatedUnit(self._world, self.principal, parent=self))

    async def commit(self) -> int | None:
        """Make what is staged part of what is around it."""
        above = self._parent
        if above is None:
            self._world.entity = self.staged or self._world.entity
            self._world.timers = dict(self.tasks.timers)
            self._world.grown = dict(self.growth.grown)
            self.staged = None
            return self._world.now
        above.events += self.events
        above.warnings += self.warnings
        above.staged = self.staged or above.staged
        above.tasks.timers = self.tasks.timers
        above.growth.grown = self.growth.grown
        return None

    def release_gate(self) -> "_Block[None]":
        """Nobody else waits for the transaction."""
        return _Block(None)

    async def prepare_callout(self) -> None:
        """Nothing is to be done before a callout."""

    async def commit_segment(self, next_id: TransactionId) -> None:
        """Make everything so far durable, and go on under another id."""
        await self.commit()
        if self._parent is None:
            self._id = next_id
        else:
            await self._parent.commit_segment(next_id)

    async def commit_failure_event(self, entity_id: EntityId, event: Event, failure: Failure) -> bool:
        """Audit events are kept with the unit."""
        self.record(entity_id, event)
        return False
