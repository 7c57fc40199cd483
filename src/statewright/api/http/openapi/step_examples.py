"""Examples of the step dialect: parameters, bodies and answers, errors."""

from typing import Final

_GREETING: Final = {
    "id": "HR::greeting",
    "name": "Greet an employee",
    "steps": [
        {"id": "say-hello", "name": "Say hello", "type": "SERVICE_TASK", "jobType": "greet", "nextStep": "done"},
        {"id": "done", "name": "Done", "type": "END"},
    ],
}
_INSTANCE: Final = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "definitionId": "HR::greeting",
    "definitionVersion": 1,
    "status": "ACTIVE",
    "currentStepIds": ["say-hello"],
    "variables": {"employee": "E-77"},
    "startedAt": "2026-06-01T09:31:00.5Z",
    "businessKey": "E-77",
}
_EXECUTION: Final = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y30",
    "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "stepId": "say-hello",
    "stepName": "Say hello",
    "stepType": "SERVICE_TASK",
    "attemptNumber": 1,
    "status": "RUNNING",
    "startedAt": "2026-06-01T09:31:00.5Z",
    "endedAt": None,
    "failureReason": None,
    "definitionId": "HR::greeting",
    "definitionName": "Greet an employee",
}
_SUMMARY: Final = {
    "id": "HR::greeting",
    "version": 2,
    "name": "Greet an employee",
    "uploadedAt": "2026-06-01T09:30:12.48231Z",
    "versions": [1, 2],
}
_TASK: Final = {
    "id": "01JABC5V9E6K8M2Q4S6T8W0Y2Z",
    "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "stepId": "manual-review",
    "definitionId": "HR::onboarding",
    "createdAt": "2026-06-01T09:31:00.5Z",
}
STEP_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "taskId": "01JABC5V9E6K8M2Q4S6T8W0Y2Z",
    "stepId": "say-hello",
    "version": 1,
    "warnings": True,
    "keyword": "greet",
    "page": 0,
    "pageSize": 20,
    "definitionId": "HR::greeting",
    "status": "WAITING",
    "businessKey": "E-77",
    "jobType": "greet",
    "olderThanSeconds": 3600,
}
"""An example of every parameter."""
STEP_EXAMPLES: Final[dict[str, object]] = {
    "StepSummaries": {"items": [_SUMMARY], "total": 1, "page": 0, "pageSize": 20},
    "StepHistory": {"items": [_EXECUTION]},
    "StepInbox": {"items": [_TASK], "total": 1, "page": 0, "pageSize": 20},
    "Mermaid": 'flowchart TD\n    s0["Say hello"]\n    s0 --> s1\n    s1((("Done")))\n',
    "StepDefinition": _GREETING,
    "StepUpload": {
        "id": "HR::greeting",
        "version": 1,
        "name": "Greet an employee",
        "uploadedAt": "2026-06-01T09:30:12.48231Z",
    },
    "StepStart": {"definitionId": "HR::greeting", "variables": {"employee": "E-77"}, "businessKey": "E-77"},
    "StepInstance": _INSTANCE,
    "StepInstances": {"items": [_INSTANCE], "total": 1, "page": 0, "pageSize": 20},
    "StepPoll": {"workerId": "w-1", "jobTypes": ["greet"], "maxJobs": 64, "waitSeconds": 25},
    "StepJobs": {
        "jobs": [
            {
                "id": "01JABC4V9E6K8M2Q4S6T8W0Y2Z",
                "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
                "stepId": "say-hello",
                "stepExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y30",
                "jobType": "greet",
                "status": "LOCKED",
                "workerId": "w-1",
                "lockedAt": "2026-06-01T09:31:01Z",
                "lockExpiresAt": "2026-06-01T09:31:31Z",
                "retriesRemaining": 0,
                "variables": {"employee": "E-77"},
                "createdAt": "2026-06-01T09:31:00.5Z",
            }
        ]
    },
    "StepResult": {"workerId": "w-1", "variables": {"greeted": True}},
    "StepFailure": {"workerId": "w-1", "errorMessage": "no voice", "retryable": True},
    "StepTaskResult": {"variables": {"reviewDecision": "APPROVED"}, "completedBy": "ada"},
    "StepVariables": {"variables": {"amount": 100}},
    "StepVariableMap": {"paymentReference": "P-17"},
    "StepCancel": {"reason": "ordered by mistake"},
    "StepPurge": {"olderThan": "P30D"},
    "StepPurged": {"purged": 12, "complete": True},
    "StepRenewal": {"workerId": "w-1", "leaseSeconds": 60},
    "StepHeartbeat": {"accepted": True, "lockExpiresAt": "2026-06-01T09:32:01Z"},
    "StepLease": {"lockExpiresAt": "2026-06-01T09:32:01Z"},
    "StepProgress": {
        "workerId": "w-1",
        "progress": {
            "from": 0,
            "patches": [{"path": ["seen"], "value": 7, "at": 2}],
            "logFrom": 0,
            "log": [
                {"event": "task.started", "task": "count"},
                {"event": "task.attempt.done", "task": "count", "attempt": 1},
            ],
        },
    },
    "StepProgressTaken": {"patches": 1, "log": 2},
    "StepWorker": {"workerId": "w-1"},
    "StepWarnings": {"version": 1, "warnings": ['step "route": no branch is certain to match']},
}

REASON_EXAMPLES: Final = {
    400: 'validation error: validation errors:\n  step "score" (SERVICE_TASK): jobType is required',
    401: "authentication required",
    403: "admin role required",
    404: 'instance "01JABC3V9E6K8M2Q4S6T8W0Y2Z" not found',
    409: "instance is in a terminal state",
    413: "request body exceeds 10485760 bytes",
    415: "Only JSON workflow definitions are accepted",
    500: "internal error [ticket: 7c9e6679-7425-40de-944b-e07fc1f90ae7]",
    429: "200 requests of the tenant follow logs already",
    503: "storage is not available",
    504: "the request took too long",
}
"""An example of what each status says."""
