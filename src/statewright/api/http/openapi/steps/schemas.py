"""Schemas of the step dialect. Requests are open objects, since members nobody knows are ignored; only definitions are
closed.
"""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INSTANT, INT32, TEXT, Document, array, closed, opened, ref
from statewright.api.http.steps.refusals import INTERNAL, KINDS
from statewright.steps.core.definition import STEP_TYPES

_ULID: Final = {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}
_MAP: Final = {"type": "object", "additionalProperties": True}
_STATUS: Final = {"type": "string", "enum": ["ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]}
_EXECUTION_STATUS: Final = {"type": "string", "enum": ["RUNNING", "COMPLETED", "FAILED", "SKIPPED"]}
_HIT_POLICY: Final = {"type": "string", "enum": ["U", "F", "A", "R", "C", "C+", "C#", "C>", "C<"], "default": "U"}


def _page(items: str) -> Document:
    return closed("items total page pageSize", items=array(ref(items)), total=INT32, page=INT32, pageSize=INT32)


def _twins(**members: object) -> Document:
    """Members in camel case and capitalised (decision J7)."""
    capitals = {name.replace("Id", "ID") if name != "id" else "ID": schema for name, schema in members.items()}
    return {**members, **{name[0].upper() + name[1:]: schema for name, schema in capitals.items()}}


def _or_null(schema: Document) -> Document:
    return {**schema, "type": [schema["type"], "null"]}


STEP_SCHEMAS: Final[Document] = {
    "StepError": closed(
        "error reason", error={"type": "string", "enum": [*dict.fromkeys(KINDS.values()), INTERNAL]}, reason=TEXT
    ),
    "StepDefinition": closed(
        "id name steps",
        id={"type": "string", "maxLength": 256, "pattern": "^[A-Za-z0-9_:\\-]+$"},
        version={"type": "integer", "description": "set by the engine; ignored in uploads"},
        name=TEXT,
        description=TEXT,
        autoStartNextWorkflow=FLAG,
        nextWorkflowId=TEXT,
        steps=array(ref("StepNode")),
        metadata=_MAP,
    ),
    "StepNode": closed(
        "id name type",
        id=TEXT,
        name=TEXT,
        type={"type": "string", "enum": list(STEP_TYPES)},
        description=TEXT,
        nextStep=TEXT,
        parallelNextSteps=array(TEXT),
        joinStep=TEXT,
        conditionalNextSteps={
            "type": "object",
            "additionalProperties": TEXT,
            "description": "expression to step id; order counts",
        },
        transformations={**_MAP, "description": "variable to literal or `${expression}`; order counts"},
        jobType=TEXT,
        delegateClass=TEXT,
        retryCount=INT32,
        boundaryEvents=array(ref("StepBoundaryEvent")),
        hitPolicy=_HIT_POLICY,
        decisionTable=closed(rules=array(closed(when=_MAP, outputs=_MAP))),
    ),
    "StepBoundaryEvent": closed(
        "type duration interrupting targetStepId",
        type={"const": "TIMER"},
        duration={"type": "string", "examples": ["PT48H", "P7D"]},
        interrupting=FLAG,
        targetStepId=TEXT,
    ),
    "StepUpload": closed(
        "id version name uploadedAt",
        id=TEXT,
        version=INT32,
        name=TEXT,
        uploadedAt=INSTANT,
        warnings={**array(TEXT), "description": "only with ?warnings=true"},
    ),
    "StepSummary": closed(
        "id version name uploadedAt versions",
        id=TEXT,
        version=INT32,
        name=TEXT,
        uploadedAt=INSTANT,
        versions=array(INT32),
    ),
    "StepSummaries": _page("StepSummary"),
    "StepWarnings": closed("version warnings", version=INT32, warnings=array(TEXT)),
    "Mermaid": {"type": "string", "description": "a flowchart in Mermaid's notation"},
    "StepStart": opened(
        "definitionId",
        definitionId=TEXT,
        definitionVersion={**INT32, "description": "the latest when absent or not positive"},
        variables=_or_null(_MAP),
        businessKey={**TEXT, "description": "unique among the instances in flight of a definition"},
    ),
    "StepInstance": closed(
        "id definitionId definitionVersion status currentStepIds variables startedAt",
        id=_ULID,
        definitionId=TEXT,
        definitionVersion=INT32,
        status=_STATUS,
        currentStepIds=array(TEXT),
        variables=_MAP,
        startedAt=INSTANT,
        completedAt=INSTANT,
        failureReason=TEXT,
        businessKey=TEXT,
    ),
    "StepInstances": _page("StepInstance"),
    "StepHistory": closed("items", items=array(ref("StepExecution"))),
    "StepExecution": closed(
        "id instanceId stepId stepType attemptNumber status startedAt",
        **_twins(
            id=_ULID,
            instanceId=_ULID,
            stepId=TEXT,
            stepType=TEXT,
            attemptNumber=INT32,
            status=_EXECUTION_STATUS,
            startedAt=INSTANT,
            endedAt=_or_null(INSTANT),
            inputSnapshot={},
            outputSnapshot={},
            failureReason=_or_null(TEXT),
        ),
    ),
    "StepCancel": opened(reason=TEXT),
    "StepVariables": opened(variables=_or_null(_MAP)),
    "StepVariableMap": _MAP,
    "StepPurge": opened("olderThan", olderThan={"type": "string", "format": "duration"}),
    "StepPurged": closed("purged complete", purged=INT32, complete=FLAG),
    "StepPoll": opened(
        "workerId jobTypes",
        workerId=TEXT,
        jobTypes=array(TEXT),
        maxJobs={**INT32, "description": "10 when absent or not positive, at most 1000"},
        leaseSeconds={**INT32, "description": "30 when absent or 0, else within 5 and 3600"},
        waitSeconds={**INT32, "description": "ours: how long the answer may wait for the first job, at most 60"},
    ),
    "StepJobs": closed("jobs", jobs=array(ref("StepJob"))),
    "StepJob": closed(
        "id instanceId stepId stepExecutionId jobType status retriesRemaining variables createdAt",
        id=_ULID,
        instanceId=_ULID,
        stepId=TEXT,
        stepExecutionId=_ULID,
        jobType=TEXT,
        status={"const": "LOCKED"},
        workerId=TEXT,
        lockedAt=INSTANT,
        lockExpiresAt=INSTANT,
        retriesRemaining=INT32,
        variables=_MAP,
        createdAt=INSTANT,
    ),
    "StepResult": opened(workerId=TEXT, variables=_or_null(_MAP)),
    "StepFailure": opened(workerId=TEXT, errorMessage=TEXT, retryable={**FLAG, "default": False}),
    "StepRenewal": opened("workerId", workerId=TEXT, leaseSeconds=INT32),
    "StepLease": closed("lockExpiresAt", lockExpiresAt=INSTANT),
    "StepWorker": opened("workerId", workerId=TEXT),
    "StepInbox": _page("StepUserTask"),
    "StepUserTask": opened("id instanceId stepId definitionId createdAt", id=_ULID, instanceId=_ULID, stepId=TEXT),
    "StepTaskResult": opened(
        variables=_or_null(_MAP),
        result={**_or_null(_MAP), "description": "the same, where there are no variables"},
        completedBy=TEXT,
    ),
}
