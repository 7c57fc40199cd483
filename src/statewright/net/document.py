"""A marking as JSON, so that it can be stored beside the data it belongs to, and read back unchanged."""

from decimal import Decimal
from typing import cast

import msgspec
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net.marking import Marking


def marking_to_document(marking: Marking) -> JsonObject:
    """Everything but the data, of which the caller knows better where it belongs."""
    bare = replace(marking, data={})
    document = msgspec.to_builtins(bare, builtin_types=(Decimal,), order="deterministic")
    members = cast("JsonObject", document)  # structs of JSON values become nothing else
    del members["data"]
    return members


def marking_from_document(document: JsonObject, data: JsonObject) -> Marking:
    """The marking that :func:`marking_to_document` wrote. Raises ValueError for anything else."""
    try:
        return replace(msgspec.convert({**document, "data": {}}, Marking), data=data)
    except msgspec.ValidationError as defect:
        raise ValueError(f"stored marking is damaged: {defect}") from defect
