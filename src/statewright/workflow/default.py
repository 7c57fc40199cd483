"""The workflow of entities for which no imported one was chosen; never stored or exported (spec/workflows.md §7.3)."""

from statewright.workflow.contracts import CURRENT_VERSION, Contract
from statewright.workflow.definition import State, Transition, Workflow

DEFAULT_WORKFLOW = Workflow(
    version=CURRENT_VERSION,
    contract=Contract.STRICT,
    name="default",
    desc="Default entity lifecycle workflow",
    initial_state="NONE",
    states={
        "CREATED": State(
            name="CREATED",
            transitions=(
                Transition(name="UPDATE", next="CREATED", manual=True),
                Transition(name="DELETE", next="DELETED", manual=True),
            ),
        ),
        "DELETED": State(name="DELETED"),
        "NONE": State(name="NONE", transitions=(Transition(name="NEW", next="CREATED"),)),
    },
)
"""A new entity ends in ``CREATED``. ``DELETE`` changes the state only; it does not delete the entity."""
