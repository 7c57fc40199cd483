"""Runs: what creating, updating or moving one entity makes of it (spec/workflows.md §8).

The anchor entity is held in memory while the run lasts, and staged once at its end. Everything decided between two
waits comes from pure functions (``cascade``, the workflow package's selection); this module loads, asks, records and
stages. A run that fails raises; its unit of work is then dropped, and nothing of it remains.
"""

from typing import assert_never

from msgspec import Struct

from statewright.conditions import EvaluationError
from statewright.engine import criteria, events
from statewright.engine.anchor import Anchor
from statewright.engine.callouts import Desk
from statewright.engine.cascade import Abort, Ask, Fire, Move, Position, Settled, next_move
from statewright.engine.criteria import NO_REASON, Judge, Judgement
from statewright.engine.model import Model
from statewright.engine.processors import Pipeline, Retry
from statewright.engine.run import Run, record
from statewright.engine.schedules import Reconciler, Tasks
from statewright.engine.subject import Subject
from statewright.entity import Entity
from statewright.failures import TransitionNotFound, WorkflowFailed
from statewright.identity import EntityId
from statewright.jsonval.values import JsonValue
from statewright.storage.schedules import ScheduledTask
from statewright.storage.unit_of_work import UnitOfWork
from statewright.workflow import (
    DEFAULT_WORKFLOW,
    SUBSTITUTION_WARNINGS,
    Selection,
    Transition,
    Workflow,
    candidates,
    governing,
    substituted,
)


class Create(Struct, frozen=True, kw_only=True):
    """A new entity. ``text`` is the encoded ``document``."""

    id: EntityId
    document: JsonValue
    text: str


class Update(Struct, frozen=True, kw_only=True):
    """A new document for an entity and the transition to fire with it.

    ``transition`` None is a loopback; ``if_match`` is the version the entity must still have, None for any.
    """

    entity: Entity
    document: JsonValue
    text: str
    transition: str | None = None
    if_match: str | None = None


class ScheduledFire(Struct, frozen=True, kw_only=True):
    """A task whose time has come, and the transition it is for. ``document`` is that of the entity, decoded."""

    entity: Entity
    document: JsonValue
    workflow: Workflow
    transition: Transition
    task: ScheduledTask


