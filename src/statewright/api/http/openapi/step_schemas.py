"""Schemas of the step dialect. Requests are open objects, since unknown members are ignored; only definitions are
closed.

Examples of the step dialect: parameters, bodies and answers, errors.
"""

from typing import Final

from msgspec import json

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    FLAG,
    INSTANT,
    INT32,
    OBJECT_ARRAY_OR_NULL,
    TEXT,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
    define_page,
    ref,
)
from statewright.api.http.openapi.process_schemas import JOB_EXAMPLES, JOB_SCHEMAS, ULID, define_error
from statewright.api.http.openapi.struct_schemas import describe_structs
from statewright.api.http.processes.bodies import TOOK_TOO_LONG
from statewright.api.http.steps.interface import DefinitionSummary, DefinitionWarnings, PurgeAnswer, UploadAnswer
from statewright.steps.definition import STEP_TYPES
from statewright.steps.instance import InstanceRecord

_EXECUTION_STATUS: Final = {"type": "string", "enum": ["RUNNING", "COMPLETED", "FAILED", "SKIPPED"]}
_HIT_POLICY: Final = {"type": "string", "enum": ["U", "F", "A", "R", "C", "C+", "C#", "C>", "C<"], "default": "U"}


def _add_capitalised(**members: Document) -> Document:
    """Members in camel case and capitalised (decision J7). The latter have names for languages in which only
    capitalised names are public.
    """
    spelt = {name.replace("Id", "ID") if name != "id" else "ID": schema for name, schema in members.items()}
    capitals = {name[0].upper() + name[1:]: schema for name, schema in spelt.items()}
    return {**members, **{name: {**schema, **_name_in_go(name, schema)} for name, schema in capitals.items()}}


def _name_in_go(name: str, schema: Document) -> Document:
    """The member, and the type that is made of its words."""
    go = f"Capitalised{name}"
    return {"x-go-name": go} | ({"x-go-type-name": go} if "enum" in schema else {})


STEP_RECORDS: Final = {
    "StepInstance": InstanceRecord,
    "StepPurged": PurgeAnswer,
    "StepSummary": DefinitionSummary,
    "StepUpload": UploadAnswer,
    "StepWarnings": DefinitionWarnings,
}
STEP_SCHEMAS: Final[Document] = {
    **JOB_SCHEMAS,
    **describe_structs(STEP_RECORDS),
    "StepError": define_error(),
    "StepDefinition": define_object(
        "id name steps",
        id={"type": "string", "maxLength": 256, "pattern": "^[A-Za-z0-9_:\\-]+$"},
        version={"type": "integer", "description": "set by the engine; ignored in uploads"},
        name=TEXT,
        description=TEXT,
        autoStartNextWorkflow=FLAG,
        nextWorkflowId=TEXT,
        steps=define_array(ref("StepNode")),
        metadata=ANY_OBJECT,
    ),
    "StepNode": define_object(
        "id name type",
        id=TEXT,
        name=TEXT,
        type={"type": "string", "enum": list(STEP_TYPES)},
        description=TEXT,
        nextStep=TEXT,
        parallelNextSteps=define_array(TEXT),
        joinStep=TEXT,
        conditionalNextSteps={
            "type": "object",
            "additionalProperties": TEXT,
            "description": "expression to step id; order counts",
        },
        transformations={**ANY_OBJECT, "description": "variable to literal or `${expression}`; order counts"},
        jobType=TEXT,
        delegateClass=TEXT,
        retryCount=INT32,
        boundaryEvents=define_array(ref("StepBoundaryEvent")),
        hitPolicy=_HIT_POLICY,
        decisionTable=define_object(rules=define_array(define_object(when=ANY_OBJECT, outputs=ANY_OBJECT))),
    ),
    "StepBoundaryEvent": define_object(
        "type duration interrupting targetStepId",
        type={"const": "TIMER"},
        duration={"type": "string", "examples": ["PT48H", "P7D"]},
        interrupting=FLAG,
        targetStepId=TEXT,
    ),
    "StepSummaries": define_page("StepSummary"),
    "Mermaid": {"type": "string", "description": "a flowchart in Mermaid's notation"},
    "StepStart": define_open_object(
        "definitionId",
        definitionId=TEXT,
        definitionVersion={**INT32, "description": "the latest when absent or not positive"},
        variables=allow_null(ANY_OBJECT),
        businessKey={**TEXT, "description": "unique among the instances in flight of a definition"},
    ),
    "StepInstances": define_page("StepInstance"),
    "StepHistory": define_object("items", items=define_array(ref("StepExecution"))),
    "StepExecution": define_object(
        "id instanceId stepId stepName stepType attemptNumber status startedAt definitionId definitionName",
        **_add_capitalised(
            id=ULID,
            instanceId=ULID,
            stepId=TEXT,
            stepName=TEXT,
            stepType=TEXT,
            attemptNumber=INT32,
            status=_EXECUTION_STATUS,
            startedAt=INSTANT,
            endedAt=allow_null(INSTANT),
            inputSnapshot={},
            outputSnapshot={},
            failureReason=allow_null(TEXT),
            definitionId=TEXT,
            definitionName=TEXT,
        ),
    ),
    "StepCancel": define_open_object(reason=TEXT),
    "StepVariables": define_open_object(variables=allow_null(ANY_OBJECT)),
    "StepVariableMap": ANY_OBJECT,
    "StepPurge": define_open_object("olderThan", olderThan={"type": "string", "format": "duration"}),
    "StepInbox": define_page("StepUserTask"),
    "StepUserTask": define_open_object(
        "id language instanceId stepId stepExecutionId definitionId definitionVersion status payload createdAt",
        id=ULID,
        language={**TEXT, "description": "of the definition: steps, flows or playbooks"},
        instanceId=ULID,
        stepId={**TEXT, "description": "of a flow the number of the node"},
        stepExecutionId=ULID,
        definitionId=TEXT,
        definitionVersion=INT32,
        status=TEXT,
        payload={**ANY_OBJECT, "description": "the variables; of other languages what the task works on"},
        createdAt=INSTANT,
        jobType=TEXT,
        businessKey=TEXT,
        title={**TEXT, "description": "not of steps: what the person is asked to do"},
        description=TEXT,
        groups=define_array(TEXT),
        assignee=TEXT,
        form={**ANY_OBJECT, "description": "what the answer is to look like"},
    ),
    "StepTaskResult": define_open_object(
        variables=allow_null(ANY_OBJECT),
        result={
            **OBJECT_ARRAY_OR_NULL,
            "description": "the same, where there are no variables; not of steps also an array",
        },
        completedBy=TEXT,
    ),
}


