"""Bodies and answers of edge messages (spec/entities.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INT64, TEXT, UUID, Document, array, closed

MESSAGES: Final[Document] = {
    "NewMessage": {
        "type": "object",
        "properties": {"payload": {"description": "any JSON"}, "metaData": {"type": "object"}},
        "required": ["payload"],
    },
    "Message": closed(
        "header metaData content",
        header=closed(
            "subject contentType contentLength contentEncoding",
            subject=TEXT,
            contentType=TEXT,
            contentLength=INT64,
            contentEncoding=TEXT,
            messageId=TEXT,
            userId=TEXT,
            recipient=TEXT,
            replyTo=TEXT,
            correlationId=TEXT,
        ),
        metaData={"type": "object"},
        content={"description": "the payload as it came"},
    ),
    "Ids": array(UUID),
    "DeletedMessage": closed("entityIds", entityIds=array(UUID)),
    "DeletedMessages": array(closed("entityIds success", entityIds=array(UUID), success=FLAG)),
}
