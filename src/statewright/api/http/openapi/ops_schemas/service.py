"""The API itself: who asks, settings, what operators have done, keys of requests."""

from typing import Final

from statewright.api.http.openapi.ops_schemas.common import ACTOR, MAP, define_list
from statewright.api.http.openapi.shapes import (
    INSTANT,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_open_object,
)

SERVICE: Final[Document] = {
    "OpsDescription": define_open_object(
        "version features principal tenant",
        version=TEXT,
        features=define_array(TEXT),
        principal=define_open_object("id kind roles", id=TEXT, kind=TEXT, roles=define_array(TEXT)),
        tenant=TEXT,
    ),
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
    "OpsAct": define_open_object(
        "id at actor action target details",
        id=UUID,
        at=INSTANT,
        actor=ACTOR,
        action={"type": "string", "examples": ["entity.restore"]},
        target=define_open_object("kind id", kind=TEXT, id=TEXT),
        reason=TEXT,
        details=MAP,
        traceId=TEXT,
    ),
    "OpsActs": define_list("OpsAct"),
    "OpsIdempotencyRecord": define_open_object(
        "status entityIds createdAt expiresAt",
        status={"type": "string", "enum": ["DONE", "IN_PROGRESS", "INTERRUPTED"]},
        transactionId=UUID,
        entityIds=define_array(UUID),
        answerStatus={"type": "integer"},
        createdAt=INSTANT,
        expiresAt=INSTANT,
    ),
}
