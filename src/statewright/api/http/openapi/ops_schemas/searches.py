"""Searches, counts and lists of what is stored."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import MAP, MODEL, define_list
from statewright.api.http.openapi.shapes import (
    FLAG,
    INSTANT,
    INT32,
    INT64,
    TEXT,
    UUID,
    Document,
    define_array,
    define_open_object,
    ref,
)

SEARCHES: Final[Document] = {
    "OpsEntities": define_open_object("items", items=define_array(ref("Envelope")), nextCursor=TEXT),
    "OpsTotal": define_open_object("total", total=INT32, totalIsLowerBound=FLAG),
    "OpsModel": define_open_object("name version estimatedEntities", name=TEXT, version=INT32, estimatedEntities=INT64),
    "OpsModels": define_list("OpsModel"),
    "OpsIdleEntities": define_open_object(
        "items scanned complete",
        items=define_array(
            define_open_object(
                "entityId model state writtenAt",
                entityId=UUID,
                model=MODEL,
                state=TEXT,
                writtenAt=INSTANT,
                since=INSTANT,
            )
        ),
        scanned=INT32,
        complete=FLAG,
        nextCursor=TEXT,
    ),
    "OpsMessage": define_open_object("id header", id=UUID, header=MAP, createdAt=INSTANT),
    "OpsMessages": define_list("OpsMessage"),
    "OpsSearchJob": define_open_object(
        "id model status createdAt hits",
        id=UUID,
        model=MODEL,
        status={"type": "string", "enum": ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]},
        createdAt=INSTANT,
        hits=INT64,
        finishedAt=INSTANT,
        expiresAt=INSTANT,
        failure=TEXT,
        condition=MAP,
    ),
    "OpsSearchJobs": define_list("OpsSearchJob"),
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
}
