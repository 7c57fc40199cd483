"""Schemas of the operations API: those of its records, and what is no record."""

from typing import Final

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    INSTANT,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_open_object,
    ref,
)
from statewright.api.http.openapi.struct_schemas import describe_structs
from statewright.api.http.ops.record_names import NAMED_RECORDS

_SCENARIO: Final[Document] = {
    "type": "object",
    "required": ["start"],
    "additionalProperties": False,
    "properties": {
        "workflows": {"type": ["array", "null"], "items": ANY_OBJECT},
        "start": {
            "type": "object",
            "properties": {"document": ANY_OBJECT, "entityId": UUID, "transactionId": UUID},
            "additionalProperties": False,
        },
        "events": {
            "type": "array",
            "maxItems": 1000,
            "items": {
                "type": "object",
                "properties": {
                    "fire": TEXT,
                    "loopback": {"type": "object", "maxProperties": 0},
                    "advance": TEXT,
                    "document": allow_null(ANY_OBJECT),
                },
                "additionalProperties": False,
            },
        },
        "stubs": {
            "type": "object",
            "properties": {"processors": ANY_OBJECT, "criteria": ANY_OBJECT, "functions": ANY_OBJECT},
            "additionalProperties": False,
        },
        "principal": {
            "type": ["object", "null"],
            "required": ["id"],
            "properties": {
                "id": TEXT,
                "kind": {"type": "string", "enum": ["user", "service", "system"]},
                "roles": define_array(TEXT),
            },
            "additionalProperties": False,
        },
        "at": allow_null(INSTANT),
    },
}
"""A scenario of a simulation. Parts of it are read by hand, to say where they are wrong."""

OPS_SCHEMAS: Final[Document] = describe_structs(NAMED_RECORDS) | {
    "OpsScenario": _SCENARIO,
    "OpsEntities": define_open_object("items", items=define_array(ref("Envelope")), nextCursor=TEXT),
}