class Engine:
    """Runs entities through their workflows. ``max_visits``: how often one cascade may visit a state.

    ``checks_output``: whether the documents of processors must fit the model (decision W13).
    """

    def __init__(
        self, desk: Desk, tasks: Tasks, *, max_visits: int = 10, retry: Retry | None = None, checks_output: bool = False
    ) -> None:
        self._reconciler = Reconciler(desk=desk, tasks=tasks)
        self._judge = Judge(desk=desk)
        self._pipeline = Pipeline(desk=desk, retry=retry or Retry(), checks_output=checks_output)
        self._max_visits = max_visits

    async def create(self, unit: UnitOfWork, model: Model, request: Create) -> None:
        """Run a new entity through its workflow and stage it."""
        now = unit.started_at
        subject = Subject(
            id=request.id,
            model=model.key,
            state="",
            document=request.document,
            text=request.text,
            created_at=now,
            now=now,
            transition="",
            transaction_id=unit.id,
        )
        anchor = Anchor(request.id, model)
        record(unit, request.id, events.started("State machine started", None))
        selection = await self._select(unit, model, subject, anchor)
        workflow = selection.workflow
        run = Run(unit=unit, model=model, workflow=workflow, remembers=selection.remembered_name, anchor=anchor)
        subject = await self._settle(run, subject.in_state(workflow.initial_state))
        await self._reconciler.reconcile(run, subject)
        run.record(events.finished("State machine finished", subject.state))
        run.stage(subject)

    async def update(self, unit: UnitOfWork, model: Model, request: Update) -> None:
        """Give an entity a new document, fire the named transition or look for automated ones, and stage the result."""
        entity = request.entity
        subject = Subject(
            id=entity.id,
            model=model.key,
            state=entity.state,
            document=request.document,
            text=request.text,
            created_at=entity.created_at,
            now=unit.started_at,
            transition=request.transition or "",
            transaction_id=unit.id,
        )
        name, if_match = request.transition, request.if_match
        anchor = Anchor(entity.id, model, base=entity, transition=name, if_match=if_match)
        workflow = governing(model.workflows, entity.state, entity.workflow)
        if workflow is None:
            stay(unit, model, subject, name)
            anchor.stage(unit, subject, workflow=entity.workflow, revision=entity.workflow_revision)
            return
        run = Run(unit=unit, model=model, workflow=workflow, remembers=entity.workflow, anchor=anchor)
        run.stage(await (self._loopback(run, subject) if name is None else self._manual(run, subject, name)))

    async def fire(self, unit: UnitOfWork, model: Model, request: ScheduledFire) -> bool:
        """Take a scheduled transition and stage the result; whether its criterion let it (spec/workflows.md §13.5).

        The task is relied on by the first segment and withdrawn by the last, so it stays while anything can fail.
        """
        entity, transition, task = request.entity, request.transition, request.task
        subject = Subject(
            id=entity.id,
            model=model.key,
            state=entity.state,
            document=request.document,
            text=entity.document,
            created_at=entity.created_at,
            now=unit.started_at,
            transition=entity.transition,
            transaction_id=unit.id,
        )
        anchor = Anchor(entity.id, model, base=entity, transition=entity.transition)
        run = Run(unit=unit, model=model, workflow=request.workflow, remembers=entity.workflow, anchor=anchor)
        unit.tasks.expect(entity.id, task.key, task.armed_in)
        judgement = await self._judge_transition(run, subject, transition)
        if not judgement.matches:
            run.record(_not_matched("Transition", run, subject, transition, judgement.audit_reason))
            unit.tasks.withdraw(entity.id, task.key, task.armed_in)
            return False
        subject = await self._settle(run, await self._fire(run, subject, transition))
        unit.tasks.withdraw(entity.id, task.key, task.armed_in)
        await self._reconciler.reconcile(run, subject)
        run.record(events.schedule_fired(transition.name, subject.state))
        run.stage(subject)
        return True

    async def _select(self, unit: UnitOfWork, model: Model, subject: Subject, anchor: Anchor) -> Selection:
        """The first active workflow that takes the new entity, else the default one (spec/workflows.md §7.1)."""
        skipped: list[Workflow] = []
        for workflow in candidates(model.workflows):
            run = Run(unit=unit, model=model, workflow=workflow, remembers=workflow.name, anchor=anchor)
            judgement = await self._judge_selection(run, subject)
            if judgement.matches:
                run.record(events.workflow_found(workflow.name, guarded=workflow.criterion is not None))
                return Selection(workflow=workflow, skipped=tuple(skipped))
            run.record(events.workflow_skipped(workflow.name, judgement.audit_reason))
            skipped.append(workflow)
        selection = substituted(model.workflows, skipped)
        assert selection.substitution is not None  # noqa: S101 - that is what substituted() means
        unit.warnings.append(SUBSTITUTION_WARNINGS[selection.substitution])
        record(unit, subject.id, events.default_workflow_found())
        return selection

    async def _judge_selection(self, run: Run, subject: Subject) -> Judgement:
        try:
            return await self._judge.judge(run, subject, run.workflow.criterion, None)
        except EvaluationError as error:
            raise WorkflowFailed(f'failed to evaluate workflow criterion for "{run.workflow.name}": {error}') from error

    async def _loopback(self, run: Run, subject: Subject) -> Subject:
        run.record(events.started("Loopback started", subject.state))
        subject = await self._settle(run, subject)
        await self._reconciler.reconcile(run, subject)
        run.record(events.finished("Loopback finished", subject.state))
        return subject

    async def _manual(self, run: Run, subject: Subject, name: str) -> Subject:
        run.record(events.started("Manual transition started", subject.state))
        transition = fireable(run.workflow, subject.state, name)
        judgement = await self._judge_transition(run, subject, transition)
        if not judgement.matches:
            reason = f": {judgement.reason}" if judgement.reason else ""
            raise WorkflowFailed(f'transition "{name}" criterion not matched{reason}')
        subject = await self._settle(run, await self._fire(run, subject, transition))
        await self._reconciler.reconcile(run, subject)
        run.record(events.finished("Manual transition finished", subject.state))
        return subject

    async def _settle(self, run: Run, subject: Subject) -> Subject:
        """Fire automated transitions until none does."""
        position = Position.at(subject.state)
        while True:
            move = self._next_move(run, position, subject)
            match move:
                case Settled(declined):
                    _record_declined(run, subject, declined)
                    return subject
                case Fire(transition, declined):
                    _record_declined(run, subject, declined)
                    subject = await self._fire(run, subject, transition)
                    position = position.moved(subject.state)
                case Ask(transition, declined):
                    _record_declined(run, subject, declined)
                    judgement = await self._judge_transition(run, subject, transition)
                    if not judgement.matches:
                        run.record(_declined(run, subject, transition, judgement.audit_reason))
                    position = position.answered(transition.name, matches=judgement.matches)
                case Abort(reason):
                    raise WorkflowFailed(f"state machine aborted: {reason}")
                case _:
                    assert_never(move)

    def _next_move(self, run: Run, position: Position, subject: Subject) -> Move:
        def holds(transition: Transition) -> bool:
            return transition.criterion is None or criteria.holds(run.model, transition.criterion, subject)

        try:
            return next_move(run.workflow, position, holds, max_visits=self._max_visits)
        except EvaluationError as error:
            raise _unjudgeable(error) from error

    async def _judge_transition(self, run: Run, subject: Subject, transition: Transition) -> Judgement:
        try:
            return await self._judge.judge(run, subject, transition.criterion, transition)
        except EvaluationError as error:
            raise _unjudgeable(error) from error

    async def _fire(self, run: Run, subject: Subject, transition: Transition) -> Subject:
        subject = await self._pipeline.process(run, subject, transition)
        run.record(events.made(transition.name, subject.state, transition.next))
        return subject.in_state(transition.next)


