"""Schemas of the operations API. Objects are open: clients ignore members that they do not know."""

from typing import Final

from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    INT64,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
    ref,
)
from statewright.incidents import INCIDENT_KINDS
from statewright.suspensions import SCOPES

_MAP: Final = {"type": "object", "additionalProperties": True}
_ACTOR: Final = define_open_object("id kind", id=TEXT, kind={"type": "string", "enum": ["user", "service", "system"]})


_SCOPE: Final = {"type": "string", "enum": list(SCOPES)}
_MODEL: Final = define_open_object("name version", name=TEXT, version=INT32)
_CHANGE: Final[Document] = {"type": "string", "enum": ["ADDED", "REMOVED", "CHANGED"]}
_NAME_CHANGES: Final = define_open_object("added removed", added=define_array(TEXT), removed=define_array(TEXT))


def _define_list(items: str) -> Document:
    return define_open_object(
        "items", items=define_array(ref(items)), nextCursor=TEXT, total=INT32, totalIsLowerBound=FLAG
    )


_TIMER: Final = define_open_object("dueAt attempts", transition=TEXT, dueAt=INSTANT, attempts=INT32)

_VERSION_MEMBERS: Final = (
    "transactionId at until state transition changeType attributedTo executedBy workflow workflowRevision bytes current"
)
_VERSION: Final[Document] = {
    "transactionId": UUID,
    "at": INSTANT,
    "until": allow_null(INSTANT),
    "state": TEXT,
    "transition": TEXT,
    "changeType": {"type": "string", "enum": ["CREATE", "UPDATE", "DELETE"]},
    "attributedTo": _ACTOR,
    "executedBy": _ACTOR,
    "workflow": TEXT,
    "workflowRevision": INT64,
    "bytes": INT32,
    "current": FLAG,
}

