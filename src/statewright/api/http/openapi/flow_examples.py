"""Examples of flows: parameters, bodies and answers."""

from typing import Final

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
_SUMMARY: Final = {
    "id": "orders",
    "version": 2,
    "name": "orders",
    "description": "",
    "uploadedAt": "2026-06-01T09:30:12.48231Z",
    "versions": [1, 2],
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

FLOW_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "version": 1,
    "name": "imports",
    "keyword": "order",
    "page": 0,
    "pageSize": 20,
    "definitionId": "orders",
    "status": "FAILED",
    "businessKey": "O-17",
    "format": "mermaid",
    "direction": "TB",
    "docs": True,
}
"""An example of every parameter."""

FLOW_EXAMPLES: Final[dict[str, object]] = {
    "FlowSource": {"source": FLOW_TEXT, "settings": {"retries": 2}},
    "FlowUpload": {**_CHECK, "version": 2, "uploadedAt": "2026-06-01T09:30:12.48231Z", "isNew": True},
    "FlowCheck": _CHECK,
    "FlowSummaries": {"items": [_SUMMARY], "total": 1, "page": 0, "pageSize": 20},
    "FlowVersions": {"items": [{"version": 1, "uploadedAt": "2026-06-01T09:30:12.48231Z"}]},
    "FlowDefinition": {
        **_CHECK,
        "version": 2,
        "description": "",
        "source": FLOW_TEXT,
        "settings": {"retries": 2},
        "uploadedAt": "2026-06-01T09:30:12.48231Z",
    },
    "FlowDiagram": 'stateDiagram-v2\n  direction LR\n  state "A" as A.1\n  [*]-->A.1\n  A.1-->[*]\n',
    "FlowStart": {"definitionId": "orders", "input": {"order": "O-17"}, "businessKey": "O-17"},
    "FlowInstance": _INSTANCE,
    "FlowInstances": {"items": [_INSTANCE], "total": 1, "page": 0, "pageSize": 20},
    "FlowHistory": {"items": [_EXECUTION], "total": 1, "page": 0, "pageSize": 20},
    "FlowChange": {"node": 2, "input": {"order": "O-18"}, "reason": "the number was mistyped"},
    "FlowEvent": {"event": "paid", "fields": {"order": "O-17"}, "output": {"amount": 120}},
    "FlowDelivery": {"tasks": 1, "receipts": [{"instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z", "node": 3}]},
    "FlowCounter": {"name": "imports", "value": 2},
    "FlowCancel": {"reason": "ordered by mistake"},
}
