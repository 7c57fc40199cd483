"""Schemas of flows. Requests are open objects, since unknown members are ignored.

Examples of flows: parameters, bodies and answers.
"""

from typing import Final, get_args

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    INT32,
    OBJECT_ARRAY_OR_NULL,
    TEXT,
    Document,
    define_array,
    define_open_object,
    ref,
)
from statewright.api.http.openapi.process_schemas import (
    PARAMETER,
    build_examples,
    define_checks,
    define_error,
    define_history,
    define_lists,
)
from statewright.api.http.openapi.struct_schemas import describe_structs
from statewright.flows.builtin_tasks import MAX_NAME_CHARS
from statewright.flows.definition import MAX_ID_CHARS, FlowSettings
from statewright.flows.graph import FlowGraph, FlowNode, NodeKind
from statewright.flows.instance import FlowInstanceRecord, NodePlace
from statewright.flows.lexer import ErrorCode
from statewright.operations.process_nouns import FLOW_NOUNS
from statewright.services.flows.events import Counter, Delivery

_ID: Final = {"type": "string", "maxLength": MAX_ID_CHARS}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}
_STATUS: Final = {"type": "string", "enum": list(FLOW_NOUNS.statuses)}
_CHECKED: Final[Document] = {
    "id": _ID,
    "name": TEXT,
    "nodes": {**INT32, "description": "of the graph"},
    "tasks": {**define_array(TEXT), "description": "the types of the jobs that workers do"},
    "warnings": define_array(TEXT),
}

FLOW_RECORDS: Final = {
    "FlowCounter": Counter,
    "FlowDelivery": Delivery,
    "FlowInstance": FlowInstanceRecord,
    "FlowPlace": NodePlace,
}
FLOW_SCHEMAS: Final[Document] = {
    **describe_structs({**FLOW_RECORDS, "FlowSettings": FlowSettings, "FlowGraph": FlowGraph, "FlowNode": FlowNode}),
    "FlowError": define_error(
        code={"type": "string", "enum": list(get_args(ErrorCode)), "description": "of a defect in the text of a flow"},
        line=INT32,
        column={**INT32, "description": "in characters, from 1"},
        piece={**TEXT, "description": "the text at that place"},
        expected={**define_array(TEXT), "description": "what could stand there"},
        parameter=PARAMETER,
    ),
    **define_checks(FLOW_NOUNS, _ID, _CHECKED, {"description": TEXT, "source": TEXT, "settings": ref("FlowSettings")}),
    **define_lists(FLOW_NOUNS, _ID, _STATUS, abridged="FlowAbridged"),
    **define_history(
        FLOW_NOUNS,
        "FlowExecution",
        {"node": INT32, "name": TEXT, "kind": {"type": "string", "enum": list(get_args(NodeKind))}},
        elements="an iteration",
        statuses="`BYPASSED`: skipped by its guard; `SKIPPED`: withdrawn before it was done",
    ),
    "FlowSource": define_open_object(
        "source",
        id={**_ID, "description": "the name of the flow when absent"},
        source={**TEXT, "description": "the text of the flow"},
        settings=ref("FlowSettings"),
    ),
    "FlowStart": define_open_object(
        "definitionId",
        definitionId=_ID,
        definitionVersion={**INT32, "description": "the latest when absent or not positive"},
        input=OBJECT_ARRAY_OR_NULL,
        businessKey={**TEXT, "description": "unique among the instances in flight of a definition"},
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
        fields={**ANY_OBJECT, "description": "compared with the inputs of tasks that have `match: input`"},
        output={**OBJECT_ARRAY_OR_NULL, "description": "of the tasks; their inputs when absent"},
        instanceId={**TEXT, "description": "the instance that it is for, which keeps it until a task waits for it"},
        businessKey={**TEXT, "description": "the same by the business key of one in flight"},
        definitionId={**TEXT, "description": "where instances of several definitions have the key"},
        after={**TEXT, "description": "`next` of the answer before: go on with the tasks after those"},
    ),
}


FLOW_TEXT: Final = "@flow orders\nload → ? `$[?(@.total>100)]` check → * price → store\n"
"""A flow."""

_INSTANCE: Final = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "definitionId": "orders",
    "definitionVersion": 1,
    "status": "COMPLETED",
    "input": {"order": "O-17"},
    "activeNodes": [],
    "startedAt": "2026-06-01T09:31:00.5Z",
    "completedAt": "2026-06-01T09:31:02.25Z",
    "businessKey": "O-17",
    "result": {"stored": True},
}
_CHECK: Final = {
    "id": "orders",
    "name": "orders",
    "nodes": 6,
    "tasks": ["load", "check", "price", "store"],
    "warnings": [],
}
_EXECUTION: Final = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y30",
    "node": 1,
    "name": "load.1",
    "kind": "task",
    "attempt": 1,
    "status": "COMPLETED",
    "startedAt": "2026-06-01T09:31:00.5Z",
    "endedAt": "2026-06-01T09:31:00.75Z",
    "input": {"order": "O-17"},
    "output": {"order": "O-17", "total": 120},
}

_DEFINITION: Final = {"description": "", "source": FLOW_TEXT, "settings": {"retries": 2}}

FLOW_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "name": "imports",
    "keyword": "order",
    "definitionId": "orders",
    "status": "FAILED",
    "businessKey": "O-17",
    "format": "mermaid",
    "direction": "TB",
    "docs": True,
}
"""Examples of parameters that other languages have not, or otherwise."""

FLOW_EXAMPLES: Final[dict[str, object]] = {
    **build_examples(FLOW_NOUNS, _CHECK, _DEFINITION, _INSTANCE, (_EXECUTION,)),
    "FlowSource": {"source": FLOW_TEXT, "settings": {"retries": 2}},
    "FlowDiagram": 'stateDiagram-v2\n  direction LR\n  state "A" as A.1\n  [*]-->A.1\n  A.1-->[*]\n',
    "FlowGraph": {
        "name": "orders",
        "doc": None,
        "nodes": [
            {"index": 0, "kind": "start"},
            {"index": 1, "kind": "task", "name": "load", "base": "load", "line": 2, "column": 1},
            {"index": 2, "kind": "end"},
        ],
        "edges": [[0, 1], [1, 2]],
        "backEdges": [],
        "warnings": [],
    },
    "FlowStart": {"definitionId": "orders", "input": {"order": "O-17"}, "businessKey": "O-17"},
    "FlowChange": {"node": 2, "input": {"order": "O-18"}, "reason": "the number was mistyped"},
    "FlowEvent": {"event": "paid", "fields": {"order": "O-17"}, "output": {"amount": 120}},
    "FlowDelivery": {"tasks": 1, "receipts": [{"instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z", "node": 3}]},
    "FlowCounter": {"name": "imports", "value": 2},
    "FlowCancel": {"reason": "ordered by mistake"},
}
