"""Bodies and answers of statistics (spec/entities.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import INSTANT, INT32, INT64, TEXT, Document, array, closed, ref

STATISTICS: Final[Document] = {
    "Count": closed("modelName modelVersion count", modelName=TEXT, modelVersion=INT32, count=INT64),
    "Counts": array(ref("Count")),
    "StateCounts": array(
        closed("modelName modelVersion state count", modelName=TEXT, modelVersion=INT32, state=TEXT, count=INT64)
    ),
    "GroupedQuery": closed(
        "groupBy",
        groupBy=array(TEXT) | {"minItems": 1, "description": "`state`, or paths of scalars such as `$.warehouse`"},
        condition={"type": ["object", "null"], "description": "a search condition"},
        aggregations=array(
            {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["sum", "avg", "min", "max", "stdev"]},
                    "field": TEXT,
                    "as": TEXT,
                },
                "required": ["op", "field"],
                "additionalProperties": False,
            }
        ),
        pointInTime=INSTANT,
        limit={"type": "integer", "minimum": 1},
    ),
    "Groups": array(
        closed(
            "groupKey count",
            groupKey=array(closed("path value", path=TEXT, value={"type": ["string", "null"]})),
            count=INT64,
            aggregations={"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        )
    ),
}
