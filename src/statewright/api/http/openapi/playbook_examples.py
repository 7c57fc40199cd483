"""Examples of playbooks: parameters, bodies and answers."""

from typing import Final

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
_SUMMARY: Final = {
    "path": "examples/orders",
    "version": 2,
    "name": "orders",
    "description": "",
    "uploadedAt": "2026-06-01T09:30:12.48231Z",
    "versions": [1, 2],
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

PLAYBOOK_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "value": "0f2b6a1c9d3e4f5a6b7c8d9e0f1a2b3c",
    "id": _ID,
    "path": "examples/orders",
    "version": 1,
    "keyword": "order",
    "page": 0,
    "pageSize": 20,
    "state": "WAITING",
    "businessKey": "O-17",
    "after": 0,
    "limit": 100,
    "direction": "TB",
}
"""An example of every parameter."""

PLAYBOOK_EXAMPLES: Final[dict[str, object]] = {
    "Playbook": _DOCUMENT,
    "PlaybookUpload": {**_CHECK, "version": 2, "uploadedAt": "2026-06-01T09:30:12.48231Z", "isNew": True},
    "PlaybookCheck": _CHECK,
    "PlaybookSummaries": {"items": [_SUMMARY], "total": 1, "page": 0, "pageSize": 20},
    "PlaybookVersions": {"items": [{"version": 1, "uploadedAt": "2026-06-01T09:30:12.48231Z"}]},
    "PlaybookDefinition": {
        **_CHECK,
        "version": 2,
        "description": "",
        "tags": [],
        "source": PLAYBOOK_TEXT,
        "uploadedAt": "2026-06-01T09:30:12.48231Z",
    },
    "PlaybookDiagram": 'flowchart LR\n  s0["check"]\n  s1["ship"]\n  s0 --> s1\n',
    "ExecutionStart": {"path": "examples/orders", "workload": {"limit": 100}, "businessKey": "O-17"},
    "PlaybookExecution": _EXECUTION,
    "PlaybookExecutions": {"items": [_EXECUTION], "total": 1, "page": 0, "pageSize": 20},
    "PlaybookEvents": {"items": [_EVENT], "next": 9, "ended": False},
    "PlaybookValue": {"value": ["a long list"]},
    "PlaybookHistory": {"items": [_RUN], "total": 1, "page": 0, "pageSize": 20},
    "ExecutionPatch": {"ctx": {"approved": True}, "reason": "the customer called"},
    "ExecutionToken": {"step": "ship", "args": {"express": True}},
    "ExecutionCancel": {"reason": "the customer called"},
}
