"""Which runs may commit segments on their way, and so have to be brought to their end when their client leaves
(docs/transactions.md#faults-of-clients). All others are dropped then, as if they had never begun.
"""

from statewright.engine.models import Model
from statewright.entity import Entity
from statewright.workflow import find_governing, list_candidates


def may_segment_on_create(model: Model) -> bool:
    """Whether creating an entity may come to a segment, whichever workflow takes it."""
    return any(workflow.initial_state in workflow.segmenting_states for workflow in list_candidates(model.workflows))


def may_segment_on_update(model: Model, entity: Entity, transition: str | None) -> bool:
    """Whether firing a transition of an entity may come to a segment; None is a loopback."""
    workflow = find_governing(model.workflows, entity.state, entity.workflow)
    if workflow is None:
        return False
    if transition is None:
        return entity.state in workflow.segmenting_states
    named = workflow.find_transition(entity.state, transition)
    return named is not None and workflow.may_segment(named)


def may_segment_at_all(model: Model) -> bool:
    """Whether any run of any workflow may come to a segment."""
    return any(
        workflow.may_segment(transition)
        for workflow in model.workflows
        for state in workflow.states.values()
        for transition in state.transitions
    )
