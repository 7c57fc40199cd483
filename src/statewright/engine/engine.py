"""Runs: what creating, updating or moving one entity makes of it (docs/reference/workflows.md#runs).

The anchor entity is held in memory while the run lasts, and staged once at its end. Everything decided between two
waits comes from pure functions (``cascade``, the workflow package's selection); this module loads, calls out, records
and stages. A run that fails raises; its unit of work is then dropped, and nothing of it remains.
"""

from difflib import get_close_matches
from typing import Final, assert_never

from msgspec import Struct

from statewright.conditions import EvaluationError, Function, Visits
from statewright.engine import criteria, events
from statewright.engine.callouts import CalloutDispatcher
from statewright.engine.cascade import Abort, Ask, Fire, Move, Position, Settled, decide_next_move
from statewright.engine.criteria import Computations, CriterionEvaluator, CriterionResult
from statewright.engine.models import Model
from statewright.engine.processors import ProcessorRunner, RetryPolicy
from statewright.engine.run import EntityDraft, EntityWriter, Run, locate_failure
from statewright.engine.schedules import Reconciler, TaskReader
from statewright.engine.unit import Unit
from statewright.entity import Entity, Event, ScheduledTask
from statewright.failures import CriterionNotMatched, Failure, StateWithoutWorkflow, TransitionNotFound, WorkflowFailed
from statewright.ids import EntityId
from statewright.jsonval.values import JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.telemetry import logs
from statewright.workflow import (
    DEFAULT_WORKFLOW,
    MAX_NAME_BYTES,
    SUBSTITUTION_WARNINGS,
    Criterion,
    Selection,
    Transition,
    Workflow,
    find_governing,
    list_candidates,
    substitute_default,
)

ASK_WITHIN_S: Final = 10.0
"""Longest wait for a member whose answer moves nothing."""

log = logs.logger(__name__)


class CreateEntity(Struct, frozen=True, kw_only=True):
    """A new entity. ``text`` is the encoded ``document``."""

    id: EntityId
    document: JsonValue
    text: str