STEP_SCHEMA_ID: Final = "urn:statewright:schema:steps"


def build_step_schema() -> Document:
    """A schema (draft 2020-12) of a definition, for editors (docs/reference/steps.md#json-schema)."""
    parts = {name: STEP_SCHEMAS[name] for name in ("StepDefinition", "StepNode", "StepBoundaryEvent")}
    definition = parts["StepDefinition"]
    parts["StepDefinition"] = {**definition, "properties": {"$schema": TEXT, **definition["properties"]}}
    schema: Document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": STEP_SCHEMA_ID,
        "title": "Definition of steps",
        "$ref": "#/$defs/StepDefinition",
        "$defs": json.decode(json.encode(parts).replace(ref("")["$ref"].encode(), b"#/$defs/")),
    }
    return schema


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
    "language": "steps",
    "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
    "stepId": "manual-review",
    "stepExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y30",
    "definitionId": "HR::onboarding",
    "definitionVersion": 1,
    "status": "OPEN",
    "payload": {"employee": "E-77"},
    "createdAt": "2026-06-01T09:31:00.5Z",
}
STEP_PARAMETER_EXAMPLES: Final[dict[str, object]] = {
    "taskId": "01JABC5V9E6K8M2Q4S6T8W0Y2Z",
    "stepId": "say-hello",
    "warnings": True,
    "keyword": "greet",
    "definitionId": "HR::greeting",
    "status": "WAITING",
    "businessKey": "E-77",
    "jobType": "greet",
    "language": "flows",
    "assignee": "ada",
    "group": "reviewers",
    "olderThanSeconds": 3600,
}
"""Examples of parameters that other languages have not, or otherwise."""
STEP_EXAMPLES: Final[dict[str, object]] = {
    **JOB_EXAMPLES,
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
    "StepTaskResult": {"variables": {"reviewDecision": "APPROVED"}, "completedBy": "ada"},
    "StepVariables": {"variables": {"amount": 100}},
    "StepVariableMap": {"paymentReference": "P-17"},
    "StepCancel": {"reason": "ordered by mistake"},
    "StepPurge": {"olderThan": "P30D"},
    "StepPurged": {"purged": 12, "complete": True},
    "StepWarnings": {"version": 1, "warnings": ['step "route": no branch is certain to match']},
}

REASON_EXAMPLES: Final = {
    400: 'validation error: validation errors:\n  step "score" (SERVICE_TASK): jobType is required',
    401: "authentication required",
    403: "forbidden: admin role required, ROLE_ADMIN",
    404: 'instance "01JABC3V9E6K8M2Q4S6T8W0Y2Z" not found',
    409: "instance is in a terminal state",
    413: "request body exceeds 10485760 bytes",
    415: "Only JSON workflow definitions are accepted",
    500: "internal error [ticket: 7c9e6679-7425-40de-944b-e07fc1f90ae7]",
    429: "200 requests of the tenant follow logs already",
    503: "storage is not available",
    504: TOOK_TOO_LONG,
}
"""An example of what each status says."""
