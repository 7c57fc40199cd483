"""Schemas of playbooks. Requests are open objects, since unknown members are ignored.

Examples of playbooks: parameters, bodies and answers.
"""

from typing import Final

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    INT32,
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
    define_log,
)
from statewright.api.http.openapi.struct_schemas import describe_structs
from statewright.operations.process_nouns import PLAYBOOK_NOUNS
from statewright.playbooks.events import EventRecord
from statewright.playbooks.execution import ExecutionRecord
from statewright.playbooks.place import Finding
from statewright.playbooks.source import MAX_PATH_CHARS

_PATH: Final = {"type": "string", "maxLength": MAX_PATH_CHARS}
_STATE: Final = {"type": "string", "enum": list(PLAYBOOK_NOUNS.statuses)}
_CHECKED: Final[Document] = {
    "path": _PATH,
    "name": TEXT,
    "steps": {**define_array(TEXT), "description": "their names, in the order of the document"},
    "kinds": {**define_array(TEXT), "description": "of the tasks, each once"},
    "warnings": define_array(ref("PlaybookFinding")),
}
_DEFINITION: Final[Document] = {
    "description": TEXT,
    "tags": define_array(TEXT),
    "source": {**TEXT, "description": "the document as it was uploaded"},
}

PLAYBOOK_RECORDS: Final = {
    "PlaybookEvent": EventRecord,
    "PlaybookExecution": ExecutionRecord,
    "PlaybookFinding": Finding,
}
PLAYBOOK_SCHEMAS: Final[Document] = {
    **describe_structs(PLAYBOOK_RECORDS),
    "PlaybookError": define_error(
        findings={**define_array(TEXT), "description": "all that is wrong with a document, each with its place"},
        parameter=PARAMETER,
    ),
    **define_checks(
        PLAYBOOK_NOUNS,
        _PATH,
        _CHECKED,
        _DEFINITION,
        {"playbookVersion": {**TEXT, "description": "what the author calls the version"}},
    ),
    **define_lists(PLAYBOOK_NOUNS, _PATH, _STATE, abridged="ExecutionAbridged"),
    **define_history(PLAYBOOK_NOUNS, "PlaybookRun", {"step": TEXT}, elements="a loop"),
    **define_log(PLAYBOOK_NOUNS),
    "Playbook": {**ANY_OBJECT, "description": "a playbook, as JSON or as YAML (help topic `playbooks`)"},
    "ExecutionStart": define_open_object(
        "path",
        path=_PATH,
        version={**INT32, "description": "the latest when absent or not positive"},
        workload={**ANY_OBJECT, "description": "merged over that of the playbook"},
        ctx=ANY_OBJECT,
        args={**ANY_OBJECT, "description": "of the first token"},
        businessKey={**TEXT, "description": "unique among the executions in flight of a playbook"},
    ),
    "ExecutionPatch": define_open_object(
        "ctx",
        ctx={**ANY_OBJECT, "description": "keys, with dots for members within members, and values; null removes a key"},
        reason=TEXT,
    ),
    "ExecutionToken": define_open_object("step", step=TEXT, args=ANY_OBJECT),
    "ExecutionCancel": define_open_object(reason=TEXT),
}


PLAYBOOK_TEXT: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: examples/orders}
workload: {limit: 100}
workflow:
  - step: check
    tool: {kind: noop}
    set: {ctx.total: 120}
    next:
      arcs:
        - {step: approve, when: "{{ ctx.total > workload.limit }}"}
        - {step: ship}
  - step: approve
    spec:
      policy:
        admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}, {else: {then: {allow: false}}}]}
    next: {arcs: [{step: ship}]}
  - step: ship
    tool: {kind: noop}
"""
"""A playbook."""

_DOCUMENT: Final = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "orders", "path": "examples/orders"},
    "workflow": [{"step": "ship", "tool": {"kind": "noop"}}],
}
_ID: Final = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
_AT: Final = "2026-06-01T09:31:00.5Z"
_CHECK: Final = {
    "path": "examples/orders",
    "name": "orders",
    "steps": ["check", "approve", "ship"],
    "kinds": ["noop"],
    "warnings": [],
}
_EXECUTION: Final = {
    "id": _ID,
    "path": "examples/orders",
    "version": 1,
    "status": "waiting",
    "state": "WAITING",
    "workload": {"limit": 100},
    "ctx": {"total": 120},
    "results": {"check": None},
    "activeSteps": [],
    "pendingSteps": ["approve"],
    "branches": {"succeeded": 0, "failed": 0},
    "startedAt": _AT,
    "businessKey": "O-17",
}
_RUN: Final = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y30",
    "step": "check",
    "attempt": 1,
    "status": "COMPLETED",
    "startedAt": _AT,
    "endedAt": _AT,
    "input": {"args": {}},
}
_EVENT: Final = {
    "event_id": f"{_ID}-9",
    "event_type": "workflow.waiting",
    "timestamp": _AT,
    "execution_id": _ID,
    "seq": 9,
    "source": "server",
    "entity_type": "workflow",
    "entity_id": _ID,
    "status": "paused",
    "payload": {"tokens": ["01JABC3V9E6K8M2Q4S6T8W0Y31"]},
}

_PLAYBOOK_EXAMPLES_DEFINITION: Final = {"description": "", "tags": [], "source": PLAYBOOK_TEXT}

PLAYBOOK_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "value": "0f2b6a1c9d3e4f5a6b7c8d9e0f1a2b3c",
    "id": _ID,
    "path": "examples/orders",
    "keyword": "order",
    "state": "WAITING",
    "businessKey": "O-17",
    "after": 0,
    "limit": 100,
    "direction": "TB",
}
"""Examples of parameters that other languages have not, or otherwise."""

PLAYBOOK_EXAMPLES: Final[dict[str, object]] = {
    **build_examples(PLAYBOOK_NOUNS, _CHECK, _PLAYBOOK_EXAMPLES_DEFINITION, _EXECUTION, (_RUN,)),
    "Playbook": _DOCUMENT,
    "PlaybookDiagram": 'flowchart LR\n  s0["check"]\n  s1["ship"]\n  s0 --> s1\n',
    "ExecutionStart": {"path": "examples/orders", "workload": {"limit": 100}, "businessKey": "O-17"},
    "PlaybookEvents": {"items": [_EVENT], "next": 9, "ended": False},
    "PlaybookValue": {"value": ["a long list"]},
    "ExecutionPatch": {"ctx": {"approved": True}, "reason": "the customer called"},
    "ExecutionToken": {"step": "ship", "args": {"express": True}},
    "ExecutionCancel": {"reason": "the customer called"},
}