OPS_SCHEMAS: Final[Document] = {
    "OpsDescription": define_open_object(
        "version features principal tenant",
        version=TEXT,
        features=define_array(TEXT),
        principal=define_open_object("id kind roles", id=TEXT, kind=TEXT, roles=define_array(TEXT)),
        tenant=TEXT,
    ),
    "OpsAct": define_open_object(
        "id at actor action target details",
        id=UUID,
        at=INSTANT,
        actor=_ACTOR,
        action={"type": "string", "examples": ["entity.restore"]},
        target=define_open_object("kind id", kind=TEXT, id=TEXT),
        reason=TEXT,
        details=_MAP,
        traceId=TEXT,
    ),
    "OpsExplanation": define_open_object(
        "entityId model state transactionId workflow verdict summary transitions",
        entityId=UUID,
        model=ref("ModelKey"),
        state=TEXT,
        since=INSTANT,
        transactionId=UUID,
        workflow=define_open_object(
            "name revision rule passedOver",
            name=allow_null(TEXT),
            revision=INT64,
            rule={"type": "string", "enum": ["REMEMBERED", "FIRST_WITH_STATE", "DEFAULT", "NONE"]},
            passedOver=define_array(TEXT),
        ),
        verdict={
            "type": "string",
            "enum": [
                *("SUSPENDED", "FAILED", "READY", "STATE_UNKNOWN", "TERMINAL", "WAITS_FOR_WORKER"),
                *("WAITS_FOR_TIMER", "WAITS_FOR_CRITERION", "WAITS_FOR_MANUAL"),
            ],
        },
        summary=TEXT,
        transitions=define_array(ref("OpsTransition")),
        suspensions=define_array(
            define_open_object("id scope reason since", id=UUID, scope=_SCOPE, reason=TEXT, since=INSTANT)
        ),
        incidents=define_array(
            define_open_object("id kind lastAt message", id=UUID, kind=TEXT, lastAt=INSTANT, message=TEXT)
        ),
        timers=define_array(_TIMER),
    ),
    "OpsInstanceExplanation": define_open_object(
        "instanceId language definitionId status verdict summary suspensions incidents tokens timers",
        instanceId=TEXT,
        language=TEXT,
        definitionId=TEXT,
        status=TEXT,
        businessKey=TEXT,
        verdict=TEXT,
        summary=TEXT,
        suspensions=define_array(_MAP),
        incidents=define_array(_MAP),
        failure=_MAP,
        tokens=define_array(
            define_open_object(
                "stepId waitsFor",
                stepId=TEXT,
                stepType=TEXT,
                attempt=INT32,
                since=INSTANT,
                waitsFor={"type": "string", "enum": ["JOB", "USER_TASK", "SIGNAL", "JOIN", "NOTHING"]},
                arrived=INT32,
                missing=define_array(define_open_object("branch at", branch=INT32, at=define_array(TEXT))),
                userTaskId=TEXT,
                jobId=TEXT,
                jobType=TEXT,
                phase={"type": "string", "enum": ["QUEUED", "LEASED", "DELAYED", "HELD"]},
                retriesRemaining=INT32,
                workers=INT32,
                worker=TEXT,
                leaseUntil=INSTANT,
                availableAt=INSTANT,
            )
        ),
        timers=define_array(define_open_object("timerId dueAt", timerId=TEXT, dueAt=INSTANT)),
    ),
    "OpsTransition": define_open_object(
        "name next kind disabled wouldFire blockedBy criterion processors timer",
        name=TEXT,
        next=TEXT,
        kind={"type": "string", "enum": ["AUTOMATED", "MANUAL", "SCHEDULED"]},
        disabled=FLAG,
        wouldFire=allow_null(FLAG),
        blockedBy=define_array(
            {
                "type": "string",
                "enum": ["CRITERION", "DISABLED", "NO_MEMBER", "NOT_DUE", "SHADOWED", "SUSPENDED", "UNKNOWN"],
            }
        ),
        criterion={"type": ["object", "null"], "additionalProperties": True},
        processors=define_array(
            define_open_object("name mode tags", name=TEXT, mode=TEXT, tags=define_array(TEXT), members=INT32)
        ),
        timer={**_TIMER, "type": ["object", "null"]},
    ),
    "OpsMember": define_open_object(
        "id kind draining",
        id=TEXT,
        kind={"type": "string", "enum": ["STREAM", "POLL"]},
        draining=FLAG,
        node=TEXT,
        software=TEXT,
        tags=define_array(TEXT),
        jobTypes=define_array(TEXT),
        connectedAt=INSTANT,
        lastSeenAt=INSTANT,
        inFlight=INT32,
        succeeded=INT64,
        failed=INT64,
        timedOut=INT64,
    ),
    "OpsMembers": _define_list("OpsMember"),
    "OpsEntities": define_open_object("items", items=define_array(ref("Envelope")), nextCursor=TEXT),
    "OpsTotal": define_open_object("total", total=INT32, totalIsLowerBound=FLAG),
    "OpsModel": define_open_object("name version estimatedEntities", name=TEXT, version=INT32, estimatedEntities=INT64),
    "OpsModels": _define_list("OpsModel"),
    "OpsIdleEntities": define_open_object(
        "items scanned complete",
        items=define_array(
            define_open_object(
                "entityId model state writtenAt",
                entityId=UUID,
                model=_MODEL,
                state=TEXT,
                writtenAt=INSTANT,
                since=INSTANT,
            )
        ),
        scanned=INT32,
        complete=FLAG,
        nextCursor=TEXT,
    ),
    "OpsWrittenEntity": define_open_object(
        "entityId at events versions",
        entityId=UUID,
        at=INSTANT,
        events=INT32,
        versions=INT32,
        model=_MODEL,
        state=TEXT,
        transition=TEXT,
        changeType=_VERSION["changeType"],
    ),
    "OpsWrittenEntities": _define_list("OpsWrittenEntity"),
    "OpsMessage": define_open_object("id header", id=UUID, header=_MAP, createdAt=INSTANT),
    "OpsMessages": _define_list("OpsMessage"),
    "OpsSearchJob": define_open_object(
        "id model status createdAt hits",
        id=UUID,
        model=_MODEL,
        status={"type": "string", "enum": ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]},
        createdAt=INSTANT,
        hits=INT64,
        finishedAt=INSTANT,
        expiresAt=INSTANT,
        failure=TEXT,
        condition=_MAP,
    ),
    "OpsSearchJobs": _define_list("OpsSearchJob"),
    "OpsInstanceCounts": define_open_object(
        "items isLowerBound",
        items=define_array(
            define_open_object(
                "language definitionId status count", language=TEXT, definitionId=TEXT, status=TEXT, count=INT32
            )
        ),
        isLowerBound=FLAG,
    ),
    "OpsStepCounts": define_open_object(
        "items isLowerBound",
        items=define_array(define_open_object("stepId count", stepId=TEXT, count=INT32)),
        isLowerBound=FLAG,
    ),
    "OpsNode": define_open_object(
        "id name version draining startedAt leaseUntil members",
        id=TEXT,
        name=TEXT,
        version=TEXT,
        draining=FLAG,
        startedAt=INSTANT,
        leaseUntil=INSTANT,
        members=INT32,
    ),
    "OpsNodes": _define_list("OpsNode"),
    "OpsRates": define_open_object(
        "transactions versions minutes",
        transactions=INT64,
        versions=INT64,
        minutes=define_array(
            define_open_object("at transactions versions", at=INSTANT, transactions=INT64, versions=INT64)
        ),
    ),
    "OpsQueue": define_open_object(
        "kind name depth inFlight delayed held oldestAgeSeconds workers wanted suspended since",
        kind={"type": "string", "enum": ["JOB_TYPE", "TAG"]},
        name=TEXT,
        depth=INT32,
        inFlight=INT32,
        delayed=INT32,
        held=INT32,
        oldestAgeSeconds=allow_null(INT64),
        workers=INT32,
        wanted=INT32,
        suspended=FLAG,
        since=allow_null(INSTANT),
        isLowerBound=FLAG,
    ),
    "OpsQueues": _define_list("OpsQueue"),
    "OpsVersion": define_open_object(_VERSION_MEMBERS, **_VERSION),
    "OpsVersions": _define_list("OpsVersion"),
    "OpsNewSuspension": define_object(
        "scope reason",
        scope=_SCOPE,
        reason={**TEXT, "minLength": 1, "maxLength": 500},
        id=TEXT,
        model=_MODEL,
        workflow=TEXT,
        transition=TEXT,
        definitionId=TEXT,
        name=TEXT,
        until=INSTANT,
    ),
    "OpsResumption": define_object(
        "", timers={"type": "string", "enum": ["FIRE", "SHIFT"]}, reason={**TEXT, "minLength": 1, "maxLength": 500}
    ),
    "OpsSuspension": define_open_object(
        "id scope reason since by until active effective pendingNodes underWay",
        id=UUID,
        scope=_SCOPE,
        reason=TEXT,
        since=INSTANT,
        by=_ACTOR,
        until=allow_null(INSTANT),
        active=FLAG,
        effective=FLAG,
        pendingNodes=define_array(TEXT),
        underWay=INT32,
        effectiveAt=INSTANT,
        entityId=UUID,
        instanceId=TEXT,
        definitionId=TEXT,
        model=_MODEL,
        workflow=TEXT,
        transition=TEXT,
        name=TEXT,
        endedAt=INSTANT,
        endedBy=_ACTOR,
        endReason=TEXT,
        timers={"type": "string", "enum": ["FIRE", "SHIFT"]},
    ),
    "OpsIncident": define_open_object(
        "id kind severity status fingerprint title firstAt lastAt occurrences subject code message attempts principal",
        id=UUID,
        kind={"type": "string", "enum": list(INCIDENT_KINDS)},
        severity={"type": "string", "enum": ["ERROR", "WARNING"]},
        status={"type": "string", "enum": ["OPEN", "RESOLVED"]},
        fingerprint=TEXT,
        title=TEXT,
        firstAt=INSTANT,
        lastAt=INSTANT,
        occurrences=INT64,
        subject=define_open_object(
            "kind id model state transactionId",
            kind={"type": "string", "enum": ["ENTITY", "NEW_ENTITY", "INSTANCE"]},
            id=TEXT,
            model=TEXT,
            state=TEXT,
            transactionId=allow_null(UUID),
        ),
        workflow=TEXT,
        transition=TEXT,
        step=TEXT,
        component=TEXT,
        code=TEXT,
        cause=TEXT,
        message=TEXT,
        attempts=define_array(define_open_object("at member error", at=INT64, member=TEXT, error=TEXT)),
        principal=_ACTOR,
        traceId=TEXT,
        payloadOmitted=FLAG,
        payload={},
        resolution=define_open_object("by at how", by=_ACTOR, at=INSTANT, how=TEXT, reason=allow_null(TEXT)),
    ),
    "OpsIncidents": _define_list("OpsIncident"),
    "OpsIncidentGroup": define_open_object(
        "fingerprint title kind open occurrences firstAt lastAt sampleIds",
        fingerprint=TEXT,
        title=TEXT,
        kind=TEXT,
        open=INT64,
        occurrences=INT64,
        firstAt=INSTANT,
        lastAt=INSTANT,
        sampleIds=define_array(UUID),
    ),
    "OpsIncidentGroups": _define_list("OpsIncidentGroup"),
    "OpsRetry": define_object("", document=_MAP, variables=_MAP, force=FLAG),
    "OpsRetryResult": define_open_object("incident result", incident=ref("OpsIncident"), result=_MAP),
    "OpsIncidentResolution": define_object("reason", reason={**TEXT, "minLength": 1, "maxLength": 500}),
    "OpsSuspensions": _define_list("OpsSuspension"),
    "OpsEvent": define_open_object(
        "at transactionId eventType details data",
        at=INSTANT,
        transactionId=UUID,
        eventType=TEXT,
        state=TEXT,
        details=TEXT,
        data=allow_null(_MAP),
    ),
    "OpsEvents": _define_list("OpsEvent"),
    "OpsSettings": define_open_object(
        "items",
        items=define_array(
            define_open_object(
                "name section value variable meaning",
                name=TEXT,
                section=TEXT,
                value=allow_null(TEXT),
                variable=allow_null(TEXT),
                meaning=TEXT,
            )
        ),
    ),
    "OpsFinding": define_open_object(
        "code severity path message hint",
        code=TEXT,
        severity={"type": "string", "enum": ["ERROR", "WARNING", "INFO"]},
        path=TEXT,
        message=TEXT,
        hint=allow_null(TEXT),
        witness=_MAP,
    ),
    "OpsScenario": {
        "type": "object",
        "required": ["start"],
        "additionalProperties": False,
        "properties": {
            "workflows": {"type": ["array", "null"], "items": _MAP},
            "start": {
                "type": "object",
                "properties": {"document": _MAP, "entityId": UUID, "transactionId": UUID},
                "additionalProperties": False,
            },
            "events": {
                "type": "array",
                "maxItems": 1000,
                "items": {
                    "type": "object",
                    "properties": {
                        "fire": TEXT,
                        "loopback": {"type": "object", "maxProperties": 0},
                        "advance": TEXT,
                        "document": allow_null(_MAP),
                    },
                    "additionalProperties": False,
                },
            },
            "stubs": {
                "type": "object",
                "properties": {"processors": _MAP, "criteria": _MAP, "functions": _MAP},
                "additionalProperties": False,
            },
            "principal": {
                "type": ["object", "null"],
                "required": ["id"],
                "properties": {
                    "id": TEXT,
                    "kind": {"type": "string", "enum": ["user", "service", "system"]},
                    "roles": define_array(TEXT),
                },
                "additionalProperties": False,
            },
            "at": allow_null(INSTANT),
        },
    },
    "OpsSimulation": define_open_object(
        "outcome state document path timers findings failure",
        outcome={"type": "string", "enum": ["SETTLED", "FAILED"]},
        state=allow_null(TEXT),
        document=allow_null(_MAP),
        path=define_array(
            define_open_object(
                "event at from transition to criteria processors failure",
                event=INT32,
                at=INSTANT,
                transition=TEXT,
                to=TEXT,
                criteria=define_array(_MAP),
                processors=define_array(_MAP),
                failure=allow_null(TEXT),
                **{"from": TEXT},
            )
        ),
        timers=define_array(define_open_object("state transition dueAt", state=TEXT, transition=TEXT, dueAt=INSTANT)),
        findings=define_array(define_open_object("code path message", code=TEXT, path=TEXT, message=TEXT)),
        failure=allow_null(TEXT),
    ),
    "OpsWorkflowCheck": define_open_object(
        "importable findings diff affected",
        importable=FLAG,
        findings=define_array(ref("OpsFinding")),
        diff=allow_null(
            define_open_object(
                "workflows states timers tags",
                workflows=define_array(
                    define_open_object("name change patch", name=TEXT, change=_CHANGE, patch=define_array(_MAP))
                ),
                states=_NAME_CHANGES,
                timers=define_array(
                    define_open_object(
                        "workflow state transition change", workflow=TEXT, state=TEXT, transition=TEXT, change=_CHANGE
                    )
                ),
                tags=_NAME_CHANGES,
            )
        ),
        affected=allow_null(
            define_open_object(
                "total byState armedTimers",
                total=INT64,
                byState=define_array(
                    define_open_object(
                        "workflow state count issue",
                        workflow=TEXT,
                        state=TEXT,
                        count=INT64,
                        issue=allow_null({"type": "string", "enum": ["STATE_REMOVED"]}),
                    )
                ),
                armedTimers=INT64,
            )
        ),
    ),
    "OpsVersionDocument": define_open_object(
        f"{_VERSION_MEMBERS} document", **_VERSION, document={"type": ["object", "array", "null"]}
    ),
    "OpsRestore": define_object(
        "version reason",
        version={**TEXT, "description": "a transaction, an instant, `current` or `previous`"},
        reason={**TEXT, "minLength": 1, "maxLength": 500},
        ifMatch=UUID,
        transition=TEXT,
        paths={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1000},
    ),
    "OpsRestored": define_open_object(
        "transactionId restored patch", transactionId=UUID, restored=FLAG, patch=define_array(_MAP)
    ),
    "OpsDifference": define_open_object(
        "from to state patch",
        **{"from": allow_null(UUID)},
        to=UUID,
        state=define_open_object("from to", **{"from": allow_null(TEXT)}, to=TEXT),
        patch=define_array(
            define_open_object(
                "op path", op={"type": "string", "enum": ["add", "remove", "replace"]}, path=TEXT, value={}
            )
        ),
    ),
    "OpsWaited": define_open_object(
        "reached deleted waitedMs",
        reached=FLAG,
        deleted=FLAG,
        state=TEXT,
        transactionId=UUID,
        at=INSTANT,
        waitedMs=INT32,
    ),
    "OpsInstanceWaited": define_open_object(
        "reached deleted status waitedMs",
        reached=FLAG,
        deleted=FLAG,
        status=TEXT,
        failureReason=TEXT,
        transactionId=UUID,
        at=INSTANT,
        waitedMs=INT32,
    ),
    "OpsIdempotencyRecord": define_open_object(
        "status entityIds createdAt expiresAt",
        status={"type": "string", "enum": ["DONE", "IN_PROGRESS", "INTERRUPTED"]},
        transactionId=UUID,
        entityIds=define_array(UUID),
        answerStatus={"type": "integer"},
        createdAt=INSTANT,
        expiresAt=INSTANT,
    ),
    "OpsActs": _define_list("OpsAct"),
}
