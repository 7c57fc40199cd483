"""Schemas of playbooks. Requests are open objects, since unknown members are ignored."""

from typing import Final, get_args

from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    TEXT,
    Document,
    define_array,
    define_object,
    define_open_object,
    define_page,
    ref,
)
from statewright.api.http.processes.errors import INTERNAL, KINDS
from statewright.playbooks.events import EntityType, EventStatus
from statewright.playbooks.execution import TRANSITIONS
from statewright.playbooks.source import MAX_PATH_CHARS
from statewright.playbooks.status import Status
from statewright.processes.changes import ExecutionStatus

_ULID: Final = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
_PATH: Final = {"type": "string", "maxLength": MAX_PATH_CHARS}
_OBJECT: Final = {"type": "object"}
_STATES: Final = list(dict.fromkeys(state for move in TRANSITIONS for state in move))
_CHECKED: Final[Document] = {
    "path": _PATH,
    "name": TEXT,
    "steps": {**define_array(TEXT), "description": "their names, in the order of the document"},
    "kinds": {**define_array(TEXT), "description": "of the tasks, each once"},
    "warnings": define_array(ref("PlaybookFinding")),
}

PLAYBOOK_SCHEMAS: Final[Document] = {
    "PlaybookError": define_object(
        "error reason",
        error={"type": "string", "enum": [*dict.fromkeys(KINDS.values()), INTERNAL]},
        reason=TEXT,
        findings={**define_array(TEXT), "description": "all that is wrong with a document, each with its place"},
        parameter={**TEXT, "description": "the parameter that does not bind"},
    ),
    "Playbook": {"type": "object", "description": "a playbook, as JSON or as YAML (help topic `playbooks`)"},
    "PlaybookFinding": define_object(
        "path message severity",
        path={**TEXT, "description": "a JSON pointer"},
        message=TEXT,
        severity={"type": "string", "enum": ["error", "warning"]},
    ),
    "PlaybookCheck": define_object("path name steps kinds warnings", **_CHECKED),
    "PlaybookUpload": define_object(
        "path name steps kinds warnings version uploadedAt isNew",
        **_CHECKED,
        version=INT32,
        uploadedAt=INSTANT,
        isNew={**FLAG, "description": "false: a stored version has the same content"},
    ),
    "PlaybookDefinition": define_object(
        "path name steps kinds warnings version description tags source uploadedAt",
        **_CHECKED,
        version=INT32,
        description=TEXT,
        tags=define_array(TEXT),
        playbookVersion={**TEXT, "description": "what the author calls the version"},
        source={**TEXT, "description": "the document as it was uploaded"},
        uploadedAt=INSTANT,
    ),
    "PlaybookSummary": define_object(
        "path version name description uploadedAt versions",
        path=_PATH,
        version=INT32,
        name=TEXT,
        description=TEXT,
        uploadedAt=INSTANT,
        versions=define_array(INT32),
    ),
    "PlaybookSummaries": define_page("PlaybookSummary"),
    "PlaybookVersions": define_object(
        "items", items=define_array(define_object("version uploadedAt", version=INT32, uploadedAt=INSTANT))
    ),
    "PlaybookDiagram": {"type": "string", "description": "a flowchart in Mermaid's notation"},
    "ExecutionStart": define_open_object(
        "path",
        path=_PATH,
        version={**INT32, "description": "the latest when absent or not positive"},
        workload={**_OBJECT, "description": "merged over that of the playbook"},
        ctx=_OBJECT,
        args={**_OBJECT, "description": "of the first token"},
        businessKey={**TEXT, "description": "unique among the executions in flight of a playbook"},
    ),
    "ExecutionPatch": define_open_object(
        "ctx",
        ctx={**_OBJECT, "description": "keys, with dots for members within members, and values; null removes a key"},
        reason=TEXT,
    ),
    "ExecutionToken": define_open_object("step", step=TEXT, args=_OBJECT),
    "ExecutionCancel": define_open_object(reason=TEXT),
    "PlaybookExecution": define_object(
        "id path version status state workload ctx results activeSteps pendingSteps branches startedAt",
        id=_ULID,
        path=_PATH,
        version=INT32,
        status={"type": "string", "enum": list(get_args(Status))},
        state={"type": "string", "enum": _STATES, "description": "of the entity"},
        workload=_OBJECT,
        ctx=_OBJECT,
        results={**_OBJECT, "description": "the latest result of each step"},
        activeSteps={**define_array(TEXT), "description": "of which a run is under way"},
        pendingSteps={**define_array(TEXT), "description": "for which tokens wait that are not admitted"},
        branches=define_object("succeeded failed", succeeded=INT32, failed=INT32),
        result={**_OBJECT, "description": "status, counts, failures and the last result of one that has ended"},
        startedAt=INSTANT,
        completedAt=INSTANT,
        failureReason=TEXT,
        businessKey=TEXT,
        parentExecutionId=_ULID,
    ),
    "ExecutionAbridged": {
        **define_object(
            "id path state startedAt abridged",
            id=_ULID,
            path=_PATH,
            state={"type": "string", "enum": _STATES},
            startedAt=INSTANT,
            completedAt=INSTANT,
            businessKey=TEXT,
            abridged={"const": True},
        ),
        "description": "an execution in a list, where those before it were large",
    },
    "PlaybookExecutions": define_object(
        "items total page pageSize",
        items=define_array({"anyOf": [ref("PlaybookExecution"), ref("ExecutionAbridged")]}),
        total=INT32,
        page=INT32,
        pageSize=INT32,
    ),
    "PlaybookEvents": define_object(
        "items next ended",
        items=define_array(ref("PlaybookEvent")),
        next={"type": "integer", "format": "int64", "description": "the number to ask behind next time"},
        ended={**FLAG, "description": "the execution had ended before: behind an empty page nothing more comes"},
    ),
    "PlaybookValue": define_object("value", value={"description": "any JSON value"}),
    "PlaybookEvent": define_object(
        "event_id event_type timestamp execution_id seq source entity_type entity_id status payload",
        event_id=TEXT,
        event_type=TEXT,
        timestamp=INSTANT,
        execution_id=_ULID,
        seq={"type": "integer", "format": "int64", "description": "from 1, without gaps"},
        source={"type": "string", "enum": ["server", "worker"]},
        entity_type={"type": "string", "enum": list(get_args(EntityType))},
        entity_id=TEXT,
        status={"type": "string", "enum": list(get_args(EventStatus))},
        references={
            "type": "object",
            "description": "members of the payload that are null here since they have more than 64 KiB, by name",
            "additionalProperties": define_object("value bytes", value=TEXT, bytes=INT32),
        },
        step=TEXT,
        step_run_id=TEXT,
        task_run_id=TEXT,
        iteration=INT32,
        attempt=INT32,
        duration_ms=INT32,
        parent_id=TEXT,
        payload=_OBJECT,
    ),
    "PlaybookHistory": define_page("PlaybookRun"),
    "PlaybookRun": define_object(
        "id step attempt status startedAt",
        id=_ULID,
        step=TEXT,
        attempt=INT32,
        element={**INT32, "description": "of a loop"},
        status={"type": "string", "enum": list(get_args(ExecutionStatus))},
        startedAt=INSTANT,
        endedAt=INSTANT,
        input={},
        output={},
        valuesOmitted={**FLAG, "description": "input and output are left out, since those before them were large"},
        failureReason=TEXT,
    ),
}
