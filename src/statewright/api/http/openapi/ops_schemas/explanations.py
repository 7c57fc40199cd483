"""Explanations."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import MAP, SCOPE
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
    define_open_object,
    ref,
)

_TIMER: Final = define_open_object("dueAt attempts", transition=TEXT, dueAt=INSTANT, attempts=INT32)

EXPLANATIONS: Final[Document] = {
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
            define_open_object("id scope reason since", id=UUID, scope=SCOPE, reason=TEXT, since=INSTANT)
        ),
        incidents=define_array(
            define_open_object("id kind lastAt message", id=UUID, kind=TEXT, lastAt=INSTANT, message=TEXT)
        ),
        timers=define_array(_TIMER),
    ),
    "OpsTransition": define_open_object(
        "name next kind disabled wouldFire blockedBy criterion processors permission timer",
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
        permission=define_open_object(
            "allowed whyNot",
            allowed=FLAG,
            whyNot=define_array(define_open_object("code message", code=TEXT, message=TEXT)),
        ),
        timer={**_TIMER, "type": ["object", "null"]},
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
        suspensions=define_array(MAP),
        incidents=define_array(MAP),
        failure=MAP,
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
                phase={"type": "string", "enum": ["QUEUED", "LEASED", "DELAYED", "HELD", "REPORTED"]},
                retriesRemaining=INT32,
                workers=INT32,
                worker=TEXT,
                leaseUntil=INSTANT,
                availableAt=INSTANT,
            )
        ),
        timers=define_array(define_open_object("timerId dueAt", timerId=TEXT, dueAt=INSTANT)),
    ),
}