def fireable(workflow: Workflow, state: str, name: str) -> Transition:
    """The transition a client may fire by name; automated ones are among them. Raises ``TransitionNotFound``."""
    transition = workflow.transition_named(state, name)
    if transition is None:
        raise TransitionNotFound(f'transition "{name}" not found in state "{state}": transition not found')
    if transition.disabled:
        raise TransitionNotFound(f'transition "{name}" is disabled in state "{state}": transition not found')
    if transition.schedule is not None:
        raise TransitionNotFound(
            f'transition "{name}" in state "{state}" is scheduled and fires automatically; '
            "it is not manually fireable: transition not found"
        )
    return transition


def listed(model: Model, entity: Entity) -> tuple[str, ...]:
    """Names of all transitions declared in the entity's state, in order; a pure read (spec/workflows.md §8.8, decision
    W9).
    """
    workflow = governing(model.workflows, entity.state, entity.workflow) or DEFAULT_WORKFLOW
    return tuple(transition.name for transition in workflow.transitions_of(entity.state))


def stay(unit: UnitOfWork, model: Model, subject: Subject, transition: str | None) -> None:
    """What becomes of an entity whose state no workflow contains: a loopback saves the data, nothing fires (§7.2)."""
    if transition is not None:
        raise WorkflowFailed(
            f'no workflow contains state "{subject.state}" for model {model.key.name}.{model.key.version}'
        )
    record(unit, subject.id, events.started("Loopback started", subject.state))
    record(unit, subject.id, events.state_unknown(subject.state))
    record(unit, subject.id, events.finished("Loopback finished (state not in workflow)", subject.state))


def _record_declined(run: Run, subject: Subject, transitions: tuple[Transition, ...]) -> None:
    for transition in transitions:
        run.record(_declined(run, subject, transition, NO_REASON))


def _declined(run: Run, subject: Subject, transition: Transition, reason: str) -> events.Event:
    return _not_matched("Automated transition", run, subject, transition, reason)


def _not_matched(kind: str, run: Run, subject: Subject, transition: Transition, reason: str) -> events.Event:
    return events.not_matched(
        f'{kind} "{transition.name}" criterion not matched',
        state=subject.state,
        workflow=run.workflow.name,
        transition=transition.name,
        criterion=transition.criterion.label if transition.criterion else "",
        reason=reason,
    )


def _unjudgeable(error: EvaluationError) -> WorkflowFailed:
    return WorkflowFailed(f"failed to evaluate transition criterion: {error}")
