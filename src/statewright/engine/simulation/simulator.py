"""Playing a scenario: the start of an entity, and what happens to it then, one after the other.

An event loop whose clock jumps: who sleeps on it wakes at once, at the time at which it wanted to.

Simulations as another process computes them.
"""

import asyncio
import selectors
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import Final, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.engine.callouts import CalloutDispatcher
from statewright.engine.engine import CreateEntity, Engine, ScheduledFire, UpdateEntity
from statewright.engine.models import Model, SentModel
from statewright.engine.processors import RetryPolicy
from statewright.engine.run import EntityDraft, Run, RunSpans
from statewright.engine.schedules import ExpireTask, FireTask, KeepTask, RemoveTask, decide_task
from statewright.engine.simulation.stubs import Answer, SimulationResult, Stubs, StubTransport
from statewright.engine.simulation.world import SimulatedUnit, World
from statewright.engine.unit import Unit
from statewright.entity import Entity, Principal, ScheduledTask, TaskKey, system_principal
from statewright.failures import BadRequest, Failure
from statewright.ids import EntityId, IdSource, TenantId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode_stored, encode
from statewright.jsonval.values import JsonValue
from statewright.operations.checks import JudgedCriterion, SimulatedMove
from statewright.telemetry import logs
from statewright.workflow import Transition, Workflow, find_violations, read_import
from statewright.workflow.structure import refuse_first


