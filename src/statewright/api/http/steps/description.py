"""The step dialect in the OpenAPI document: schemas, examples, errors (spec/step-engine.md §11).

Requests are open objects, since members nobody knows are ignored; only definitions are closed.
"""

import re
from http import HTTPStatus
from typing import Any, Final

from statewright.api.http.exchange import JSON
from statewright.api.http.steps.refusals import INTERNAL, KINDS
from statewright.api.http.steps.routes import STEP_ROUTES, Parameter, StepRoute
from statewright.steps.core.definition import STEP_TYPES

Document = dict[str, Any]  # Any: OpenAPI is a tree of whatever its own specification allows

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "format": "int32"}
_FLAG: Final = {"type": "boolean"}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_ULID: Final = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
_MAP: Final = {"type": "object", "additionalProperties": True}
_STATUS: Final = {"type": "string", "enum": ["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]}
_EXECUTION_STATUS: Final = {"type": "string", "enum": ["RUNNING", "COMPLETED", "FAILED", "SKIPPED"]}
_HIT_POLICY: Final = {"type": "string", "enum": ["U", "F", "A", "R", "C", "C+", "C#", "C>", "C<"], "default": "U"}


def _object(required: str = "", **properties: object) -> Document:
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def _closed(required: str = "", **properties: object) -> Document:
    return {**_object(required, **properties), "additionalProperties": False}


def _array(items: object) -> Document:
    return {"type": "array", "items": items}


def _ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def _page(items: str) -> Document:
    return _closed("items total page pageSize", items=_array(_ref(items)), total=_COUNT, page=_COUNT, pageSize=_COUNT)


def _twins(**members: object) -> Document:
    """Members in camel case and capitalised (decision J7)."""
    capitals = {name.replace("Id", "ID") if name != "id" else "ID": schema for name, schema in members.items()}
    return {**members, **{name[0].upper() + name[1:]: schema for name, schema in capitals.items()}}


def _or_null(schema: Document) -> Document:
    return {**schema, "type": [schema["type"], "null"]}


STEP_SCHEMAS: Final[Document] = {
    "StepError": _closed(
        "error reason", error={"type": "string", "enum": [*dict.fromkeys(KINDS.values()), INTERNAL]}, reason=_TEXT
    ),
    "StepDefinition": _closed(
        "id name steps",
        id={"type": "string", "maxLength": 256, "pattern": "^[A-Za-z0-9_:\\-]+$"},
        version={"type": "integer", "description": "set by the engine; ignored in uploads"},
        name=_TEXT,
        description=_TEXT,
        autoStartNextWorkflow=_FLAG,
        nextWorkflowId=_TEXT,
        steps=_array(_ref("StepNode")),
        metadata=_MAP,
    ),
    "StepNode": _closed(
        "id name type",
        id=_TEXT,
        name=_TEXT,
        type={"type": "string", "enum": list(STEP_TYPES)},
        description=_TEXT,
        nextStep=_TEXT,
        parallelNextSteps=_array(_TEXT),
        joinStep=_TEXT,
        conditionalNextSteps={
            "type": "object",
            "additionalProperties": _TEXT,
            "description": "expression to step id; order counts",
        },
        transformations={**_MAP, "description": "variable to literal or `${expression}`; order counts"},
        jobType=_TEXT,
        delegateClass=_TEXT,
        retryCount=_COUNT,
        boundaryEvents=_array(_ref("StepBoundaryEvent")),
        hitPolicy=_HIT_POLICY,
        decisionTable=_closed(rules=_array(_closed(when=_MAP, outputs=_MAP))),
    ),
    "StepBoundaryEvent": _closed(
        "type duration interrupting targetStepId",
        type={"const": "TIMER"},
        duration={"type": "string", "examples": ["PT48H", "P7D"]},
        interrupting=_FLAG,
        targetStepId=_TEXT,
    ),
    "StepUpload": _closed(
        "id version name uploadedAt",
        id=_TEXT,
        version=_COUNT,
        name=_TEXT,
        uploadedAt=_INSTANT,
        warnings={**_array(_TEXT), "description": "only with ?warnings=true"},
    ),
    "StepSummary": _closed(
        "id version name uploadedAt versions",
        id=_TEXT,
        version=_COUNT,
        name=_TEXT,
        uploadedAt=_INSTANT,
        versions=_array(_COUNT),
    ),
    "StepSummaries": _page("StepSummary"),
    "StepWarnings": _closed("version warnings", version=_COUNT, warnings=_array(_TEXT)),
    "Mermaid": {"type": "string", "description": "a flowchart in Mermaid's notation"},
    "StepStart": _object(
        "definitionId",
        definitionId=_TEXT,
        definitionVersion={**_COUNT, "description": "the latest when absent or not positive"},
        variables=_or_null(_MAP),
        businessKey={**_TEXT, "description": "unique among the instances in flight of a definition"},
    ),
    "StepInstance": _closed(
        "id definitionId definitionVersion status currentStepIds variables startedAt",
        id=_ULID,
        definitionId=_TEXT,
        definitionVersion=_COUNT,
        status=_STATUS,
        currentStepIds=_array(_TEXT),
        variables=_MAP,
        startedAt=_INSTANT,
        completedAt=_INSTANT,
        failureReason=_TEXT,
        businessKey=_TEXT,
    ),
    "StepInstances": _page("StepInstance"),
    "StepHistory": _closed("items", items=_array(_ref("StepExecution"))),
    "StepExecution": _closed(
        "id instanceId stepId stepType attemptNumber status startedAt",
        **_twins(
            id=_ULID,
            instanceId=_ULID,
            stepId=_TEXT,
            stepType=_TEXT,
            attemptNumber=_COUNT,
            status=_EXECUTION_STATUS,
            startedAt=_INSTANT,
            endedAt=_or_null(_INSTANT),
            inputSnapshot={},
            outputSnapshot={},
            failureReason=_or_null(_TEXT),
        ),
    ),
    "StepCancel": _object(reason=_TEXT),
    "StepVariables": _object(variables=_or_null(_MAP)),
    "StepVariableMap": _MAP,
    "StepPurge": _object("olderThan", olderThan={"type": "string", "format": "duration"}),
    "StepPurged": _closed("purged complete", purged=_COUNT, complete=_FLAG),
    "StepPoll": _object(
        "workerId jobTypes",
        workerId=_TEXT,
        jobTypes=_array(_TEXT),
        maxJobs={**_COUNT, "description": "10 when absent or not positive, at most 1000"},
        leaseSeconds={**_COUNT, "description": "30 when absent or 0, else within 5 and 3600"},
        waitSeconds={**_COUNT, "description": "ours: how long the answer may wait for the first job, at most 60"},
    ),
    "StepJobs": _closed("jobs", jobs=_array(_ref("StepJob"))),
    "StepJob": _closed(
        "id instanceId stepId stepExecutionId jobType status retriesRemaining variables createdAt",
        id=_ULID,
        instanceId=_ULID,
        stepId=_TEXT,
        stepExecutionId=_ULID,
        jobType=_TEXT,
        status={"const": "LOCKED"},
        workerId=_TEXT,
        lockedAt=_INSTANT,
        lockExpiresAt=_INSTANT,
        retriesRemaining=_COUNT,
        variables=_MAP,
        createdAt=_INSTANT,
    ),
    "StepResult": _object(workerId=_TEXT, variables=_or_null(_MAP)),
    "StepFailure": _object(workerId=_TEXT, errorMessage=_TEXT, retryable={**_FLAG, "default": False}),
    "StepRenewal": _object("workerId", workerId=_TEXT, leaseSeconds=_COUNT),
    "StepLease": _closed("lockExpiresAt", lockExpiresAt=_INSTANT),
    "StepWorker": _object("workerId", workerId=_TEXT),
    "StepInbox": _page("StepUserTask"),
    "StepUserTask": _object("id instanceId stepId definitionId createdAt", id=_ULID, instanceId=_ULID, stepId=_TEXT),
    "StepTaskResult": _object(
        variables=_or_null(_MAP),
        result={**_or_null(_MAP), "description": "the same, where there are no variables"},
        completedBy=_TEXT,
    ),
}

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
    "stepType": "SERVICE_TASK",
    "attemptNumber": 1,
    "status": "RUNNING",
    "startedAt": "2026-06-01T09:31:00.5Z",
    "endedAt": None,
    "failureReason": None,
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
PARAMETERS: Final[dict[str, object]] = {
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
EXAMPLES: Final[dict[str, object]] = {
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
    "StepLease": {"lockExpiresAt": "2026-06-01T09:32:01Z"},
    "StepWorker": {"workerId": "w-1"},
    "StepWarnings": {"version": 1, "warnings": ['step "route": no branch is certain to match']},
}

REASONS: Final = {
    400: 'validation error: validation errors:\n  step "score" (SERVICE_TASK): jobType is required',
    401: "authentication required",
    403: "admin role required",
    404: 'instance "01JABC3V9E6K8M2Q4S6T8W0Y2Z" not found',
    409: "instance is in a terminal state",
    413: "request body exceeds 10485760 bytes",
    415: "Only JSON workflow definitions are accepted",
    500: "internal error [ticket: 7c9e6679-7425-40de-944b-e07fc1f90ae7]",
    503: "storage is not available",
    504: "the request took too long",
}
"""An example of what each status says."""
_ALWAYS: Final = (401, 500, 503, 504)


def step_paths() -> Document:
    """The paths of the dialect; they are at the root of the server, not below the context path."""
    paths: Document = {}
    for route in STEP_ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return paths


def _operation(route: StepRoute) -> Document:
    names = re.findall(r"\{(\w+)\}", route.path)
    path = [_path_parameter(name, route.path) for name in names]
    operation: Document = {
        "operationId": f"steps.{route.id}",
        "tags": [route.tag],
        "summary": route.summary,
        "servers": [{"url": "/"}],
        "security": [{"bearerAuth": []}, {}],
        "parameters": [*path, *map(_query_parameter, route.query)],
        "responses": {str(route.status): _success(route)} | _errors(route),
    }
    if route.ours:
        operation["description"] = "Beyond the public engine."
    if route.body is not None:
        operation["requestBody"] = {"required": route.body_required, "content": _content(JSON, route.body)}
    return operation


def _path_parameter(name: str, path: str) -> Document:
    schema = _COUNT if name == "version" else _TEXT
    example = "HR::greeting" if name == "id" and path.startswith("/v1/definitions/") else PARAMETERS[name]
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


def _query_parameter(parameter: Parameter) -> Document:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": {"type": parameter.type},
        "example": PARAMETERS[parameter.name],
    }


def _success(route: StepRoute) -> Document:
    described: Document = {"description": HTTPStatus(route.status).phrase}
    return described if route.reply is None else {**described, "content": _content(route.media_type, route.reply)}


def _errors(route: StepRoute) -> Document:
    return {str(status): _error(status) for status in sorted({*route.errors, *_ALWAYS})}


def _error(status: int) -> Document:
    kind = KINDS.get(status, INTERNAL)
    example = {"error": kind, "reason": REASONS[status]}
    return {"description": kind, "content": {JSON: {"schema": _ref("StepError"), "example": example}}}


def _content(media_type: str, schema: str) -> Document:
    described: Document = {"schema": _ref(schema)}
    return {media_type: described | {"example": EXAMPLES[schema]}}
