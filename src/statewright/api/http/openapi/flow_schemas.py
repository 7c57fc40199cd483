"""Schemas of flows. Requests are open objects, since unknown members are ignored."""

from typing import Final, get_args

from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    TEXT,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
    define_page,
    ref,
)
from statewright.api.http.processes.errors import INTERNAL, KINDS
from statewright.flows.builtin_tasks import MAX_NAME_CHARS
from statewright.flows.definition import MAX_BASE_URIS, MAX_CONCURRENCY, MAX_ID_CHARS, MAX_RETRIES, FlowSettings
from statewright.flows.failures import ErrorCode
from statewright.flows.graph import NodeKind
from statewright.net import Phase
from statewright.processes.changes import ExecutionStatus

_ULID: Final = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
_VALUE: Final = {"type": ["object", "array"]}
_ID: Final = {"type": "string", "maxLength": MAX_ID_CHARS}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}
_DEFAULTS: Final = FlowSettings()
_PHASES: Final = tuple(phase for phase in get_args(Phase) if phase != "WAITING")
"""Flows never wait for admission."""
_CHECKED: Final[Document] = {
    "id": _ID,
    "name": TEXT,
    "nodes": {**INT32, "description": "of the graph"},
    "tasks": {**define_array(TEXT), "description": "the types of the jobs that workers do"},
    "warnings": define_array(TEXT),
}

