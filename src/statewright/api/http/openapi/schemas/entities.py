"""Bodies and answers about entities (spec/entities.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import INSTANT, INT32, INT64, TEXT, UUID, Document, array, closed, ref

ENTITIES: Final[Document] = {
    "Meta": closed(
        "id modelKey state creationDate lastUpdateTime transactionId",
        id=UUID,
        modelKey=ref("ModelKey"),
        state=TEXT,
        creationDate=INSTANT,
        lastUpdateTime=INSTANT,
        transactionId=UUID,
        transitionForLatestSave=TEXT,
        pointInTime=INSTANT,
    ),
    "Envelope": closed("type data meta", type={"const": "ENTITY"}, data={}, meta=ref("Meta")),
    "Envelopes": array(ref("Envelope")),
    "TransactionResult": closed("transactionId entityIds", transactionId=UUID, entityIds=array(UUID)),
    "ChunkResult": {
        "description": "a committed transaction, or as the last one why a later chunk was not committed",
        "type": "object",
        "properties": {
            "transactionId": UUID,
            "entityIds": array(UUID),
            "failed": array(
                closed(
                    "entityId error",
                    entityId=UUID,
                    error=closed("code message itemIndex", code=TEXT, message=TEXT, itemIndex=INT32),
                )
            ),
            "error": closed("code message chunkIndex", code=TEXT, message=TEXT, chunkIndex=INT32),
        },
        "required": ["entityIds"],
        "additionalProperties": False,
    },
    "TransactionResults": array(ref("ChunkResult")),
    "NewItems": array(
        {
            "type": "object",
            "properties": {
                "model": ref("ModelKey"),
                "payload": {"type": "string", "description": "the document as JSON text"},
            },
            "required": ["model", "payload"],
        }
    ),
    "ChangedItems": array(
        {
            "type": "object",
            "properties": {
                "id": UUID,
                "payload": {"type": "string", "description": "the document as JSON text"},
                "transition": {"type": ["string", "null"], "description": "none: a loopback"},
                "ifMatch": {"type": ["string", "null"], "description": "the transactionId it must still have"},
            },
            "required": ["id", "payload"],
        }
    ),
    "Patch": {"description": "a JSON Merge Patch, or an array of JSON Patch operations"},
    "ModelDeletion": closed(
        "entityModelClassId deleteResult",
        entityModelClassId=UUID,
        deleteResult=closed(
            "numberOfEntitites numberOfEntititesRemoved idToError",
            numberOfEntitites=INT64,
            numberOfEntititesRemoved=INT64,
            idToError={"type": "object", "additionalProperties": TEXT},
        ),
        ids=array(UUID),
    ),
    "Deleted": closed("id modelKey transactionId", id=UUID, modelKey=ref("ModelKey"), transactionId=UUID),
    "Actor": closed("id kind", id=TEXT, kind={"type": "string", "enum": ["user", "service", "system"]}),
    "Change": closed(
        "changeType timeOfChange user",
        changeType={"type": "string", "enum": ["CREATE", "UPDATE", "DELETE"]},
        timeOfChange=INSTANT,
        user=TEXT,
        attributedKind=TEXT,
        executedBy=ref("Actor"),
        transactionId=UUID,
    ),
    "Changes": array(ref("Change")),
    "Names": array(TEXT),
}
