"""The rule for client metadata, the same at all six places that carry it (spec/workflows.md §2.7, §5.3)."""

from collections.abc import Iterator

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.workflow.definition import Workflow
from statewright.workflow.locations import of_processor, of_state, of_transition, of_workflow

MAX_ANNOTATION_BYTES = 65_536
"""Largest annotation, in bytes of compact JSON."""


def annotation_violations(workflow: Workflow) -> Iterator[str]:
    """What is no object, or too large, in document order."""
    for place, annotations in _annotated(workflow):
        if annotations is None:
            continue
        if not isinstance(annotations, dict):
            yield f"{place}: annotations must be a JSON object"
        elif (size := len(encode(annotations))) > MAX_ANNOTATION_BYTES:
            yield f"{place}: annotations size {size} bytes exceeds the {MAX_ANNOTATION_BYTES}-byte limit"


def _annotated(workflow: Workflow) -> Iterator[tuple[str, JsonValue]]:
    place = of_workflow(workflow)
    yield place, workflow.annotations
    yield f"{place} criterionAnnotations", workflow.criterion_annotations
    for state in workflow.states.values():
        yield of_state(workflow, state), state.annotations
        for transition in state.transitions:
            place = of_transition(workflow, state, transition)
            yield place, transition.annotations
            yield f"{place} criterionAnnotations", transition.criterion_annotations
            for processor in transition.processors:
                yield of_processor(workflow, state, transition, processor), processor.annotations
