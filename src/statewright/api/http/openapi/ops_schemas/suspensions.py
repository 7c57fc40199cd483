"""Suspensions."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import ACTOR, MODEL, SCOPE, define_list
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
)

SUSPENSIONS: Final[Document] = {
    "OpsNewSuspension": define_object(
        "scope reason",
        scope=SCOPE,
        reason={**TEXT, "minLength": 1, "maxLength": 500},
        id=TEXT,
        model=MODEL,
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
        scope=SCOPE,
        reason=TEXT,
        since=INSTANT,
        by=ACTOR,
        until=allow_null(INSTANT),
        active=FLAG,
        effective=FLAG,
        pendingNodes=define_array(TEXT),
        underWay=INT32,
        effectiveAt=INSTANT,
        entityId=UUID,
        instanceId=TEXT,
        definitionId=TEXT,
        model=MODEL,
        workflow=TEXT,
        transition=TEXT,
        name=TEXT,
        endedAt=INSTANT,
        endedBy=ACTOR,
        endReason=TEXT,
        timers={"type": "string", "enum": ["FIRE", "SHIFT"]},
    ),
    "OpsSuspensions": define_list("OpsSuspension"),
}