class UpdateEntity(Struct, frozen=True, kw_only=True):
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
    """Runs entities through their workflows. ``max_visits``: how often one cascade may be in a state.

    ``checks_output``: whether the documents of processors must fit the model (decision W13). ``computations`` have what
    is too long for a turn of the event loop; None: there is nobody who would wait for it.
    """

    def __init__(
        self,
        dispatcher: CalloutDispatcher,
        tasks: TaskReader,
        *,
        max_visits: int = 10,
        retry: RetryPolicy | None = None,
        checks_output: bool = False,
        computations: Computations | None = None,
    ) -> None:
        self._guards = dispatcher.guards
        self.metrics = dispatcher.metrics
        self._spans = dispatcher.spans
        self._reconciler = Reconciler(dispatcher=dispatcher, tasks=tasks)
        self._evaluator = CriterionEvaluator(dispatcher=dispatcher, computations=computations)
        self._processors = ProcessorRunner(
            dispatcher=dispatcher, retry=retry or RetryPolicy(), checks_output=checks_output
        )
        self._max_visits = max_visits

    async def create(self, unit: Unit, model: Model, request: CreateEntity) -> None:
        """Run a new entity through its workflow and stage it."""
        with self._spans.begin_run(unit, model, request.id):
            await self._admit(unit, model, request.id)
            now = unit.started_at
            draft = EntityDraft(
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
            writer = EntityWriter(request.id, model, submitted=request.text)
            unit.record(request.id, events.build_started_event("State machine started", None))
            selection = await self._select_workflow(unit, model, draft, writer)
            workflow = selection.workflow
            await self._admit(unit, model, request.id, workflow)
            run = Run(
                unit=unit, model=model, workflow=workflow, stored_workflow_name=selection.remembered_name, writer=writer
            )
            draft = await self._run_cascade(run, draft.with_state(workflow.initial_state))
            await self._reconcile(run, draft)
            run.record(events.build_finished_event("State machine finished", draft.state))
            run.stage(draft)

    async def update(self, unit: Unit, model: Model, request: UpdateEntity) -> None:
        """Give an entity a new document, fire the named transition or look for automated ones, and stage the result."""
        with self._spans.begin_run(unit, model, request.entity.id):
            entity = request.entity
            draft = _draft_version(unit, model, request, request.text, request.transition or "")
            name, if_match = request.transition, request.if_match
            writer = EntityWriter(
                entity.id, model, base=entity, transition=name, if_match=if_match, submitted=request.text
            )
            workflow = find_governing(model.workflows, entity.state, entity.workflow)
            await self._admit(unit, model, entity.id, workflow)
            if workflow is None:
                apply_without_workflow(unit, model, draft, name)
                writer.stage(unit, draft, workflow=entity.workflow, revision=entity.workflow_revision)
                return
            run = Run(unit=unit, model=model, workflow=workflow, stored_workflow_name=entity.workflow, writer=writer)
            moving = self._run_loopback(run, draft) if name is None else self._run_manual_transition(run, draft, name)
            run.stage(await moving)

    async def fire(self, unit: Unit, model: Model, request: ScheduledFire) -> bool:
        """Take a scheduled transition and stage the result; False when its criterion does not hold
        (docs/reference/workflows.md#firing).

        The task is relied on by the first segment and withdrawn by the last, so it stays while anything can fail.
        """
        with self._spans.begin_run(unit, model, request.entity.id):
            entity, transition, task = request.entity, request.transition, request.task
            await self._admit(unit, model, entity.id, request.workflow, transition)
            draft = _draft_version(unit, model, request, entity.document, entity.transition)
            writer = EntityWriter(
                entity.id, model, base=entity, transition=entity.transition, submitted=entity.document
            )
            run = Run(
                unit=unit, model=model, workflow=request.workflow, stored_workflow_name=entity.workflow, writer=writer
            )
            unit.tasks.expect(entity.id, task.key, task.armed_in)
            result = await self._evaluate_transition(run, draft, transition)
            if not result.matches:
                run.record(_build_not_matched_event("Transition", run, draft, transition, result))
                unit.tasks.withdraw(entity.id, task.key, task.armed_in)
                return False
            draft = await self._run_cascade(run, await self._fire_transition(run, draft, transition))
            unit.tasks.withdraw(entity.id, task.key, task.armed_in)
            await self._reconcile(run, draft)
            run.record(events.build_schedule_fired_event(transition.name, draft.state))
            run.stage(draft)
            return True

    async def ask_criterion(
        self, unit: Unit, model: Model, request: UpdateEntity, workflow: Workflow, transition: Transition
    ) -> CriterionResult:
        """What a member says of the criterion of a transition out of the state of an entity, for whoever only wants to
        know: outside any transaction, within ``ASK_WITHIN_S``. The unit is to be dropped.

        Raises ``EvaluationError``, what a guard raises, and what ``CalloutTransport.dispatch`` raises.
        """
        assert transition.criterion is not None  # noqa: S101 - or there is nothing to ask
        function = transition.criterion.condition
        assert isinstance(function, Function)  # noqa: S101
        entity = request.entity
        draft = _draft_version(unit, model, request, request.text, transition.name if transition.manual else "")
        writer = EntityWriter(entity.id, model, base=entity)
        run = Run(unit=unit, model=model, workflow=workflow, stored_workflow_name=entity.workflow, writer=writer)
        return await self._evaluator.ask_outside(run, draft, function, transition, within_s=ASK_WITHIN_S)

    async def _select_workflow(self, unit: Unit, model: Model, draft: EntityDraft, writer: EntityWriter) -> Selection:
        """The first active workflow that takes the new entity, else the default one
        (docs/reference/workflows.md#create).
        """
        skipped: list[Workflow] = []
        for workflow in list_candidates(model.workflows):
            run = Run(unit=unit, model=model, workflow=workflow, stored_workflow_name=workflow.name, writer=writer)
            result = await self._evaluate_selection(run, draft)
            if result.matches:
                run.record(events.build_workflow_found_event(workflow.name, guarded=workflow.criterion is not None))
                return Selection(workflow=workflow, skipped=tuple(skipped))
            run.record(events.build_workflow_skipped_event(workflow.name, result.audit_reason))
            skipped.append(workflow)
        selection = substitute_default(model.workflows, skipped)
        assert selection.substitution is not None  # noqa: S101 - substitute_default() sets it
        unit.warnings.append(SUBSTITUTION_WARNINGS[selection.substitution])
        if selection.substitution == "no_criterion_matched":
            log.warning(
                "workflow_default_taken",
                tenant=unit.tenant,
                entityName=model.key.name,
                modelVersion=model.key.version,
                entity=draft.id,
                passedOver=[workflow.name for workflow in model.workflows],
            )
        unit.record(draft.id, events.build_default_workflow_event())
        return selection

    async def _evaluate_selection(self, run: Run, draft: EntityDraft) -> CriterionResult:
        criterion = run.workflow.criterion
        if criterion is None:
            return CriterionResult(True)
        try:
            return await self._evaluator.evaluate(run, draft, criterion, None)
        except EvaluationError as error:
            told = f'failed to evaluate workflow criterion for "{run.workflow.name}": {error}'
            raise self._locate(WorkflowFailed(told), run, draft, criterion, None) from error
        except Failure as failure:
            raise self._locate(failure, run, draft, criterion, None) from failure.__cause__

    async def _run_loopback(self, run: Run, draft: EntityDraft) -> EntityDraft:
        run.record(events.build_started_event("Loopback started", draft.state))
        draft = await self._run_cascade(run, draft)
        await self._reconcile(run, draft)
        run.record(events.build_finished_event("Loopback finished", draft.state))
        return draft

    async def _run_manual_transition(self, run: Run, draft: EntityDraft, name: str) -> EntityDraft:
        run.record(events.build_started_event("Manual transition started", draft.state))
        transition = find_fireable_transition(run.workflow, draft.state, name)
        for guard in self._guards:
            guard.admit_move(run.unit, run.model.key, draft.id, run.workflow.name, transition.name)
        result = await self._evaluate_transition(run, draft, transition)
        if not result.matches:
            raise CriterionNotMatched(name, result.reason)
        draft = await self._run_cascade(run, await self._fire_transition(run, draft, transition))
        await self._reconcile(run, draft)
        run.record(events.build_finished_event("Manual transition finished", draft.state))
        return draft

    async def _run_cascade(self, run: Run, draft: EntityDraft) -> EntityDraft:
        """Fire automated transitions until none does."""
        if not run.workflow.list_automated(draft.state):
            return draft
        position = Position.start_at(draft.state)
        while True:
            move = await self._decide_next_move(run, position, draft)
            match move:
                case Fire(transition, declined) | Ask(transition, declined) if held := self._find_hold(run, transition):
                    _record_declined(run, draft, declined)
                    run.record(_build_declined_event(run, draft, transition, CriterionResult(False, held)))
                    return draft
                case Settled(declined):
                    _record_declined(run, draft, declined)
                    return draft
                case Fire(transition, declined):
                    _record_declined(run, draft, declined)
                    draft = await self._fire_transition(run, draft, transition)
                    position = position.move_to(draft.state)
                case Ask(transition, declined):
                    _record_declined(run, draft, declined)
                    result = await self._evaluate_transition(run, draft, transition)
                    if not result.matches:
                        run.record(_build_declined_event(run, draft, transition, result))
                    position = position.with_answer(transition.name, matches=result.matches)
                case Abort(reason):
                    raise locate_failure(WorkflowFailed(f"state machine aborted: {reason}"), run, draft, None)
                case _:
                    assert_never(move)

    async def _reconcile(self, run: Run, draft: EntityDraft) -> None:
        """Arm and withdraw what the settled state needs; a workflow without scheduled transitions changes nothing."""
        if run.workflow.has_schedules:
            await self._reconciler.reconcile(run, draft)

    def _find_hold(self, run: Run, transition: Transition) -> str | None:
        """Why the cascade stops before a transition, if a guard says so; one that is half done does not stop."""
        if run.is_half_done:
            return None
        for guard in self._guards:
            held = guard.find_hold(run.unit.tenant, run.model.key, run.workflow.name, transition.name)
            if held is not None:
                return held
        return None

    async def _admit(
        self,
        unit: Unit,
        model: Model,
        entity_id: EntityId,
        workflow: Workflow | None = None,
        transition: Transition | None = None,
    ) -> None:
        """Raises the failure of a run that a guard stops."""
        names = workflow.name if workflow else "", transition.name if transition else ""
        for guard in self._guards:
            await guard.admit_run(unit, model.key, entity_id, *names)

    async def _decide_next_move(self, run: Run, position: Position, draft: EntityDraft) -> Move:
        """Criteria that are too long for a turn are judged one by one, each when it is its turn, and remembered."""
        known: dict[int, bool] = {}
        while True:
            visits = Visits(within_turn=True)
            undecided: Criterion | None = None

            def holds(transition: Transition, visits: Visits = visits) -> bool:
                nonlocal undecided
                criterion = transition.criterion
                if criterion is None:
                    return True
                if id(criterion) not in known:
                    undecided = criterion
                    known[id(criterion)] = criteria.evaluate_in_memory(run.model, criterion, draft, visits)
                return known[id(criterion)]

            try:
                return decide_next_move(run.workflow, position, holds, max_visits=self._max_visits)
            except TurnExceeded:
                assert undecided is not None  # noqa: S101 - it was raised by judging it
            except EvaluationError as error:
                raise _to_workflow_failed(error) from error
            try:
                known[id(undecided)] = await self._evaluator.judge_long(run, draft, undecided)
            except EvaluationError as error:
                raise _to_workflow_failed(error) from error

    async def _evaluate_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> CriterionResult:
        criterion = transition.criterion
        if criterion is None:
            return CriterionResult(True)
        try:
            return await self._evaluator.evaluate(run, draft, criterion, transition)
        except EvaluationError as error:
            raise self._locate(_to_workflow_failed(error), run, draft, criterion, transition) from error
        except Failure as failure:
            raise self._locate(failure, run, draft, criterion, transition) from failure.__cause__

    @staticmethod
    def _locate(
        failure: Failure, run: Run, draft: EntityDraft, criterion: Criterion, transition: Transition | None
    ) -> Failure:
        """What a member could not judge is an incident; what cannot be evaluated at all is the author's fault."""
        if not isinstance(criterion.condition, Function):
            return failure
        return locate_failure(failure, run, draft, transition, criterion.condition.name)

    async def _fire_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> EntityDraft:
        with self._spans.begin_transition(run, draft, transition):
            draft = await self._processors.run_processors(run, draft, transition)
            run.record(events.build_transition_event(transition.name, draft.state, transition.next))
            self.metrics.count_transition(run.model.key, transition.name)
            if log.is_verbose:
                log.debug(
                    "transition_fired",
                    transition=transition.name,
                    source=draft.state,
                    target=transition.next,
                    **run.describe(),
                )
            return draft.with_state(transition.next)


def _draft_version(
    unit: Unit, model: Model, request: UpdateEntity | ScheduledFire, text: str, transition: str
) -> EntityDraft:
    """The draft of a stored entity with the document of a request, of which ``text`` is the encoded form."""
    entity = request.entity
    return EntityDraft(
        id=entity.id,
        model=model.key,
        state=entity.state,
        document=request.document,
        text=text,
        created_at=entity.created_at,
        now=unit.started_at,
        transition=transition,
        transaction_id=unit.id,
    )


def find_fireable_transition(workflow: Workflow, state: str, name: str) -> Transition:
    """The transition a client may fire by name; automated ones are among them. Raises ``TransitionNotFound``."""
    transition = workflow.find_transition(state, name)
    if transition is None:
        raise _build_not_found(f'transition "{name}" not found in state "{state}"', workflow, state, name)
    if transition.disabled:
        raise _build_not_found(f'transition "{name}" is disabled in state "{state}"', workflow, state)
    if transition.schedule is not None:
        told = f'transition "{name}" in state "{state}" is scheduled and fires automatically'
        raise _build_not_found(f"{told}; it is not manually fireable", workflow, state)
    return transition


MAX_LISTED: Final = 50
"""Transitions of a state that a failure names, and among which the nearest name is looked for."""


def _build_not_found(reason: str, workflow: Workflow, state: str, name: str = "") -> TransitionNotFound:
    """The failure with the transitions that can be fired instead, and the one that was probably meant by ``name``."""
    declared = workflow.list_transitions(state)
    fireable = [each.name for each in declared if not each.disabled and each.schedule is None][:MAX_LISTED]
    nearest = get_close_matches(name[:MAX_NAME_BYTES], fireable, n=1) if name else []
    guess = f'; did you mean "{nearest[0]}"?' if nearest else ""
    listed = ", ".join(f'"{each}"' for each in fireable) or "none"
    return TransitionNotFound(
        f"{reason}: transition not found{guess}; transitions that can be fired in this state: {listed}",
        {"transitions": fireable},
    )


def list_declared_transitions(model: Model, entity: Entity) -> tuple[str, ...]:
    """Names of all transitions declared in the entity's state, in order; a pure read
    (docs/reference/entities.md#list-transitions, decision W9).
    """
    workflow = find_governing(model.workflows, entity.state, entity.workflow) or DEFAULT_WORKFLOW
    return tuple(transition.name for transition in workflow.list_transitions(entity.state))


def apply_without_workflow(unit: Unit, model: Model, draft: EntityDraft, transition: str | None) -> None:
    """Record what becomes of an entity whose state no workflow contains: a loopback saves the document, nothing fires
    (docs/reference/workflows.md#afterwards).
    """
    if transition is not None:
        raise StateWithoutWorkflow(draft.state, f"{model.key.name}.{model.key.version}")
    unit.record(draft.id, events.build_started_event("Loopback started", draft.state))
    unit.record(draft.id, events.build_state_unknown_event(draft.state))
    unit.record(draft.id, events.build_finished_event("Loopback finished (state not in workflow)", draft.state))


def _record_declined(run: Run, draft: EntityDraft, transitions: tuple[Transition, ...]) -> None:
    for transition in transitions:
        run.record(_build_declined_event(run, draft, transition, CriterionResult(False)))


def _build_declined_event(run: Run, draft: EntityDraft, transition: Transition, result: CriterionResult) -> Event:
    return _build_not_matched_event("Automated transition", run, draft, transition, result)


def _build_not_matched_event(
    kind: str, run: Run, draft: EntityDraft, transition: Transition, result: CriterionResult
) -> Event:
    return events.build_not_matched_event(
        f'{kind} "{transition.name}" criterion not matched',
        state=draft.state,
        workflow=run.workflow.name,
        transition=transition.name,
        criterion=transition.criterion.label if transition.criterion else "",
        reason=result.audit_reason,
        warnings=result.warnings,
    )


def _to_workflow_failed(error: EvaluationError) -> WorkflowFailed:
    return WorkflowFailed(f"failed to evaluate transition criterion: {error}")
