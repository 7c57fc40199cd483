"""Routes on what has happened to an entity (spec/entities.md)."""

from statewright.api.http.endpoints import audit
from statewright.api.http.routes.parameters import TRANSACTION
from statewright.api.http.routes.route import Query, Route

AUDIT: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/audit/entity/{entityId}",
        endpoint=audit.trail,
        id="searchEntityAuditEvents",
        tag="Audit",
        summary="Change history and workflow events of an entity, newest first",
        query=(
            Query(
                "eventType", "string", "StateMachine, EntityChange, System; the first two when absent", repeatable=True
            ),
            Query("severity", "string", "every event is INFO"),
            Query("fromUtcTime", "string", "inclusive", "date-time"),
            Query("toUtcTime", "string", "exclusive", "date-time"),
            TRANSACTION,
            Query("limit", "integer", "1 to 1000, 20 when absent", "int32"),
            Query("cursor", "string", "nextCursor of the page before"),
        ),
        reply="AuditPage",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path="/audit/entity/{entityId}/workflow/{transactionId}/finished",
        endpoint=audit.finished,
        id="getStateMachineFinishedEvent",
        tag="Audit",
        summary="How a run ended",
        reply="AuditItem",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
)
