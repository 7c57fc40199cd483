"""Bodies and answers of operating the service, and what several kinds of requests have in common."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INSTANT, INT64, TEXT, UUID, Document, array, closed

_LEVEL: Final = {"type": "string", "enum": ["debug", "info", "warn", "error"]}

OPERATIONS: Final[Document] = {
    "Success": closed("success", success=FLAG),
    "Pruning": closed("removed keptFrom complete", removed=INT64, keptFrom=INSTANT, complete=FLAG),
    "LogLevel": closed("level", level=_LEVEL),
    "LogLevelChange": closed("level previous", level=_LEVEL, previous=_LEVEL),
    "Account": closed("userAccountInfo", userAccountInfo={"type": "object"}),
    "HelpTopic": closed(
        "topic path title synopsis body sections see_also stability actions",
        topic=TEXT,
        path=array(TEXT),
        title=TEXT,
        synopsis=TEXT,
        body=TEXT,
        sections=array(closed("name body", name=TEXT, body=TEXT)),
        see_also=array(TEXT),
        stability={"type": "string", "enum": ["stable", "evolving", "experimental"]},
        actions=array(TEXT),
        children=array(TEXT),
    ),
    "Problem": closed(
        "type title status detail instance properties",
        type={"const": "about:blank"},
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
        instance=TEXT,
        ticket=UUID,
        properties={
            "type": "object",
            "properties": {"errorCode": TEXT, "retryable": FLAG},
            "required": ["errorCode"],
        },
    ),
}
