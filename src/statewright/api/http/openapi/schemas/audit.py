"""Answers about what has happened to an entity (spec/entities.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INSTANT, TEXT, UUID, Document, array, closed, ref

AUDIT: Final[Document] = {
    "AuditItem": closed(
        "auditEventType severity utcTime microsTime entityId",
        auditEventType=TEXT,
        eventType=TEXT,
        changeType=TEXT,
        severity=TEXT,
        utcTime=INSTANT,
        microsTime={"type": "integer", "format": "int64"},
        system=FLAG,
        entityId=UUID,
        transactionId=UUID,
        actor={"type": "object"},
        state=TEXT,
        details=TEXT,
        data={"type": ["object", "null"]},
    ),
    "AuditPage": closed(
        "items pagination",
        items=array(ref("AuditItem")),
        pagination=closed("hasNext", hasNext=FLAG, nextCursor=TEXT),
    ),
}
