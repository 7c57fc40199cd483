"""Bodies and answers about models (spec/models.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INSTANT, INT32, TEXT, UUID, Document, array, closed, ref

MODELS: Final[Document] = {
    "Document": {"description": "a JSON document of the model", "type": ["object", "array"]},
    "ModelKey": closed("name version", name=TEXT, version=INT32),
    "Model": closed(
        "id modelName modelVersion currentState modelUpdateDate",
        id=UUID,
        modelName=TEXT,
        modelVersion=INT32,
        currentState={"type": "string", "enum": ["LOCKED", "UNLOCKED"]},
        modelUpdateDate=INSTANT,
    ),
    "Models": array(ref("Model")),
    "ModelId": UUID,
    "ModelExport": closed(
        "currentState model", currentState=TEXT, model={"type": "object"}, uniqueKeys=array({"type": "object"})
    ),
    "ModelAction": closed(
        "success message modelId modelKey", success=FLAG, message=TEXT, modelId=UUID, modelKey=ref("ModelKey")
    ),
    "UniqueKeys": {
        "type": "object",
        "properties": {
            "uniqueKeys": {
                "type": ["array", "null"],
                "items": closed("id fields", id=TEXT, fields=array({"type": "string", "examples": ["$.orderNo"]})),
            }
        },
    },
}
