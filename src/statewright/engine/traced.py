"""Spans of runs, transitions and callouts (docs/reference/traces.md#spans), where traces are switched on."""

from statewright.compute.callout import CalloutSpec
from statewright.engine.models import Model
from statewright.engine.run import EntityDraft, Run, RunSpans
from statewright.engine.unit import Unit
from statewright.ids import EntityId
from statewright.telemetry.tracing import Attribute, Span, Tracer
from statewright.workflow import Transition


class TracedRuns(RunSpans):
    """Begins the spans ``engine.run``, ``engine.transition``, ``dispatch.processor``, ``dispatch.criteria`` and
    ``dispatch.function``.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin_run(self, unit: Unit, model: Model, entity: EntityId) -> Span:
        """The span of a run."""
        attributes = {
            "tenant": unit.tenant,
            "entity.id": entity,
            "entity.model": f"{model.key.name}/{model.key.version}",
            "tx.id": unit.id,
        }
        return self._tracer.begin("engine.run", attributes=attributes)

    def begin_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> Span:
        """The span of a transition with its processors."""
        attributes = {
            "entity.id": draft.id,
            "workflow.name": run.workflow.name,
            "transition.name": transition.name,
            "state.from": draft.state,
            "state.to": transition.next,
        }
        return self._tracer.begin("engine.transition", attributes=attributes)

    def begin_callout(self, spec: CalloutSpec, run: Run, draft: EntityDraft, transition: Transition | None) -> Span:
        """The span of an attempt at a callout."""
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
        return self._tracer.begin(f"dispatch.{spec.kind}", "client", attributes)
