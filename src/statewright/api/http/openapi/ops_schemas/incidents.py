"""Incidents."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import ACTOR, MAP, define_list
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
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

INCIDENTS: Final[Document] = {
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
        principal=ACTOR,
        traceId=TEXT,
        payloadOmitted=FLAG,
        payload={},
        resolution=define_open_object("by at how", by=ACTOR, at=INSTANT, how=TEXT, reason=allow_null(TEXT)),
    ),
    "OpsIncidents": define_list("OpsIncident"),
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
    "OpsIncidentGroups": define_list("OpsIncidentGroup"),
    "OpsRetry": define_object("", document=MAP, variables=MAP, force=FLAG),
    "OpsRetryResult": define_open_object("incident result", incident=ref("OpsIncident"), result=MAP),
    "OpsIncidentResolution": define_object("reason", reason={**TEXT, "minLength": 1, "maxLength": 500}),
}
