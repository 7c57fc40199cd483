"""Definitions as documents, in the order of the author's members (spec/step-engine.md §3.3).

The order of ``conditionalNextSteps``, ``transformations`` and table cells means something (decision J2), so the stored
form is a text: ``jsonb`` would re-order it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.definition import BoundaryEvent, DecisionTable, Definition, Step
from statewright.steps.core.reading import read_definition

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def to_document(definition: Definition, version: int | None = None) -> JsonObject:
    """The definition as clients read it: empty optional members omitted, ``version`` after ``id`` when given."""
    return _given(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        autoStartNextWorkflow=definition.auto_start_next_workflow,
        nextWorkflowId=definition.next_workflow_id,
        steps=[_step(step) for step in definition.steps],
        metadata=definition.metadata,
    )


def to_stored(definition: Definition) -> str:
    """The text to store; :func:`from_stored` reads it back unchanged."""
    return document_text(to_document(definition))


def from_stored(text: str) -> Definition:
    """The definition that :func:`to_stored` wrote."""
    return read_definition(text)


def document_text(document: JsonObject) -> str:
    """Compact JSON that keeps the order of members."""
    return _ENCODER.encode(document).decode()


def _step(step: Step) -> JsonObject:
    return _given(
        id=step.id,
        name=step.name,
        type=step.type,
        description=step.description,
        nextStep=step.next_step,
        parallelNextSteps=list(step.parallel_next_steps),
        joinStep=step.join_step,
        conditionalNextSteps=_texts(step.conditional_next_steps),
        transformations=dict(step.transformations),
        jobType=step.job_type,
        delegateClass=step.delegate_class,
        retryCount=step.retry_count,
        boundaryEvents=[_boundary_event(event) for event in step.boundary_events],
        hitPolicy=step.hit_policy,
        decisionTable=None if step.decision_table is None else _decision_table(step.decision_table),
    )


def _boundary_event(event: BoundaryEvent) -> JsonObject:
    return {
        **_given(type=event.type, duration=event.duration),
        "interrupting": event.interrupting,
        **_given(targetStepId=event.target_step_id),
    }


def _decision_table(table: DecisionTable) -> JsonObject:
    return {"rules": [_given(when=_texts(rule.when), outputs=dict(rule.outputs)) for rule in table.rules]}


def _texts(texts: Mapping[str, str]) -> JsonObject:
    return dict(texts.items())


def _given(**members: JsonValue) -> JsonObject:
    """The members that are not empty: neither ``false`` nor ``""`` nor 0 nor without content."""
    return {name: value for name, value in members.items() if value}
