"""An engine that makes spans of its runs, transitions and callouts (docs/reference/traces.md#spans).

It takes the place of the plain one where traces are switched on, so that the plain one costs nothing.
"""

from collections.abc import Collection
from typing import Final

from statewright.compute.callout import CalloutResult
from statewright.engine.callouts import CalloutDispatcher, CalloutSpec
from statewright.engine.criteria import Computations
from statewright.engine.engine import CreateEntity, Engine, ScheduledFire, UpdateEntity
from statewright.engine.models import Model
from statewright.engine.processors import RetryPolicy
from statewright.engine.run import EntityDraft, Run
from statewright.engine.schedules import TaskReader
from statewright.engine.unit import Unit
from statewright.ids import EntityId
from statewright.telemetry.tracing import Attribute, Span, Tracer
from statewright.workflow import Transition

CALLOUT_FAILED: Final = "CALLOUT_FAILED"
"""The error code of the span of a callout whose member answered that it failed."""


class TracedEngine(Engine):
    """Makes the spans ``engine.run`` and ``engine.transition``."""

    def __init__(
        self,
        dispatcher: CalloutDispatcher,
        tasks: TaskReader,
        tracer: Tracer,
        *,
        max_visits: int = 10,
        retry: RetryPolicy | None = None,
        checks_output: bool = False,
        computations: Computations | None = None,
    ) -> None:
        super().__init__(
            dispatcher,
            tasks,
            max_visits=max_visits,
            retry=retry,
            checks_output=checks_output,
            computations=computations,
        )
        self._tracer = tracer

    async def create(self, unit: Unit, model: Model, request: CreateEntity) -> None:
        """Run a new entity through its workflow and stage it."""
        with self._begin_run(unit, model, request.id):
            await super().create(unit, model, request)

    async def update(self, unit: Unit, model: Model, request: UpdateEntity) -> None:
        """Give an entity a new document and run it."""
        with self._begin_run(unit, model, request.entity.id):
            await super().update(unit, model, request)

    async def fire(self, unit: Unit, model: Model, request: ScheduledFire) -> bool:
        """Take a scheduled transition."""
        with self._begin_run(unit, model, request.entity.id):
            return await super().fire(unit, model, request)

    def _begin_run(self, unit: Unit, model: Model, entity: EntityId) -> Span:
        attributes = {
            "tenant": unit.tenant,
            "entity.id": entity,
            "entity.model": f"{model.key.name}/{model.key.version}",
            "tx.id": unit.id,
        }
        return self._tracer.begin("engine.run", attributes=attributes)

    async def _fire_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> EntityDraft:
        attributes = {
            "entity.id": draft.id,
            "workflow.name": run.workflow.name,
            "transition.name": transition.name,
            "state.from": draft.state,
            "state.to": transition.next,
        }
        with self._tracer.begin("engine.transition", attributes=attributes):
            return await super()._fire_transition(run, draft, transition)


class TracedDispatcher(CalloutDispatcher, frozen=True, kw_only=True):
    """Makes a span ``dispatch.processor``, ``dispatch.criteria`` or ``dispatch.function`` of every attempt at a
    callout; the member's work is a part of it.
    """

    tracer: Tracer

    async def ask(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
        within_s: float | None = None,
    ) -> CalloutResult:
        """The result of a callout inside the run's transaction."""
        with self._begin(spec, run, draft, transition) as span:
            result = await CalloutDispatcher.ask(
                self, spec, run, draft, transition, avoiding=avoiding, within_s=within_s
            )
            return _note_result(span, spec, result)

    async def ask_outside(
        self,
        spec: CalloutSpec,
        run: Run,
        draft: EntityDraft,
        transition: Transition | None,
        *,
        avoiding: Collection[str] = (),
        within_s: float | None = None,
    ) -> CalloutResult:
        """The result of a callout outside any transaction."""
        with self._begin(spec, run, draft, transition) as span:
            result = await CalloutDispatcher.ask_outside(
                self, spec, run, draft, transition, avoiding=avoiding, within_s=within_s
            )
            return _note_result(span, spec, result)

    def _begin(self, spec: CalloutSpec, run: Run, draft: EntityDraft, transition: Transition | None) -> Span:
        subject = "criterion" if spec.kind == "criteria" else spec.kind
        attributes: dict[str, Attribute] = {
            f"{subject}.name": spec.name,
            f"{subject}.tags": spec.tags,
            "entity.id": draft.id,
            "workflow.name": run.workflow.name,
            "transition.name": transition.name if transition else "",
            "tx.id": run.unit.id,
        }
        if spec.execution_mode:
            attributes["processor.execution_mode"] = spec.execution_mode
        if spec.target:
            attributes["criterion.target"] = spec.target
        return self.tracer.begin(f"dispatch.{spec.kind}", "client", attributes)


def _note_result(span: Span, spec: CalloutSpec, result: CalloutResult) -> CalloutResult:
    if not result.success:
        span.fail(CALLOUT_FAILED)
    elif spec.kind == "criteria":
        span.set("criteria.matches", result.matches)
    return result
