"""The body of a workflow import, as far as it can be judged without the model.

An import goes through these phases, in the order of spec/workflows.md §4.2; each raises the first thing it finds wrong.

1. :func:`decode_import`: size, JSON, mode, contract versions (steps 1-4);
2. the caller looks the model up (step 5);
3. :func:`statewright.workflow.incoming.check_incoming`: emptiness, structure, criteria, annotations (steps 6-8);
4. ``IMPORT_MODES[request.mode](stored, request.workflows)`` (step 9);
5. :func:`statewright.workflow.behaviour.check_merged` (step 10);
6. the caller saves the result, as one value per model (step 11).
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import BadRequest, SchemaVersionUnsupported
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.workflow.contracts import Contract, contract_of, newer_than_known
from statewright.workflow.definition import Workflow
from statewright.workflow.locations import of_workflow
from statewright.workflow.members import Members
from statewright.workflow.reading import read_workflow

MAX_IMPORT_BYTES = 10 * 1024 * 1024
"""Cap of the request body (spec/workflows.md §4.1)."""

ImportMode = Literal["MERGE", "REPLACE", "ACTIVATE"]

_MODES: dict[str, ImportMode] = {"": "MERGE", "MERGE": "MERGE", "REPLACE": "REPLACE", "ACTIVATE": "ACTIVATE"}


class ImportRequest(Struct, frozen=True, kw_only=True):
    """What a client wants imported, each workflow under the contract that its version names."""

    mode: ImportMode
    allow_cycles: bool
    workflows: tuple[Workflow, ...]


class _Body(Struct, frozen=True, kw_only=True):
    mode: str
    allow_cycles: bool
    workflows: tuple[Workflow, ...]


def decode_import(raw: bytes) -> ImportRequest:
    """The request in ``raw``. Raises BadRequest, then SchemaVersionUnsupported (spec/workflows.md §4.2, steps 1-4)."""
    if len(raw) > MAX_IMPORT_BYTES:
        raise BadRequest("failed to read request body")
    body = Members(_decoded(raw), "").read_by(_read_body)
    mode = _MODES.get(body.mode.upper())
    if mode is None:
        raise BadRequest(f"unknown importMode: {body.mode.upper()}")
    for workflow in body.workflows:
        _refuse_newer(workflow)
    return ImportRequest(mode=mode, allow_cycles=body.allow_cycles, workflows=body.workflows)


def _decoded(raw: bytes) -> JsonValue:
    try:
        return decode(raw)
    except MalformedJson as malformed:
        if malformed.reason.startswith("Extra data"):
            raise BadRequest("invalid JSON: trailing data after request object") from malformed
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


def _read_body(members: Members) -> _Body:
    workflows = members.each("workflows", _read_incoming)
    if workflows and all(workflow.contract is Contract.SEED for workflow in workflows):
        # The frame has no version of its own, so it goes by its content: first-release clients may send extra members.
        members.ignore_unknown()
    return _Body(
        mode=members.text("importMode"),
        allow_cycles=members.flag("allowCycles") is True,
        workflows=workflows,
    )


def _read_incoming(members: Members) -> Workflow:
    workflow = read_workflow(members, contract_of(members.text("version")))
    if workflow.contract is Contract.SEED:
        return replace(workflow, active=True)
    return workflow


def _refuse_newer(workflow: Workflow) -> None:
    reason = newer_than_known(workflow.version)
    if reason is not None:
        raise SchemaVersionUnsupported(f"{of_workflow(workflow)}: {reason}")