class JumpingLoop(asyncio.SelectorEventLoop):
    """When there is nothing left to do but to wait, the clock is set to when the wait would end."""

    def __init__(self) -> None:
        self._jumped_s = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Seconds since the loop was made, of which none was waited."""
        return self._jumped_s

    def jump(self, seconds: float) -> None:
        """So much time has passed."""
        self._jumped_s += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        if timeout is None:  # no timer is set: a thread computes
            return super().select(None)
        found = super().select(0)
        if not found and timeout > 0:
            self._loop.jump(timeout)
        return found


START: Final = -1
"""The index of the start among the events."""


class Fire(Struct, frozen=True):
    """A transition is fired by name, maybe with a new document."""

    transition: str
    document: JsonValue = None


class Loopback(Struct, frozen=True):
    """The entity is saved without a transition."""

    document: JsonValue = None


class Advance(Struct, frozen=True):
    """Time passes; timers fire at their instants."""

    microseconds: int


SimulatedEvent: TypeAlias = Fire | Loopback | Advance


class Scenario(Struct, frozen=True, kw_only=True):
    """What is to be played. ``start`` is a new document, or an entity that there is with its ``timers``; ``at`` in
    epoch microseconds. ``answer`` is asked where there is no stub.
    """

    start: "JsonValue | Entity"
    events: Sequence[SimulatedEvent]
    stubs: Stubs
    principal: Principal
    at: int
    timers: Mapping[TaskKey, ScheduledTask] = {}
    answer: Answer | None = None


class SimulationLimits(Struct, frozen=True, kw_only=True):
    """How far a simulation may go. ``max_visits`` and ``retry`` are those of the service."""

    max_visits: int = 10
    retry: RetryPolicy = RetryPolicy()
    checks_output: bool = False
    moves: int = 10_000
    cpu_s: float = 2.0


class TooLong(BadRequest):
    """The simulation goes on and on."""


def simulate(model: Model, scenario: Scenario, limits: SimulationLimits) -> SimulationResult:
    """Play a scenario. To be called where nobody else waits: in a process, or a thread of its own.

    Raises ``BadRequest`` beyond the limits.
    """
    loop = JumpingLoop()
    try:
        with logs.bind_keys(simulated=True):
            return loop.run_until_complete(_Simulation(model, scenario, limits).run())
    finally:
        loop.close()


class _Simulation:
    def __init__(self, model: Model, scenario: Scenario, limits: SimulationLimits) -> None:
        self._model = model
        self._scenario = scenario
        self._limits = limits
        self._began = thread_time()
        self._moves = 0
        self._event = START
        self._world = World(scenario.at, IdSource())
        self._world.timers = dict(scenario.timers)
        self._path: list[SimulatedMove] = []
        self._transport = StubTransport(scenario.stubs, scenario.answer, self.check_limits)
        self._engine = Engine(
            CalloutDispatcher(transport=self._transport, tokens=_NoTokens(), ids=self._world.ids, spans=_Steps(self)),
            _NoStoredTasks(),
            max_visits=limits.max_visits,
            retry=limits.retry,
            checks_output=limits.checks_output,
        )

    async def run(self) -> SimulationResult:
        """Play everything, until something fails."""
        failure: Failure | None = None
        try:
            await self._start()
            for index, event in enumerate(self._scenario.events):
                self._event = index
                self.check_limits()
                await self._play(event)
        except TooLong:
            raise
        except Failure as failed:
            failure = failed
        entity = self._world.entity
        return SimulationResult(
            outcome="SETTLED" if failure is None else "FAILED",
            state=None if entity is None else entity.state,
            document=None if entity is None else decode_stored(entity.document),
            path=tuple(self._path),
            timers={key: task.arming.fire_at for key, task in self._world.timers.items()},
            findings=self._transport.findings,
            failure=None if failure is None else failure.detail,
        )

    def check_limits(self) -> None:
        """Raises ``TooLong``."""
        if self._moves > self._limits.moves:
            raise TooLong(f"the simulation makes more than {self._limits.moves} moves")
        if thread_time() - self._began > self._limits.cpu_s:
            raise TooLong(f"the simulation takes more than {self._limits.cpu_s:g} s of processor time")

    async def _start(self) -> None:
        start = self._scenario.start
        if isinstance(start, Entity):
            self._world.entity = start
            return
        unit = self._open_unit()
        self._model.documents.accept(unit, start)
        text = encode(start).decode()
        await self._engine.create(
            unit, self._model, CreateEntity(id=EntityId(self._world.ids()), document=start, text=text)
        )
        await unit.commit()

    async def _play(self, event: SimulatedEvent) -> None:
        match event:
            case Fire(transition, document):
                await self._update(transition, document)
            case Loopback(document):
                await self._update(None, document)
            case Advance(microseconds):
                await self._advance(self._world.now + microseconds)
            case _:
                assert_never(event)

    async def _update(self, transition: str | None, document: JsonValue) -> None:
        entity = self._world.entity
        if entity is None:
            raise BadRequest("there is no entity")
        unit = self._open_unit()
        if document is None:
            document = decode_stored(entity.document)
        else:
            self._model.documents.accept(unit, document)
        text = encode(document).decode()
        request = UpdateEntity(entity=entity, document=document, text=text, transition=transition)
        await self._engine.update(unit, self._model, request)
        await unit.commit()

    async def _advance(self, until: int) -> None:
        """Let timers fire that are due by then, each at its instant."""
        while (due := self._find_next(until // 1000)) is not None:
            self.check_limits()
            self._moves += 1
            self._world.now = max(self._world.now, due.arming.fire_at * 1000)
            await self._settle(due)
        self._world.now = until

    def _find_next(self, until_ms: int) -> ScheduledTask | None:
        due = [task for task in self._world.timers.values() if task.arming.fire_at <= until_ms]
        return min(due, key=lambda task: (task.arming.fire_at, task.key.transition), default=None)

    async def _settle(self, task: ScheduledTask) -> None:
        entity = self._world.entity
        decision = decide_task(task, entity, self._model, now=self._world.now // 1000, grace_ms=0)
        unit = self._open_unit(system_principal(self._scenario.principal.tenant))
        match decision:
            case FireTask():
                request = ScheduledFire(
                    entity=decision.entity,
                    document=decode_stored(decision.entity.document),
                    workflow=decision.workflow,
                    transition=decision.transition,
                    task=task,
                )
                await self._engine.fire(unit, decision.model, request)
            case ExpireTask() | RemoveTask() | KeepTask():
                unit.tasks.withdraw(task.entity, task.key, task.armed_in)
            case _:
                assert_never(decision)
        await unit.commit()

    def _open_unit(self, principal: Principal | None = None) -> SimulatedUnit:
        return SimulatedUnit(self._world, principal or self._scenario.principal)

    # What the engine does on its way.

    def begin_step(self, draft: EntityDraft, transition: Transition) -> SimulatedMove:
        """A transition is about to be taken."""
        self._moves += 1
        self.check_limits()
        self._transport.modes = {each.name: each.mode for each in transition.processors}
        self._transport.processors.clear()
        criteria = tuple(self._world.criteria)
        self._world.criteria.clear()
        if transition.criterion is not None:
            criteria += (JudgedCriterion(name=transition.name, matches=True),)
        return SimulatedMove(
            event=self._event,
            at=to_rfc3339(self._world.now),
            from_state=draft.state,
            transition=transition.name,
            to_state=transition.next,
            criteria=criteria,
        )

    def end_step(self, step: SimulatedMove, failure: str | None = None) -> None:
        """It was taken, or has failed."""
        self._path.append(replace(step, processors=tuple(self._transport.processors), failure=failure))


class _Steps(RunSpans):
    """Tells a simulation of the transitions of its runs."""

    def __init__(self, simulation: _Simulation) -> None:
        self._simulation = simulation

    @contextmanager
    def begin_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> Iterator[None]:
        """A step of the simulation."""
        step = self._simulation.begin_step(draft, transition)
        try:
            yield
        except Failure as failure:
            self._simulation.end_step(step, failure.detail)
            raise
        self._simulation.end_step(step)


class _NoTokens:
    def issue_token(self, unit: Unit) -> str:
        return ""


class _NoStoredTasks:
    """The timers of the world are those that its units see."""

    async def list_for_entity(self, tenant: TenantId, entity: EntityId) -> Mapping[TaskKey, ScheduledTask]:
        await asyncio.sleep(0)
        return {}


def simulate_sent(
    sent: SentModel, workflows: JsonValue, scenario: Scenario, limits: SimulationLimits
) -> SimulationResult:
    """Play a scenario; with other ``workflows`` than those of the model, unless they are None. Raises as
    :func:`read_importable` and ``simulate``.
    """
    model = sent.compile()
    chosen = model.workflows if workflows is None else read_importable(workflows)
    return simulate(replace(model, workflows=chosen), scenario, limits)


def read_importable(workflows: JsonValue) -> tuple[Workflow, ...]:
    """The workflows of a scenario. Raises ``BadRequest`` and ``ValidationFailed`` for what could not be imported."""
    request = read_import({"workflows": workflows})
    refuse_first(find_violations(request))
    return request.workflows
