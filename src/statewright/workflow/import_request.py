"""The body of a workflow import: decoded, checked without the model, and summarised for the log.

An import goes through these phases, in the order of docs/reference/workflows.md#order-of-checks-of-an-import; each
raises the first thing it finds wrong.

1. :func:`decode_import`: size, JSON, mode, contract versions (steps 1-4);
2. :meth:`ImportRequest.require_model`, then the caller looks the model up (step 5);
3. :func:`statewright.workflow.import_checks.check_incoming`: emptiness, structure, criteria, annotations (steps 6-8);
4. ``IMPORT_MODES[request.mode](stored, request.workflows)`` (step 9);
5. :func:`statewright.workflow.import_checks.check_merged` (step 10);
6. the caller saves the result, as one value per model (step 11).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from statewright.entity import ModelKey
from statewright.failures import BadRequest, SchemaVersionUnsupported
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue, quote_name
from statewright.loop.turns import use_once
from statewright.workflow.definition import Contract, Workflow, choose_contract, explain_newer_version
from statewright.workflow.reading import UnreadableMember, WorkflowMembers, read_workflow
from statewright.workflow.structure import Violation, locate_workflow, point_at_workflow, refuse_many_elements

MAX_IMPORT_BYTES: Final = 10 * 1024 * 1024
"""Largest request body (docs/reference/workflows.md#import)."""

ImportMode = Literal["MERGE", "REPLACE", "ACTIVATE"]

_MODES: dict[str, ImportMode] = {"": "MERGE", "MERGE": "MERGE", "REPLACE": "REPLACE", "ACTIVATE": "ACTIVATE"}


class ImportRequest(Struct, frozen=True, kw_only=True):
    """What a client wants imported, each workflow under the contract that its version names.

    ``entity_name`` and ``model_version`` are those of an export that is sent as it is, None when absent.
    """

    mode: ImportMode
    allow_cycles: bool
    workflows: tuple[Workflow, ...]
    entity_name: str | None = None
    model_version: int | None = None
    ignored: tuple[str, ...] = ()
    """JSON pointers to members that mean nothing under the contract of their workflow."""

    def require_model(self, key: ModelKey) -> None:
        """Refuse the export of another model than that of the path (decision W15). Raises ``BadRequest``."""
        if self.entity_name is not None and self.entity_name != key.name:
            message = f"entityName is {quote_name(self.entity_name)}, but the path names {quote_name(key.name)}"
            raise UnreadableMember(message, "/entityName")
        if self.model_version is not None and self.model_version != key.version:
            message = f"modelVersion is {self.model_version}, but the path names {key.version}"
            raise UnreadableMember(message, "/modelVersion")


class _Body(Struct, frozen=True, kw_only=True):
    mode: str
    allow_cycles: bool
    workflows: tuple[Workflow, ...]
    entity_name: str | None
    model_version: int | None


def decode_import(raw: bytes) -> ImportRequest:
    """The request in ``raw``. Raises BadRequest, then SchemaVersionUnsupported
    (docs/reference/workflows.md#order-of-checks-of-an-import, steps 1-4).
    """
    if len(raw) > MAX_IMPORT_BYTES:
        raise BadRequest("failed to read request body")
    request = use_once(decode_json(raw), read_import)
    for violation in find_version_violations(request):
        raise SchemaVersionUnsupported(violation.message)
    return request


def read_import(document: JsonValue) -> ImportRequest:
    """The request in a decoded body, whatever versions its workflows name. Raises BadRequest."""
    refuse_many_elements(document)
    members = WorkflowMembers(document, "")
    body = members.read_by(_read_body)
    mode = _MODES.get(body.mode.upper())
    if mode is None:
        raise UnreadableMember(f"unknown importMode: {body.mode.upper()}", "/importMode")
    return ImportRequest(
        mode=mode,
        allow_cycles=body.allow_cycles,
        workflows=body.workflows,
        entity_name=body.entity_name,
        model_version=body.model_version,
        ignored=tuple(members.ignored),
    )


def decode_json(raw: bytes) -> JsonValue:
    """The body as JSON. Raises BadRequest."""
    try:
        return decode(raw)
    except MalformedJson as malformed:
        if malformed.reason.startswith("Extra data"):
            raise BadRequest("invalid JSON: trailing data after request object") from malformed
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


def _read_body(members: WorkflowMembers) -> _Body:
    members.leave_out_schema()
    workflows = members.each("workflows", _read_incoming)
    if workflows and all(workflow.contract is Contract.SEED for workflow in workflows):
        # The frame has no version of its own, so it goes by its content: first-release clients may send extra members.
        members.ignore_unknown()
    return _Body(
        mode=members.text("importMode"),
        allow_cycles=members.flag("allowCycles") is True,
        workflows=workflows,
        entity_name=members.text("entityName") if members.get("entityName") is not None else None,
        model_version=members.integer("modelVersion"),
    )


def _read_incoming(members: WorkflowMembers) -> Workflow:
    members.leave_out_schema()
    workflow = read_workflow(members, choose_contract(members.text("version")))
    if workflow.contract is Contract.SEED:
        return structs.replace(workflow, active=True)
    return workflow


def find_version_violations(request: ImportRequest) -> Iterator[Violation]:
    """The workflows of versions that this program does not know yet."""
    for index, workflow in enumerate(request.workflows):
        reason = explain_newer_version(workflow.version)
        if reason is not None:
            at = f"{point_at_workflow(index)}/version"
            yield Violation("UNSUPPORTED_VERSION", at, f"{locate_workflow(workflow)}: {reason}")


MAX_LOGGED_CHARS: Final = 200
"""Characters of a description that are logged (docs/reference/workflows.md#defaults-and-the-log)."""


def summarise_import(request: ImportRequest, stored: Sequence[Workflow]) -> JsonObject:
    """Mode, counts and incoming workflows, for the log; tenant and model are to be added.

    ``stored``: the list after the import.
    """
    described: list[JsonValue] = [
        {"name": workflow.name, "desc": _shorten(workflow.desc)} for workflow in request.workflows
    ]
    return {
        "importMode": request.mode,
        "workflowCount": len(request.workflows),
        "storedWorkflowCount": len(stored),
        "workflows": described,
    }


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LOGGED_CHARS else f"{text[:MAX_LOGGED_CHARS]}..."


Workflows = Sequence[Workflow]


def merge(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """A stored workflow of the same name is replaced in its place; new names follow in request order."""
    return tuple((_index_by_name(stored) | _index_by_name(incoming)).values())


def replace(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """The incoming workflows take the place of all stored ones."""
    return tuple(incoming)


def activate(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """The stored workflows that are not named in the request stay, inactive; all incoming ones follow."""
    names = {workflow.name for workflow in incoming}
    kept = (structs.replace(workflow, active=False) for workflow in stored if workflow.name not in names)
    return (*kept, *incoming)


IMPORT_MODES: Mapping[ImportMode, Callable[[Workflows, Workflows], tuple[Workflow, ...]]] = {
    "MERGE": merge,
    "REPLACE": replace,
    "ACTIVATE": activate,
}


def _index_by_name(workflows: Workflows) -> dict[str, Workflow]:
    return {workflow.name: workflow for workflow in workflows}