FLOW_SCHEMAS: Final[Document] = {
    "FlowError": define_object(
        "error reason",
        error={"type": "string", "enum": [*dict.fromkeys(KINDS.values()), INTERNAL]},
        reason=TEXT,
        code={"type": "string", "enum": list(get_args(ErrorCode)), "description": "of a defect in the text of a flow"},
        line=INT32,
        column={**INT32, "description": "in characters, from 1"},
        piece={**TEXT, "description": "the text at that place"},
        expected={**define_array(TEXT), "description": "what could stand there"},
        parameter={**TEXT, "description": "the parameter that does not bind"},
    ),
    "FlowSettings": define_object(
        maxVisits={
            **INT32,
            "description": "how often a node can be activated",
            "maximum": _DEFAULTS.max_visits,
            "default": _DEFAULTS.max_visits,
        },
        concurrency={
            **allow_null(INT32),
            "description": "how many elements of an iteration run at once; null: all",
            "maximum": MAX_CONCURRENCY,
            "default": _DEFAULTS.concurrency,
        },
        retries={
            **INT32,
            "description": "how often a task that failed is tried again, where its worker says that this may help",
            "maximum": MAX_RETRIES,
            "default": _DEFAULTS.retries,
        },
        baseUri={**TEXT, "description": "what relative references and URLs are of"},
        baseUris={
            "type": "object",
            "additionalProperties": TEXT,
            "maxProperties": MAX_BASE_URIS,
            "description": "the same by `category` or `category:environ`",
        },
    ),
    "FlowSource": define_open_object(
        "source",
        id={**_ID, "description": "the name of the flow when absent"},
        source={**TEXT, "description": "the text of the flow"},
        settings=ref("FlowSettings"),
    ),
    "FlowCheck": define_object("id name nodes tasks warnings", **_CHECKED),
    "FlowUpload": define_object(
        "id name nodes tasks warnings version uploadedAt isNew",
        **_CHECKED,
        version=INT32,
        uploadedAt=INSTANT,
        isNew={**FLAG, "description": "false: a stored version has the same content"},
    ),
    "FlowDefinition": define_object(
        "id name nodes tasks warnings version description source settings uploadedAt",
        **_CHECKED,
        version=INT32,
        description=TEXT,
        source=TEXT,
        settings=ref("FlowSettings"),
        uploadedAt=INSTANT,
    ),
    "FlowSummary": define_object(
        "id version name description uploadedAt versions",
        id=_ID,
        version=INT32,
        name=TEXT,
        description=TEXT,
        uploadedAt=INSTANT,
        versions=define_array(INT32),
    ),
    "FlowSummaries": define_page("FlowSummary"),
    "FlowVersions": define_object(
        "items", items=define_array(define_object("version uploadedAt", version=INT32, uploadedAt=INSTANT))
    ),
    "FlowDiagram": {"type": "string", "description": "a state diagram in Mermaid's notation"},
    "FlowStart": define_open_object(
        "definitionId",
        definitionId=_ID,
        definitionVersion={**INT32, "description": "the latest when absent or not positive"},
        input={"type": ["object", "array", "null"]},
        businessKey={**TEXT, "description": "unique among the instances in flight of a definition"},
    ),
    "FlowPlace": define_object(
        "node name",
        node={**INT32, "description": "the number of the node"},
        name=TEXT,
        element={**INT32, "description": "of an iteration"},
        reason=TEXT,
    ),
    "FlowInstance": define_object(
        "id definitionId definitionVersion status input activeNodes startedAt",
        id=_ULID,
        definitionId=_ID,
        definitionVersion=INT32,
        status={"type": "string", "enum": list(_PHASES)},
        input=_VALUE,
        result={"type": ["object", "array"], "description": "of a completed instance"},
        activeNodes={**define_array(INT32), "description": "the numbers of the nodes at which something is done"},
        failedNodes={**define_array(ref("FlowPlace")), "description": "that a restart begins again"},
        waitingNodes={**define_array(ref("FlowPlace")), "description": "where values wait for others"},
        failureReason=TEXT,
        warning=TEXT,
        startedAt=INSTANT,
        completedAt=INSTANT,
        businessKey=TEXT,
    ),
    "FlowAbridged": {
        **define_object(
            "id definitionId status startedAt abridged",
            id=_ULID,
            definitionId=_ID,
            status={"type": "string", "enum": list(_PHASES)},
            startedAt=INSTANT,
            completedAt=INSTANT,
            businessKey=TEXT,
            abridged={"const": True},
        ),
        "description": "an instance in a list, where those before it were large",
    },
    "FlowInstances": define_object(
        "items total page pageSize",
        items=define_array({"anyOf": [ref("FlowInstance"), ref("FlowAbridged")]}),
        total=INT32,
        page=INT32,
        pageSize=INT32,
    ),
    "FlowHistory": define_page("FlowExecution"),
    "FlowExecution": define_object(
        "id node name kind attempt status startedAt",
        id=_ULID,
        node=INT32,
        name=TEXT,
        kind={"type": "string", "enum": list(get_args(NodeKind))},
        attempt=INT32,
        element={**INT32, "description": "of an iteration"},
        status={
            "type": "string",
            "enum": list(get_args(ExecutionStatus)),
            "description": "`BYPASSED`: skipped by its guard; `SKIPPED`: withdrawn before it was done",
        },
        startedAt=INSTANT,
        endedAt=INSTANT,
        input={},
        output={},
        valuesOmitted={**FLAG, "description": "input and output are left out, since those before them were large"},
        failureReason=TEXT,
    ),
    "FlowCancel": define_open_object(reason=TEXT),
    "FlowChange": define_open_object(
        "node input",
        node={**INT32, "description": "the number of the node"},
        element={**INT32, "description": "of an iteration"},
        input={"description": "an object or an array; of an element any value"},
        reason={**TEXT, "description": "for the audit log"},
    ),
    "FlowEvent": define_open_object(
        "event",
        event={**_NAME, "description": "the kind that tasks wait for"},
        fields={"type": "object", "description": "compared with the inputs of tasks that have `match: input`"},
        output={"type": ["object", "array", "null"], "description": "of the tasks; their inputs when absent"},
        after={**TEXT, "description": "`next` of the answer before: go on with the tasks after those"},
    ),
    "FlowDelivery": define_object(
        "tasks receipts",
        tasks={**INT32, "description": "how many tasks the event completed"},
        receipts=define_array(
            define_object(
                "instanceId node", instanceId=_ULID, node=INT32, element={**INT32, "description": "of an iteration"}
            )
        ),
        next={**TEXT, "description": "there when more tasks may wait than one request looks at"},
    ),
    "FlowCounter": define_object("name value", name=_NAME, value={"type": "integer", "format": "int64"}),
}
