"""The form in which the workflows of a model are stored: one JSON array, in order.

Each entry is the workflow as an export shows it, but under the version it was imported with, and the contract it was
imported under: a later server may read its version differently, and must not check it anew.
"""

from collections.abc import Iterable

from statewright.failures import BadRequest
from statewright.freeing import use_once
from statewright.jsonval.codec import decode, encode_large
from statewright.jsonval.values import JsonValue
from statewright.workflow.contracts import Contract
from statewright.workflow.definition import Workflow
from statewright.workflow.exporting import write_workflow
from statewright.workflow.members import WorkflowMembers
from statewright.workflow.reading import read_workflow


def workflows_to_stored(workflows: Iterable[Workflow]) -> bytes:
    """The stored form of a model's workflows."""
    entries: list[JsonValue] = [
        {"contract": workflow.contract.value, "workflow": write_workflow(workflow, version=workflow.version)}
        for workflow in workflows
    ]
    return use_once(entries, encode_large)


def workflows_from_stored(raw: bytes) -> tuple[Workflow, ...]:
    """The workflows that :func:`workflows_to_stored` wrote. Raises ValueError for anything else, a defect of
    the store and not of a request.
    """
    try:
        return WorkflowMembers({"stored": decode(raw)}, "").each("stored", _read_entry)
    except BadRequest as unreadable:
        raise ValueError(f"stored workflows are damaged: {unreadable}") from unreadable


def _read_entry(members: WorkflowMembers) -> Workflow:
    contract = Contract(members.text("contract"))
    workflow = members.one("workflow", lambda inner: read_workflow(inner, contract))
    if workflow is None:
        raise ValueError(f"{members.path} holds no workflow")
    return workflow
