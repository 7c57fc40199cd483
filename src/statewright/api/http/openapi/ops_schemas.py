"""Schemas of the operations API: those of its records, and what is no record."""

from collections.abc import Iterator
from typing import Final, get_args, get_origin

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
from statewright.operations.checks import CheckFinding
from statewright.operations.explanations import ExplainedTransition
from statewright.operations.history import ChangedEntity
from statewright.operations.records import Listed, name_record
from statewright.operations.table import OPERATIONS

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


def _list_records() -> Iterator[object]:
    """All that have a name in the document. Members of others are described where they stand."""
    for operation in OPERATIONS:
        for record in (operation.body, operation.answer):
            if record is not None and not isinstance(record, str):
                yield from get_args(record) if get_origin(record) is Listed else ()
                yield record
    yield from (ExplainedTransition, CheckFinding, ChangedEntity)


NAMED_RECORDS: Final = {name_record(record): record for record in _list_records()}

OPS_SCHEMAS: Final[Document] = describe_structs(NAMED_RECORDS) | {
    "OpsScenario": _SCENARIO,
    "OpsEntities": define_open_object("items", items=define_array(ref("Envelope")), nextCursor=TEXT),
}
