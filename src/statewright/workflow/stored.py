"""The form in which the workflows of a model are stored: one JSON array, in order.

Each entry is the workflow as an export shows it, but under the version it was imported with, and the contract it was
imported under: a later server may read its version differently, and must not judge it anew.
"""

from collections.abc import Iterable

from statewright.failures import BadRequest
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonValue
from statewright.workflow.contracts import Contract
from statewright.workflow.definition import Workflow
from statewright.workflow.exporting import written
from statewright.workflow.members import Members
from statewright.workflow.reading import read_workflow


def to_stored(workflows: Iterable[Workflow]) -> bytes:
    """The stored form of a model's workflows."""
    entries: list[JsonValue] = [
        {"contract": workflow.contract.value, "workflow": written(workflow, version=workflow.version)}
        for workflow in workflows
    ]
    return encode(entries)


def from_stored(raw: bytes) -> tuple[Workflow, ...]:
    """The workflows that :func:`to_stored` wrote. Raises ValueError for anything else: no fault of the client's."""
    try:
        return Members({"stored": decode(raw)}, "").each("stored", _read_entry)
    except BadRequest as unreadable:
        raise ValueError(f"stored workflows are damaged: {unreadable}") from unreadable


def _read_entry(members: Members) -> Workflow:
    contract = Contract(members.text("contract"))
    workflow = members.one("workflow", lambda inner: read_workflow(inner, contract))
    if workflow is None:
        raise ValueError(f"{members.path} holds no workflow")
    return workflow
